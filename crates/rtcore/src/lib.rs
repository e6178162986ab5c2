//! The Linux side of a processor core that runs an RTOS: boards, the agent that starts, watches and
//! stops a core, and the core link, over which the ports of a node reach it.
//!
//! [`Board`] is what a folder of `rtos/boards/` says about a core. [`Core`] is the agent: it gives
//! the core a region of the pool, starts it, meets it over the link, puts its endpoints behind
//! channels, passes rings on, and cleans up when it dies. [`control`] looks at and stops an agent
//! that runs in another process. Programs [`join`] the pool and use the core through the channels
//! of `hythe-node`, like any other peer, beside processes on the same channel.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hythe_node::{Pool, PoolOptions};
//! use hythe_rtcore::{Board, Core, CoreOptions};
//!
//! let pool = Pool::open_or_create(&PoolOptions::new("default"))?;
//! let core = Core::start(&pool, &Board::find("hosted")?, &CoreOptions::default())?;
//! println!("{} runs as process {}", core.name(), core.status().pid);
//! core.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! Never touches payload, never is in the data path, never waits without a bound.

mod agent;
mod alone;
mod board;
mod boot;
pub mod control;
mod counters;
mod cpu_share;
mod doorbell;
mod error;
mod eventfds;
mod ivshmem;
mod join;
mod link;
mod log;
mod manifest;
mod orphan;
mod process;
mod reclaim;
mod region;
mod rings;
pub mod segment;
mod services;
mod status;
mod stopped;
mod supervisor;
pub mod tasks;
mod timeouts;
mod watched;

pub use agent::Core;
pub use alone::run_alone;
pub use board::{Board, Listed, list, search_path};
pub use error::CoreError;
pub use hythe_abi::link::CoreState as LinkState;
pub use hythe_pool::CoreCounters;
pub use join::{join, join_with};
#[doc(hidden)]
pub use join::{join_host, join_without_doorbells, transport};
#[doc(hidden)]
pub use link::call_at_each_store;
pub use link::{
    BellStatus, CoreCounts, EndpointRecord, FlowStatus, LinkStatus, QueueStatus, ViolatedWord,
    Violation,
};
pub use manifest::{BoardKind, LinkPlan, Repeatable, Requirement, SharedFile, SlotPlan, Span};
pub use status::{CoreOptions, CoreState, CoreStatus};
pub use timeouts::LinkTimeouts;
