//! The tests of this package from outside, in one program: a module for each matter.

mod loom_bell;
mod loom_events;
mod loom_queue;
mod threads;
