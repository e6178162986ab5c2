//! The tests of this package from outside, in one program: a module for each matter.

mod answers;
mod flow;
mod links;
mod replaced;
mod slots;
mod support;
mod tcp;
mod wire;
