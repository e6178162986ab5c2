//! Models of the marks (loom): senders push, mark and ring as they do; the owner takes marks, looks
//! at the queues they name, and would fall asleep. A message is seen, or its mark stands, or the
//! owner is woken.
//!
//! A queue is one word here: its tail. A sender that stops halfway is one that goes on to the next
//! word only after the owner has gone.

use core::ops::Range;

use hythe_abi::pool::{ControlLayout, Limits, participant, port};
use hythe_memory::model::ModelMemory;
use hythe_memory::{Memory, Ordering};
use loom::sync::Arc;
use loom::thread;

use crate::cell_models::packed::Packed;
use crate::control::Control;
use crate::marks::ask_for_marks;
use crate::{MemberIndex, PortIndex};

const LIMITS: Limits = Limits {
    participants: 1,
    channels: 1,
    ports: 2,
    connections: 2,
    queue_segments: 1,
    slots: 1,
};
const OWNER: MemberIndex = MemberIndex(0);
const PORTS: [PortIndex; 2] = [PortIndex(0), PortIndex(1)];
/// The tails of the queues: one to each port, and a second to the first.
const TAILS: [usize; 3] = [0, 4, 8];

type Shared = Arc<Control<Packed>>;

fn control(marks_wanted: bool) -> Shared {
    let layout = ControlLayout::new(LIMITS).expect("layout");
    let summary = layout.mark_summary(0);
    let bell = layout.participant(0) + participant::BELL_COUNT;
    let flags = PORTS.map(|port| layout.port(port.0 as usize) + port::FLAGS);
    let places: Vec<Range<usize>> = vec![
        summary..summary + 8,
        layout.mark_cell(0, 0)..layout.mark_cell(0, 0) + 8,
        bell..bell + 8,
        TAILS[0]..TAILS[2] + 4,
        flags[0]..flags[0] + 4,
        flags[1]..flags[1] + 4,
    ];
    let bytes: usize = places.iter().map(Range::len).sum();
    let memory = ModelMemory::new(bytes / 4, 2);
    let control = Arc::new(Control::over(Packed { memory, places }, layout));
    for at in flags {
        let wanted = u32::from(marks_wanted);
        control.memory().store(at, wanted, Ordering::Relaxed);
    }
    control
}

/// Pushes to a queue of a port and announces it. True: the owner must be woken.
fn send(control: &Shared, tail: usize, port: PortIndex) -> bool {
    // Relaxed: what makes it visible must be the announcement.
    control.memory().store(tail, 1, Ordering::Relaxed);
    control.marks().announce(OWNER, port)
}

/// Does something wait for the port?
fn waits(control: &Shared, port: PortIndex) -> bool {
    let queues: &[usize] = if port == PORTS[0] { &[0, 2] } else { &[1] };
    let tail = |&queue: &usize| control.memory().load(TAILS[queue], Ordering::Relaxed);
    queues.iter().map(tail).sum::<u32>() > 0
}

/// Takes the marks and looks at the queues they name: the ports that something waits for.
fn look(control: &Shared) -> [bool; 2] {
    let mut named = [false; 2];
    control
        .marks()
        .take_marks(OWNER, |port| named[port.0 as usize] = true);
    std::array::from_fn(|port| named[port] && waits(control, PORTS[port]))
}

/// Looks, and looks again on the way to bed. What was found, and whether a futex would let the
/// owner sleep in the end.
fn look_and_lie_down(control: &Shared) -> ([bool; 2], bool) {
    let early = look(control);
    let bell = control.tables().bell(OWNER);
    let ticket = bell.lie_down(control.memory());
    let late = look(control);
    let found = [early[0] || late[0], early[1] || late[1]];
    (found, bell.is_quiet(control.memory(), ticket))
}

/// Everything sent was found, or its mark stands for the next look; and who found nothing is not
/// left asleep.
fn check(control: &Shared, found: [bool; 2], sent: [bool; 2], woken: bool) {
    let quiet = {
        let count = control.tables().bell(OWNER).count;
        control.memory().load(count, Ordering::Relaxed) == 0
    };
    let asleep = found == [false; 2] && quiet;
    assert!(!asleep || !woken, "woken before the futex looked");
    let standing = look(control);
    for port in 0..2 {
        assert!(
            !sent[port] || found[port] || standing[port],
            "port {port} is forgotten"
        );
    }
    assert!(!asleep, "asleep beside a message");
}

