//! A machine on Hythe's tasks: messages go from task to task, all else to the server.

mod link;
mod programs;

use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use hythe_cluster::tasks::{
    self, Message, SpawnOptions, Task, TaskError, TaskId, TaskOptions, Wanted,
};
use hythe_node::{Pool, PoolOptions};
use hythe_sys::signals::SignalsBlocked;

use crate::buffer::{NATIVE_FORMAT, set_sender};
use crate::code::Code;
use crate::machine::{Host, Identity, Machine, Process, Reply, Request, Spawn};
use crate::numbers::{task_of, tid_of};
use crate::tid::{FIRST_HOST, Tid};
use link::Link;
pub use link::collect_output;

/// How long a wait for messages of tasks does not look at the server.
const LOOK: Duration = Duration::from_millis(10);
/// Messages of tasks that are taken before it is looked for those of the machine.
const AT_ONCE: u32 = 32;
/// Bytes that wait in this process for tasks that do not receive, unless this variable says
/// otherwise.
const KEPT_BYTES: &str = "HYTHE_PVM_KEPT_BYTES";

/// PVM's name of this architecture.
#[must_use]
pub const fn architecture() -> &'static str {
    match size_of::<usize>() {
        8 => "LINUX64",
        _ => "LINUX",
    }
}

/// This process as a task of its pool's machine.
#[derive(Debug)]
pub struct Native {
    // Dropped first: what it has sent is on its way before the machine is left.
    task: Task,
    link: Link,
    identity: Identity,
    pool: Pool,
    /// Messages of tasks since it was last looked for those of the machine.
    taken_at_once: u32,
}

impl Native {
    /// Joins the machine: as the task that the environment says, or, where that is another process
    /// or it says none, as a task that enrols.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: there is no job to be in, or nobody serves a machine.
    pub fn join() -> Result<Self, Code> {
        let mut options = TaskOptions::default();
        let kept = std::env::var(KEPT_BYTES).ok();
        if let Some(kept) = kept.and_then(|text| text.parse().ok()) {
            options = options.kept_bytes(kept);
        }
        let pool = PoolOptions::new(&std::env::var("HYTHE_POOL").map_err(|_| Code::SYSTEM)?);
        let mut link = Link::connect(&pool.path())?;
        let started: Option<TaskId> = std::env::var("HYTHE_TASK")
            .ok()
            .and_then(|text| text.parse().ok());
        // The machine knows whether another process, such as one before it in a shell's pipe, is
        // that task.
        let is_own = match started.and_then(tid_of) {
            Some(task) => enroll(&mut link, task)?,
            None => false,
        };
        // Its threads take no signals: a handler of the program would run beside the call that it
        // has to interrupt, and they would wait for each other.
        let blocked = SignalsBlocked::new();
        let task = match is_own {
            true => Task::join_with(&options),
            false => Task::enrol(&pool, &options),
        };
        drop(blocked);
        let task = task.map_err(|error| failed(&error))?;
        let own = tid_of(task.id()).ok_or(Code::SYSTEM)?;
        if !is_own && !enroll(&mut link, own)? {
            return Err(Code::SYSTEM);
        }
        let siblings = task.siblings().into_iter();
        Ok(Self {
            identity: Identity {
                task: own,
                parent: task.parent().and_then(tid_of),
                siblings: siblings.filter_map(tid_of).collect(),
            },
            pool: task.pool().clone(),
            task,
            link,
            taken_at_once: 0,
        })
    }
}

/// Only the machine sends as the machine, and no task as another.
fn frame_of(message: Message) -> Vec<u8> {
    let sender = tid_of(message.source());
    let mut frame = message.into_vec();
    // Without a number of PVM's it is from nobody that it knows.
    set_sender(&mut frame, sender.unwrap_or(Tid::from_number(0)));
    frame
}

/// False: another process is this task.
fn enroll(link: &mut Link, task: Tid) -> Result<bool, Code> {
    match link.ask(&Request::Enroll { task })? {
        Reply::Number(_) => Ok(true),
        Reply::Refused(Code::ALREADY) => Ok(false),
        _ => Err(Code::SYSTEM),
    }
}

