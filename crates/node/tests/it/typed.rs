//! Typed channels: values, fields and slices arrive as they were sent; what is not of the type is
//! skipped, counted or refused.

use std::time::Duration;

use crate::support::{BOUND, Root};
use hythe_node::typed::{Payload, TypedSample};
use hythe_node::{
    ClientOptions, Node, NodeError, Pool, PublisherOptions, ServerOptions, SubscriberOptions,
    TrustPeers, field,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Point {
    x: f32,
    y: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Track {
    id: u64,
    at: Point,
    history: [u16; 4],
}

impl Payload for Track {
    const NAME: &'static str = "track";
    const VERSION: u32 = 2;
}

impl Payload for Point {
    const NAME: &'static str = "point";
}

/// The track of another program, that has not been built anew.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct OldTrack {
    id: u64,
    at: [f32; 2],
    history: [u16; 4],
}

impl Payload for OldTrack {
    const NAME: &'static str = "track";
    const VERSION: u32 = 1;
}

/// Of [`Track`]: where programs have 32 bits, not everywhere that of its 64-bit word.
const ALIGNED: usize = align_of::<Track>();

const TRACK: Track = Track {
    id: 7,
    at: Point { x: 1.5, y: -2.0 },
    history: [1, 2, 3, 4],
};

fn node(root: &Root) -> (Pool, Node) {
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    (pool, node)
}

fn subscribing() -> SubscriberOptions {
    SubscriberOptions::default()
}

fn publishing() -> PublisherOptions {
    PublisherOptions::default()
}

#[test]
fn values_and_fields_arrive_as_they_were_sent() {
    let root = Root::new();
    let (_, node) = node(&root);
    let mut subscriber = node
        .typed_subscriber::<Track>("tracks", &subscribing())
        .expect("opens");
    let mut publisher = node
        .typed_publisher::<Track>("tracks", &publishing())
        .expect("opens");
    publisher.publish(&TRACK).expect("room");
    let mut lease = publisher.lease().expect("free");
    lease.write(&TRACK);
    lease.set(&field!(Track, at.y), &4.0);
    lease.set(&field!(Track, id), &8);
    publisher.publish_lease(lease).expect("room");

    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    assert_eq!(sample.read(), TRACK);
    assert_eq!(
        sample.field(&field!(Track, at.x)).to_bits(),
        1.5_f32.to_bits()
    );
    assert_eq!(sample.field(&field!(Track, history)), [1, 2, 3, 4]);
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    assert_eq!(sample.trusted(trust).expect("aligned"), &TRACK);
    publisher.forward(sample).expect("room");
    let second = subscriber.take(BOUND).expect("sound").expect("published");
    assert_eq!(
        (second.read().id, second.read().at.y.to_bits()),
        (8, 4.0_f32.to_bits())
    );
    let again = subscriber.take(BOUND).expect("sound").expect("forwarded");
    assert_eq!(again.read(), TRACK);
}

#[test]
fn slices_have_the_length_that_was_sent() {
    let root = Root::new();
    let (_, node) = node(&root);
    let mut subscriber = node
        .typed_subscriber::<[Point]>("clouds", &subscribing())
        .expect("opens");
    let mut publisher = node
        .typed_publisher::<[Point]>("clouds", &publishing())
        .expect("opens");
    let cloud: Vec<Point> = (0..1000_u16)
        .map(|n| Point {
            x: f32::from(n),
            y: 0.5,
        })
        .collect();
    publisher.publish(&cloud).expect("room");
    publisher.publish(&[]).expect("room");
    let mut lease = publisher.lease(2).expect("free");
    lease.write(0, &[cloud[5]; 2]);
    lease.write(1, &cloud[9..10]);
    publisher.publish_lease(lease).expect("room");
    let mut take = || subscriber.take(BOUND).expect("sound").expect("published");
    let sample = take();
    assert_eq!(sample.len(), 1000);
    assert!(sample.iter().eq(cloud.iter().copied()));
    assert_eq!(sample.read(999), Some(cloud[999]));
    assert_eq!(sample.read(1000), None);
    assert_eq!(sample.field(3, &field!(Point, x)), Some(3.0));
    assert_eq!(sample.field(1000, &field!(Point, x)), None);
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    assert_eq!(sample.trusted_slice(trust).expect("aligned"), cloud);
    assert!(take().is_empty());
    assert!(take().iter().eq([cloud[5], cloud[9]]));
}

/// A peer that asked for no type sends what it likes.
#[test]
fn what_has_another_length_is_skipped_and_counted() {
    let root = Root::new();
    let (pool, node) = node(&root);
    let mut tracks = node
        .typed_subscriber::<Track>("tracks", &subscribing())
        .expect("opens");
    let mut publisher = node
        .publisher("tracks", &publishing())
        .expect("joins anything");
    let mut send = |bytes: usize| {
        let mut lease = publisher.lease(bytes).expect("free");
        lease.write(0, &vec![1; bytes]);
        publisher.publish(lease, bytes).expect("room");
    };
    let good = size_of::<Track>();
    for bytes in [0, good - 1, good, good + 1, 2 * good] {
        send(bytes);
    }
    let sample = tracks.take(BOUND).expect("sound").expect("one is good");
    assert_eq!(sample.read().id, 0x0101_0101_0101_0101);
    assert!(
        tracks
            .take(Duration::from_millis(1))
            .expect("sound")
            .is_none()
    );
    assert_eq!(tracks.raw().statistics().violations, 4);
    let shown = pool.snapshot().ports;
    assert_eq!(
        shown.iter().map(|port| port.statistics.violations).max(),
        Some(4)
    );
    send(good - 8);
    assert!(tracks.try_take().expect("sound").is_none());

    let mut raw = node
        .subscriber("tracks", &subscribing())
        .expect("joins anything");
    send(good + 4);
    let sample = raw.take(BOUND).expect("sound").expect("published");
    let part = sample.part(2, good).expect("inside");
    let refused = TypedSample::<Track>::new(sample).expect_err("too long");
    assert_eq!(
        refused.to_string(),
        format!(
            "28 bytes at offset 256 of a buffer are no track version 2 (24 bytes, aligned to {ALIGNED}): the length is not the type's"
        )
    );
    // A part may stand anywhere: it can be copied, and not referred to.
    let part = TypedSample::<Track>::new(part).expect("as long as one");
    assert_eq!(part.read().history, [0x0101; 4]);
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let refused = part.trusted(trust).expect_err("not aligned");
    assert!(
        matches!(refused, NodeError::NotThisType { offset: 258, .. }),
        "{refused:?}"
    );
}

#[test]
fn another_version_or_shape_is_refused_with_both_sides() {
    let root = Root::new();
    let (pool, node) = node(&root);
    let old = Node::join(&pool, "old").expect("joins");
    let _publisher = node
        .typed_publisher::<Track>("tracks", &publishing())
        .expect("opens");
    let pid = std::process::id();
    let refused = old
        .typed_subscriber::<OldTrack>("tracks", &subscribing())
        .expect_err("an old version");
    assert_eq!(
        refused.to_string(),
        format!(
            "channel `tracks` carries track version 2 (24 bytes, aligned to {ALIGNED}), as test (pid {pid}) opened it; \
             old (pid {pid}) wants track version 1 (24 bytes, aligned to {ALIGNED})"
        )
    );
    let refused = old
        .typed_subscriber::<[Track]>("tracks", &subscribing())
        .expect_err("a slice")
        .to_string();
    assert!(refused.contains("wants [track] version 2"), "{refused}");
    let _server = node
        .typed_server::<Point, Track>("nearest", &ServerOptions::default())
        .expect("opens");
    let refused = old
        .typed_client::<Point, OldTrack>("nearest", &ClientOptions::default())
        .expect_err("another reply")
        .to_string();
    assert!(
        refused.contains("carries point->track@2:24/8 version 0 (8 bytes, aligned to 4)")
            && refused.contains("wants point->track@1:24/8"),
        "{refused}"
    );
}

#[test]
fn typed_requests_are_answered_and_wrong_ones_given_up() {
    let root = Root::new();
    let (_, node) = node(&root);
    let mut server = node
        .typed_server::<Point, [Track]>("near", &ServerOptions::default())
        .expect("opens");
    let mut client = node
        .typed_client::<Point, [Track]>("near", &ClientOptions::default())
        .expect("opens");
    let pending = client.request(&TRACK.at).expect("a server with room");
    let request = server.take(BOUND).expect("sound").expect("asked");
    assert_eq!(request.question.read(), TRACK.at);
    assert!(request.reply(&[TRACK; 3]).expect("sent"));
    let reply = client.wait(pending, BOUND).expect("sound").expect("came");
    assert!(reply.iter().eq([TRACK; 3]));

    // A client that asked for no type joins, and asks for something else.
    let mut raw = node
        .client("near", &ClientOptions::default())
        .expect("opens");
    let lease = raw.lease(5).expect("free");
    let wrong = raw.request(lease, 5).expect("a server with room");
    assert!(
        server
            .take(Duration::from_millis(1))
            .expect("sound")
            .is_none()
    );
    let told = raw.wait(wrong, BOUND).expect_err("no reply");
    assert!(matches!(told, NodeError::Unanswered { .. }), "{told:?}");
    assert_eq!(server.raw().statistics().violations, 1);

    // A server that asked for no type answers with something else.
    drop(server);
    let mut raw = node
        .server("near", &ServerOptions::default())
        .expect("opens");
    let pending = client.request(&TRACK.at).expect("a server with room");
    let request = raw.take(BOUND).expect("sound").expect("asked");
    let lease = raw.lease(7).expect("free");
    assert!(request.reply(lease, 7).expect("sent"));
    let told = client.wait(pending, BOUND).expect_err("7 bytes");
    assert!(
        matches!(told, NodeError::NotThisType { bytes: 7, .. }),
        "{told:?}"
    );
    assert_eq!(client.raw().statistics().violations, 1);
}

#[test]
fn numbers_and_arrays_are_payload_by_themselves() {
    let root = Root::new();
    let (_, node) = node(&root);
    let mut counts = node
        .typed_subscriber::<u64>("counts", &subscribing())
        .expect("opens");
    let mut places = node
        .typed_subscriber::<[[f32; 3]]>("places", &subscribing())
        .expect("opens");
    let mut counting = node
        .typed_publisher::<u64>("counts", &publishing())
        .expect("opens");
    let mut placing = node
        .typed_publisher::<[[f32; 3]]>("places", &publishing())
        .expect("opens");
    counting.publish(&u64::MAX).expect("published");
    placing
        .publish(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        .expect("published");
    let count = counts.take(BOUND).expect("sound").expect("a number");
    assert_eq!(count.read(), u64::MAX);
    let places = places.take(BOUND).expect("sound").expect("two places");
    assert_eq!(places.read(1), Some([4.0, 5.0, 6.0]));
    let other = node.typed_subscriber::<[f32; 3]>("counts", &subscribing());
    let says = other.expect_err("another type").to_string();
    assert!(says.contains("[f32; 3]") && says.contains("u64"), "{says}");
}

#[test]
fn typed_ports_are_waited_for_beside_others() {
    let root = Root::new();
    let (_, node) = node(&root);
    let mut numbers = node
        .typed_subscriber::<u32>("numbers", &subscribing())
        .expect("opens");
    let mut server = node
        .typed_server::<u32, u32>("double", &ServerOptions::default())
        .expect("opens");
    let mut client = node
        .typed_client::<u32, u32>("double", &ClientOptions::default())
        .expect("opens");
    let mut wait_set = node.wait_set().expect("made");
    let tokens = [
        wait_set.attach(&mut numbers).expect("free"),
        wait_set.attach(&mut server).expect("free"),
        wait_set.attach(&mut client).expect("free"),
    ];
    let ready = |wait_set: &mut hythe_node::WaitSet| -> Vec<_> {
        let events = wait_set.wait(BOUND).expect("waits");
        events.iter().map(hythe_node::Event::token).collect()
    };
    let mut publisher = node
        .typed_publisher::<u32>("numbers", &publishing())
        .expect("opens");
    publisher.publish(&1).expect("published");
    assert_eq!(ready(&mut wait_set), [tokens[0]]);
    assert!(numbers.try_take().expect("sound").is_some());
    let asked = client.request(&21).expect("sent");
    assert_eq!(ready(&mut wait_set), [tokens[1]]);
    let request = server.take(BOUND).expect("sound").expect("asked");
    let answer = request.question.read() * 2;
    assert!(request.reply(&answer).expect("it lives"));
    assert_eq!(ready(&mut wait_set), [tokens[2]]);
    let reply = client.wait(asked, BOUND).expect("sound").expect("a reply");
    assert_eq!(reply.read(), 42);
}
