//! How a test program starts itself again, as another process of its test.
//!
//! Under an emulator it cannot do so by its name alone: the kernel does not know its format.
//! [`RUNNER`] then holds the command that goes in front; without it nothing does. `make arm` sets
//! it. Never decides what the other process does.

use std::path::Path;
use std::process::Command;

/// The environment variable with what goes in front of the program; words separated by spaces.
const RUNNER: &str = "HYTHE_TEST_RUNNER";

/// The words that start a program built like this one.
pub(crate) fn words(program: &Path) -> Vec<String> {
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let program = program.to_str().expect("a plain path").to_owned();
    runner
        .split_ascii_whitespace()
        .map(str::to_owned)
        .chain([program])
        .collect()
}

/// Starts this program again.
pub(crate) fn command() -> Command {
    let words = words(&std::env::current_exe().expect("own program"));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Does an emulator run this program, and not a kernel on a processor?
#[allow(dead_code, reason = "asked only by tests of what an emulator lacks")]
pub(crate) fn is_emulated() -> bool {
    std::env::var_os(RUNNER).is_some()
}
