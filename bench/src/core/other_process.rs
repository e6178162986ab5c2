//! The other process of a comparison: this program again.

use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;

/// The process; killed and waited for when dropped.
#[derive(Debug)]
pub(super) struct OtherProcess(Child);

impl OtherProcess {
    /// Starts it with these words. It dies with this process.
    pub(super) fn start(words: &[String]) -> Result<Self, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        hythe_sys::spawn::die_with_parent(&mut command);
        Ok(Self(command.spawn()?))
    }

    /// Waits until it has said anything, or is silent for too long.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let silent = || BenchError::silent(SILENCE_BOUND);
        let output: &ChildStdout = self.0.stdout.as_ref().ok_or_else(silent)?;
        let bound = Timespec {
            tv_sec: SILENCE_BOUND.as_secs() as _,
            tv_nsec: 0,
        };
        let mut files = [PollFd::new(output, PollFlags::IN)];
        if poll(&mut files, Some(&bound))? == 0 {
            return Err(silent());
        }
        let mut word = [0];
        if rustix::io::read(output, &mut word)? == 0 {
            return Err(BenchError::PeerLost("it ended at its start".to_owned()));
        }
        Ok(())
    }

    /// Waits until it has ended well. It has nothing more to wait for itself.
    pub(super) fn join(mut self) -> Result<(), BenchError> {
        let status = self.0.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(BenchError::PeerLost(status.to_string()))
    }

    /// Asks it to end, and waits until it has: its waits look up often.
    pub(super) fn end(self) -> Result<(), BenchError> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        self.join()
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // Gone already, or ended now: either way it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
