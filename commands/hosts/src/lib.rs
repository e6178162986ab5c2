//! `hythe host`: other hosts, and the agent that carries channels to them.
//!
//! What needs keys is done by the program `hythe-hostd`, which the command becomes (`hostd`); what
//! only the running agent knows, it is asked for over its socket (`agent`). `wire` serves an
//! interface. Never reads a key, never connects to another host.

mod args;
mod hostd;
mod list;
mod status;
mod stop;
mod wire;

pub use self::args::HostCommand;

use hythe_command::args::Globals;
use hythe_command::error::CliError;

/// Runs a command of `hythe host`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(command: HostCommand, globals: &Globals) -> Result<(), CliError> {
    let words = match command {
        HostCommand::Stop(args) => return stop::run(&args, globals),
        HostCommand::Status => return status::run(globals),
        HostCommand::List => return list::run(globals),
        HostCommand::Wire(args) => return wire::run(&args),
        HostCommand::Init(args) => args.words(),
        HostCommand::Add(args) => args.words(),
        HostCommand::Remove(args) => args.words(),
        HostCommand::Allow(args) => args.words(),
        HostCommand::Start(args) => args.words(),
    };
    Err(hostd::exec(words, globals))
}
