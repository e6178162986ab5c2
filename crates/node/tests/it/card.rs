//! The region for network cards: one for a pool, and its file has what is written to its slots.

use crate::support::Root;
use hythe_node::hop::{self, HopNode as _};
use hythe_node::{Geometry, Limits, Node, Pool, PoolError, RegionKind, TrustPeers};
use rustix::io::pread;

#[test]
fn pool_has_one_whose_file_has_what_is_written_to_its_slots() {
    let root = Root::new();
    let pool = root.pool();
    let [node, other] = ["one", "other"].map(|name| Node::join(&pool, name).expect("joins"));
    let found = hop::card_region(node.participant()).expect("added");
    let again = hop::card_region(other.participant()).expect("found");
    assert_eq!(node.card_region().expect("found"), found.index);
    assert_eq!((again.index, again.bytes), (found.index, found.bytes));
    let snapshot = pool.snapshot();
    let regions = snapshot.regions.iter();
    let kinds: Vec<_> = regions.map(|region| (region.kind, &*region.name)).collect();
    assert_eq!(
        kinds,
        [(RegionKind::Linux, "memory"), (RegionKind::Card, "card")]
    );
    for bytes in [1, 3840, 3841, (32 << 10) - 256] {
        let mut lease = other.lease_in(found.index, bytes).expect("free");
        lease.write(0, &vec![7; bytes]);
        let sample = lease.freeze(bytes);
        let (region, offset) = hop::place_of(&sample);
        assert_eq!(region, found.index);
        let mut read = vec![0; bytes];
        assert_eq!(pread(&found.file, &mut read, offset), Ok(bytes));
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        assert_eq!(read, sample.as_slice(trust));
        // A part of a message is behind its beginning.
        let part = sample.part(bytes - 1, 1).expect("inside");
        assert_eq!(hop::place_of(&part), (region, offset + bytes as u64 - 1));
    }
    assert!(pool.snapshot().audit.mismatches.is_empty());
}

#[test]
fn pool_without_entries_for_it_goes_without() {
    let root = Root::new();
    let limits = Limits {
        slots: 100,
        ..Geometry::small_limits()
    };
    let options = root.options().bytes(4 << 20).limits(limits);
    let pool = Pool::open_or_create(&options).expect("made");
    let node = Node::join(&pool, "one").expect("joins");
    let refused = hop::card_region(node.participant()).expect_err("no entries");
    let is_full = matches!(refused.refusal(), Some(PoolError::LedgerFull { .. }));
    assert!(is_full, "{refused}");
    assert_eq!(pool.snapshot().regions.len(), 1);
    node.lease(100).expect("the usual region is there");
}