impl Machine for Native {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn send(&mut self, to: Tid, frame: &[u8]) -> Result<(), Code> {
        // PVM says nothing of a receiver that is not there.
        let Some(to) = task_of(to) else { return Ok(()) };
        match self.task.send(to, 0, frame) {
            Ok(()) | Err(TaskError::Ended { .. }) => Ok(()),
            Err(TaskError::KeptTooMuch { .. }) => Err(Code::OUT_OF_RESOURCES),
            Err(error) => Err(failed(&error)),
        }
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, Code> {
        let start = Instant::now();
        loop {
            // What tasks have sent costs no system call; who gets more than it can take from them
            // hears of the machine all the same.
            self.taken_at_once += 1;
            if self.taken_at_once > AT_ONCE
                && let Some(frame) = self.link.next_message()?
            {
                return Ok(Some(frame));
            }
            let received = self.task.receive(Wanted::any(), Duration::ZERO);
            if let Some(message) = received.map_err(|error| failed(&error))? {
                return Ok(Some(frame_of(message)));
            }
            self.taken_at_once = 0;
            if let Some(frame) = self.link.next_message()? {
                return Ok(Some(frame));
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let received = self.task.receive(Wanted::any(), left.min(LOOK));
            if let Some(message) = received.map_err(|error| failed(&error))? {
                return Ok(Some(frame_of(message)));
            }
        }
    }

    fn ask(&mut self, request: Request) -> Result<Reply, Code> {
        self.link.ask(&request)
    }

    fn spawn(&mut self, spawn: &Spawn) -> Vec<Result<Tid, Code>> {
        let none = |code| vec![Err(code); spawn.count as usize];
        let (path, arguments) = match programs::find(spawn) {
            Some(found) => found,
            None => return none(Code::NO_FILE),
        };
        let mut options = SpawnOptions::new(&path).count(spawn.count);
        for argument in &arguments {
            options = options.argument(argument);
        }
        for (name, value) in &spawn.variables {
            options = options.variable(name, value);
        }
        if let Some(directory) = std::env::var_os("PVM_WD") {
            options = options.directory(directory.as_ref());
        }
        match self.task.spawn(&options) {
            Ok(spawned) => spawned
                .into_iter()
                .map(|task| tid_of(task).ok_or(Code::OUT_OF_RESOURCES))
                .collect(),
            Err(error) => {
                tracing::warn!(%error, "tasks cannot be spawned");
                none(Code::OUT_OF_RESOURCES)
            }
        }
    }

    fn processes(&mut self) -> Result<Vec<Process>, Code> {
        let Reply::Tasks(rows) = self.link.ask(&Request::Tasks)? else {
            return Err(Code::BAD_MESSAGE);
        };
        let rows = rows.into_iter().map(|row| (row.task, row.is_enrolled));
        let known: BTreeMap<Tid, bool> = rows.collect();
        let listed = tasks::list(&self.pool).map_err(|error| failed(&error))?.0;
        let processes = listed.into_iter().filter_map(|info| {
            let task = tid_of(info.task)?;
            let parent = info.parent.and_then(tid_of);
            let is_enrolled = match known.get(&task) {
                Some(true) => true,
                // It has left.
                Some(false) => return None,
                // Spawned by a task of the machine, and about to enroll.
                None => match parent.is_some_and(|parent| known.contains_key(&parent)) {
                    true => false,
                    false => return None,
                },
            };
            Some(Process {
                task,
                parent,
                pid: info.pid,
                program: info.program,
                is_enrolled,
            })
        });
        Ok(processes.collect())
    }

    fn signal(&mut self, task: Tid, signal: i32) -> Result<(), Code> {
        let task = task_of(task).ok_or(Code::NO_TASK)?;
        match tasks::kill(&self.pool, task, signal) {
            Ok(()) => Ok(()),
            Err(TaskError::NoSuchTask { .. }) => Err(Code::NO_TASK),
            Err(error) => Err(failed(&error)),
        }
    }

    fn has_ended(&mut self, task: Tid) -> Result<bool, Code> {
        match task_of(task) {
            Some(task) => self.task.has_ended(task).map_err(|error| failed(&error)),
            None => Ok(true),
        }
    }

    fn hosts(&self) -> Vec<Host> {
        let system = rustix::system::uname();
        vec![Host {
            host: FIRST_HOST,
            name: system.nodename().to_string_lossy().into_owned(),
            architecture: architecture().to_owned(),
            format: NATIVE_FORMAT,
        }]
    }

    fn descriptors(&mut self) -> Result<Vec<i32>, Code> {
        // As when it joins: a thread is started.
        let _blocked = SignalsBlocked::new();
        let messages = self.task.descriptor().map_err(|error| failed(&error))?;
        Ok(vec![self.link.as_raw_fd(), messages.as_raw_fd()])
    }

    fn connection(&self) -> Option<i32> {
        Some(self.link.as_raw_fd())
    }
}

fn failed(error: &TaskError) -> Code {
    tracing::warn!(%error, "the machine cannot be reached");
    Code::SYSTEM
}
