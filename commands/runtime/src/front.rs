//! The front of a program that is a command of `hythe`: its command line, and its `main`.
//!
//! Help and errors name the command as it is called, `hythe media send`. Never knows what a command
//! does.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Args as _, Command, FromArgMatches};

use crate::args::{Globals, POOL_VARIABLE};
use crate::commands::HopCommand;
use crate::description::{self, CommandDescription};
use crate::error::CliError;
use crate::{end, logs, wrong_use};

/// How a program is called.
#[derive(Debug)]
pub struct CommandLine(Command);

impl CommandLine {
    /// Of the program of one command; `augment` adds what is the command's own.
    pub fn of(command: &HopCommand, augment: fn(Command) -> Command) -> Self {
        let root = Command::new(command.program.name)
            .bin_name(format!("hythe {}", command.name))
            .display_name(format!("hythe-{}", command.name));
        let root = with_all(root, augment);
        Self(root.about(command.about).after_help(command.examples))
    }

    /// Of a program whose commands are commands of `hythe`.
    pub fn of_several(name: &'static str, augment: fn(Command) -> Command) -> Self {
        let root = Command::new(name).bin_name("hythe").display_name("hythe");
        Self(with_all(root, augment).about("Commands of `hythe`"))
    }

    /// What these words ask for, the program's name first.
    ///
    /// # Errors
    ///
    /// They are wrong, or ask for help.
    pub fn parse<T: FromArgMatches>(
        &self,
        words: &[OsString],
    ) -> Result<(Globals, T), clap::Error> {
        let mut root = self.0.clone();
        let mut matches = root.try_get_matches_from_mut(words)?;
        let globals = Globals::from_arg_matches(&matches);
        let parsed = globals.and_then(|globals| {
            let own = T::from_arg_matches_mut(&mut matches)?;
            Ok((globals, own))
        });
        parsed.map_err(|error| error.format(&mut root))
    }

    /// Runs the program: `run` does what was asked for.
    pub fn main<T: FromArgMatches>(
        &self,
        run: impl FnOnce(T, &Globals) -> Result<(), CliError>,
    ) -> u8 {
        self.main_with(|words| self.parse(&words), |_| None, run)
    }

    /// As [`main`](Self::main), where words are not taken as they are (`parse`), or `hint` says
    /// where one belongs that stands where none does.
    pub fn main_with<T>(
        &self,
        parse: impl FnOnce(Vec<OsString>) -> Result<(Globals, T), clap::Error>,
        hint: impl FnOnce(&clap::Error) -> Option<String>,
        run: impl FnOnce(T, &Globals) -> Result<(), CliError>,
    ) -> u8 {
        let words: Vec<OsString> = std::env::args_os().collect();
        if words.len() == 2 && words[1] == description::OPTION {
            let described = CommandDescription::of(&self.0).print();
            return end(described);
        }
        let (globals, asked) = parse(words).unwrap_or_else(|error| {
            let hint = hint(&error);
            wrong_use(error, hint)
        });
        let done = logs::start(globals.verbose).and_then(|()| run(asked, &globals));
        end(done)
    }
}

/// The command with what all understand, and what it has of its own.
fn with_all(command: Command, augment: fn(Command) -> Command) -> Command {
    let own = augment(Command::new("own"));
    let needs_subcommand = own.has_subcommands() && own.get_arguments().next().is_none();
    // The version of `hythe` is that of all its programs: it needs no line in each help.
    let version = Arg::new("version")
        .short('V')
        .long("version")
        .action(ArgAction::Version)
        .hide(true);
    let command = augment(Globals::augment_args(command))
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true)
        .arg(version)
        .arg_required_else_help(needs_subcommand)
        .subcommand_required(needs_subcommand)
        .disable_help_subcommand(true)
        .max_term_width(MAX_TERM_WIDTH);
    without_empty_pool(command)
}

/// No help is wider.
pub const MAX_TERM_WIDTH: usize = 100;

/// An empty `HYTHE_POOL` names no pool, as one that is not set.
pub fn without_empty_pool(command: Command) -> Command {
    match std::env::var_os(POOL_VARIABLE) {
        Some(value) if value.is_empty() => {
            command.mut_arg("pool", |pool| pool.env(Resettable::Reset))
        }
        _ => command,
    }
}
