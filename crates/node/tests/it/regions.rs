//! Regions of cores that are added to a pool: as many as it keeps entries for, and what is said
//! about one more.

use crate::support::Root;
use hythe_node::hop::HopNode as _;
use hythe_node::{
    CoreRegionPlan, Geometry, LinkPlace, Node, NodeError, Pool, PoolError, PoolOptions,
    RegionIndex, SegmentPlace, SlotClass,
};

/// As many as a board of `rtos/boards/` has at most.
const BOARD_SLOTS: u32 = 902;

fn add(node: &Node, name: &str) -> Result<RegionIndex, NodeError> {
    let slots = SlotClass {
        slot_bytes: 1024,
        count: BOARD_SLOTS,
        first: 0,
        offset: 0,
    };
    let bytes = u64::from(BOARD_SLOTS) * 1024;
    let plan = CoreRegionPlan {
        name,
        bytes,
        classes: &[slots],
        link: LinkPlace {
            bytes: 4096,
            offset: 0,
        },
        segments: None,
    };
    node.add_core_region(&plan, bytes)
}

/// Adds so many, which go, and one more.
fn one_more_than(options: &PoolOptions, count: u8) -> NodeError {
    let pool = Pool::open_or_create(options).expect("made");
    let node = Node::join(&pool, "test").expect("joins");
    for number in 1..=count {
        let added = add(&node, &format!("core {number}")).expect("added");
        assert_eq!(added, RegionIndex(number));
        drop(node.lease_in(added, 1).expect("free"));
    }
    let refused = add(&node, "another").expect_err("no more");
    assert_eq!(pool.snapshot().audit.mismatches, []);
    let next = pool.path().join(format!("region.{}", count + 1));
    assert!(!next.exists(), "{} is left", next.display());
    refused
}

#[test]
fn pool_of_the_default_size_has_entries_for_four_cores() {
    let root = Root::new();
    let refused = one_more_than(&root.options().bytes(64 << 20), 4);
    let says = refused.to_string();
    let Some(PoolError::LedgerFull { left, needed, .. }) = refused.refusal() else {
        panic!("{says}");
    };
    // What is kept for the wire and for network cards is no core's size.
    assert_eq!((*left, *needed), (64 + 256, u64::from(5 * BOARD_SLOTS)));
    for word in ["another", "902", "320", "4510"] {
        assert!(says.contains(word), "no {word} in {says}");
    }
}

#[test]
fn with_entries_enough_the_table_of_regions_is_the_limit() {
    let root = Root::new();
    let mut limits = Geometry::default_limits();
    limits.slots = 7 * BOARD_SLOTS;
    let refused = one_more_than(&root.options().bytes(64 << 20).limits(limits), 7);
    let says = refused.to_string();
    let is_full = matches!(
        refused.refusal(),
        Some(PoolError::TooManyRegions { limit: 8 })
    );
    assert!(is_full && says.contains("at most 8 regions"), "{says}");
}

#[test]
fn area_of_segments_stands_in_the_record_of_the_region() {
    let root = Root::new();
    let pool = Pool::open_or_create(&root.options().bytes(64 << 20)).expect("made");
    let node = Node::join(&pool, "agent").expect("joins");
    let slots = [SlotClass {
        slot_bytes: 1024,
        count: 4,
        first: 0,
        offset: 0,
    }];
    let mut plan = CoreRegionPlan {
        name: "core",
        bytes: 4096,
        classes: &slots,
        link: LinkPlace {
            bytes: 4096,
            offset: 0,
        },
        segments: None,
    };
    for (offset, bytes) in [
        (0, 4096),
        (4097, 4096),
        (4096, 1),
        (i64::MAX as u64 - 4095, 4096),
    ] {
        plan.segments = Some(SegmentPlace { offset, bytes });
        let refused = node
            .add_core_region(&plan, 65536)
            .expect_err("not behind the slots");
        let says = refused.to_string();
        assert!(
            says.contains(&format!("{bytes} bytes of segments at {offset}")),
            "{says}"
        );
    }
    let place = SegmentPlace {
        offset: 8192,
        bytes: 12288,
    };
    plan.segments = Some(place);
    let added = node.add_core_region(&plan, 65536).expect("added");
    let opened = Pool::open(&root.options()).expect("opens");
    let found = opened.region(added).expect("there");
    assert_eq!(found.segments, Some(place));
}
