//! The C API for Linux applications: what `hythe.h` declares.
//!
//! Called by C and C++ programs, through `libhythe.so` or `libhythe.a`; cbindgen
//! (`tests/it/header.rs`) makes the header from the documentation here. Each module is one noun of
//! the header: the functions `hythe_noun_verb` around one opaque handle. What they share: every
//! function returns 0, a count, or a negative code ([`code`]), with a message for the thread
//! (`message`); none lets a panic through, and none acts on a handle that a forked child has a copy
//! of (`ffi_guard`). Options and results are structs that begin with their size, so that both sides
//! may grow (`sized`).
//!
//! Unsafe is what C makes so: pointers to bytes and names. Handles are references and boxes in the
//! signatures, which have the same representation; that a pointer is one that this library gave,
//! and not in use by two threads, is the caller's word. What the facade has and this does not, on
//! purpose: introspection (`hythe … --json` shows it), the making of core regions, counters of
//! wake-ups for measurements, and geometries other than a size and classes. This crate never adds
//! behaviour of its own: what a call does is the facade's (`hythe`), and never prints anything.

#![allow(unsafe_code, reason = "an island: C passes raw pointers")]
#![allow(
    non_camel_case_types,
    reason = "types have their names in C, where they are used"
)]

pub mod batch;
mod bytes;
pub mod channel;
pub mod client;
pub mod code;
mod errno;
pub mod event;
mod ffi_guard;
mod handle_pool;
pub mod lease;
pub mod message;
pub mod message_queue;
pub mod node;
mod origin;
pub mod pool;
mod port;
mod process;
pub mod publisher;
pub mod rpc;
pub mod sample;
pub mod segment;
pub mod semaphore;
pub mod server;
mod serving;
pub mod sigbus;
mod sized;
pub mod statistics;
pub mod subscriber;
pub mod task;
pub mod task_group;
pub mod task_message;
pub mod task_spawn;
pub mod version;
pub mod wait_set;
