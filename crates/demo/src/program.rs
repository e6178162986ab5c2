//! What the demo asks of the program that calls it.

use std::fmt::Display;
use std::io;
use std::process::Command;
use std::time::Duration;

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

    /// The stages have been at work for `elapsed`; the recording lasts for `length`.
    fn progress(&self, elapsed: Duration, length: Duration);
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
