//! The other process: this program again, which writes what we read.

use std::process::{Child, Command, Stdio};

use clap::Args;

use super::Run;
use super::meeting::Meeting;
use super::payload::Payload;
use crate::cpus;
use crate::error::BenchError;
use crate::lookout::Lookout;

/// What it is told.
#[derive(Debug, Args)]
pub(crate) struct WriterArguments {
    /// Where segment and semaphores are, in their system's own words
    #[arg(long)]
    place: String,
    /// Bytes of each message
    #[arg(long)]
    size: usize,
    /// What they are
    #[arg(long, value_enum)]
    payload: Payload,
    /// How many
    #[arg(long)]
    messages: u64,
    /// The CPU to run on
    #[arg(long)]
    cpu: usize,
}

/// Writes all messages.
pub(crate) fn write(arguments: &WriterArguments) -> Result<(), BenchError> {
    cpus::pin(arguments.cpu)?;
    let mut meeting = Meeting::attach(&arguments.place, arguments.size, arguments.payload)?;
    let lookout = Lookout::default();
    for number in 0..arguments.messages {
        meeting.write(number, &lookout)?;
    }
    Ok(())
}

/// The process; killed and waited for when dropped.
#[derive(Debug)]
pub(super) struct Writer(Child);

impl Writer {
    pub(super) fn start(run: &Run, place: &str, cpu: usize) -> Result<Self, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["pair-writer", "--place", place]);
        command.args(["--size", &run.size.to_string()]);
        command.args(["--payload", &run.payload.to_string()]);
        command.args(["--messages", &run.messages.to_string()]);
        command.args(["--cpu", &cpu.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        hythe_sys::spawn::die_with_parent(&mut command);
        Ok(Self(command.spawn()?))
    }

    /// Waits until it has ended well. It has nothing more to wait for itself.
    pub(super) fn join(mut self) -> Result<(), BenchError> {
        let status = self.0.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(BenchError::PeerLost(status.to_string()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Gone already, or ended now: either way it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
