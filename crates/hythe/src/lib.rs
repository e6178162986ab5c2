//! Hythe: one pool of shared memory, from flash to wire.
//!
//! The facade that applications use: [`Pool`] and [`Node`] with channels between processes, [`rtcore`] for RTOS cores,
//! [`media`] for RTP, [`recording`] for channels kept in files.
//!
//! Never adds behaviour of its own: it only gathers the crates of the hops under one name.

pub use hythe_media as media;
pub use hythe_node::*;
pub use hythe_recording as recording;
pub use hythe_rtcore as rtcore;
