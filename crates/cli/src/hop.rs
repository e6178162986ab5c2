//! Commands that are programs of their own (`hythe media …`): `hythe` becomes the program.
//!
//! Their arguments stay as they are: only the options of every command may stand before the name.
//! Never knows what a program does.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::process::Command;

use hythe_command::commands::{self, HopCommand};
use hythe_command::description::{self, CommandDescription};
use hythe_terminal::escaped;

use crate::error::CliError;

/// A call of such a command.
pub(crate) struct Called<'a> {
    hop: &'static HopCommand,
    globals: &'a [OsString],
    rest: &'a [OsString],
}

/// The call in these words, the program's name first, if they are one.
pub(crate) fn called(words: &[OsString]) -> Option<Called<'_>> {
    let mut place = 1;
    while let Some(count) = words.get(place).and_then(|word| global(word)) {
        place += count;
    }
    let name = words.get(place)?.to_str()?;
    Some(Called {
        hop: commands::find(name)?,
        globals: &words[1..place],
        rest: &words[place + 1..],
    })
}

/// How many words an option of every command is that begins with this one.
fn global(word: &OsStr) -> Option<usize> {
    let word = word.to_str()?;
    let verbose = |letters: &str| !letters.is_empty() && letters.bytes().all(|one| one == b'v');
    match word {
        "--pool" => Some(2),
        "--json" | "--verbose" => Some(1),
        _ if word.starts_with("--pool=") || word.strip_prefix('-').is_some_and(verbose) => Some(1),
        _ => None,
    }
}

impl Called<'_> {
    /// Returns only if the program cannot be started.
    pub(crate) fn run(&self) -> CliError {
        self.hop.program.exec(|command| {
            command.args(self.globals);
            command.args(self.hop.is_one_of_several.then_some(self.hop.name));
            command.args(self.rest);
        })
    }
}

/// What the help of `hythe` shows of a command, if its program is installed.
pub(crate) fn summary(hop: &HopCommand) -> clap::Command {
    let command = clap::Command::new(hop.name).about(hop.about);
    command
        .after_help(hop.examples)
        .hide(hop.program.find().is_none())
}

/// The command as its program describes it, where that is installed.
pub(crate) fn described(hop: &HopCommand) -> Result<clap::Command, CliError> {
    let Some(file) = hop.program.find() else {
        return Ok(summary(hop));
    };
    let output = Command::new(&file).arg(description::OPTION).output();
    let output = output.map_err(CliError::file("run", &file))?;
    let strange = |error: &dyn Display| {
        CliError::Failed(format!(
            "{} does not describe `hythe {}` as this version expects ({error}): install both anew",
            escaped(&file),
            hop.name
        ))
    };
    let described: CommandDescription =
        serde_json::from_slice(&output.stdout).map_err(|error| strange(&error))?;
    let command = match hop.is_one_of_several {
        true => described.subcommand(hop.name),
        false => Some(described.command().name(hop.name)),
    };
    command.ok_or_else(|| strange(&"it has no such command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> Option<(&'static str, String, String)> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let called = called(&words)?;
        let joined = |words: &[OsString]| words.join(OsStr::new(" ")).into_string().expect("text");
        Some((called.hop.name, joined(called.globals), joined(called.rest)))
    }

    #[test]
    fn call_keeps_its_words() {
        for (line, name, globals, rest) in [
            ("hythe media send -- --x", "media", "", "send -- --x"),
            (
                "hythe --pool core -vv core run hosted",
                "core",
                "--pool core -vv",
                "run hosted",
            ),
            (
                "hythe --json --pool=a run -n 2 -- make --json",
                "run",
                "--json --pool=a",
                "-n 2 -- make --json",
            ),
            ("hythe task-part --job 1", "task-part", "", "--job 1"),
        ] {
            let found = parts(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(found, (name, globals.to_owned(), rest.to_owned()), "{line}");
        }
        for line in [
            "hythe",
            "hythe list",
            "hythe --bogus media",
            "hythe --pool media",
            "hythe -h run",
        ] {
            assert!(parts(line).is_none(), "{line}");
        }
    }
}
