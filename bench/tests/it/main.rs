//! The tests of this package from outside, in one program: a module for each matter.

mod core;
mod host;
mod ipc;
mod long_run;
mod media;
mod preload;
mod pvm;
mod soak;
mod wait_set;
