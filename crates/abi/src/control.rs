//! What travels over `core/control` (`spec/control.md`): the methods with which Linux looks after
//! the tasks of a core and has it make segments, their results, and the rows of their replies.

/// The version of the page.
pub const VERSION: u32 = 1;

/// Largest payload of the endpoint, with the header of the call.
pub const MAX_BYTES: usize = 3840;

/// The longest name of a task.
pub const NAME_BYTES: usize = 32;

/// The longest argument of a start.
pub const ARGUMENT_BYTES: usize = 63;

/// Numbers of methods, as a header has them.
pub mod method {
    /// Methods from here on belong to Hythe.
    pub const OF_HYTHE: u32 = 0x8000_0000;
    /// Version, and where this core sees segments.
    pub const HELLO: u32 = OF_HYTHE | 64;
    /// Has the core make a segment.
    pub const MAKE: u32 = OF_HYTHE | 65;
    /// Lists the tasks.
    pub const TASKS: u32 = OF_HYTHE | 66;
    /// Starts one.
    pub const START: u32 = OF_HYTHE | 67;
    /// Asks one to stop.
    pub const STOP: u32 = OF_HYTHE | 68;
    /// Ends one, wherever it is.
    pub const KILL: u32 = OF_HYTHE | 69;
    /// The registers of the link, as the core sees them.
    pub const STATE: u32 = OF_HYTHE | 70;
    /// One byte of the area of segments, and where the core has it.
    pub const PEEK: u32 = OF_HYTHE | 71;
    /// Asks all tasks to stop that were started by name.
    pub const SHUTDOWN: u32 = OF_HYTHE | 74;
}

/// Results of replies, beside 0; Linux's numbers.
pub mod result {
    /// The task is permanent.
    pub const PERMANENT: i32 = -1;
    /// There is no task of that name.
    pub const UNKNOWN: i32 = -2;
    /// It does not run.
    pub const NOT_RUNNING: i32 = -3;
    /// The argument is longer than a task takes.
    pub const TOO_LONG: i32 = -7;
    /// The platform could not make it.
    pub const NO_MEMORY: i32 = -12;
    /// The request makes no sense.
    pub const MALFORMED: i32 = -22;
    /// All tasks of that name run, and there are several.
    pub const TOO_MANY: i32 = -24;
    /// There is no such method.
    pub const NO_METHOD: i32 = -38;
    /// It is made, and has not run within a second.
    pub const NOT_BEGUN: i32 = -110;
    /// It runs already.
    pub const RUNS: i32 = -114;
}

/// Bytes of a task's row.
pub const TASK_BYTES: usize = 96;

/// Flags of a task.
pub mod flag {
    /// It runs from the start of the program on.
    pub const AT_START: u32 = 1;
    /// It can neither be stopped nor killed.
    pub const PERMANENT: u32 = 2;
    /// It was asked to stop.
    pub const ASKED_TO_STOP: u32 = 4;
}

/// Why a processor stopped a task.
pub mod fault {
    /// It read what it may not.
    pub const READ: u32 = 1;
    /// It wrote where it may not.
    pub const WRITE: u32 = 2;
    /// It went on where there is no code for it.
    pub const EXECUTE: u32 = 3;
    /// An interrupt found no stack to save its registers on.
    pub const STACK: u32 = 4;
    /// An instruction that makes no sense, or that it may not use.
    pub const INSTRUCTION: u32 = 5;
}

/// A stack of which nobody knows how much was used.
pub const STACK_UNKNOWN: u32 = u32::MAX;

