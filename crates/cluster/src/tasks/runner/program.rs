//! Finds a program as a shell does, and starts it as a task.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::{Access, access};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::JobOptions;
use super::lines::Lines;
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

/// One of the two streams of a task that are passed on.
#[derive(Debug)]
pub(super) struct Printed {
    /// Closed: all has been read.
    pub(super) from: Option<OwnedFd>,
    pub(super) lines: Lines,
}

/// A task that was started, and is this process's child until its end was taken.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) id: TaskId,
    pub(super) rank: u32,
    pub(super) pidfd: OwnedFd,
    /// Standard output and standard error.
    pub(super) printed: [Printed; 2],
    pub(super) end: Option<TaskEnd>,
    child: Child,
    program: String,
    begun: Instant,
}

impl Running {
    /// Starts one task of `options`. Its standard input is that of the runner for rank 0, else
    /// empty.
    pub(super) fn start(
        options: &JobOptions,
        path: &Path,
        (id, rank): (TaskId, u32),
    ) -> Result<Self, TaskError> {
        let mut command = Command::new(path);
        command.args(&options.arguments).process_group(0);
        command.arg0(&options.program);
        command.stdin(if rank == 0 {
            Stdio::inherit()
        } else {
            Stdio::null()
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(
            options
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        );
        command.env("HYTHE_TASK", id.to_string());
        command.env("HYTHE_RANK", rank.to_string());
        command.env("HYTHE_SIZE", options.count.to_string());
        hythe_sys::spawn::die_with_parent(&mut command);
        let failed = |source| TaskError::Program {
            host: options.host.clone(),
            path: path.to_owned(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().map(OwnedFd::from);
        let error = child.stderr.take().map(OwnedFd::from);
        let prepared = (|| {
            for from in [&out, &error].into_iter().flatten() {
                rustix::io::ioctl_fionbio(from, true)?;
            }
            pidfd_open(pid_of(&child), PidfdFlags::empty())
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
            id,
            rank,
            pidfd,
            printed: [printed(out), printed(error)],
            end: None,
            child,
            program: path.to_string_lossy().into_owned(),
            begun: Instant::now(),
        })
    }

    /// Takes its end, if it has come. From then on its number may be another process's.
    pub(super) fn take_end(&mut self) -> io::Result<Option<TaskEnd>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let Some(status) = self.child.try_wait()? else {
            return Ok(None);
        };
        let end = TaskEnd {
            task: self.id,
            rank: self.rank,
            code: status.code(),
            signal: std::os::unix::process::ExitStatusExt::signal(&status),
        };
        self.end = Some(end);
        Ok(Some(end))
    }

    /// Sends a signal to it and all of its process group. Before its end was taken the number is
    /// its own.
    pub(super) fn signal(&self, signal: Signal) {
        if self.end.is_none() {
            let _ = kill_process_group(pid_of(&self.child), signal);
        }
    }

    pub(super) fn info(&self, size: u32) -> TaskInfo {
        TaskInfo {
            task: self.id,
            rank: self.rank,
            size,
            pid: self.child.id(),
            runner_pid: std::process::id(),
            program: self.program.clone(),
            running_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}
