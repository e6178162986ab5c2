//! How a task reaches its machine and the other tasks.

use std::time::Duration;

use super::hosts::Host;
use super::protocol::{Reply, Request};
use crate::code::Code;
use crate::tid::Tid;

/// Who a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its own number.
    pub task: Tid,
    /// Who spawned it.
    pub parent: Option<Tid>,
    /// Those that were spawned together with it, itself included.
    pub siblings: Vec<Tid>,
}

/// What is to be spawned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The program, as it is named.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How many.
    pub count: u32,
    /// Variables of their environment.
    pub variables: Vec<(String, String)>,
    /// Under the debugger that PVM is set up with.
    pub is_debugged: bool,
    /// On which host each is started.
    pub places: Vec<Host>,
}

/// A task that runs, or one that is about to enroll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Which.
    pub task: Tid,
    /// Who spawned it.
    pub parent: Option<Tid>,
    /// Its process id.
    pub pid: u32,
    /// Path of its program.
    pub program: String,
    /// It has enrolled.
    pub is_enrolled: bool,
}

/// What the clocks of two hosts say at one time, since 1970 began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// That of the host that was asked.
    pub theirs: Duration,
    /// That of the task's own.
    pub own: Duration,
}

impl Clocks {
    /// One host has one clock.
    #[must_use]
    pub const fn same(clock: Duration) -> Self {
        Self {
            theirs: clock,
            own: clock,
        }
    }

    /// By how much its own is before that of the other: seconds, which may be negative, and
    /// microseconds, which never are.
    #[must_use]
    pub fn difference(self) -> (i64, u32) {
        let micros = |clock: Duration| i128::try_from(clock.as_micros()).unwrap_or(i128::MAX);
        let difference = micros(self.own) - micros(self.theirs);
        let second = 1_000_000;
        let seconds = difference.div_euclid(second);
        let seconds = seconds.clamp(i64::MIN.into(), i64::MAX.into());
        // Both fit: a remainder is less than what it was divided by.
        (seconds as i64, difference.rem_euclid(second) as u32)
    }
}

/// A machine as one of its tasks reaches it. Dropping it leaves the machine.
pub trait Machine: Send + std::fmt::Debug {
    /// Who this task is.
    fn identity(&self) -> &Identity;

    /// Sends a message, without waiting for its receiver; one to a task that has ended is lost.
    ///
    /// # Errors
    /// [`Code::OUT_OF_RESOURCES`]: too much waits for receivers; [`Code::SYSTEM`].
    fn send(&mut self, to: Tid, frame: &[u8]) -> Result<(), Code>;

    /// The next message, waiting for at most so long.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: the machine is gone.
    fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, Code>;

    /// How many bytes of messages are kept that the program has not received yet: then no more are
    /// taken, and senders keep theirs.
    fn kept_bytes_max(&self) -> usize;

    /// Asks for something, and waits for its reply: as long as it takes others to come, or until
    /// the machine is gone.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    fn ask(&mut self, request: Request) -> Result<Reply, Code>;

    /// Asks, without waiting.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: also while the reply to another request is to come.
    fn begin(&mut self, request: Request) -> Result<(), Code>;

    /// The reply to what [`Machine::begin`] asked, waiting for at most so long.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: also when nothing was asked.
    fn reply(&mut self, timeout: Duration) -> Result<Option<Reply>, Code>;

    /// Spawns tasks. One outcome for each.
    fn spawn(&mut self, spawn: &Spawn) -> Vec<Result<Tid, Code>>;

    /// What runs.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    fn processes(&mut self) -> Result<Vec<Process>, Code>;

    /// Takes hosts out of the machine, and ends its tasks there: 0 for each, or an error's number.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    fn delete_hosts(&mut self, names: Vec<String>) -> Result<Vec<i32>, Code>;

    /// Sends a signal to a task.
    ///
    /// # Errors
    /// [`Code::NO_TASK`], [`Code::BAD_PARAMETER`], [`Code::SYSTEM`].
    fn signal(&mut self, task: Tid, signal: i32) -> Result<(), Code>;

    /// Has its process ended?
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    fn has_ended(&mut self, task: Tid) -> Result<bool, Code>;

    /// What the clock of another host says, and its own at that time.
    ///
    /// # Errors
    /// [`Code::HOST_FAILED`]: that host does not answer.
    fn clocks_with(&mut self, _host: &str) -> Result<Clocks, Code> {
        Err(Code::HOST_FAILED)
    }

    /// Why tasks could not be spawned last, for people; once.
    fn take_refusal(&mut self) -> Option<String> {
        None
    }

    /// File descriptors that become readable when something may have come: until all was received.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: the system has none.
    fn descriptors(&mut self) -> Result<Vec<i32>, Code>;

    /// Does the program still have the descriptors of this task?
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: it has closed them, with others that it found open.
    fn check_descriptors(&self) -> Result<(), Code> {
        Ok(())
    }

    /// The connection by which the machine sees that this task ends: a forked child has to close
    /// it. `None`: there is none.
    fn connection(&self) -> Option<i32>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_has_its_sign_in_its_seconds() {
        let at = Duration::from_micros;
        // Those of the manual, and equal clocks.
        for (own, theirs, difference) in [
            (3_250_000, 0, (3, 250_000)),
            (9, 9, (0, 0)),
            (0, 1, (-1, 999_999)),
            (0, 1_000_000, (-1, 0)),
            (0, 1_100_000, (-2, 900_000)),
        ] {
            let clocks = Clocks {
                own: at(own),
                theirs: at(theirs),
            };
            assert_eq!(clocks.difference(), difference);
        }
        // What a peer says may be anything.
        let clocks = Clocks {
            own: Duration::ZERO,
            theirs: Duration::MAX,
        };
        assert!(clocks.difference().0 < 0);
    }
}
