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

    /// Asks for something, and waits for its reply: as long as it takes others to come, or until
    /// the machine is gone.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    fn ask(&mut self, request: Request) -> Result<Reply, Code>;

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

    /// Why tasks could not be spawned last, for people; once.
    fn take_refusal(&mut self) -> Option<String> {
        None
    }

    /// File descriptors that become readable when something may have come: until all was received.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: the system has none.
    fn descriptors(&mut self) -> Result<Vec<i32>, Code>;

    /// The connection by which the machine sees that this task ends: a forked child has to close
    /// it. `None`: there is none.
    fn connection(&self) -> Option<i32>;
}
