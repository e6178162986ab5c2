//! The agent of a host: identity, encrypted connections and the directory of hosts.
//!
//! The program `hythe-hostd` calls it, and `hythe host` calls that. What goes over a connection is
//! the business of `crates/cluster`, whose seams `Carrier` and `Directory` are implemented here.
//! Never interprets what a connection carries, never makes a cipher or a key exchange of its own.

pub mod agent;
pub mod directory;
pub mod error;
pub mod hosts_directory;
pub mod log;
pub mod membership;
pub mod open_channels;
pub mod realm;
pub mod tls;
pub mod zenoh_session;

pub use error::HostdError;
