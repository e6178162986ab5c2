//! The tests of this package from outside, in one program: a module for each matter.

mod hostile;
mod hostile_input;
mod vectors;
