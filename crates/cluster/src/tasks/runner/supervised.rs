//! A runner as a child of the command for which it runs a job.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper,
};

use super::descendants;

/// A runner that was started. What it leaves running, because it was killed, ends with
/// [`Supervised::wait`].
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    pidfd: OwnedFd,
}

impl Supervised {
    /// Starts it. From then on this process is a subreaper.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let mut child = command.spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// What is written into its standard input, if that was asked for.
    pub fn take_stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// What sends it signals, from another thread.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn signaller(&self) -> io::Result<impl Fn(i32) + Send + 'static> {
        let pidfd = self.pidfd.try_clone()?;
        Ok(move |number| {
            if let Some(signal) = Signal::from_named_raw(number) {
                let _ = pidfd_send_signal(&pidfd, signal);
            }
        })
    }

    /// Waits for its end, and ends what it left running. Returns how it ended, and how many
    /// processes are left all the same.
    ///
    /// # Errors
    /// What `wait` says.
    pub fn wait(mut self) -> io::Result<(ExitStatus, usize)> {
        let status = self.child.wait()?;
        Ok((status, descendants::kill_all()))
    }
}
