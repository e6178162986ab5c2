//! Finds a program as a shell does, and starts it as a task.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::on_host::is_program;
use super::printed::Printed;
use super::terminal::{self, WindowSize};
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;

/// The path of a program: one with a slash as it is, another as `PATH` leads to it.
pub(super) fn find(program: &OsString, host: &str) -> Result<PathBuf, TaskError> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&searched).map(|folder| folder.join(program));
    let found = candidates.into_iter().find(|path| is_program(path));
    found.ok_or_else(|| TaskError::NoProgram {
        host: host.to_owned(),
        program: program.to_string_lossy().into_owned(),
        searched: searched.to_string_lossy().into_owned(),
    })
}

/// What is started.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Where it is.
    pub(super) path: PathBuf,
    /// As it was named, and its arguments.
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
    /// Its standard output is a pseudoterminal of this size.
    pub(super) terminal: Option<WindowSize>,
}

/// As which task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) id: TaskId,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) parent: Option<TaskId>,
}

/// A program that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) pidfd: OwnedFd,
    /// Standard output and standard error.
    pub(super) printed: [Printed; 2],
}

impl Program {
    /// As it was named, for who judges it.
    pub(super) fn name(&self) -> String {
        let name = self.words.first();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Starts it as this task, on this host.
    pub(super) fn start(&self, role: Role, host: &str, input: Stdio) -> Result<Started, TaskError> {
        let mut command = Command::new(&self.path);
        let (name, arguments) = self.words.split_first().unzip();
        command.args(arguments.unwrap_or_default()).process_group(0);
        command.arg0(name.map_or(self.path.as_os_str(), OsString::as_os_str));
        command.stdin(input);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Where there is none left, or no `/dev/ptmx`, a pipe serves.
        let terminal = self.terminal.and_then(|size| terminal::open(size).ok());
        let (read_end, task_end) = terminal.unzip();
        if let Some(task_end) = task_end {
            command.stdout(task_end);
        }
        let environment = self.environment.iter();
        command.envs(environment.map(|(name, value)| (name, value)));
        command.env("HYTHE_TASK", role.id.to_string());
        command.env("HYTHE_RANK", role.rank.to_string());
        command.env("HYTHE_SIZE", role.size.to_string());
        match role.parent {
            Some(parent) => command.env("HYTHE_PARENT", parent.to_string()),
            None => command.env_remove("HYTHE_PARENT"),
        };
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        hythe_sys::spawn::die_with_parent(&mut command);
        let failed = |source| TaskError::Program {
            host: host.to_owned(),
            path: self.path.clone(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let out = read_end.or_else(|| child.stdout.take().map(OwnedFd::from));
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
        let printed = [out, error].map(|from| from.map(Printed::new).unwrap_or_default());
        match prepared {
            Ok(pidfd) => Ok(Started {
                child,
                pidfd,
                printed,
            }),
            Err(error) => {
                // Nobody would see its end.
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(error.into()))
            }
        }
    }
}
