//! The tests of this package from outside, in one program: a module for each matter.

mod cores;
mod dropped_tasks;
mod header;
mod nanopb;
mod posix_suite;
mod programs;
mod stage;