/// One message: it is found on the way to bed, or the owner is woken.
#[test]
fn loom_nobody_falls_asleep_beside_a_message() {
    loom::model(|| {
        let shared = control(true);
        let own = Arc::clone(&shared);
        let owner = thread::spawn(move || look_and_lie_down(&own).0);
        let woken = send(&shared, TAILS[0], PORTS[0]);
        let found = owner.join().expect("owner");
        check(&shared, found, [true, false], woken);
    });
}

/// One message to each of two ports that share a cell. Three switches of threads at arbitrary
/// places, which is where such mistakes show; all of them would take hours.
#[test]
fn loom_marks_of_one_cell_do_not_erase_each_other() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = control(true);
        let own = Arc::clone(&shared);
        let owner = thread::spawn(move || look(&own));
        let other = Arc::clone(&shared);
        let sender = thread::spawn(move || send(&other, TAILS[1], PORTS[1]));
        let _ = send(&shared, TAILS[0], PORTS[0]);
        let _ = sender.join().expect("sender");
        let (found, standing) = (owner.join().expect("owner"), look(&shared));
        for port in 0..2 {
            assert!(found[port] || standing[port], "port {port} is forgotten");
        }
    });
}

/// Two senders to one port: the second finds the first's mark, which the owner may be taking.
#[test]
fn loom_a_mark_that_stands_already_serves_both() {
    loom::model(|| {
        let shared = control(true);
        let own = Arc::clone(&shared);
        let owner = thread::spawn(move || {
            let mut seen = 0;
            for _ in 0..2 {
                if look(&own)[0] {
                    seen = waiting(&own);
                }
            }
            seen
        });
        let other = Arc::clone(&shared);
        let sender = thread::spawn(move || send(&other, TAILS[2], PORTS[0]));
        let _ = send(&shared, TAILS[0], PORTS[0]);
        let _ = sender.join().expect("sender");
        let seen = owner.join().expect("owner");
        assert!(seen == 2 || look(&shared)[0], "one of two is forgotten");
    });
}

/// How many of the first port's queues have something.
fn waiting(control: &Shared) -> u32 {
    let tail = |queue: usize| control.memory().load(TAILS[queue], Ordering::Relaxed);
    tail(0) + tail(2)
}

/// A sender has stopped between the bit of the cell and that of the summary: another of the same
/// port does not rely on it, nor on the summary's bit as it was before the owner took an older mark
/// of another port.
#[test]
fn loom_a_sender_that_stopped_does_not_hide_another() {
    loom::model(|| {
        let shared = control(true);
        let cell = shared.layout().mark_cell(0, 0);
        let memory = shared.memory();
        memory.store_cell(cell, 1 << PORTS[1].0, Ordering::Relaxed);
        memory.store_cell(shared.layout().mark_summary(0), 1, Ordering::Relaxed);
        let stopped = Arc::clone(&shared);
        let stopping = thread::spawn(move || {
            // The first half of `mark`.
            let found = stopped.memory().load_cell(cell, Ordering::Acquire);
            let _ = stopped.memory().replace_cell(cell, found, found | 1);
        });
        let own = Arc::clone(&shared);
        let owner = thread::spawn(move || look(&own));
        let _ = send(&shared, TAILS[0], PORTS[0]);
        stopping.join().expect("stopped");
        let found = owner.join().expect("owner");
        assert!(found[0] || look(&shared)[0], "hidden by who stopped");
    });
}

/// The owner asks for marks while somebody sends: the message is found by the first look, or
/// marked.
#[test]
fn loom_asking_for_marks_meets_a_message() {
    loom::model(|| {
        let shared = control(false);
        let own = Arc::clone(&shared);
        let owner = thread::spawn(move || {
            ask_for_marks(&own, PORTS[0], true);
            waits(&own, PORTS[0])
        });
        let _ = send(&shared, TAILS[0], PORTS[0]);
        let seen = owner.join().expect("owner");
        assert!(seen || look(&shared)[0], "neither seen nor marked");
    });
}
