//! The tests of this package from outside, in one program: a module for each matter.

mod behaviour;
mod interface;
mod packages;
mod programs;
mod support;
