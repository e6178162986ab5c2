//! Tasks: processes of a job that `hythe run` started, or that were spawned by others of it.
//!
//! ```no_run
//! use std::time::Duration;
//! use hythe::tasks::{Task, Wanted};
//!
//! # fn main() -> Result<(), hythe::tasks::TaskError> {
//! // Started by `hythe run -n 2`.
//! let mut task = Task::join()?;
//! let first = task.siblings()[0];
//! if task.rank() > 0 {
//!     task.send(first, 7, b"good morning")?;
//! } else {
//!     let message = task.receive(Wanted::any().tag(7), Duration::from_secs(10))?;
//!     println!("{:?}", message.map(|message| message.to_vec()));
//! }
//! task.sibling_group().barrier(&mut task, Duration::from_secs(10))
//! # }
//! ```

pub use hythe_cluster::tasks::{
    BadTaskId, Group, Message, MessageLease, ReducedValue, SpawnOptions, SpawnPlace, Task,
    TaskError, TaskId, TaskInfo, TaskOptions, Wanted, kill, linger_at_exit, list,
};
