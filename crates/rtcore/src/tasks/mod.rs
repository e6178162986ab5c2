//! The tasks of a core: listed, started, stopped and killed by name, and what the core sees of its
//! link and of segments.
//!
//! [`Tasks`] is a client of the core's endpoint `core/control` (`spec/control.md`), which the task
//! of highest priority serves. Called by applications through the facade, and by `hythe core
//! tasks`, `hythe core task` and `hythe core shell`. Between calls it has a place in the pool, and
//! no buffer.
//!
//! Each call waits for the core for at most [`Tasks::with_bound`]. Never believes a reply: what
//! makes no sense is an error.

mod error;
mod reply;
mod segment;

use std::time::{Duration, Instant};

use hythe_abi::control::{
    ARGUMENT_BYTES, NAME_BYTES, PORT_BYTES, PortRow, TASK_BYTES, TaskRow, method, result,
};
use hythe_abi::services::{BYTES, CallHeader};
use hythe_node::{Client, ClientOptions, Direction, Node, NodeError, Pool};

pub use self::error::TaskError;
use self::reply::Reply;
pub use self::reply::{CoreRegisters, FaultKind, PortRegisters, TaskFault, TaskInfo, TaskState};
pub use self::segment::CoreByte;
use crate::control::{self, AgentStatus, EndpointStatus};
use crate::stopped::stopped_process;
use crate::{LinkTimeouts, join_with};

/// How long a core may take for one reply. Emulated ones on loaded machines take a second.
const BOUND: Duration = Duration::from_secs(5);
/// How long a task may take until it has stopped.
const STOP_BOUND: Duration = Duration::from_secs(5);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(10);
/// No core has more tasks.
const TASKS_MAX: usize = 1024;

/// What a kill took back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Number of the task.
    pub number: u32,
    /// Buffers that it had.
    pub buffers_returned: u32,
    /// Requests that it had open.
    pub requests_forgotten: u32,
}

/// What a core says when a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutDown {
    /// Tasks that ran by name, and have stopped.
    pub stopped: u32,
    /// Buffers that its program held when it was asked.
    pub held: u32,
}

/// The tasks of a core.
#[derive(Debug)]
pub struct Tasks {
    client: Client,
    // Behind its port.
    node: Node,
    board: String,
    bound: Duration,
    stop_bound: Duration,
}

impl Tasks {
    /// Joins the pool as `name`, to look after the tasks of a core that runs there. Waits for the
    /// core for 5 s at most.
    ///
    /// # Errors
    /// [`CoreError::NotRunning`](crate::CoreError::NotRunning); [`TaskError::NoControl`] if its
    /// program registers no tasks; [`TaskError::Down`], [`TaskError::Silent`]; those of joining.
    pub fn open(pool: &Pool, board: &str, name: &str) -> Result<Self, TaskError> {
        Self::open_within(pool, board, name, BOUND)
    }

    /// As [`Tasks::open`], with another bound, for the replies as well.
    pub(crate) fn open_within(
        pool: &Pool,
        board: &str,
        name: &str,
        bound: Duration,
    ) -> Result<Self, TaskError> {
        let status = control::status(pool, board)?;
        let endpoint = status.endpoint("core/control");
        let endpoint = endpoint.filter(|end| end.direction == Direction::ToCore);
        let Some(EndpointStatus { channel, .. }) = endpoint else {
            return Err(no_control(status));
        };
        let start = Instant::now();
        let node = join_with(pool, name, LinkTimeouts::default().attach(bound))?;
        // One call at a time is under way.
        let options = ClientOptions::default().outstanding(2).send_timeout(bound);
        let mut client = node.client(channel, &options)?;
        if client.servers()? == 0 {
            return Err(unanswered(pool, board, start.elapsed(), None));
        }
        Ok(Self {
            client,
            node,
            board: board.to_owned(),
            bound,
            stop_bound: STOP_BOUND,
        })
    }

