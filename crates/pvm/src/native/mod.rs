//! A machine on Hythe's tasks: messages go from task to task, all else to the server.

mod link;
mod place;
mod programs;
mod spawn;

use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use hythe_cluster::HostName;
use hythe_cluster::tasks::{self, Message, Task, TaskError, TaskId, TaskInfo, TaskOptions, Wanted};
use hythe_node::{Pool, PoolOptions};
use hythe_sys::environment;
use hythe_sys::signals::SignalsBlocked;

use crate::buffer::{claimed_sender, set_sender};
use crate::code::Code;
use crate::machine::{Clocks, Host, Identity, Machine, Process, Reply, Request, Spawn};
use crate::numbers::{local_of, task_of, tid_of};
use crate::tid::{FIRST_HOST, Tid};
use link::Link;
pub use link::{collect_output, take_in_hosts};
pub use place::places_text;
use place::{Place, started};

/// How long a wait for messages of tasks does not look at the server.
const LOOK: Duration = Duration::from_millis(10);
/// `SIGKILL`.
const KILL: i32 = 9;
/// Messages of tasks that are taken before it is looked for those of the machine.
const AT_ONCE: u32 = 32;
/// Bytes that wait in this process for tasks that do not receive, unless this variable says
/// otherwise.
const KEPT_BYTES: &str = "HYTHE_PVM_KEPT_BYTES";
/// Bytes of messages that this process has not received yet, unless this variable says otherwise.
const PASSED_BY_BYTES: &str = "HYTHE_PVM_PASSED_BY_BYTES";
/// If it does not.
const PASSED_BY_BYTES_MAX: usize = 1 << 30;

/// This process as a task of its pool's machine.
#[derive(Debug)]
pub struct Native {
    // Dropped first: what it has sent is on its way before the machine is left.
    task: Task,
    link: Link,
    identity: Identity,
    pool: Pool,
    /// That of the machine's host in its realm; 0: it has none.
    realm_number: u32,
    refusal: Option<String>,
    passed_by_bytes_max: usize,
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
        if let Some(kept) = bytes_of(KEPT_BYTES) {
            options = options.kept_bytes(kept);
        }
        let pool = PoolOptions::new(&environment::text("HYTHE_POOL").ok_or(Code::SYSTEM)?);
        let started = started();
        let mut link = Link::connect(&pool.path(), started)?;
        let place = Place::of_this_process();
        // The machine knows whether another process, such as one before it in a shell's pipe, is
        // that task.
        let is_own = match started.and_then(|task| tid_of(task, place.own)) {
            Some(task) => enroll(&mut link, task)?,
            None => None,
        };
        // Its threads take no signals: a handler of the program would run beside the call that it
        // has to interrupt, and they would wait for each other.
        let blocked = SignalsBlocked::new();
        let task = match is_own {
            Some(_) => Task::join_with(&options),
            None => Task::enrol(&pool, &options),
        };
        drop(blocked);
        let task = task.map_err(|error| failed(&error))?;
        let (own, realm_number) = match is_own {
            Some(number) => (tid_of(task.id(), place.own), number),
            None => {
                // Only the first host takes in what nobody started.
                let own = tid_of(task.id(), FIRST_HOST).ok_or(Code::SYSTEM)?;
                let number = enroll(&mut link, own)?.ok_or(Code::SYSTEM)?;
                (Some(own), number)
            }
        };
        let own = own.ok_or(Code::SYSTEM)?;
        if realm_number != task.id().host() {
            tracing::warn!("the agent of this pool came or went since the machine began");
            return Err(Code::SYSTEM);
        }
        let siblings = task.siblings().into_iter().enumerate();
        let siblings = siblings.filter_map(|(rank, task)| tid_of(task, place.of_rank(rank)));
        let parent = task.parent().and_then(|parent| place.parent(parent));
        Ok(Self {
            identity: Identity {
                task: own,
                parent,
                siblings: match is_own {
                    Some(_) => siblings.collect(),
                    None => vec![own],
                },
            },
            pool: task.pool().clone(),
            task,
            link,
            realm_number,
            refusal: None,
            passed_by_bytes_max: bytes_of(PASSED_BY_BYTES).unwrap_or(PASSED_BY_BYTES_MAX),
            taken_at_once: 0,
        })
    }
}

