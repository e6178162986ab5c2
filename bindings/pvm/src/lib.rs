//! `libpvm3.so.3`: the functions of `pvm3.h`, on Hythe's tasks.
//!
//! Called by programs for PVM, which need not be compiled again. What a function does is
//! `hythe_pvm`'s; here pointers become slices and back, a file for each family. All functions are
//! private to Rust: C finds them by name. `docs/guide/pvm.md` says for each what is the same as in
//! PVM and what is not.
//!
//! Unsafe is what C makes so: that pointers are valid for as many items as a call says is the
//! caller's word. Never holds the session while the program's own functions run.

#![allow(unsafe_code, reason = "an island: C passes raw pointers")]

mod buffers;
mod console;
mod contexts;
mod data;
mod errors;
mod format;
mod groups;
mod guard;
mod handlers;
mod hosts;
mod kept;
mod load;
mod logging;
mod mailboxes;
mod options;
mod output;
mod packing;
mod receiving;
mod reduction;
mod refused;
mod sending;
mod spawning;
mod structures;
mod tasks;
mod waiting;
