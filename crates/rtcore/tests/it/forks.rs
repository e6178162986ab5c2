//! `fork` without `exec` in the agent of a core, and in a process that is attached to one: the
//! child's copies act on nothing.

use std::cell::RefCell;

use crate::support::{Echo, LONG, World, boards};
use hythe_rtcore::{Core, CoreOptions, CoreState};
use hythe_sys::fork::run_in_child;

#[test]
fn forked_child_of_agent_keeps_core_running() {
    for board in boards() {
        let world = World::new();
        let options = CoreOptions::default().start_bound(LONG);
        let core = Core::start(&world.pool, &board, &options).expect("core");
        let mut echo = Echo::open(&world.pool, "test").expect("ports");
        let sample = echo.round_trip(b"before");
        let belongings = RefCell::new(Some((core, echo, sample)));
        let seen = || {
            let snapshot = world.pool.snapshot();
            format!("{:?} {:?}", snapshot.channels, snapshot.members)
        };
        let before = seen();
        let child = || {
            drop(belongings.borrow_mut().take());
            0
        };
        assert_eq!(run_in_child(child).expect("forked"), 0);
        assert_eq!(seen(), before);
        let (core, mut echo, sample) = belongings.into_inner().expect("still here");
        assert_eq!(core.status().state, CoreState::Up);
        assert_eq!(echo.round_trip(b"after").to_vec(), b"after");
        assert_eq!(sample.to_vec(), b"before");
        drop((sample, echo));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
