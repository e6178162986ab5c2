//! Linux system calls that rustix does not have, behind safe functions: an island of `unsafe`.
//!
//! The node, the hop crates and `hythe doctor` call it. Each module is small and belongs to one
//! caller: [`fork`], [`identity`] and [`peer`] to the node, [`wait`] to whoever has a thread that
//! waits, [`control_group`] (files of the kernel) to the node and the storage hop, [`packet`],
//! [`socket_option`], [`error_queue`] and [`udp_receive`] to the media hop, [`probe`] to the
//! doctor, [`regular_file`] to all that read files by their names, [`scheduling`] to the doctor and
//! to the latency of this machine, [`spawn`] to the agent of a core and to the benchmarks,
//! [`fanotify`], [`file_pages`], [`io_priority`], [`mount_space`], [`read_ahead`] and [`residency`]
//! to the storage hop. Between calls nothing is held but the descriptors and mappings that the
//! returned values own. This crate never decides what an answer means, never retries (but [`wait`]
//! goes another way) or logs, and is never on the way of a payload.

pub mod control_group;
pub mod error_queue;
pub mod fanotify;
pub mod file_pages;
pub mod fork;
pub mod identity;
pub mod io_priority;
pub mod mount_space;
pub mod packet;
pub mod peer;
pub mod probe;
pub mod read_ahead;
pub mod regular_file;
pub mod residency;
pub mod scheduling;
pub mod socket_option;
pub mod spawn;
pub mod udp_receive;
pub mod wait;
