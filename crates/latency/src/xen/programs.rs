//! The programs that make the machine ready and are it, and what is said where one is missing.

use std::process::{Child, Command, Stdio};

use crate::LatencyError;

/// A program that the machine needs, and the Debian package that has it.
pub(super) struct Needed {
    pub(super) program: &'static str,
    package: &'static str,
}

pub(super) const QEMU: Needed = Needed {
    program: "qemu-system-aarch64",
    package: "qemu-system-arm",
};
/// Starts QEMU so that it ends with us.
pub(super) const STARTER: Needed = Needed {
    program: "setpriv",
    package: "util-linux",
};
pub(super) const COMPILER: Needed = Needed {
    program: "dtc",
    package: "device-tree-compiler",
};
/// What a starter ends with that did not find its program: a shell's code.
const NOT_FOUND: i32 = 127;

/// Starts a command whose own program is `first`, whatever that starts in turn.
pub(super) fn start(command: &mut Command, first: &Needed) -> Result<Child, LatencyError> {
    command
        .spawn()
        .map_err(|error| first.failed(&error.to_string()))
}

impl Needed {
    /// It did not start.
    pub(super) fn failed(&self, why: &str) -> LatencyError {
        LatencyError::Program {
            program: self.program,
            what: format!(
                "{why}; Debian's package {} has it: sudo apt-get install {0}",
                self.package
            ),
        }
    }
}

/// Runs a program that ends by itself soon: `first` starts `main`, or is it.
pub(super) fn finish(
    command: &mut Command,
    first: &Needed,
    main: &Needed,
) -> Result<(), LatencyError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = start(command, first)?
        .wait_with_output()
        .map_err(LatencyError::file("wait for", main.program))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(()),
        Some(NOT_FOUND) => Err(main.failed(said.trim())),
        _ => Err(LatencyError::Program {
            program: main.program,
            what: format!("{}: {}", output.status, said.trim()),
        }),
    }
}
