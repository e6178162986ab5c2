//! Restricted tasks of a core whose processor protects memory: what reaches beyond what was granted
//! is stopped and told, and everything else goes on.

use crate::support::control::P1;
use crate::support::segment_core::{OnCore, SegmentCore};
use crate::support::{Echo, LONG, board, eventually};
use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_node::{Subscriber, SubscriberOptions};
use hythe_rtcore::tasks::{FaultKind, TaskError, TaskFault, TaskState};
use hythe_sys::system_v::{CREATE, PRIVATE};

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

    /// What the task `guest` tells about what its argument had it do.
    fn told(&mut self, counted: &mut Subscriber, argument: &str) -> u32 {
        self.p1.tasks.start("guest", argument).expect("started");
        let word = counted.take(LONG).expect("sound").expect("told").to_vec();
        eventually("it has returned", || {
            self.p1.one("guest").state == TaskState::Stopped
        });
        u32::from_le_bytes(word.try_into().expect("a word"))
    }

    /// A subscriber of what it tells, which the core has seen.
    fn counted(&self) -> Subscriber {
        let counted = self
            .p1
            .node
            .subscriber("count", &SubscriberOptions::default());
        counted.expect("a subscriber")
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
fn access_beyond_what_was_granted_is_stopped_and_told() {
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

#[test]
fn what_is_not_code_is_not_run() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let slots = guests.place(Place::Slots);
    let cases = [
        slots + 4096,
        guests.segment(0),
        guests.place(Place::Stack) + 64,
        guests.place(Place::Variable) & !1,
        guests.place(Place::KernelCode),
        0xE000_0000,
    ];
    for address in cases {
        let fault = guests.fault("guest", &format!("run {address:x}"));
        assert_eq!((fault.kind, fault.address), (FaultKind::Execute, address));
        assert_eq!(fault.pc, Some(address));
        guests.p1.assert_answers();
    }
    for which in 0..3 {
        let fault = guests.fault("guest", &format!("instruction {which}"));
        assert_eq!(fault.kind, FaultKind::Instruction);
        assert_eq!(fault.pc, Some(fault.address));
        guests.p1.assert_answers();
    }
    guests.finish();
}

#[test]
fn stack_that_ends_or_is_none_stops_its_task_alone() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let stack = guests.place(Place::Stack);
    let own = guests.segment(0);
    let fault = guests.fault("guest", "overflow");
    assert_eq!(fault.kind, FaultKind::Stack);
    assert!((stack - 256..stack).contains(&fault.address), "{fault:?}");
    let elsewhere = [
        guests.place(Place::KernelVariable),
        guests.place(Place::GateStack) + 1024,
        guests.place(Place::Link) + 4096,
        guests.segment(1) + 4096,
        // So that what is saved ends within what it was granted, or begins there.
        stack + 8,
        own + SEGMENT_BYTES + 8,
        8,
        0xFFFF_FFF8,
    ];
    for verb in ["stack", "float", "supervisor"] {
        for pointer in elsewhere {
            let fault = guests.fault("guest", &format!("{verb} {pointer:x}"));
            assert_eq!(fault.kind, FaultKind::Stack, "{verb} {pointer:x}");
            let below = pointer.wrapping_sub(fault.address);
            assert!(
                (0x20..=0x70).contains(&below),
                "{verb} {pointer:x}: {fault:?}"
            );
            guests.p1.assert_answers();
        }
    }
    // Registers of the FPU stand above the others, which alone would be within.
    let fault = guests.fault("guest", &format!("float {:x}", own + SEGMENT_BYTES + 0x40));
    assert_eq!(fault.kind, FaultKind::Stack);
    guests.p1.assert_answers();
    guests.finish();
}

#[test]
fn what_a_stopped_task_had_comes_back_and_it_starts_again() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let mut counted = guests.counted();
    let mut echo = Echo::open(&guests.p1.world.pool, "pinging").expect("ports");
    let forbidden = guests.place(Place::Link);
    for life in 1..=100 {
        let fault = guests.fault("guest", &format!("hold {forbidden:x}"));
        assert_eq!((fault.kind, fault.address), (FaultKind::Write, forbidden));
        let task = guests.p1.one("guest");
        assert_eq!((task.starts, task.kills, task.held), (life, 0, 0));
        assert_eq!(task.buffers_returned, 2 * life);
        let bytes = life.to_le_bytes();
        assert_eq!(echo.round_trip(&bytes).to_vec(), bytes);
        // Fills the ring of empty slots, too.
        assert!(counted.try_take().expect("sound").is_none());
    }
    drop((counted, echo));
    guests.finish();
}

