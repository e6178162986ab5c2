//! Other tasks: which there are, signals, notices of their end.

use std::time::Duration;

use super::Session;
use crate::code::Code;
use crate::machine::{Clocks, Host, Process, Reply, Request, WatchedEvent};
use crate::tid::Tid;

/// `PvmTaskExit` to `PvmRouteDelete`, and what is added to end a wait.
const TASK_EXIT: i32 = 1;
const HOST_DELETE: i32 = 2;
const HOST_ADD: i32 = 3;
const ROUTE_ADD: i32 = 4;
const ROUTE_DELETE: i32 = 5;
const CANCEL: i32 = 256;

/// Linux has no signal with a greater number.
const SIGNAL_MAX: i32 = 64;

/// Bits of `ti_flag`: the task has enrolled; it was spawned.
const CONNECTED: i32 = 4;
const SPAWNED: i32 = 2;

/// What `pvm_tasks` says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub task: i32,
    /// That of who spawned it; 0: nobody.
    pub parent: i32,
    /// That of its host.
    pub host: i32,
    /// What state it is in.
    pub flags: i32,
    /// Path of its program; none for one that was started by hand.
    pub program: String,
    /// Process id.
    pub pid: i32,
}

impl<F: Clone> Session<F> {
    /// Tasks of the machine: all (0), those of a host, or one.
    ///
    /// # Errors
    /// [`Code::NO_HOST`], [`Code::SYSTEM`].
    pub fn rows(&mut self, of: i32) -> Result<Vec<Row>, Code> {
        let of = Tid::from_number(of);
        let is_daemon = of.number() == of.daemon().number() && of.host().is_host();
        if of.number() != 0 && !of.is_task() && !of.is_host() && !is_daemon {
            return Err(Code::NO_HOST);
        }
        let is_there = |host: &Host| host.host == of.host();
        if of.number() != 0 && !self.hosts()?.iter().any(is_there) {
            return Err(Code::NO_HOST);
        }
        let processes = self.machine.processes()?.into_iter();
        let is_on = |task: Tid| of.number() == 0 || task.host() == of.host();
        let processes = processes.filter(|one| match of.is_task() {
            true => one.task == of,
            false => is_on(one.task),
        });
        Ok(processes.map(|process| row(&process)).collect())
    }

    /// 0: it runs.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`], [`Code::NO_TASK`], [`Code::SYSTEM`].
    pub fn status(&mut self, task: i32) -> Result<i32, Code> {
        let task = Tid::from_number(task);
        if !task.is_task() {
            return Err(Code::BAD_PARAMETER);
        }
        let processes = self.machine.processes()?;
        match processes.iter().any(|process| process.task == task) {
            true => Ok(0),
            false => Err(Code::NO_TASK),
        }
    }

    /// Sends a signal. One to a task that has ended is sent to nobody, and one that does not exist
    /// is none.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`], [`Code::SYSTEM`].
    pub fn signal(&mut self, task: i32, signal: i32) -> Result<i32, Code> {
        let task = Tid::from_number(task);
        if !task.is_task() {
            return Err(Code::BAD_PARAMETER);
        }
        if !(1..=SIGNAL_MAX).contains(&signal) {
            return Ok(0);
        }
        match self.machine.signal(task, signal) {
            Ok(()) | Err(Code::NO_TASK) => Ok(0),
            Err(code) => Err(code),
        }
    }

    /// Asks for messages about the end of tasks or hosts.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`], [`Code::OUT_OF_RESOURCES`], [`Code::SYSTEM`].
    pub fn notify(&mut self, what: i32, tag: i32, of: &[i32]) -> Result<i32, Code> {
        let is_cancelled = what & CANCEL != 0;
        if tag < 0 {
            return Err(Code::BAD_PARAMETER);
        }
        let event = match what & !CANCEL {
            TASK_EXIT => WatchedEvent::TaskExit,
            HOST_DELETE => WatchedEvent::HostDelete,
            HOST_ADD => WatchedEvent::HostAdd,
            // There are no routes.
            ROUTE_ADD | ROUTE_DELETE => return Ok(0),
            _ => return Err(Code::BAD_PARAMETER),
        };
        let context = self.context();
        let of = of.iter().map(|number| Tid::from_number(*number)).collect();
        self.ask_number(Request::Watch {
            event,
            of,
            tag,
            context,
            is_cancelled,
        })
    }

    /// All hosts.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    pub fn hosts(&mut self) -> Result<Vec<Host>, Code> {
        match self.machine.ask(Request::Hosts)? {
            Reply::Hosts(hosts) => Ok(hosts),
            Reply::Refused(code) => Err(code),
            _ => Err(Code::BAD_MESSAGE),
        }
    }

    /// What the clock of a host says, and that of this task's.
    ///
    /// # Errors
    /// [`Code::NO_HOST`], [`Code::HOST_FAILED`], [`Code::SYSTEM`].
    pub fn clocks_with(&mut self, host: i32, now: Duration) -> Result<Clocks, Code> {
        let host = Tid::from_number(host).host();
        let hosts = self.hosts()?;
        let found = hosts.iter().find(|known| known.host == host);
        let found = found.ok_or(Code::NO_HOST)?;
        match host == self.task().host() {
            true => Ok(Clocks::same(now)),
            false => self.machine.clocks_with(&found.name),
        }
    }

    /// Takes hosts of the realm in: the number of each, or an error's.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    pub fn add_hosts(&mut self, names: Vec<String>) -> Result<Vec<i32>, Code> {
        match self.machine.ask(Request::AddHosts { names })? {
            Reply::Numbers(numbers) => Ok(numbers),
            Reply::Refused(code) => Err(code),
            _ => Err(Code::BAD_MESSAGE),
        }
    }

    /// Ends all that runs on hosts, and takes them out: 0 for each, or an error's number.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    pub fn delete_hosts(&mut self, names: Vec<String>) -> Result<Vec<i32>, Code> {
        self.machine.delete_hosts(names)
    }

    /// What `select` may wait for.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    pub fn descriptors(&mut self) -> Result<Vec<i32>, Code> {
        self.machine.descriptors()
    }

    /// What a forked child has to close, so that the end of this task is seen.
    #[must_use]
    pub fn connection(&self) -> Option<i32> {
        self.machine.connection()
    }
}

fn row(process: &Process) -> Row {
    Row {
        task: process.task.number(),
        parent: process.parent.map_or(0, Tid::number),
        host: process.task.host().number(),
        flags: match (process.is_enrolled, process.parent) {
            (true, None) => CONNECTED,
            (true, Some(_)) => CONNECTED | SPAWNED,
            (false, _) => SPAWNED,
        },
        program: match process.parent {
            Some(_) => process.program.clone(),
            None => String::new(),
        },
        pid: i32::try_from(process.pid).unwrap_or(0),
    }
}
