//! The tests of this package from outside, in one program: a module for each matter.

mod allocations;
mod hostile;
mod hostile_input;
mod network;
mod simulation;
mod vectors;
