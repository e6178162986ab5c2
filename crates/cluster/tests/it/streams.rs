//! Both sides of a stream over a connection that breaks at any moment: nothing is lost, nothing
//! comes twice, the window holds, and everything held is released.

use std::collections::VecDeque;

use hythe_cluster::frame::Window;
use hythe_cluster::stream::{Incoming, Outgoing, Violation};
use proptest::prelude::*;

const LONGEST: u32 = 100;

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u32),
    Deliver,
    Acknowledge(bool),
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..=LONGEST).prop_map(Step::Send),
        4 => Just(Step::Deliver),
        2 => any::<bool>().prop_map(Step::Acknowledge),
        1 => Just(Step::Break),
    ]
}

/// Both sides, what is underway between them, and what has come out.
struct World {
    window: Window,
    outgoing: Outgoing<(u64, u32)>,
    incoming: Incoming,
    frames: VecDeque<(u64, u32)>,
    acknowledgements: VecDeque<u64>,
    sent: u64,
    taken: Vec<u64>,
    released: Vec<u64>,
}

impl World {
    fn new(window: Window) -> Self {
        Self {
            window,
            outgoing: Outgoing::new(window),
            incoming: Incoming::new(window, LONGEST),
            frames: VecDeque::new(),
            acknowledgements: VecDeque::new(),
            sent: 0,
            taken: Vec::new(),
            released: Vec::new(),
        }
    }

    fn send(&mut self, bytes: u32) {
        if self.outgoing.is_open_for(bytes) {
            let sequence = self.outgoing.begin(bytes);
            self.sent += 1;
            assert_eq!(sequence, self.sent);
            self.frames.push_back((sequence, bytes));
            assert!(self.outgoing.finish(sequence, (sequence, bytes)).is_none());
            let used = self.outgoing.in_use();
            let fits = used.frames <= self.window.frames && used.bytes <= self.window.bytes;
            assert!(used.frames == 1 || fits, "{used:?}");
        }
    }

    fn deliver(&mut self) {
        if let Some((sequence, bytes)) = self.frames.pop_front() {
            self.incoming.begin(sequence, bytes).expect("as granted");
            self.incoming.taken(bytes);
            self.taken.push(sequence);
        }
    }

    fn acknowledge(&mut self, is_idle: bool) {
        let through = self.incoming.acknowledgement(is_idle);
        self.acknowledgements.extend(through);
        if let Some(through) = self.acknowledgements.pop_front() {
            let released = &mut self.released;
            let release = |(sequence, _)| released.push(sequence);
            self.outgoing.acknowledge(through, release).expect("sent");
        }
    }

    fn break_connection(&mut self) {
        self.frames.clear();
        // Acknowledgements go over another connection: what they say may come behind the answer.
        let (taken, released) = (self.incoming.resume(), &mut self.released);
        let release = |(sequence, _)| released.push(sequence);
        let resumed = self.outgoing.resume(taken, self.window, release);
        resumed.expect("what was sent");
        while let Some(ready) = self.outgoing.begin_again() {
            self.frames.push_back(ready.held);
            assert!(self.outgoing.finish(ready.sequence, ready.held).is_none());
        }
    }
}

proptest! {
    #[test]
    fn everything_arrives_once_and_is_released(
        steps in prop::collection::vec(step(), 1..200),
        frames in 1_u32..10,
        bytes in 0_u64..300,
    ) {
        let mut world = World::new(Window { frames, bytes });
        for step in steps {
            match step {
                Step::Send(bytes) => world.send(bytes),
                Step::Deliver => world.deliver(),
                Step::Acknowledge(is_idle) => world.acknowledge(is_idle),
                Step::Break => world.break_connection(),
            }
        }
        while !world.frames.is_empty() {
            world.deliver();
        }
        while !world.acknowledgements.is_empty() || world.incoming.owes() {
            world.acknowledge(true);
        }
        let all: Vec<u64> = (1..=world.sent).collect();
        prop_assert_eq!(&world.taken, &all);
        prop_assert_eq!(&world.released, &all);
        prop_assert!(world.outgoing.is_settled());
        prop_assert_eq!(world.outgoing.in_use(), Window::default());
    }
}

#[test]
fn frame_may_be_acknowledged_before_its_call_returns() {
    let window = Window {
        frames: 4,
        bytes: 100,
    };
    let mut outgoing = Outgoing::new(window);
    let sequence = outgoing.begin(10);
    outgoing.acknowledge(sequence, |_: &str| {}).expect("begun");
    assert_eq!(outgoing.finish(sequence, "held"), Some("held"));
    assert_eq!(outgoing.in_use(), Window::default());
}

#[test]
fn what_a_liar_acknowledges_or_sends_is_refused() {
    let window = Window {
        frames: 2,
        bytes: 50,
    };
    let mut outgoing = Outgoing::new(window);
    let sequence = outgoing.begin(10);
    outgoing.finish(sequence, ());
    for lie in [2, u64::MAX] {
        assert!(outgoing.acknowledge(lie, drop).is_err());
        assert!(outgoing.resume(lie, window, drop).is_err());
    }
    outgoing.acknowledge(1, drop).expect("sent");
    assert!(outgoing.acknowledge(0, drop).is_err(), "not backwards");

    let mut incoming = Incoming::new(window, 40);
    for lie in [0, 2, u64::MAX] {
        let lied = incoming.begin(lie, 1);
        assert!(matches!(lied, Err(Violation::OutOfOrder { .. })));
    }
    let long = incoming.begin(1, 41);
    assert!(matches!(long, Err(Violation::PayloadTooLong { .. })));
    for sequence in [1, 2] {
        incoming.begin(sequence, 20).expect("within");
        incoming.taken(20);
    }
    let beyond = incoming.begin(3, 1);
    assert!(matches!(beyond, Err(Violation::BeyondWindow { .. })));
}
