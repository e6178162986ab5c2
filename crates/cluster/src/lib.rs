//! The host hop: channels that reach from host to host.
//!
//! The agent `hythe-hostd` calls it. What holds between calls is in the specification
//! (`spec/host.md`) and in ADR 0041. Two seams keep other people's protocols out: a [`Carrier`]
//! makes authenticated connections, a [`Directory`] knows which hosts there are.
//!
//! Never encrypts, never decides who exists, never trusts a peer's word.

// A guard that lives as long as a `match` on what it guards has locked two things in the wrong
// order, and stopped an agent.
#![warn(clippy::significant_drop_in_scrutinee)]

mod agent;
mod carrier;
pub mod command;
mod directory;
mod error;
#[doc(hidden)]
pub mod frame;
mod host_name;
mod open_files;
mod rights;
mod status;
#[doc(hidden)]
pub mod stream;
pub mod tasks;

pub use agent::{Agent, AgentOptions, HOSTS_MAX};
pub use carrier::{
    AuthenticationFailure, Carrier, CarrierError, Connection, ConnectionAbout, ConnectionPath,
    ConnectionReceiver, ConnectionSender, Received,
};
pub use directory::{Directory, DirectoryEvent};
pub use error::ClusterError;
pub use host_name::{BadHostName, HostName};
pub use rights::{BadRule, RULES_MAX, Refusal, Right, Rights, Rule};
pub use status::{
    Calls, ChannelState, ChannelStatus, Copies, Credit, Direction, DirectoryStatus, FlowCopies,
    HostState, HostStatus, LinkStatus, Losses, OpenChannelStatus, OpenFiles, OpenStatus,
    SessionStatus, Status,
};