#[test]
fn restricted_task_works_with_what_it_was_granted() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    for _ in 0..3 {
        guests.p1.tasks.kill("echo").expect("killed");
    }
    let mut echo = Echo::open(&guests.p1.world.pool, "pinging").expect("ports");
    guests.p1.tasks.start("guest", "echo").expect("started");
    for number in 0..50_u8 {
        let reply = echo.round_trip(&[number; 5000]);
        assert_eq!(reply.to_vec(), [number + 1; 5000], "the buffer was written");
    }
    guests.p1.tasks.stop("guest").expect("stopped");
    drop(echo);
    let mut counted = guests.counted();
    let own = guests.segment(0);
    let last = SEGMENT_BYTES - 1;
    for (offset, value) in [(0, 0x11), (last, 0x22)] {
        let told = guests.told(&mut counted, &format!("write {:x} {value:x}", own + offset));
        assert_eq!(told, 0, "it went on");
        let granted = guests.segments[0];
        assert_eq!(guests.on_core.read(granted, offset, 1), [value]);
    }
    let slots = guests.place(Place::Slots);
    let stack = guests.place(Place::Stack);
    for address in [
        slots,
        slots + (8 << 20),
        slots + (10 << 20) - 1,
        stack,
        stack + 2047,
    ] {
        guests.told(&mut counted, &format!("read {address:x}"));
    }
    drop(counted);
    guests.finish();
}

#[test]
fn segments_are_granted_for_reading_or_writing() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let [read, write] = [1, 2].map(|index| guests.segment(index));
    // The task returns, without buffers to tell it by.
    for argument in [format!("read {read:x}"), format!("write {write:x} 7")] {
        guests.p1.tasks.start("reader", &argument).expect("started");
        eventually("it has returned", || {
            guests.p1.one("reader").state == TaskState::Stopped
        });
        assert_eq!(guests.p1.one("reader").fault, None);
    }
    let written = guests.segments[2];
    assert_eq!(guests.on_core.read(written, 0, 1), [7]);
    let slots = guests.place(Place::Slots);
    for (address, argument) in [
        (read, format!("write {read:x} 7")),
        (guests.segment(0), format!("write {:x}", guests.segment(0))),
        (slots, format!("write {slots:x}")),
    ] {
        let fault = guests.fault("reader", &argument);
        assert_eq!((fault.kind, fault.address), (FaultKind::Write, address));
    }
    // What is not attached, or can be cut into no few blocks, cannot be granted.
    let first = guests.segments.remove(0);
    assert_eq!(guests.on_core.detach(first), 0);
    let refused = guests
        .p1
        .tasks
        .start("guest", "echo")
        .expect_err("detached");
    assert!(matches!(refused, TaskError::NotMade { .. }), "{refused}");
    guests
        .on_core
        .remove(guests.ids.remove(0))
        .expect("removed");
    guests.p1.assert_answers();
    guests.finish();
}

#[test]
fn gate_does_nothing_that_its_task_could_not() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let mut counted = guests.counted();
    // What looks like a call of it: were it taken for one, it would be answered there.
    let operation_should_stop = 2_u32.to_le_bytes();
    let call = [&operation_should_stop[..], &[0xAA; 28]].concat();
    let foreign = guests.segments[1];
    let own = guests.segments[0];
    let end = SEGMENT_BYTES - 32;
    guests.on_core.write(foreign, 0, &call);
    guests.on_core.write(own, end, &call);
    let foreign_at = guests.segment(1);
    let own_at = guests.segment(0);
    let stack = guests.place(Place::Stack);
    let kernel = guests.place(Place::KernelVariable);
    let link = guests.place(Place::Link);
    let out_of_reach = [
        foreign_at,
        kernel,
        link,
        stack - 4,
        stack + 2048 - 31,
        own_at - 1,
        own_at + end + 1,
        0,
        0xFFFF_FFF0,
        0xFFFF_FFFF,
    ];
    for address in out_of_reach {
        let told = guests.told(&mut counted, &format!("call {address:x}"));
        assert_eq!(told, 0, "the gate goes on");
    }
    assert_eq!(guests.on_core.read(foreign, 0, 32), call);
    assert_eq!(guests.on_core.read(own, end, 32), call);
    // Within, it is answered: the result is 0, no buffer is held.
    guests.told(&mut counted, &format!("call {:x}", own_at + end));
    let answered = guests.on_core.read(own, end, 32);
    assert_eq!(
        (&answered[8..12], &answered[20..24]),
        (&[0; 4][..], &[0; 4][..])
    );
    // Where the gate is told to write.
    let argument_error = (-1_i32).cast_unsigned();
    let slots_end = guests.place(Place::Slots) + (10 << 20);
    for (at, bytes, result) in [
        (own_at + SEGMENT_BYTES - 64, 64_u32, 0),
        (slots_end - 64, 64, 0),
        (stack, 64, 0),
        (own_at + SEGMENT_BYTES - 63, 64, argument_error),
        (slots_end - 63, 64, argument_error),
        (own_at - 1, 64, argument_error),
        (foreign_at, 64, argument_error),
        (kernel, 64, argument_error),
        (link, 64, argument_error),
        (stack - 1, 64, argument_error),
        (own_at, 0xFFFF_FFFF, argument_error),
        (own_at, 1, argument_error),
        (0xFFFF_FFF0, 0x20, argument_error),
        (0xFFFF_FFF0, 0xFFFF_FFFF, argument_error),
        (0, 64, argument_error),
    ] {
        let told = guests.told(&mut counted, &format!("begin {at:x} {bytes:x}"));
        assert_eq!(told, result, "{bytes:#x} bytes at {at:#x}");
    }
    assert_eq!(guests.on_core.read(foreign, 0, 32), call);
    assert_eq!(guests.told(&mut counted, "objects"), 1, "itself");
    drop(counted);
    guests.finish();
}

