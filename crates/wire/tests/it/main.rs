//! The tests of this package from outside, in one program: a module for each matter.
//! `tests/descriptors.rs` is another program: it lowers a limit of its process, and uses it up.

mod killed;
#[path = "../../../xdp/tests/it/links/mod.rs"]
mod links;
mod served;
mod slots;
mod wire;
