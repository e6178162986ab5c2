//! Becomes `hythe-hostd`, which has the keys of this host.
//!
//! A program of its own, because it carries Zenoh and TLS.

use std::ffi::OsString;

use crate::args::Globals;
use crate::error::CliError;
use crate::program::Program;

/// The agent.
pub(crate) const PROGRAM: Program = Program {
    name: "hythe-hostd",
    variable: Some("HYTHE_HOSTD"),
    remedy: "`make hosts` makes it from Hythe's sources",
};

/// Returns only if there is no such program. `words`: the command's name and what it is told.
pub(super) fn exec(words: Vec<OsString>, globals: &Globals) -> CliError {
    PROGRAM.exec(|command| {
        if globals.json {
            command.arg("--json");
        }
        command.args(words);
        if let Some(pool) = &globals.pool {
            command.env("HYTHE_POOL", pool);
        }
    })
}
