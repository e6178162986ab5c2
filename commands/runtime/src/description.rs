//! The command line of a program as a JSON document, from which `hythe` makes completions and man
//! pages of a program that it does not contain.
//!
//! Has what these two show, and nothing of how arguments are checked. Never acts.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StyledStr};
use clap::{Arg, ArgAction, Command, ValueHint};
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::output;

/// A program that is given this, and nothing else, prints its description.
pub const OPTION: &str = "--describe-command-line";

/// A command, with those below it.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct CommandDescription {
    name: String,
    about: Option<String>,
    long_about: Option<String>,
    after_help: Option<String>,
    needs_subcommand: bool,
    arguments: Vec<ArgumentDescription>,
    subcommands: Vec<CommandDescription>,
}

/// An argument of a command: an option, or one by position.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct ArgumentDescription {
    id: String,
    short: Option<char>,
    long: Option<String>,
    visible_aliases: Vec<String>,
    help: Option<String>,
    long_help: Option<String>,
    heading: Option<String>,
    variable: Option<String>,
    action: Action,
    /// The least and the most, where the action does not say it.
    value_count: Option<(usize, usize)>,
    value_names: Vec<String>,
    value_hint: Option<String>,
    default_values: Vec<String>,
    choices: Vec<Choice>,
    conflicts: Vec<String>,
    is_required: bool,
    is_global: bool,
    is_hidden: bool,
    is_trailing: bool,
    /// Its value follows `=`.
    requires_equals: bool,
}

/// One of the few values of an argument.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Choice {
    name: String,
    help: Option<String>,
    is_hidden: bool,
}

/// What an argument does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Set,
    Append,
    SetTrue,
    Count,
}

impl CommandDescription {
    /// Of a command that is not built yet: what clap adds to each, it adds again.
    pub(crate) fn of(command: &Command) -> Self {
        // The version is that of `hythe`.
        let is_own = |one: &&Arg| !matches!(one.get_action(), ArgAction::Version);
        let arguments = command.get_arguments().filter(is_own);
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        Self {
            name: command.get_name().to_owned(),
            about: text(command.get_about()),
            long_about: text(command.get_long_about()),
            after_help: text(command.get_after_help()),
            needs_subcommand: command.is_subcommand_required_set(),
            arguments: arguments
                .map(|argument| ArgumentDescription::of(argument, command))
                .collect(),
            subcommands: shown.map(Self::of).collect(),
        }
    }

    pub(crate) fn print(&self) -> Result<(), CliError> {
        output::print(true, self, |_| String::new())
    }

    /// The command again.
    pub fn command(self) -> Command {
        let arguments = self
            .arguments
            .into_iter()
            .map(ArgumentDescription::argument);
        let subcommands = self.subcommands.into_iter().map(Self::command);
        let mut command = Command::new(self.name)
            .subcommand_required(self.needs_subcommand)
            .disable_help_subcommand(true)
            .args(arguments)
            .subcommands(subcommands);
        if let Some(about) = self.about {
            command = command.about(about);
        }
        if let Some(about) = self.long_about {
            command = command.long_about(about);
        }
        if let Some(help) = self.after_help {
            command = command.after_help(help);
        }
        command
    }

    /// The command of this name below it.
    pub fn subcommand(self, name: &str) -> Option<Command> {
        let mut subcommands = self.subcommands.into_iter();
        subcommands.find(|one| one.name == name).map(Self::command)
    }
}

impl ArgumentDescription {
    fn of(argument: &Arg, of: &Command) -> Self {
        let owned = |text: &str| text.to_owned();
        let aliases = argument.get_visible_aliases().unwrap_or_default();
        let names = argument.get_value_names().unwrap_or_default();
        let count = argument.get_num_args();
        let values = argument.get_default_values().iter();
        let conflicts = of.get_arg_conflicts_with(argument);
        let hint = argument.get_value_hint();
        Self {
            id: argument.get_id().as_str().to_owned(),
            short: argument.get_short(),
            long: argument.get_long().map(owned),
            visible_aliases: aliases.into_iter().map(owned).collect(),
            help: text(argument.get_help()),
            long_help: text(argument.get_long_help()),
            heading: argument.get_help_heading().map(owned),
            variable: argument.get_env().map(lossy),
            action: Action::of(argument.get_action()),
            value_count: count.map(|count| (count.min_values(), count.max_values())),
            value_names: names.iter().map(|name| name.as_str().to_owned()).collect(),
            value_hint: (hint != ValueHint::Unknown).then(|| format!("{hint:?}")),
            default_values: values.map(|value| lossy(value)).collect(),
            choices: argument
                .get_possible_values()
                .iter()
                .map(Choice::of)
                .collect(),
            conflicts: conflicts
                .iter()
                .map(|other| other.get_id().as_str().to_owned())
                .collect(),
            is_required: argument.is_required_set(),
            is_global: argument.is_global_set(),
            is_hidden: argument.is_hide_set(),
            is_trailing: argument.is_trailing_var_arg_set(),
            requires_equals: argument.is_require_equals_set(),
        }
    }

