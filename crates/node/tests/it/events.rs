//! Events between nodes and processes: they coalesce, none is lost to a listener that sleeps, none
//! reaches another channel.
//!
//! The other process is this test program again (`support::player`).

use std::time::{Duration, Instant};

use crate::support::player::{Player, own_part, say};
use crate::support::{BOUND, Root, eventually};
use hythe_node::hop::HopPool as _;
use hythe_node::{EventId, EventSet, Node, PortKind};
use hythe_testing::let_time_pass;

/// What a child can be.
mod roles {
    /// Raises on `back` what it hears on `there`, for ever.
    pub(super) const ECHO: &str = "echo";
    /// Notifies on `there` as fast as it can.
    pub(super) const STORM: &str = "storm";
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some((role, node)) = own_part() else {
        return;
    };
    let start = Instant::now();
    match role.as_str() {
        roles::ECHO => {
            let mut there = node.listener("there").expect("opens");
            let mut back = node.notifier("back").expect("opens");
            assert!(back.wait_for_listeners(1, BOUND).expect("sound"));
            say("ready");
            while start.elapsed() < BOUND {
                let heard = there.wait(Duration::from_millis(200)).expect("sound");
                if !heard.is_empty() {
                    back.notify(heard).expect("sound");
                }
            }
        }
        roles::STORM => {
            let mut there = node.notifier("there").expect("opens");
            assert!(there.wait_for_listeners(1, BOUND).expect("sound"));
            say("ready");
            while start.elapsed() < BOUND {
                there.notify(event(7)).expect("sound");
            }
        }
        other => panic!("no role {other}"),
    }
}

fn event(number: u8) -> EventId {
    EventId::new(number).expect("an event")
}

fn numbers(set: EventSet) -> Vec<u8> {
    set.iter().map(EventId::number).collect()
}

#[test]
fn events_coalesce_and_reach_every_listener() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut notifier = node.notifier("alarm").expect("opens");
    assert_eq!(
        notifier.notify(event(1)).expect("sound"),
        0,
        "nobody listens yet"
    );
    let mut listeners = [(); 3].map(|()| node.listener("alarm").expect("opens"));
    for number in [4, 39, 4] {
        assert_eq!(notifier.notify(event(number)).expect("sound"), 3);
    }
    for listener in &mut listeners[1..] {
        let heard = listener.wait(BOUND).expect("sound");
        assert_eq!(
            numbers(heard),
            [4, 39],
            "what was raised before it opened is not its"
        );
        assert!(
            listener
                .wait(Duration::from_millis(1))
                .expect("sound")
                .is_empty()
        );
    }
    let several: EventSet = [event(0), event(2)].into_iter().collect();
    notifier.notify(several).expect("sound");
    assert_eq!(
        numbers(listeners[0].try_take().expect("sound")),
        [0, 2, 4, 39]
    );
    assert_eq!(notifier.statistics().messages, 5);
    assert_eq!(listeners[0].statistics().messages, 1);
    let snapshot = pool.snapshot();
    let shown = |kind| {
        snapshot
            .ports
            .iter()
            .filter(|port| port.kind == kind)
            .count()
    };
    assert_eq!(
        (shown(PortKind::Notifier), shown(PortKind::Listener)),
        (1, 3)
    );
    assert_eq!(
        snapshot.audit.free, snapshot.audit.slots,
        "events hold no slot"
    );
    drop((notifier, listeners, node));
    let left = pool.snapshot();
    assert_eq!((left.channels.len(), left.ports.len()), (0, 0));
}

/// A listener that takes the port number of another hears nothing that was meant for that one.
#[test]
fn port_number_used_again_hears_only_its_own() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut notifier = node.notifier("alarm").expect("opens");
    let first = node.listener("alarm").expect("opens");
    assert_eq!(notifier.listeners().expect("sound"), 1);
    let port = |name: &str| {
        let channel = pool
            .control()
            .tables()
            .find_channel(name)
            .expect("open")
            .index;
        let ports = pool.snapshot().ports;
        let found = ports
            .into_iter()
            .find(|port| port.channel == channel && port.kind == PortKind::Listener);
        found.expect("open").index
    };
    let before = port("alarm");
    let cell = pool.control().tables().events(before);
    drop(first);
    let mut other = node.listener("other").expect("opens");
    assert_eq!(port("other"), before, "the test needs the same number");
    // As a notifier that was held up between its look and its swap.
    assert!(cell.raise(pool.control().memory(), 1).is_err());
    assert_eq!(notifier.notify(event(0)).expect("sound"), 0);
    assert!(other.try_take().expect("sound").is_empty());
}

#[test]
fn no_event_is_lost_to_a_listener_that_sleeps() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut back = node.listener("back").expect("opens");
    let echo = Player::start(&root, roles::ECHO);
    assert_eq!(echo.hear(), "ready");
    let mut there = node.notifier("there").expect("opens");
    assert!(there.wait_for_listeners(1, BOUND).expect("sound"));
    for round in 0..2000_u32 {
        let sent = event((round % 40) as u8);
        there.notify(sent).expect("sound");
        if round % 16 == 0 {
            // Both asleep, one asleep, none: different from round to round.
            let_time_pass(
                Duration::from_micros(u64::from(round)),
                "other states each round",
            );
        }
        let heard = back.wait(BOUND).expect("sound");
        assert_eq!(heard, sent.into(), "lost in round {round}");
    }
}

#[test]
fn notifier_killed_anywhere_leaves_nothing_behind() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut listener = node.listener("there").expect("opens");
    for round in 0..4 {
        let mut storm = Player::start(&root, roles::STORM);
        assert_eq!(storm.hear(), "ready");
        let heard = listener.wait(BOUND).expect("sound");
        assert_eq!(numbers(heard), [7]);
        let_time_pass(
            Duration::from_micros(500 * round),
            "another moment each round",
        );
        storm.kill();
        eventually("it is recovered", || pool.snapshot().members.len() == 1);
        // One more may have stood there; then it is quiet.
        listener.try_take().expect("sound");
        assert!(listener.try_take().expect("sound").is_empty());
        let ports = pool.snapshot().ports;
        assert_eq!(ports.len(), 1, "{ports:?}");
    }
}
