//! The process hop copies nothing: a byte changed in the slot after publishing and before taking is
//! what the reader sees.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::support::Root;
use hythe_node::{HolderKind, Node, Pool, PublisherOptions, SubscriberOptions, TrustPeers};

/// Overwrites a byte of the only payload that is in a queue, behind everybody's back, in the
/// region's file.
fn change_the_queued_byte(pool: &Pool, at: u64, byte: u8) {
    let held = pool.snapshot().held_buffers();
    let queued: Vec<_> = held
        .iter()
        .filter(|held| matches!(held.holder, HolderKind::Queue(_)))
        .collect();
    assert_eq!(queued.len(), 1, "{held:?}");
    let place = queued[0].place;
    let region = pool.region(place.region).expect("its region");
    let slot = region.slot_offset(place.slot).expect("its slot") as u64;
    let file = pool.path().join(format!("region.{}", place.region.0));
    let file = OpenOptions::new()
        .write(true)
        .open(file)
        .expect("the region's file");
    let payload = slot + u64::from(hythe_node::HEADROOM_BYTES);
    file.write_all_at(&[byte], payload + at).expect("written");
}

#[test]
fn byte_changed_after_publishing_is_seen() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "both").expect("joined");
    let mut subscriber = node
        .subscriber("bytes", &SubscriberOptions::default())
        .expect("opened");
    let mut publisher = node
        .publisher("bytes", &PublisherOptions::default())
        .expect("opened");
    let mut lease = node.lease(5).expect("leased");
    lease.write(0, b"hythe");
    publisher.publish(lease, 5).expect("published");
    change_the_queued_byte(&pool, 1, b'o');
    let sample = subscriber
        .take(Duration::from_secs(5))
        .expect("taken")
        .expect("one");
    assert_eq!(sample.to_vec(), b"hothe");
}

#[test]
fn byte_changed_after_handing_on_a_part_is_seen() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "all three").expect("joined");
    let mut first = node
        .subscriber("whole", &SubscriberOptions::default())
        .expect("opened");
    let mut second = node
        .subscriber("parts", &SubscriberOptions::default())
        .expect("opened");
    let mut whole = node
        .publisher("whole", &PublisherOptions::default())
        .expect("opened");
    let mut parts = node
        .publisher("parts", &PublisherOptions::default())
        .expect("opened");
    let mut lease = node.lease(10).expect("leased");
    lease.write(0, b"flash wire");
    whole.publish(lease, 10).expect("published");
    let sample = first
        .take(Duration::from_secs(5))
        .expect("taken")
        .expect("one");
    parts
        .forward(sample.part(6, 4).expect("a part"))
        .expect("forwarded");
    drop(sample);
    change_the_queued_byte(&pool, 6, b'f');
    let part = second
        .take(Duration::from_secs(5))
        .expect("taken")
        .expect("one");
    assert_eq!(part.to_vec(), b"fire");
    drop(part);
    assert_eq!(pool.snapshot().audit.free, pool.snapshot().audit.slots);
}

#[test]
fn parts_go_out_while_the_rest_of_a_buffer_is_written() {
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "both").expect("joined");
    let mut subscriber = node
        .subscriber("parts", &SubscriberOptions::default())
        .expect("opened");
    let mut parts = node
        .publisher("parts", &PublisherOptions::default())
        .expect("opened");
    let mut lease = parts.lease(10).expect("leased");
    assert_eq!(lease.region(), parts.region());
    lease.rest_mut(0, trust)[..5].copy_from_slice(b"flash");
    let whole = lease.share().expect("shared");
    assert_eq!((whole.len(), whole.references()), (lease.capacity(), 2));
    let mut spare = Vec::new();
    whole.repeat(3, &mut spare).expect("repeated");
    assert_eq!((spare.len(), whole.references()), (3, 5));
    for (at, text) in [(0, b"flash"), (5, b" wire")] {
        lease.rest_mut(at, trust)[..5].copy_from_slice(text);
        let part = spare.pop().expect("one is left").narrow(at, 5);
        parts.forward(part).expect("forwarded");
    }
    drop(lease);
    assert_eq!(whole.references(), 4);
    for text in [b"flash", b" wire"] {
        let part = subscriber.take(Duration::from_secs(5)).expect("taken");
        assert_eq!(part.expect("one").to_vec(), text);
    }
    assert_eq!(whole.references(), 2);
    drop((whole, spare));
    assert_eq!(pool.snapshot().audit.free, pool.snapshot().audit.slots);
}