    fn argument(self) -> Arg {
        let mut argument = Arg::new(self.id)
            .short(self.short)
            .visible_aliases(self.visible_aliases)
            .conflicts_with_all(self.conflicts)
            .required(self.is_required)
            .global(self.is_global)
            .hide(self.is_hidden)
            .trailing_var_arg(self.is_trailing)
            .require_equals(self.requires_equals)
            .action(self.action.clap())
            .default_values(self.default_values);
        if let Some(long) = self.long {
            argument = argument.long(long);
        }
        if let Some(heading) = self.heading {
            argument = argument.help_heading(heading);
        }
        if let Some(help) = self.help {
            argument = argument.help(help);
        }
        if let Some(help) = self.long_help {
            argument = argument.long_help(help);
        }
        if let Some(variable) = self.variable {
            argument = argument.env(variable);
        }
        if let Some((least, most)) = self.value_count {
            argument = argument.num_args(least..=most);
        }
        if !self.value_names.is_empty() {
            argument = argument.value_names(self.value_names);
        }
        if !self.choices.is_empty() && matches!(self.action, Action::Set | Action::Append) {
            let choices = self.choices.into_iter().map(Choice::value);
            argument = argument.value_parser(choices.collect::<Vec<_>>());
        }
        match self
            .value_hint
            .and_then(|hint| hint.parse::<ValueHint>().ok())
        {
            Some(hint) => argument.value_hint(hint),
            None => argument,
        }
    }
}

impl Choice {
    fn of(value: &PossibleValue) -> Self {
        Self {
            name: value.get_name().to_owned(),
            help: text(value.get_help()),
            is_hidden: value.is_hide_set(),
        }
    }

    fn value(self) -> PossibleValue {
        let value = PossibleValue::new(self.name).hide(self.is_hidden);
        match self.help {
            Some(help) => value.help(help),
            None => value,
        }
    }
}

impl Action {
    const fn of(action: &ArgAction) -> Self {
        match action {
            ArgAction::Append => Self::Append,
            ArgAction::SetTrue | ArgAction::SetFalse => Self::SetTrue,
            ArgAction::Count => Self::Count,
            _ => Self::Set,
        }
    }

    const fn clap(self) -> ArgAction {
        match self {
            Self::Set => ArgAction::Set,
            Self::Append => ArgAction::Append,
            Self::SetTrue => ArgAction::SetTrue,
            Self::Count => ArgAction::Count,
        }
    }
}

fn text(styled: Option<&StyledStr>) -> Option<String> {
    styled.map(StyledStr::to_string)
}

fn lossy(value: &OsStr) -> String {
    value.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, ValueEnum};

    use super::*;
    use crate::args::Globals;

    #[derive(Clone, Debug, ValueEnum)]
    enum Mode {
        /// As it comes
        Fast,
        Slow,
    }

    #[derive(Debug, clap::Args)]
    struct Own {
        /// From where
        ///
        /// More of it.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<std::path::PathBuf>,
        /// How
        #[arg(long, value_enum, default_value = "fast", conflicts_with = "quiet")]
        mode: Mode,
        #[arg(short, long)]
        quiet: bool,
    }

    #[test]
    fn described_command_shows_the_same() {
        let inner = Own::augment_args(Command::new("send").about("Send").after_help("Example"));
        let command = Globals::augment_args(Command::new("media"))
            .subcommand_required(true)
            .disable_help_subcommand(true)
            .subcommand(inner);
        let described = CommandDescription::of(&command);
        let text = serde_json::to_string(&described).expect("plain");
        let read: CommandDescription = serde_json::from_str(&text).expect("its own");
        assert_eq!(read, described);
        let help = |mut command: Command| {
            let inner = command.find_subcommand_mut("send").expect("there");
            (
                inner.render_long_help().to_string(),
                command.render_help().to_string(),
            )
        };
        assert_eq!(help(read.command()), help(command));
    }
}
