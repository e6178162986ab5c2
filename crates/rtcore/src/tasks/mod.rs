//! The tasks of a core: listed, started, stopped and killed by name, and what the core sees of its
//! link.
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

use std::time::{Duration, Instant};

use hythe_abi::control::{
    ARGUMENT_BYTES, NAME_BYTES, PORT_BYTES, PortRow, TASK_BYTES, TaskRow, method, result,
};
use hythe_abi::services::{BYTES, CallHeader};
use hythe_node::{Client, ClientOptions, Direction, Node, Pool};

pub use self::error::TaskError;
use self::reply::Reply;
pub use self::reply::{CoreRegisters, FaultKind, PortRegisters, TaskFault, TaskInfo, TaskState};
use crate::control::{self, AgentStatus};

/// How long a core may take for one reply. Emulated ones on loaded machines take a second.
const BOUND: Duration = Duration::from_secs(10);
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
    _node: Node,
    board: String,
    bound: Duration,
    stop_bound: Duration,
}

impl Tasks {
    /// Joins the pool as `name`, to look after the tasks of a core that runs there.
    ///
    /// # Errors
    /// [`CoreError::NotRunning`](crate::CoreError::NotRunning); [`TaskError::NoControl`] if its
    /// program registers no tasks; those of joining.
    pub fn open(pool: &Pool, board: &str, name: &str) -> Result<Self, TaskError> {
        let status = control::status(pool, board)?;
        let channel = channel(&status).ok_or_else(|| TaskError::NoControl {
            board: board.to_owned(),
            program: status.link.map(|link| link.name).unwrap_or_default(),
        })?;
        let node = crate::join(pool, name)?;
        // One call at a time is under way.
        let client = node.client(&channel, &ClientOptions::default().outstanding(2))?;
        Ok(Self {
            client,
            _node: node,
            board: board.to_owned(),
            bound: BOUND,
            stop_bound: STOP_BOUND,
        })
    }

    /// How long the core may take for each reply; default 10 s.
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
        let timeout_ms = u32::try_from(self.bound.as_millis()).unwrap_or(u32::MAX - 1);
        let header = CallHeader {
            method,
            timeout_ms,
            arguments: [argument, 0, 0],
            // Fits: a name and an argument.
            bytes: bytes.len() as u32,
            ..CallHeader::default()
        };
        let mut lease = self.client.lease(BYTES + bytes.len())?;
        lease.write(0, &header.to_bytes());
        lease.write(BYTES, bytes);
        let reply = self.client.call(lease, BYTES + bytes.len(), self.bound)?;
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

/// The channel of `core/control`, which has the core's own name in front if it has one.
fn channel(status: &AgentStatus) -> Option<String> {
    let named = format!("{}/core/control", status.board);
    let mut channels = status.endpoints.iter();
    let found = channels.find(|end| {
        let is_control = end.channel == "core/control" || end.channel == named;
        is_control && end.direction == Direction::ToCore
    });
    found.map(|end| end.channel.clone())
}