    /// How long the core may take for each reply; default 5 s.
    #[must_use]
    pub const fn with_bound(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// How long a task that was asked to stop may take; default 5 s.
    #[must_use]
    pub const fn with_stop_bound(mut self, bound: Duration) -> Self {
        self.stop_bound = bound;
        self
    }

    /// All tasks that the program has registered, by their numbers.
    ///
    /// # Errors
    /// [`TaskError::BadReply`]; those of a request.
    pub fn list(&mut self) -> Result<Vec<TaskInfo>, TaskError> {
        let mut tasks: Vec<TaskInfo> = Vec::new();
        loop {
            // Fits: there are at most `TASKS_MAX`.
            let reply = self.call(method::TASKS, tasks.len() as u32, &[])?;
            self.expect_done(&reply)?;
            let count = reply.values[0] as usize;
            let rows = self.rows::<TASK_BYTES>(&reply)?;
            if count > TASKS_MAX || tasks.len() + rows.len() > count {
                return Err(self.bad(format!("{count} tasks, {} rows", rows.len())));
            }
            let is_last = rows.is_empty() || tasks.len() + rows.len() == count;
            let rows = rows.iter().map(TaskRow::from_bytes);
            tasks.extend(rows.map(|row| TaskInfo::of(&row)));
            if is_last {
                return Ok(tasks);
            }
        }
    }

    /// Starts a task, and returns its number when it has run its first instruction. Of several that
    /// have the name, the first that does not run; a name of digits is a number.
    ///
    /// # Errors
    /// [`TaskError::Unknown`], [`TaskError::Runs`], [`TaskError::TooMany`],
    /// [`TaskError::NotBegun`], [`TaskError::ArgumentTooLong`]; those of a request.
    pub fn start(&mut self, task: &str, argument: &str) -> Result<u32, TaskError> {
        if argument.len() > ARGUMENT_BYTES {
            return Err(TaskError::ArgumentTooLong {
                bytes: argument.len(),
                limit: ARGUMENT_BYTES,
            });
        }
        let reply = self.call_of(method::START, task, argument)?;
        self.expect_of(&reply, task)?;
        Ok(reply.values[0])
    }

    /// Asks a task to stop, and waits until it has. Of several that have the name, the first that
    /// runs.
    ///
    /// # Errors
    /// [`TaskError::Unknown`], [`TaskError::NotRunning`], [`TaskError::Permanent`],
    /// [`TaskError::StillRuns`]; those of a request.
    pub fn stop(&mut self, task: &str) -> Result<u32, TaskError> {
        let reply = self.call_of(method::STOP, task, "")?;
        self.expect_of(&reply, task)?;
        let number = reply.values[0];
        let goes_on = self.await_stop(|info| info.number == number)?;
        if !goes_on.is_empty() {
            return Err(TaskError::StillRuns {
                board: self.board.clone(),
                task: task.to_owned(),
                bound: self.stop_bound,
            });
        }
        Ok(number)
    }

    /// Ends a task, wherever it is. Its buffers and requests come back. Of several that have the
    /// name, the first that runs.
    ///
    /// # Errors
    /// [`TaskError::Unknown`], [`TaskError::NotRunning`], [`TaskError::Permanent`]; those of a
    /// request.
    pub fn kill(&mut self, task: &str) -> Result<Killed, TaskError> {
        let reply = self.call_of(method::KILL, task, "")?;
        self.expect_of(&reply, task)?;
        let [number, buffers_returned, requests_forgotten, ..] = reply.values;
        Ok(Killed {
            number,
            buffers_returned,
            requests_forgotten,
        })
    }

    /// The registers of the link, as the core sees them.
    ///
    /// # Errors
    /// [`TaskError::BadReply`]; those of a request.
    pub fn registers(&mut self) -> Result<CoreRegisters, TaskError> {
        let reply = self.call(method::STATE, 0, &[])?;
        self.expect_done(&reply)?;
        let rows = self.rows::<PORT_BYTES>(&reply)?;
        let ports = rows.iter().map(PortRow::from_bytes);
        let [session, linux_session, state, rings, sleepers] = reply.values;
        Ok(CoreRegisters {
            session,
            linux_session,
            is_up: state == 1,
            rings,
            sleepers,
            ports: ports.map(|row| PortRegisters::of(&row)).collect(),
        })
    }

    /// Asks all tasks to stop that were started by name, and waits until they have.
    ///
    /// # Errors
    /// [`TaskError::StillRuns`]; those of a request.
    pub fn shut_down(&mut self) -> Result<ShutDown, TaskError> {
        let reply = self.call(method::SHUTDOWN, 0, &[])?;
        self.expect_done(&reply)?;
        let goes_on = self.await_stop(|info| info.is_asked_to_stop)?;
        if let Some(task) = goes_on.into_iter().next() {
            return Err(TaskError::StillRuns {
                board: self.board.clone(),
                task: task.name,
                bound: self.stop_bound,
            });
        }
        Ok(ShutDown {
            stopped: reply.values[0],
            held: reply.values[1],
        })
    }

    /// Which of these run on although they were asked to stop.
    fn await_stop(
        &mut self,
        is_meant: impl Fn(&TaskInfo) -> bool,
    ) -> Result<Vec<TaskInfo>, TaskError> {
        let end = Instant::now() + self.stop_bound;
        loop {
            let mut tasks = self.list()?;
            tasks.retain(|task| is_meant(task) && task.is_asked_to_stop && task.state.lives());
            if tasks.is_empty() || Instant::now() >= end {
                return Ok(tasks);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn call_of(&mut self, method: u32, task: &str, argument: &str) -> Result<Reply, TaskError> {
        if task.is_empty() || task.len() > NAME_BYTES {
            return Err(TaskError::BadName {
                name: task.to_owned(),
                limit: NAME_BYTES,
            });
        }
        let bytes = [task.as_bytes(), argument.as_bytes()].concat();
        // Fits: it was checked.
        self.call(method, task.len() as u32, &bytes)
    }

    fn call(&mut self, method: u32, argument: u32, bytes: &[u8]) -> Result<Reply, TaskError> {
        self.call_with(method, [argument, 0, 0], self.bound, bytes)
    }

    /// The core is told that it has `core_bound` for it, where it waits for others.
    fn call_with(
        &mut self,
        method: u32,
        arguments: [u32; 3],
        core_bound: Duration,
        bytes: &[u8],
    ) -> Result<Reply, TaskError> {
        let header = CallHeader {
            method,
            timeout_ms: u32::try_from(core_bound.as_millis()).unwrap_or(u32::MAX - 1),
            arguments,
            // Fits: a name and an argument.
            bytes: bytes.len() as u32,
            ..CallHeader::default()
        };
        let start = Instant::now();
        let mut lease = self.client.lease(BYTES + bytes.len())?;
        lease.write(0, &header.to_bytes());
        lease.write(BYTES, bytes);
        let replied = self.client.call(lease, BYTES + bytes.len(), self.bound);
        let reply = replied.map_err(|error| {
            let pool = self.node.pool();
            unanswered(pool, &self.board, start.elapsed(), Some(error))
        })?;
        let copied = reply.to_vec();
        Reply::read(&copied, method).ok_or_else(|| self.bad(format!("{} bytes", copied.len())))
    }

    fn rows<const N: usize>(&self, reply: &Reply) -> Result<Vec<[u8; N]>, TaskError> {
        let (rows, rest) = reply.bytes.as_chunks::<N>();
        if !rest.is_empty() {
            return Err(self.bad(format!("rows of {N} bytes in {}", reply.bytes.len())));
        }
        Ok(rows.to_vec())
    }

    fn expect_done(&self, reply: &Reply) -> Result<(), TaskError> {
        match reply.result {
            0 => Ok(()),
            other => Err(self.bad(format!("result {other}"))),
        }
    }

    fn expect_of(&mut self, reply: &Reply, task: &str) -> Result<(), TaskError> {
        let (board, task) = (self.board.clone(), task.to_owned());
        Err(match reply.result {
            0 => return Ok(()),
            result::UNKNOWN => TaskError::Unknown {
                known: self.names()?,
                board,
                task,
            },
            result::RUNS => TaskError::Runs { board, task },
            result::TOO_MANY => TaskError::TooMany {
                count: self.list()?.iter().filter(|info| info.name == task).count(),
                board,
                task,
            },
            result::NOT_RUNNING => TaskError::NotRunning { board, task },
            result::PERMANENT => TaskError::Permanent { board, task },
            result::NOT_BEGUN => TaskError::NotBegun { board, task },
            result::NO_MEMORY => TaskError::NotMade { board, task },
            other => self.bad(format!("result {other}")),
        })
    }

    fn names(&mut self) -> Result<Vec<String>, TaskError> {
        let mut names: Vec<String> = self.list()?.into_iter().map(|task| task.name).collect();
        names.dedup();
        Ok(names)
    }

    fn bad(&self, what: String) -> TaskError {
        TaskError::BadReply {
            board: self.board.clone(),
            what,
        }
    }
}

/// Why there is no endpoint to ask over.
fn no_control(status: AgentStatus) -> TaskError {
    let (board, core_pid) = (status.board.clone(), status.core_pid);
    if !status.is_up() {
        return TaskError::Down { board, core_pid };
    }
    TaskError::NoControl {
        board,
        program: status.link.map(|link| link.name).unwrap_or_default(),
    }
}

/// Why there is no answer, as far as it can be seen. Without an error: the core was waited for.
fn unanswered(pool: &Pool, board: &str, waited: Duration, error: Option<NodeError>) -> TaskError {
    if let Some(error) = error
        && !matches!(
            error,
            NodeError::NoReply { .. } | NodeError::NoServer { .. } | NodeError::CoreSilent { .. }
        )
    {
        return error.into();
    }
    let status = match control::status(pool, board) {
        Ok(status) => status,
        Err(error) => return error.into(),
    };
    let (board, pid) = (board.to_owned(), status.core_pid);
    if !status.is_linked() {
        let core_pid = pid;
        return TaskError::Down { board, core_pid };
    }
    let core = hythe_node::identity_of(pid);
    let why = match core.and_then(|core| stopped_process(&core)) {
        Some(pid) => format!("its process {pid} is stopped; SIGCONT lets it go on"),
        None => format!("its process {pid} runs, but its service task does not get to it"),
    };
    TaskError::Silent { board, waited, why }
}