/// How many bytes a variable of the environment says.
fn bytes_of(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Only the machine sends as the machine, and no task as another. On which host it runs it says
/// itself: its number is its own on each. That it runs where its message is from the tasks of
/// Hythe have asked; a task of a job of another host has the numbers of one of the machine, and is
/// none: what it sends is no frame, which the session counts.
fn frame_of(realm_number: u32, source: TaskId, mut frame: Vec<u8>) -> Vec<u8> {
    if source.host() != realm_number {
        return Vec::new();
    }
    let is_its_own = |claimed: &Tid| claimed.is_task() && claimed.local() == local_of(source);
    let claimed = claimed_sender(&frame).filter(is_its_own);
    let sender = claimed.or_else(|| tid_of(source, FIRST_HOST));
    // Without a number of PVM's it is from nobody that it knows.
    set_sender(&mut frame, sender.unwrap_or(Tid::from_number(0)));
    frame
}

/// The machine's number in the realm. `None`: another process is this task.
fn enroll(link: &mut Link, task: Tid) -> Result<Option<u32>, Code> {
    match link.ask(&Request::Enroll { task })? {
        Reply::Number(number) => Ok(u32::try_from(number).ok()),
        Reply::Refused(Code::ALREADY) => Ok(None),
        _ => Err(Code::SYSTEM),
    }
}

impl Machine for Native {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn send(&mut self, to: Tid, frame: &[u8]) -> Result<(), Code> {
        // PVM says nothing of a receiver that is not there.
        let Some(receiver) = task_of(self.realm_number, to) else {
            return Ok(());
        };
        match self.task.send(receiver, 0, frame) {
            Ok(()) => Ok(()),
            Err(TaskError::Ended { .. }) => {
                // A runner that is asked for the first time answers also where the program has
                // closed all else.
                self.check_descriptors()?;
                match self.is_out_of_reach(to, receiver)? {
                    true => {
                        tracing::warn!(%to, "its job has no tasks on this host: it is not reached");
                        Err(Code::SYSTEM)
                    }
                    false => Ok(()),
                }
            }
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
                return Ok(Some(self.frame_of(message)));
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
                return Ok(Some(self.frame_of(message)));
            }
        }
    }

    fn kept_bytes_max(&self) -> usize {
        self.passed_by_bytes_max
    }

    fn ask(&mut self, request: Request) -> Result<Reply, Code> {
        self.link.ask(&request)
    }

    fn begin(&mut self, request: Request) -> Result<(), Code> {
        self.link.begin(&request)
    }

    fn reply(&mut self, timeout: Duration) -> Result<Option<Reply>, Code> {
        let reply = self.link.reply(timeout)?;
        if reply.is_none() {
            // Others may have to send to each other before they do what it waits for.
            self.task.keep_arrived().map_err(|error| failed(&error))?;
        }
        Ok(reply)
    }

    fn spawn(&mut self, spawn: &Spawn) -> Vec<Result<Tid, Code>> {
        self.spawn_at_places(spawn)
    }

    fn take_refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    fn processes(&mut self) -> Result<Vec<Process>, Code> {
        let members = Members::ask(&mut self.link)?;
        self.processes_of(&members)
    }

    fn delete_hosts(&mut self, names: Vec<String>) -> Result<Vec<i32>, Code> {
        let members = Members::ask(&mut self.link)?;
        let hosts = members.hosts.iter();
        let gone = hosts.filter(|host| host.host != FIRST_HOST && names.contains(&host.name));
        let gone: Vec<Tid> = gone.map(|host| host.host).collect();
        // First: who spawns a task there from now on learns that the host is gone, and ends it.
        let reply = self.link.ask(&Request::DeleteHosts { names });
        let own = self.identity.task;
        for process in self.processes_of(&members)? {
            if process.task != own && gone.contains(&process.task.host()) {
                // One that cannot be reached is out all the same.
                let _ = self.signal(process.task, KILL);
            }
        }
        match reply? {
            Reply::Numbers(numbers) => Ok(numbers),
            Reply::Refused(code) => Err(code),
            _ => Err(Code::BAD_MESSAGE),
        }
    }

    fn signal(&mut self, task: Tid, signal: i32) -> Result<(), Code> {
        let task = task_of(self.realm_number, task).ok_or(Code::NO_TASK)?;
        match tasks::kill(&self.pool, task, signal) {
            Ok(()) => Ok(()),
            Err(TaskError::NoSuchTask { .. }) => Err(Code::NO_TASK),
            Err(error) => Err(failed(&error)),
        }
    }

    fn clocks_with(&mut self, host: &str) -> Result<Clocks, Code> {
        let host: HostName = host.parse().map_err(|_| Code::HOST_FAILED)?;
        let found = tasks::find_host(&self.pool, &host).map_err(|error| {
            tracing::warn!(%error, "a host does not say its time");
            Code::HOST_FAILED
        })?;
        // As PVM does: the answer is taken to be from the middle of the wait for it.
        let waited = found.answered.saturating_sub(found.asked);
        Ok(Clocks {
            theirs: found.clock,
            own: found.asked.saturating_add(waited / 2),
        })
    }

    fn has_ended(&mut self, task: Tid) -> Result<bool, Code> {
        match task_of(self.realm_number, task) {
            Some(task) => self.task.has_ended(task).map_err(|error| failed(&error)),
            None => Ok(true),
        }
    }

    fn descriptors(&mut self) -> Result<Vec<i32>, Code> {
        // As when it joins: a thread is started.
        let _blocked = SignalsBlocked::new();
        let messages = self.task.descriptor().map_err(|error| failed(&error))?;
        Ok(vec![self.link.as_raw_fd(), messages.as_raw_fd()])
    }

    fn check_descriptors(&self) -> Result<(), Code> {
        self.link.check_open()?;
        self.task
            .check_descriptors()
            .map_err(|error| failed(&error))
    }

    fn connection(&self) -> Option<i32> {
        Some(self.link.as_raw_fd())
    }
}

