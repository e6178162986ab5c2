//! The tests of this package from outside, in one program: a module for each matter.

mod link;
mod links;
mod pieces;
