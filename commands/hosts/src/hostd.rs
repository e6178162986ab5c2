//! Becomes `hythe-hostd`, which has the keys of this host.
//!
//! A program of its own, because it carries Zenoh and TLS.

use std::ffi::OsString;

use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::program::HOSTD;

/// Returns only if there is no such program. `words`: the command's name and what it is told.
pub(super) fn exec(words: Vec<OsString>, globals: &Globals) -> CliError {
    HOSTD.exec(|command| {
        if globals.json {
            command.arg("--json");
        }
        command.args(words);
        if let Some(pool) = &globals.pool {
            command.env("HYTHE_POOL", pool);
        }
    })
}