#[test]
fn linux_is_told_of_each_fault_by_line_and_event() {
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let mut listener = guests.p1.node.listener("core/events").expect("a listener");
    let link = guests.place(Place::Link);
    for count in 1..=3 {
        let fault = guests.fault("guest", &format!("write {link:x}"));
        let events = listener.wait(LONG).expect("sound");
        let events: Vec<u8> = events.iter().map(|event| event.number()).collect();
        assert_eq!(events, [0]);
        let (number, pc) = (guests.p1.one("guest").number, fault.pc.expect("known"));
        let line = format!(
            "agent: task guest ({number}) was stopped: write at {link:#010x}, \
             instruction at {pc:#010x}"
        );
        eventually("the log has a line for each", || {
            let log = hythe_rtcore::control::log(&guests.p1.world.pool, BOARD).expect("a log");
            log.lines().filter(|said| *said == line).count() == count
        });
    }
    drop(listener);
    guests.finish();
}

#[test]
fn semaphores_and_queues_are_used_through_the_gate() {
    const NAME: &str = "guest";
    let Some(mut guests) = Guests::start() else {
        return;
    };
    let mut counted = guests.counted();
    let bad_place = (-9_i32).cast_unsigned();
    let fault = (-14_i32).cast_unsigned();
    let none = (-2_i32).cast_unsigned();
    assert_eq!(guests.told(&mut counted, "semaphore 0"), none);
    let node = &guests.p1.node;
    let semaphore = Semaphore::open(node, NAME, &SemaphoreOptions::default().create(1));
    let semaphore = semaphore.expect("made");
    let options = MessageQueueOptions::default().create(4, 64);
    let queue = MessageQueue::open(node, NAME, &options).expect("made");
    assert_eq!(guests.told(&mut counted, "semaphore 0"), 0);
    assert_eq!(semaphore.value().expect("sound"), 1);
    assert_eq!(guests.told(&mut counted, "semaphore 1"), bad_place);
    let own = guests.segments[0];
    let own_at = guests.segment(0);
    let foreign_at = guests.segment(1);
    let link = guests.place(Place::Link);
    guests.on_core.write(own, 0, b"hello");
    assert_eq!(guests.told(&mut counted, &format!("send {own_at:x} 5")), 0);
    let received = queue.receive(Deadline::Now).expect("one");
    assert_eq!(
        (received.priority, &*received.sample.to_vec()),
        (3, &b"hello"[..])
    );
    for (verb, at, bytes) in [
        ("send", foreign_at, 5_u32),
        ("send", link, 5),
        ("send", own_at + SEGMENT_BYTES - 4, 5),
        ("send", own_at, u32::MAX),
        ("get", foreign_at, 64),
        ("get", link, 64),
        ("get", own_at + SEGMENT_BYTES - 63, 64),
        ("get", own_at, u32::MAX),
    ] {
        let told = guests.told(&mut counted, &format!("{verb} {at:x} {bytes:x}"));
        assert_eq!(told, fault, "{verb} {bytes} at {at:#x}");
    }
    queue.send_copy(b"message", 1, Deadline::Now).expect("sent");
    let last = own_at + SEGMENT_BYTES - 64;
    assert_eq!(guests.told(&mut counted, &format!("get {last:x} 40")), 7);
    assert_eq!(guests.on_core.read(own, SEGMENT_BYTES - 64, 7), b"message");
    // One that is stopped with a count is a dead holder.
    guests.fault("guest", &format!("take {link:x}"));
    let bound = Deadline::after(LONG);
    let died = semaphore.wait(bound).expect_err("told once");
    assert!(matches!(died, SyncError::OwnerDead), "{died}");
    drop((received, semaphore, queue, counted));
    Semaphore::unlink(&guests.p1.node, NAME).expect("unlinked");
    MessageQueue::unlink(&guests.p1.node, NAME).expect("unlinked");
    guests.finish();
}