/// A task, as a core describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRow {
    /// Its name, filled up with zero bytes.
    pub name: [u8; NAME_BYTES],
    /// Its number, from 1 on.
    pub number: u32,
    /// 0 stopped, 1 starting, 2 running, 3 ready, 4 blocked, 5 killed, 6 faulted.
    pub state: u32,
    /// By [`flag`].
    pub flags: u32,
    /// Its priority; a larger number goes first.
    pub priority: u32,
    /// Size of its stack.
    pub stack_bytes: u32,
    /// The least of it that was ever free, or [`STACK_UNKNOWN`].
    pub stack_free_bytes: u32,
    /// How long it has run, over all its lives.
    pub run_time_us: u64,
    /// How often it was started.
    pub starts: u32,
    /// How often it was killed.
    pub kills: u32,
    /// Buffers that it has now.
    pub held: u32,
    /// Buffers that it had when it ended, over all its lives.
    pub buffers_returned: u32,
    /// Requests that it had open when it ended, over all its lives.
    pub requests_forgotten: u32,
    /// Why the processor stopped it, by [`fault`]; 0: it has not since its last start.
    pub fault: u32,
    /// What it wanted to reach.
    pub fault_address: u32,
    /// Its instruction; 0: not known.
    pub fault_pc: u32,
}

impl TaskRow {
    /// The bytes as they stand in the reply.
    #[must_use]
    pub fn to_bytes(self) -> [u8; TASK_BYTES] {
        let mut bytes = [0; TASK_BYTES];
        let (name, words) = bytes.split_at_mut(NAME_BYTES);
        name.copy_from_slice(&self.name);
        let run_time = [self.run_time_us as u32, (self.run_time_us >> 32) as u32];
        let values = [
            self.number,
            self.state,
            self.flags,
            self.priority,
            self.stack_bytes,
            self.stack_free_bytes,
            run_time[0],
            run_time[1],
            self.starts,
            self.kills,
            self.held,
            self.buffers_returned,
            self.requests_forgotten,
            self.fault,
            self.fault_address,
            self.fault_pc,
        ];
        for (place, value) in words.chunks_exact_mut(4).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads a core's claim. Any bytes are one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; TASK_BYTES]) -> Self {
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&bytes[..NAME_BYTES]);
        let word = |index: usize| word_at(bytes, NAME_BYTES + 4 * index);
        Self {
            name,
            number: word(0),
            state: word(1),
            flags: word(2),
            priority: word(3),
            stack_bytes: word(4),
            stack_free_bytes: word(5),
            run_time_us: u64::from(word(6)) | u64::from(word(7)) << 32,
            starts: word(8),
            kills: word(9),
            held: word(10),
            buffers_returned: word(11),
            requests_forgotten: word(12),
            fault: word(13),
            fault_address: word(14),
            fault_pc: word(15),
        }
    }
}

/// Bytes of a port's row.
pub const PORT_BYTES: usize = 36;

/// A port that is attached, as the core sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRow {
    /// Number of the endpoint.
    pub endpoint: u32,
    /// Number of the port.
    pub port: u32,
    /// The session that the core echoed.
    pub session: u32,
    /// What the core has taken of the queue from Linux.
    pub inbox_head: u32,
    /// What it has put into the queue to Linux.
    pub outbox_tail: u32,
    /// What it has last seen Linux take of that.
    pub head_seen: u32,
    /// Buffers that came over this port and are held.
    pub held: u32,
    /// A message is put into the queue while fewer wait.
    pub window: u32,
    /// Bit 0: quarantined. Bit 1: it was waited for in vain.
    pub flags: u32,
}

impl PortRow {
    /// The bytes as they stand in the reply.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PORT_BYTES] {
        let values = [
            self.endpoint,
            self.port,
            self.session,
            self.inbox_head,
            self.outbox_tail,
            self.head_seen,
            self.held,
            self.window,
            self.flags,
        ];
        let mut bytes = [0; PORT_BYTES];
        for (place, value) in bytes.chunks_exact_mut(4).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads a core's claim. Any bytes are one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; PORT_BYTES]) -> Self {
        let word = |index: usize| word_at(bytes, 4 * index);
        Self {
            endpoint: word(0),
            port: word(1),
            session: word(2),
            inbox_head: word(3),
            outbox_tail: word(4),
            head_seen: word(5),
            held: word(6),
            window: word(7),
            flags: word(8),
        }
    }
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}
