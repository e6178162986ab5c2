//! The `hythe` command.
fn main() {}
