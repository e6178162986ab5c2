//! The tests of this package from outside, in one program: a module for each matter.

#[cfg(not(any(loom, miri)))]
mod again;
mod edges;
mod faults;
mod interrupted;
