//! A task as its runner or its part has it: what it is, what it prints, how it ended.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::part_protocol::message::ToPart;
use super::printed::Printed;
use super::program::{Program, Role};
use super::remote::SharedPart;
use super::terminal::WindowSize;
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::message::{TaskEnd, TaskInfo};

/// What a task is to the runner.
#[derive(Debug)]
enum Process {
    /// It has a number, and is started when other hosts have answered.
    Waiting {
        /// What it gets then.
        signal: Cell<Option<Signal>>,
        end: Option<TaskEnd>,
    },
    /// Its child, until its end was taken.
    Child(Child),
    /// A process that nobody started as a task, and that has enrolled.
    Guest { pid: u32, has_gone: bool },
    /// A child of a part on another host.
    Remote {
        part: SharedPart,
        /// 0: it was not started yet.
        pid: u32,
        end: Option<TaskEnd>,
    },
}

/// A task that was started, is to be, or has enrolled.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) role: Role,
    /// `None`: it runs on another host, or not yet.
    pub(super) pidfd: Option<OwnedFd>,
    /// Standard output and standard error.
    pub(super) printed: [Printed; 2],
    pub(super) end: Option<TaskEnd>,
    /// It runs, and is no task any more.
    pub(super) has_departed: bool,
    process: Process,
    host: String,
    path: PathBuf,
    begun: Instant,
}

impl Running {
    fn new(role: Role, host: &str, process: Process) -> Self {
        Self {
            role,
            pidfd: None,
            printed: [Printed::default(), Printed::default()],
            end: None,
            has_departed: false,
            process,
            host: host.to_owned(),
            path: PathBuf::new(),
            begun: Instant::now(),
        }
    }

    /// One that is to be started on this host, or another.
    pub(super) fn waiting(role: Role, host: &str) -> Self {
        let signal = Cell::new(None);
        Self::new(role, host, Process::Waiting { signal, end: None })
    }

    /// Starts one task on this host.
    pub(super) fn start(
        program: &Program,
        role: Role,
        host: &str,
        input: Stdio,
    ) -> Result<Self, TaskError> {
        let started = program.start(role, host, input)?;
        let mut task = Self::new(role, host, Process::Child(started.child));
        task.pidfd = Some(started.pidfd);
        task.printed = started.printed;
        task.path.clone_from(&program.path);
        Ok(task)
    }

    /// A task that a part is asked to start on another host.
    pub(super) fn remote(part: &SharedPart, role: Role) -> Self {
        let host = part.borrow().host.to_string();
        let process = Process::Remote {
            part: Rc::clone(part),
            pid: 0,
            end: None,
        };
        Self::new(role, &host, process)
    }

    /// Takes the place of the one that waited.
    pub(super) fn begin(&mut self, begun: Self) {
        let before = std::mem::replace(self, begun);
        self.has_departed = before.has_departed;
        if let Process::Waiting { signal, .. } = &before.process
            && let Some(signal) = signal.get()
        {
            self.signal(signal);
        }
    }

    /// Its part has started it.
    pub(super) fn note_started(&mut self, started: u32, path: &str) {
        if let Process::Remote { pid, .. } = &mut self.process {
            *pid = started;
            self.path = PathBuf::from(path);
            self.begun = Instant::now();
        }
    }

    /// Is there a process, or was there one?
    pub(super) fn has_begun(&self) -> bool {
        self.pid() != 0
    }

