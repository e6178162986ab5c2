//! Under which priority packets leave.

use clap::Args;
use hythe_command::output;
use hythe_sys::scheduling::enter_fifo;

/// How the thread that sends is scheduled.
#[derive(Args, Debug)]
pub(super) struct PriorityArgs {
    /// Real-time priority of the thread that sends, 1 to 99, under SCHED_FIFO: packets leave on
    /// time beside other work on its CPU; 0: an ordinary thread
    #[arg(long, value_name = "PRIORITY", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=99))]
    priority: u8,
}

impl PriorityArgs {
    /// Puts the calling thread under the priority that was asked for, and returns the one it has.
    /// Where that is not permitted it stays an ordinary one, which is said: the stream is late at
    /// times, but there.
    pub(super) fn enter(&self) -> u8 {
        if self.priority == 0 {
            return 0;
        }
        match enter_fifo(self.priority.into()) {
            Ok(()) => self.priority,
            Err(error) => {
                output::note(format!(
                    "--priority {}: {error}; an ordinary thread sends. It takes CAP_SYS_NICE or a \
                     limit of real-time priority (`ulimit -r`) of at least {}",
                    self.priority, self.priority
                ));
                0
            }
        }
    }
}
