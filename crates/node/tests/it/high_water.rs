//! High-water marks of slots: somebody who takes part counts them now and then.

use crate::support::{Root, eventually};
use hythe_node::Node;
use hythe_testing::let_time_pass;
use std::time::Duration;

/// Longer than a watcher takes between two counts of the slots in use.
const COUNT_EVERY: Duration = Duration::from_millis(250);

#[test]
fn peak_is_remembered_once_a_watcher_has_seen_it() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "worker").expect("a place");
    let _later = Node::join(&pool, "later").expect("a place");
    let most = || pool.snapshot().high_water.classes[0].slots;
    assert_eq!(most(), 0);
    // What is in use now counts at once, and stays when it was counted by a watcher.
    eventually("a peak is noted", || {
        let leases: Vec<_> = (0..3).map(|_| node.lease(1).expect("room")).collect();
        let_time_pass(COUNT_EVERY, "the watcher counts once in this time");
        drop(leases);
        most() == 3
    });
    assert_eq!(pool.snapshot().high_water.participants, 2);
}