/// Who is in the machine.
#[derive(Debug)]
struct Members {
    hosts: Vec<Host>,
    /// Tasks, and whether they have not left.
    known: BTreeMap<Tid, bool>,
}

impl Members {
    fn ask(link: &mut Link) -> Result<Self, Code> {
        let (tasks, hosts) = (link.ask(&Request::Tasks)?, link.ask(&Request::Hosts)?);
        let (Reply::Tasks(rows), Reply::Hosts(hosts)) = (tasks, hosts) else {
            return Err(Code::BAD_MESSAGE);
        };
        let rows = rows.into_iter().map(|row| (row.task, row.is_enrolled));
        let known = rows.collect();
        Ok(Self { hosts, known })
    }
}

impl Native {
    /// Is it in the machine, though here all of its job has ended? That has no tasks on this host
    /// then, so that its runner answers nobody here.
    fn is_out_of_reach(&mut self, to: Tid, receiver: TaskId) -> Result<bool, Code> {
        let own = self.identity.task;
        // The machine's jobs are all of one host.
        if receiver.job() == self.task.id().job() || to.host() == own.host() {
            return Ok(false);
        }
        let members = Members::ask(&mut self.link)?;
        Ok(members.known.get(&to) == Some(&true))
    }

    fn frame_of(&self, message: Message) -> Vec<u8> {
        let source = message.source();
        frame_of(self.realm_number, source, message.into_vec())
    }

    fn processes_of(&self, members: &Members) -> Result<Vec<Process>, Code> {
        let listed = tasks::list(&self.pool).map_err(|error| failed(&error))?.0;
        Ok(processes(&listed, self.realm_number, members))
    }
}

/// The tasks of the machine among those that run.
fn processes(
    listed: &[TaskInfo],
    realm_number: u32,
    Members { hosts, known }: &Members,
) -> Vec<Process> {
    // Others are those of a machine of another host.
    let listed = listed
        .iter()
        .filter(|info| info.task.host() == realm_number);
    let numbered = listed.filter_map(|info| {
        let host = hosts.iter().find(|host| host.name == info.host)?;
        Some((tid_of(info.task, host.host)?, info))
    });
    let numbered: Vec<(Tid, &TaskInfo)> = numbered.collect();
    let by_task: BTreeMap<TaskId, Tid> = numbered
        .iter()
        .map(|(tid, info)| (info.task, *tid))
        .collect();
    // One that has ended was known by its number; else it was on the first host, as most are.
    let parent_of = |parent: TaskId| {
        let mut ended = known.keys();
        let ended = ended.find(|tid| tid.local() == local_of(parent));
        let found = by_task.get(&parent).or(ended).copied();
        found.or_else(|| tid_of(parent, FIRST_HOST))
    };
    let processes = numbered.iter().filter_map(|(task, info)| {
        let parent = info.parent.and_then(parent_of);
        let is_enrolled = match known.get(task) {
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
            task: *task,
            parent,
            pid: info.pid,
            program: info.program.clone(),
            is_enrolled,
        })
    });
    processes.collect()
}

fn failed(error: &TaskError) -> Code {
    tracing::warn!(%error, "the machine cannot be reached");
    Code::SYSTEM
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Buffer, Encoding};
    use crate::tid::MACHINE;

    #[test]
    fn task_sends_as_itself_and_one_of_another_machine_not_at_all() {
        let own: TaskId = "7.1.3".parse().expect("a task");
        let second = Tid::numbered_host(2).expect("in range");
        let sent = |claimed: Tid| {
            let mut buffer = Buffer::new(Encoding::Raw);
            buffer.info.source = claimed.number();
            buffer.frame().to_vec()
        };
        let sender = |source: TaskId, claimed: Tid| {
            let received = Buffer::from_frame(frame_of(7, source, sent(claimed)))?;
            Some(Tid::from_number(received.info.source))
        };
        let there = tid_of(own, second).expect("in range");
        assert_eq!(sender(own, there), Some(there));
        let here = tid_of(own, FIRST_HOST);
        let other = Tid::task(second, 1).expect("in range");
        for lie in [other, MACHINE, second, Tid::from_number(0)] {
            assert_eq!(sender(own, lie), here, "{lie}");
        }
        // Job 1 of another host, with the same numbers in front of no host.
        for stranger in ["8.1.3", "1.3"] {
            let stranger: TaskId = stranger.parse().expect("a task");
            assert_eq!(sender(stranger, there), None, "{stranger}");
        }
    }
}
