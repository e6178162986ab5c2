//! The tests of this package from outside, in one program: a module for each matter.

mod replay;
mod runs;
mod support;
mod vectors;
