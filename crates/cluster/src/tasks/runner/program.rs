//! Finds a program as a shell does, and starts it as a task.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, access};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::lines::Lines;
use super::part_protocol::message::ToPart;
use super::remote::SharedPart;
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::message::{TaskEnd, TaskInfo};

/// The path of a program: one with a slash as it is, another as `PATH` leads to it.
pub(super) fn find(program: &OsString, host: &str) -> Result<PathBuf, TaskError> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&searched).map(|folder| folder.join(program));
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let found = candidates.into_iter().find(is_program);
    found.ok_or_else(|| TaskError::NoProgram {
        host: host.to_owned(),
        program: program.to_string_lossy().into_owned(),
        searched: searched.to_string_lossy().into_owned(),
    })
}

/// What is started.
#[derive(Debug)]
pub(super) struct Program {
    /// Where it is.
    pub(super) path: PathBuf,
    /// As it was named, and its arguments.
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
}

/// As which task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) id: TaskId,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) parent: Option<TaskId>,
}

/// One of the two streams of a task that are passed on.
#[derive(Debug)]
pub(super) struct Printed {
    /// Closed: all has been read.
    pub(super) from: Option<OwnedFd>,
    pub(super) lines: Lines,
}

/// What a task is to the runner.
#[derive(Debug)]
enum Process {
    /// Its child, until its end was taken.
    Child(Child),
    /// A process that nobody started as a task, and that has enrolled.
    Guest { pid: u32, has_gone: bool },
    /// A child of a part on another host.
    Remote {
        part: SharedPart,
        pid: u32,
        end: Option<TaskEnd>,
    },
}

impl Printed {
    /// What there is to read: lines, or all of it, and how many bytes were read. `None`: nothing
    /// for now, or nothing any more.
    pub(super) fn read(&mut self, bytes: &mut [u8], in_lines: bool) -> Option<(Vec<u8>, usize)> {
        let from = self.from.as_ref()?;
        match rustix::io::read(from, &mut *bytes) {
            Ok(0) => {
                self.from = None;
                Some((self.lines.finish(in_lines), 0))
            }
            Ok(read) => Some(match in_lines {
                true => (self.lines.push(&bytes[..read]), read),
                false => (bytes[..read].to_vec(), read),
            }),
            Err(_) => None,
        }
    }
}

/// A task that was started, or has enrolled.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) role: Role,
    /// `None`: it runs on another host.
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
    /// Starts one task on this host.
    pub(super) fn start(
        program: &Program,
        role: Role,
        host: &str,
        input: Stdio,
    ) -> Result<Self, TaskError> {
        let mut command = Command::new(&program.path);
        let (name, arguments) = program.words.split_first().unzip();
        command.args(arguments.unwrap_or_default()).process_group(0);
        command.arg0(name.map_or(program.path.as_os_str(), OsString::as_os_str));
        command.stdin(input);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let environment = program.environment.iter();
        command.envs(environment.map(|(name, value)| (name, value)));
        command.env("HYTHE_TASK", role.id.to_string());
        command.env("HYTHE_RANK", role.rank.to_string());
        command.env("HYTHE_SIZE", role.size.to_string());
        match role.parent {
            Some(parent) => command.env("HYTHE_PARENT", parent.to_string()),
            None => command.env_remove("HYTHE_PARENT"),
        };
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        hythe_sys::spawn::die_with_parent(&mut command);
        let failed = |source| TaskError::Program {
            host: host.to_owned(),
            path: program.path.clone(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().map(OwnedFd::from);
        let error = child.stderr.take().map(OwnedFd::from);
        let prepared = (|| {
            for from in [&out, &error].into_iter().flatten() {
                rustix::io::ioctl_fionbio(from, true)?;
            }
            // A task that waits for its output to be read takes no input meanwhile.
            if let Some(to) = &child.stdin {
                rustix::io::ioctl_fionbio(to, true)?;
            }
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        })();
        let pidfd = match prepared {
            Ok(pidfd) => pidfd,
            Err(error) => {
                // Nobody would see its end.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(error.into()));
            }
        };
        let printed = |from| Printed {
            from,
            lines: Lines::default(),
        };
        Ok(Self {
            role,
            pidfd: Some(pidfd),
            printed: [printed(out), printed(error)],
            end: None,
            has_departed: false,
            process: Process::Child(child),
            path: program.path.clone(),
            host: host.to_owned(),
            begun: Instant::now(),
        })
    }

    /// A task that a part has started on another host.
    pub(super) fn remote(part: &SharedPart, role: Role, pid: u32, path: &str) -> Self {
        let printed = || Printed {
            from: None,
            lines: Lines::default(),
        };
        Self {
            role,
            pidfd: None,
            printed: [printed(), printed()],
            end: None,
            has_departed: false,
            host: part.borrow().host.to_string(),
            process: Process::Remote {
                part: Rc::clone(part),
                pid,
                end: None,
            },
            path: PathBuf::from(path),
            begun: Instant::now(),
        }
    }

    /// Its end, as its part says, or as the part's end does.
    pub(super) fn note_end(&mut self, found: TaskEnd) {
        if let Process::Remote { end, .. } = &mut self.process {
            end.get_or_insert(found);
        }
    }

    /// Is it a task of this part?
    pub(super) fn is_of(&self, wanted: &SharedPart) -> bool {
        matches!(&self.process, Process::Remote { part, .. } if Rc::ptr_eq(part, wanted))
    }

    /// What is written into its standard input, if that was asked for.
    pub(super) fn take_input(&mut self) -> Option<std::process::ChildStdin> {
        match &mut self.process {
            Process::Child(child) => child.stdin.take(),
            Process::Guest { .. } | Process::Remote { .. } => None,
        }
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        match &self.process {
            Process::Child(child) => child.id(),
            Process::Guest { pid, .. } | Process::Remote { pid, .. } => *pid,
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
        let printed = || Printed {
            from: None,
            lines: Lines::default(),
        };
        Ok(Self {
            role: Role {
                id,
                rank: 0,
                size: 1,
                parent: None,
            },
            pidfd: Some(pidfd),
            printed: [printed(), printed()],
            end: None,
            has_departed: false,
            host: host.to_owned(),
            process: Process::Guest {
                pid,
                has_gone: false,
            },
            path: std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default(),
            begun: Instant::now(),
        })
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
            Process::Remote { end, .. } => {
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
            Process::Child(child) => drop(kill_process_group(Pid::from_child(child), signal)),
            Process::Guest { .. } => {
                let pidfd = self.pidfd.as_ref();
                let _ = pidfd.map(|pidfd| pidfd_send_signal(pidfd, signal));
            }
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
