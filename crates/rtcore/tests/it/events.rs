//! Events to and from a core, over the echo of `knock` and `answer`.

use std::time::{Duration, Instant};

use crate::support::{LONG, World, boards, kill, start};
use hythe_node::{EventId, EventSet, Listener, Node, Notifier};

fn event(number: u8) -> EventId {
    EventId::new(number).expect("an event")
}

fn ports(node: &Node) -> (Notifier, Listener) {
    let listener = node.listener("answer").expect("listens");
    (node.notifier("knock").expect("notifies"), listener)
}

/// Waits until all of these have come, however many at once.
fn hear(listener: &mut Listener, wanted: EventSet) {
    let (mut heard, start) = (0, Instant::now());
    while heard & wanted.bits() != wanted.bits() {
        assert!(start.elapsed() < LONG, "only {heard:b} of {wanted:?}");
        let now = listener.wait(Duration::from_secs(1)).expect("sound").bits();
        assert_eq!(now & !wanted.bits(), 0, "what nobody raised");
        heard |= now;
    }
}

#[test]
fn events_go_to_a_core_and_come_back() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "knocker").expect("joins");
        let (mut knock, mut answer) = ports(&node);
        for round in 0..200 {
            let events: EventSet = [event(round % 40), event(39)].into_iter().collect();
            assert_eq!(knock.notify(events).expect("sound"), 1);
            hear(&mut answer, events);
        }
        assert!(answer.try_take().expect("sound").is_empty());
        drop((knock, answer, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn every_listener_hears_a_core_and_a_process_beside_it() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let others: Vec<Node> = (0..4)
            .map(|number| hythe_rtcore::join(&world.pool, &format!("listener {number}")))
            .map(|node| node.expect("joins"))
            .collect();
        let node = hythe_rtcore::join(&world.pool, "knocker").expect("joins");
        let (mut knock, answer) = ports(&node);
        let mut listeners = vec![answer];
        listeners.extend(
            others
                .iter()
                .map(|node| node.listener("answer").expect("listens")),
        );
        let mut beside = node.notifier("answer").expect("notifies");
        for round in 0..50 {
            let (echoed, direct) = (event(round % 20), event(20 + round % 20));
            assert_eq!(knock.notify(echoed).expect("sound"), 1);
            assert_eq!(beside.notify(direct).expect("sound"), listeners.len());
            for listener in &mut listeners {
                hear(listener, [echoed, direct].into_iter().collect());
            }
        }
        drop((knock, listeners, beside, node, others));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn wait_set_wakes_for_the_events_of_a_core() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "knocker").expect("joins");
        let (mut knock, mut answer) = ports(&node);
        let mut wait_set = node.wait_set().expect("a wait set");
        let token = wait_set.attach(&mut answer).expect("attached");
        for round in 0..20 {
            knock.notify(event(round)).expect("sound");
            let start = Instant::now();
            let mut heard = EventSet::default();
            while heard.is_empty() {
                assert!(start.elapsed() < LONG, "round {round}: nothing woke it");
                let ready = wait_set.wait(Duration::from_secs(1)).expect("sound");
                if ready.iter().any(|ready| ready.token() == token) {
                    heard = answer.try_take().expect("sound");
                }
            }
            assert_eq!(heard, event(round).into());
        }
        drop((wait_set, knock, answer, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn event_ports_outlive_core_without_old_events() {
    for board in boards() {
        let world = World::new();
        let options = hythe_rtcore::CoreOptions::default()
            .start_bound(LONG)
            .restarts(1);
        let node = hythe_rtcore::join(&world.pool, "knocker").expect("joins");
        // Before there is a core.
        let (mut knock, mut answer) = ports(&node);
        assert_eq!(knock.notify(event(1)).expect("sound"), 0);
        let core = hythe_rtcore::Core::start(&world.pool, &board, &options).expect("core");
        let mut round = |number| {
            let start = Instant::now();
            loop {
                assert!(start.elapsed() < LONG, "no answer");
                // Both must have met the core.
                knock.notify(event(number)).expect("sound");
                let heard = answer.wait(Duration::from_millis(50)).expect("sound");
                if !heard.is_empty() {
                    assert_eq!(heard, event(number).into());
                    return;
                }
            }
        };
        round(2);
        let pid = core.status().pid;
        kill(pid);
        assert!(core.wait_until(LONG, |status| status.pid != pid && status.restarts == 1));
        round(3);
        drop((knock, answer, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
