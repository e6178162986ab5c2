//! Restricted tasks of a core whose processor protects memory: what reaches beyond what was granted
//! is stopped and told, and everything else goes on.

mod support;

use hythe_rtcore::tasks::{FaultKind, TaskFault, TaskState};
use hythe_sys::system_v::{CREATE, PRIVATE};
use support::control::P1;
use support::segment_core::{OnCore, SegmentCore};
use support::{board, eventually};

const BOARD: &str = "mps2-an386-mpu";
/// A method of `p1` that tells addresses of the program.
const WHERE: u32 = 30;
const SEGMENT_BYTES: u32 = 64 << 10;

/// What `WHERE` knows.
#[derive(Clone, Copy)]
enum Place {
    Slots = 0,
    Link = 1,
    Variable = 2,
    Stack = 3,
    GateStack = 4,
    KernelVariable = 5,
    KernelCode = 6,
}

/// A core whose restricted tasks have their segments: `guest` the first, `reader` the next three.
struct Guests {
    segments: Vec<OnCore>,
    ids: Vec<i32>,
    on_core: SegmentCore,
    p1: P1,
}

impl Guests {
    fn start() -> Option<Self> {
        let p1 = P1::start(&board(BOARD)?);
        let mut on_core = SegmentCore::open(&p1.node);
        eventually("its agent serves it", || {
            on_core.get(PRIVATE, 0, 0) == Err(-22)
        });
        let mut guests = Self {
            segments: Vec::new(),
            ids: Vec::new(),
            on_core,
            p1,
        };
        for _ in 0..5 {
            let made = guests.on_core.get(PRIVATE, SEGMENT_BYTES, CREATE | 0o600);
            let id = made.expect("made");
            let attached = guests.on_core.attach(id, 0).expect("attached");
            guests.ids.push(id);
            guests.segments.push(attached);
        }
        Some(guests)
    }

    fn place(&mut self, place: Place) -> u32 {
        let said = self
            .on_core
            .call(WHERE, &(place as u32).to_le_bytes())
            .expect("an address");
        u32::from_le_bytes(said.try_into().expect("a word"))
    }

    fn segment(&self, index: usize) -> u32 {
        u32::try_from(self.segments[index].address).expect("32 bits")
    }

    /// Starts the task, and waits until the processor has stopped it.
    fn fault(&mut self, task: &str, argument: &str) -> TaskFault {
        self.p1.tasks.start(task, argument).expect("started");
        eventually(argument, || self.p1.one(task).state == TaskState::Faulted);
        self.p1.one(task).fault.expect("told why")
    }

    fn finish(mut self) {
        for (attached, id) in self.segments.into_iter().zip(self.ids) {
            assert_eq!(self.on_core.detach(attached), 0);
            self.on_core.remove(id).expect("removed");
        }
        drop(self.on_core);
        self.p1.finish();
    }
}

#[test]
fn an_access_beyond_what_was_granted_is_stopped_and_told() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let slots = guests.place(Place::Slots);
    let stack = guests.place(Place::Stack);
    let own = guests.segment(0);
    let cases = [
        ("write", guests.place(Place::KernelVariable)),
        ("write", guests.place(Place::Link)),
        ("write", guests.place(Place::Variable)),
        ("write", guests.place(Place::GateStack)),
        ("read", guests.place(Place::GateStack)),
        ("read", guests.place(Place::KernelCode)),
        ("read", guests.place(Place::Link)),
        ("write", stack - 1),
        ("write", stack + 2048),
        ("write", slots - 1),
        ("write", slots + (10 << 20)),
        ("read", own - 1),
        ("write", own + SEGMENT_BYTES),
        ("write", guests.segment(1)),
        ("read", guests.segment(4)),
        // Code, devices, and the processor's own registers.
        ("write", 0x0002_0000),
        ("write", 0x4000_4000),
        ("read", 0xE000_ED94),
        ("write", 0xE000_ED94),
        ("read", 0xFFFF_FFFF),
    ];
    for (verb, address) in cases {
        let fault = guests.fault("guest", &format!("{verb} {address:x}"));
        let kind = match verb {
            "write" => FaultKind::Write,
            _ => FaultKind::Read,
        };
        assert_eq!((fault.kind, fault.address), (kind, address), "{verb}");
        assert!(fault.pc.is_some());
        guests.p1.assert_answers();
    }
    guests.finish();
}