    /// Is it started by nobody yet?
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(&self.process, Process::Waiting { .. })
    }

    /// Is it to be started on this host, and was not yet?
    pub(super) fn is_waiting_on(&self, host: &str) -> bool {
        self.is_waiting() && self.end.is_none() && self.host == host
    }

    /// What it is to get when it is started.
    pub(super) const fn signal_to_come(&self) -> Option<Signal> {
        match &self.process {
            Process::Waiting { signal, .. } => signal.get(),
            _ => None,
        }
    }

    /// Its end, as its part says, or as the part's end does, or because it is not started.
    pub(super) fn note_end(&mut self, found: TaskEnd) {
        if let Process::Remote { end, .. } | Process::Waiting { end, .. } = &mut self.process {
            end.get_or_insert(found);
        }
    }

    /// The part that has it, if it is one of another host.
    pub(super) const fn part(&self) -> Option<&SharedPart> {
        match &self.process {
            Process::Remote { part, .. } => Some(part),
            _ => None,
        }
    }

    /// Is it a task of this part?
    pub(super) fn is_of(&self, wanted: &SharedPart) -> bool {
        self.part().is_some_and(|part| Rc::ptr_eq(part, wanted))
    }

    /// What is written into its standard input, if that was asked for.
    pub(super) fn take_input(&mut self) -> Option<std::process::ChildStdin> {
        match &mut self.process {
            Process::Child(child) => child.stdin.take(),
            _ => None,
        }
    }

    /// The host on which it runs, or is to.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        match &self.process {
            Process::Waiting { .. } => 0,
            Process::Child(child) => child.id(),
            Process::Guest { pid, .. } | Process::Remote { pid, .. } => *pid,
        }
    }

    /// The terminal to which it prints has that size from now on.
    pub(super) fn resize(&self, size: WindowSize) {
        if let Some(from) = &self.printed[0].from {
            size.set(from);
        }
    }

    /// May more of what it prints come?
    pub(super) fn is_printing(&self) -> bool {
        self.printed.iter().any(|printed| printed.from.is_some())
    }

    /// A process that enrols over this connection, which it holds open meanwhile.
    pub(super) fn enrolled(stream: &UnixStream, id: TaskId, host: &str) -> io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(stream)?.pid;
        let pidfd = pidfd_open(peer, PidfdFlags::empty())?;
        // It had ended before, and its number may be another's by now.
        if matches!(
            recv(stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT),
            Ok((0, _))
        ) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let pid = peer.as_raw_pid().unsigned_abs();
        let role = Role {
            id,
            rank: 0,
            size: 1,
            parent: None,
        };
        let has_gone = false;
        let mut task = Self::new(role, host, Process::Guest { pid, has_gone });
        task.pidfd = Some(pidfd);
        task.path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        Ok(task)
    }

    /// Does the job begin with it, so that its end counts?
    pub(super) const fn is_first(&self) -> bool {
        self.is_child() && self.role.parent.is_none()
    }

    /// Has the runner started it, or a part?
    pub(super) const fn is_child(&self) -> bool {
        !matches!(self.process, Process::Guest { .. })
    }

    /// Is it a task of the job, which others reach?
    pub(super) const fn is_task(&self) -> bool {
        self.end.is_none() && !self.has_departed
    }

    /// A guest has closed its connection, or says that it goes.
    pub(super) const fn note_gone(&mut self) {
        if let Process::Guest { has_gone, .. } = &mut self.process {
            *has_gone = true;
        }
    }

    /// Takes its end, if it has come. From then on its number may be another process's.
    pub(super) fn take_end(&mut self) -> io::Result<Option<TaskEnd>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let (code, signal) = match &mut self.process {
            Process::Child(child) => match child.try_wait()? {
                Some(status) => (status.code(), ExitStatusExt::signal(&status)),
                None => return Ok(None),
            },
            Process::Remote { end, .. } | Process::Waiting { end, .. } => {
                self.end = *end;
                return Ok(*end);
            }
            Process::Guest { has_gone, .. } => {
                let pidfd = self.pidfd.iter();
                let mut polled: Vec<PollFd<'_>> = pidfd
                    .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
                    .collect();
                let is_ended = hythe_sys::wait::ready(&mut polled, Duration::ZERO);
                if !*has_gone && !is_ended.contains(&true) {
                    return Ok(None);
                }
                // Only its parent knows how.
                (None, None)
            }
        };
        let end = TaskEnd {
            task: self.role.id,
            rank: self.role.rank,
            code,
            signal,
            is_lost: false,
        };
        self.end = Some(end);
        Ok(Some(end))
    }

    /// Sends a signal to it and all of its process group; to one that has enrolled alone. Before
    /// its end was taken the number is its own.
    pub(super) fn signal(&self, signal: Signal) {
        match &self.process {
            _ if self.end.is_some() => {}
            Process::Waiting {
                signal: to_come, ..
            } => to_come.set(signal_for_waiting(to_come.get(), signal)),
            Process::Child(child) => drop(kill_process_group(Pid::from_child(child), signal)),
            Process::Guest { .. } => {
                let pidfd = self.pidfd.as_ref();
                let _ = pidfd.map(|pidfd| pidfd_send_signal(pidfd, signal));
            }
            Process::Remote { end: Some(_), .. } => {}
            Process::Remote { part, .. } => part.borrow_mut().link.say(&ToPart::Signal {
                task: self.role.id,
                signal: signal.as_raw(),
            }),
        }
    }

    pub(super) fn info(&self) -> TaskInfo {
        TaskInfo {
            task: self.role.id,
            rank: self.role.rank,
            size: self.role.size,
            parent: self.role.parent,
            host: self.host.clone(),
            pid: self.pid(),
            runner_pid: std::process::id(),
            program: self.path.to_string_lossy().into_owned(),
            running_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// The signal that one which does not run yet is to get, when it is sent one more. What continues
/// it takes back what would stop it, and one that is killed needs nothing more.
pub(super) fn signal_for_waiting(to_come: Option<Signal>, sent: Signal) -> Option<Signal> {
    match (to_come, sent) {
        (Some(Signal::KILL), _) => to_come,
        (Some(Signal::STOP | Signal::TSTP), Signal::CONT) => None,
        (_, Signal::CONT) => to_come,
        _ => Some(sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_task_that_was_stopped_and_continued_runs() {
        let (stop, cont, term) = (Signal::STOP, Signal::CONT, Signal::TERM);
        for (sent, gets) in [
            (vec![stop, cont], None),
            (vec![Signal::TSTP, cont], None),
            (vec![cont, stop], Some(stop)),
            (vec![term, cont], Some(term)),
            (vec![Signal::KILL, term, cont], Some(Signal::KILL)),
        ] {
            let to_come = sent
                .iter()
                .fold(None, |to_come, sent| signal_for_waiting(to_come, *sent));
            assert_eq!(to_come, gets, "{sent:?}");
        }
    }
}
