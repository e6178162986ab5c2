//! What the demo asks of the program that calls it.

use std::fmt::Display;
use std::io;
use std::process::Command;
use std::time::Duration;

use hythe::Pool;

use crate::task::StageTask;

/// The program that runs the demo.
pub trait Program {
    /// The command that calls [`run_stage`](crate::run_stage) with `task` in a process of its own,
    /// with standard output and standard error of that process as its [`StageOutput`].
    ///
    /// # Errors
    ///
    /// Why there is none, such as a program whose file cannot be found.
    fn stage(&self, task: &StageTask) -> io::Result<Command>;

    /// Did somebody ask the demo to stop? Asked often.
    fn is_stop_requested(&self) -> bool;

    /// Goes to the host of the core or of the sender, with all that the calling thread starts from
    /// now on. At the beginning it is at that of the sender. On one host there is nothing to do.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn go_to(&self, _host: Host) -> io::Result<()> {
        Ok(())
    }

    /// The stages are done: ends what connects the two hosts, so that nobody but the demo holds
    /// anything in their pools. Returns how often a CPU copied each byte between them.
    ///
    /// # Errors
    ///
    /// Why it cannot be ended.
    fn part_hosts(&self) -> io::Result<u32> {
        Ok(0)
    }

    /// The stages have been at work for `elapsed`; the recording lasts for `length`.
    fn progress(&self, elapsed: Duration, length: Duration);
}

/// Which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Where the file, the demultiplexer and the core are.
    Core,
    /// Where the sender and the receiver are.
    Sender,
}

/// The pools that the demo uses, which nobody else does: one, or one for each host.
#[derive(Clone, Copy, Debug)]
pub struct Pools<'a> {
    /// Of the core.
    pub core: &'a Pool,
    /// Of the sender.
    pub sender: &'a Pool,
}

impl Pools<'_> {
    /// Do two hosts take part?
    #[must_use]
    pub fn are_of_two_hosts(&self) -> bool {
        self.core.options().name() != self.sender.options().name()
    }
}

/// Where a stage writes.
pub trait StageOutput {
    /// Writes a line to standard output, at once: the demo reads it.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn line(&mut self, line: &str) -> io::Result<()>;

    /// Notes something that does not end the stage on standard error: it is part of the demo's
    /// error if the stage fails later.
    fn note(&mut self, event: &dyn Display);
}
