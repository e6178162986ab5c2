//! What a core replies, read from a copy.

use std::fmt;
use std::time::Duration;

use hythe_abi::control::{PortRow, STACK_UNKNOWN, TaskRow, fault, flag};
use hythe_abi::services::{BYTES, ReplyHeader};

/// A reply to a call.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) result: i32,
    pub(super) values: [u32; 5],
    pub(super) bytes: Vec<u8>,
}

impl Reply {
    /// `None`: it is none to this method.
    pub(super) fn read(copied: &[u8], method: u32) -> Option<Self> {
        let (header, bytes) = copied.split_first_chunk::<BYTES>()?;
        let header = ReplyHeader::from_bytes(*header);
        let is_whole = header.method == method && header.bytes as usize == bytes.len();
        is_whole.then(|| Self {
            result: header.result,
            values: header.values,
            bytes: bytes.to_vec(),
        })
    }
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It was never started, or has returned.
    Stopped,
    /// It is made, and has not run yet.
    Starting,
    /// It was running when the core was asked.
    Running,
    /// It could run, and another task did.
    Ready,
    /// It waits for something.
    Blocked,
    /// It was killed.
    Killed,
    /// The processor stopped it: it went beyond what it was granted.
    Faulted,
    /// A number that this version does not know.
    Other(u32),
}

impl TaskState {
    const fn of(number: u32) -> Self {
        match number {
            0 => Self::Stopped,
            1 => Self::Starting,
            2 => Self::Running,
            3 => Self::Ready,
            4 => Self::Blocked,
            5 => Self::Killed,
            6 => Self::Faulted,
            other => Self::Other(other),
        }
    }

    /// Its name, as commands print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Killed => "killed",
            Self::Faulted => "faulted",
            Self::Other(_) => "unknown",
        }
    }

    /// May it still run?
    #[must_use]
    pub const fn lives(self) -> bool {
        matches!(
            self,
            Self::Starting | Self::Running | Self::Ready | Self::Blocked
        )
    }
}

/// What a restricted task did when the processor stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// It read what it may not.
    Read,
    /// It wrote where it may not.
    Write,
    /// It went on where there is no code for it.
    Execute,
    /// An interrupt found no stack to save its registers on.
    Stack,
    /// It met an instruction that makes no sense, or that it may not use.
    Instruction,
    /// A number that this version does not know.
    Other(u32),
}

impl FaultKind {
    /// Its name, as commands print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Stack => "stack",
            Self::Instruction => "instruction",
            Self::Other(_) => "unknown",
        }
    }
}

/// Why the processor stopped a task, as its core tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskFault {
    /// What it did.
    pub kind: FaultKind,
    /// What it wanted to reach; of an instruction, its own address; of a stack, the stack pointer.
    pub address: u32,
    /// Its instruction, if that is known.
    pub pc: Option<u32>,
}

impl TaskFault {
    /// `None`: there was none.
    pub(crate) const fn of(kind: u32, address: u32, pc: u32) -> Option<Self> {
        let kind = match kind {
            0 => return None,
            fault::READ => FaultKind::Read,
            fault::WRITE => FaultKind::Write,
            fault::EXECUTE => FaultKind::Execute,
            fault::STACK => FaultKind::Stack,
            fault::INSTRUCTION => FaultKind::Instruction,
            other => FaultKind::Other(other),
        };
        let pc = if pc == 0 { None } else { Some(pc) };
        Some(Self { kind, address, pc })
    }
}

impl fmt::Display for TaskFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {:#010x}", self.kind.name(), self.address)?;
        match self.pc {
            Some(pc) if pc != self.address => write!(out, ", instruction at {pc:#010x}"),
            _ => Ok(()),
        }
    }
}

/// A task of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Its number, from 1 on.
    pub number: u32,
    /// Its name; several may have it.
    pub name: String,
    /// What it does.
    pub state: TaskState,
    /// Its priority; a larger number goes first.
    pub priority: u32,
    /// Size of its stack.
    pub stack_bytes: u32,
    /// The least of the stack that was ever free; `None`: this core cannot tell.
    pub stack_free_least_bytes: Option<u32>,
    /// How long it has run, over all its lives.
    pub run_time: Duration,
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
    /// It can neither be stopped nor killed.
    pub is_permanent: bool,
    /// It was asked to stop since its last start.
    pub is_asked_to_stop: bool,
    /// Why the processor stopped it, since it was started last.
    pub fault: Option<TaskFault>,
}

