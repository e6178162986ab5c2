//! Tasks: processes of a job, each with a number by which others of the pool reach it.
//!
//! `hythe run` starts a *runner* for each job ([`Runner`]): the parent of its tasks, which knows
//! their ends from the kernel, passes on their output and leaves nothing running. It answers over a
//! socket in the pool's directory; [`list`] and [`kill`] ask all runners of a pool. Their table is
//! the only one, so a runner that was killed leaves no row behind (ADR 0045).
//!
//! A process that `hythe run` or a task has started is a [`Task`] once it joins: it sends messages
//! to others by their numbers, receives by sender and tag, spawns tasks, hears of the end of
//! others, and takes part in groups ([`Group`]).
//!
//! Never waits for a task without a bound, never decides that a task has ended by a timer.

mod agent_link;
pub(crate) mod agent_message;
pub mod arrivals;
mod client;
mod error;
mod id;
mod link;
mod message;
mod place;
mod runner;
mod service;
pub mod spare;
mod task;

pub use agent_message::FoundHost;
pub use client::{kill, list};
pub use error::TaskError;
pub use id::HOST_MAX as HOST_NUMBER_MAX;
pub use id::{BadTaskId, TaskId};
pub(crate) use id::{JobId, stays_on_its_host};
pub use message::{TaskEnd, TaskInfo};
pub(crate) use place::{connect_to_runner, lead_to_service};
pub use runner::{
    JobEnd, JobHost, JobOptions, Output, Part, PartOptions, Runner, Stream, Supervised,
};
pub use service::{Here, connect_to_service, find_host, here, service_socket, watch_host};
pub use task::{
    Ends, Group, Message, MessageLease, ReducedValue, SpawnOptions, SpawnPlace, Task, TaskOptions,
    Wanted, linger_at_exit,
};
