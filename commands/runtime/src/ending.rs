//! How a program ends.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use hythe_terminal::escaped;

use crate::error::CliError;
use crate::{limits, output};

/// The exit code for what came of a command, whose error is said unless it was.
pub fn end(done: Result<(), CliError>) -> u8 {
    let Err(error) = done else {
        return 0;
    };
    if !error.is_reported() {
        // Nobody may be left to read it: whoever started a detached agent.
        output::note_error(format_args!("{error}{}", limits::remedy(&error)));
    }
    error.exit_code()
}

/// Prints help, version, or what is wrong with the arguments, and ends: as clap does, but without
/// what a terminal would obey of the arguments that are repeated. `hint` says where a word belongs
/// that stands where none does.
pub fn wrong_use(mut error: clap::Error, hint: Option<String>) -> ! {
    if let Some(hint) = hint {
        let hints = ContextValue::StyledStrs(vec![StyledStr::from(hint)]);
        error.insert(ContextKind::Suggested, hints);
    }
    let repeated: Vec<(ContextKind, String)> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, escaped(text).to_string())),
            _ => None,
        })
        .collect();
    for (kind, text) in repeated {
        error.insert(kind, ContextValue::String(text));
    }
    error.exit()
}
