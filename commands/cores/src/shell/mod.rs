//! `hythe core shell`: a tester of cores.
//!
//! `line` brings commands, `state` says which are possible, `commands` carries them out, `test`
//! exchanges messages, `rpc` calls, `peek` and `objects` look; here is the loop, and what is
//! printed. A new command is a row in `state` and an arm in `commands`. Never leaves behind what
//! was not there before: no core, no port, no pool.

mod commands;
mod line;
mod peek;
mod rpc;
mod state;
mod test;

use crate::args::CoreShellArgs;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output::{self, Growing};
use hythe_command::stop::Stop;
use hythe_command::units;
use serde::Serialize;

use self::commands::{Outcome, Session};
use self::line::Commands;
use self::state::Command;

#[derive(Serialize)]
struct Head<'a> {
    board: &'a str,
}

#[derive(Serialize)]
struct Step<'a> {
    command: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct Tail {
    ok: bool,
}

/// Prints a command and what came of it.
type Tell<'a> = dyn FnMut(&str, &Result<Outcome, CliError>) -> Result<(), CliError> + 'a;

pub(super) fn run(args: &CoreShellArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let mut commands = Commands::new(args.commands.as_deref(), globals.json, &stop)?;
    let mut session = Session::new(args, globals, &stop);
    let head = Head { board: &args.board };
    let mut document = globals
        .json
        .then(|| Growing::begin(&head, "steps"))
        .transpose()?;
    let done = converse(
        &mut session,
        &mut commands,
        &stop,
        &mut |command, outcome| {
            match &mut document {
                Some(document) => document.push(&step(command, outcome)),
                None => match outcome {
                    Ok(outcome) => output::say(&line(&outcome.text(&args.board))),
                    // Whoever prints the error of the whole command prints this one.
                    Err(_) => Ok(()),
                },
            }
        },
    );
    // The terminal first: nothing is typed any more.
    drop(commands);
    let ended = session.end();
    if let Some(document) = document {
        document.end(&Tail {
            ok: done.is_ok() && ended.is_ok(),
        })?;
    }
    if let (Err(_), Err(error)) = (&done, &ended) {
        output::note_error(error);
    }
    done.and(ended)
}

/// Does one command after the other. A list of commands ends with the first that fails: those
/// behind it count on it. A person goes on, and is told at the end that something failed.
fn converse(
    session: &mut Session<'_>,
    commands: &mut Commands<'_>,
    stop: &Stop,
    tell: &mut Tell<'_>,
) -> Result<(), CliError> {
    let mut failed = 0;
    while let Some(text) = commands.next(&prompt(session))? {
        let command = state::parse(&text, session.state());
        let is_last = matches!(command, Ok(Command::Quit));
        let outcome = command.and_then(|command| session.execute(command));
        tell(&text, &outcome)?;
        match outcome {
            Ok(_) => {}
            Err(error) if commands.is_typed() && !stop.asked() => {
                output::note_error(error);
                commands.skip_line();
                failed += 1;
            }
            Err(error) => return Err(error),
        }
        if is_last || stop.asked() {
            break;
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(CliError::Failed(format!(
            "{} failed",
            units::counted(failed, "command")
        ))),
    }
}

fn prompt(session: &Session<'_>) -> String {
    format!("{}> ", session.state().name())
}

fn step<'a>(command: &'a str, outcome: &'a Result<Outcome, CliError>) -> Step<'a> {
    Step {
        command,
        ok: outcome.is_ok(),
        result: outcome.as_ref().ok(),
        error: outcome.as_ref().err().map(ToString::to_string),
    }
}

fn line(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with('\n') => text.to_owned(),
        text => format!("{text}\n"),
    }
}
