//! Linux system calls that rustix does not have, behind safe functions.
//!
//! The node, the hop crates and `hythe doctor` call it. Each module is small and serves few
//! callers:
//!
//! - the node: [`fork`], [`identity`], [`peer`], [`control_group`] (files of the kernel),
//!   [`biased_lock`] (a lock by `membarrier`);
//! - threads that wait: [`wait`]; programs that listen: [`accept`];
//! - the media hop: [`packet`], [`socket_option`], [`error_queue`], [`udp_receive`],
//!   [`interface_addresses`];
//! - flows between hosts: [`socket_option`], [`peer`], [`wait`], [`bpf`], [`interface`];
//! - the storage hop: [`control_group`], [`fanotify`], [`file_pages`], [`io_priority`],
//!   [`namespaces`], [`read_ahead`], [`residency`];
//! - the doctor and the latency of this machine: [`probe`], [`scheduling`];
//! - the agent of a core and the benchmarks: [`spawn`];
//! - segments that cores see, too: [`system_v`], [`fork`]; the C API: [`fork`];
//! - semaphores and message queues: [`signals`]; tasks, and those of PVM: [`own_file`];
//! - all that open files by name: [`regular_file`]; all that write one whole: [`whole_file`]; all
//!   that listen under a name: [`local_socket`];
//! - all that ask the environment: [`environment`]; pools: [`standard_descriptors`],
//!   [`file_lease`].
//!
//! Between calls nothing is held but the descriptors and mappings that the returned values own.
//! This crate may use `unsafe`. It never interprets results, never retries (except [`wait`], which
//! has a second method, [`accept`], which has a spare descriptor, and [`biased_lock`], which waits
//! for a thread), never logs, and never
//! handles payload.

pub mod accept;
pub mod biased_lock;
pub mod bpf;
pub mod control_group;
pub mod end_signals;
pub mod environment;
pub mod error_queue;
pub mod fanotify;
pub mod file_lease;
pub mod file_pages;
pub mod fork;
pub mod identity;
pub mod interface;
pub mod interface_addresses;
pub mod io_priority;
pub mod local_socket;
pub mod namespaces;
pub mod own_file;
pub mod packet;
pub mod peer;
pub mod probe;
pub mod read_ahead;
pub mod regular_file;
pub mod residency;
pub mod scheduling;
pub mod signals;
pub mod socket_option;
pub mod spawn;
pub mod standard_descriptors;
pub mod system_v;
pub mod udp_receive;
pub mod wait;
pub mod whole_file;