impl TaskInfo {
    pub(super) fn of(row: &TaskRow) -> Self {
        let end = row.name.iter().position(|byte| *byte == 0);
        let name = &row.name[..end.unwrap_or(row.name.len())];
        let free = row.stack_free_bytes;
        Self {
            number: row.number,
            name: String::from_utf8_lossy(name).into_owned(),
            state: TaskState::of(row.state),
            priority: row.priority,
            stack_bytes: row.stack_bytes,
            stack_free_least_bytes: (free != STACK_UNKNOWN).then_some(free),
            run_time: Duration::from_micros(row.run_time_us),
            starts: row.starts,
            kills: row.kills,
            held: row.held,
            buffers_returned: row.buffers_returned,
            requests_forgotten: row.requests_forgotten,
            is_permanent: row.flags & flag::PERMANENT != 0,
            is_asked_to_stop: row.flags & flag::ASKED_TO_STOP != 0,
            fault: TaskFault::of(row.fault, row.fault_address, row.fault_pc),
        }
    }
}

/// The registers of a link, as its core sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreRegisters {
    /// Its own session.
    pub session: u32,
    /// The session of Linux that it has answered.
    pub linux_session: u32,
    /// Does it take the link for up?
    pub is_up: bool,
    /// How often it has rung Linux.
    pub rings: u32,
    /// Tasks that sleep for Linux.
    pub sleepers: u32,
    /// The ports that are attached.
    pub ports: Vec<PortRegisters>,
}

/// One port, as the core sees it. Counters wrap at 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRegisters {
    /// Number of the endpoint.
    pub endpoint: u32,
    /// Number of the port.
    pub port: u32,
    /// The session that the core echoed.
    pub session: u32,
    /// What it has taken of the queue from Linux.
    pub inbox_head: u32,
    /// What it has put into the queue to Linux.
    pub outbox_tail: u32,
    /// What it has last seen Linux take of that.
    pub head_seen: u32,
    /// Buffers that came over this port and are held.
    pub held: u32,
    /// A message is put into the queue while fewer wait.
    pub window: u32,
    /// Linux's counters are broken.
    pub is_quarantined: bool,
    /// It was waited for in vain, and has taken nothing since.
    pub is_late: bool,
}

impl PortRegisters {
    pub(super) const fn of(row: &PortRow) -> Self {
        Self {
            endpoint: row.endpoint,
            port: row.port,
            session: row.session,
            inbox_head: row.inbox_head,
            outbox_tail: row.outbox_tail,
            head_seen: row.head_seen,
            held: row.held,
            window: row.window,
            is_quarantined: row.flags & 1 != 0,
            is_late: row.flags & 2 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_is_one_to_its_method_and_of_its_size() {
        let header = ReplyHeader {
            method: 7,
            result: -2,
            bytes: 3,
            ..ReplyHeader::default()
        };
        let whole = [&header.to_bytes()[..], b"abc"].concat();
        let read = Reply::read(&whole, 7).expect("whole");
        assert_eq!((read.result, &read.bytes[..]), (-2, &b"abc"[..]));
        assert!(Reply::read(&whole, 8).is_none(), "another method");
        assert!(Reply::read(&whole[..34], 7).is_none(), "too short");
        assert!(Reply::read(&whole[..31], 7).is_none(), "no header");
        assert!(Reply::read(&[&whole[..], b"d"].concat(), 7).is_none());
    }

    #[test]
    fn what_a_core_claims_of_a_task_is_shown_as_it_is() {
        let mut row = TaskRow {
            state: 77,
            stack_free_bytes: STACK_UNKNOWN,
            ..TaskRow::default()
        };
        row.name = [b'x'; 32];
        let info = TaskInfo::of(&row);
        assert_eq!(info.name, "x".repeat(32), "without an end");
        assert_eq!(info.state, TaskState::Other(77));
        assert!(!info.state.lives());
        assert_eq!(info.stack_free_least_bytes, None);
    }
}
