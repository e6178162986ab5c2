//! The program `hythe-hostd`: the agent of a host, and what `hythe host` needs keys for.
//!
//! Never decides: the library does.

mod arguments;

use std::io::{Read, Write};
use std::process::ExitCode;

use clap::Parser;
use hythe_hostd::agent::{self, RunOptions};
use hythe_hostd::hosts_directory::HostsDirectory;
use hythe_hostd::realm::DOCUMENT_BYTES_MAX;
use hythe_hostd::{HostdError, log, membership, open_channels, zenoh_session};
use sd_notify::NotifyState;
use serde::Serialize;

use crate::arguments::{AllowArguments, Allowed, Arguments, Command, StartArguments};

/// The most bytes of an identity that is installed: the list of hosts as a text in JSON, which at
/// most doubles its length, and two certificates.
const INPUT_BYTES_MAX: u64 = 2 * DOCUMENT_BYTES_MAX as u64 + (64 << 10);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hythe-hostd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), HostdError> {
    let path = hythe_cluster::command::hosts_directory();
    let path = path.map_err(|error| HostdError::Agent(error.to_string()))?;
    let say = |text: String| print(arguments.json, &text);
    match &arguments.command {
        Command::Init { name, address } => {
            let directory = HostsDirectory::open_or_create(&path)?;
            say(membership::init(&directory, name.clone(), address)?)
        }
        Command::Add(addition) => {
            let directory = HostsDirectory::open(&path)?;
            let hosts = addition.all()?;
            let several = addition.are_several();
            let added = membership::add_all(&directory, &hosts, several, say);
            agent::tell(&directory)?;
            added
        }
        Command::Remove { name } => {
            let directory = HostsDirectory::open(&path)?;
            let said = membership::remove(&directory, name)?;
            agent::tell(&directory)?;
            say(said)
        }
        Command::Allow(allowed) => {
            let directory = HostsDirectory::open(&path)?;
            let said = allow(&directory, allowed)?;
            agent::tell(&directory)?;
            say(said)
        }
        Command::Start(options) => start(&HostsDirectory::open(&path)?, options, arguments.json),
        Command::Join { name, realm } => {
            let directory = HostsDirectory::open_or_create(&path)?;
            let stop = || agent::stop(&directory);
            let joining = membership::join(&directory, name, realm.as_deref(), stop)?;
            print(true, &joining)
        }
        Command::Install => {
            let directory = HostsDirectory::open(&path)?;
            let mut bytes = Vec::new();
            let input = std::io::stdin().lock().take(INPUT_BYTES_MAX);
            let read = { input }.read_to_end(&mut bytes);
            read.map_err(|error| HostdError::Agent(format!("standard input: {error}")))?;
            print(true, &membership::install(&directory, &bytes)?)
        }
    }
}

/// Changes what is allowed, and says how it is now.
fn allow(directory: &HostsDirectory, arguments: &AllowArguments) -> Result<String, HostdError> {
    Ok(match arguments.what() {
        Allowed::Rule {
            host,
            pattern,
            right,
        } => {
            let rule = agent::allow(directory, host, pattern, right)?;
            format!("allowed: {rule}")
        }
        Allowed::Open(channel) => {
            let key = open_channels::open(directory, channel)?;
            format!(
                "channel {channel} is open as Zenoh key {key} to whoever reaches it, without keys \
                 and encryption: `hythe host status` says where"
            )
        }
        Allowed::Close(channel) => {
            open_channels::close(directory, channel)?;
            format!("channel {channel} is not open any more")
        }
    })
}

fn start(
    directory: &HostsDirectory,
    arguments: &StartArguments,
    as_json: bool,
) -> Result<(), HostdError> {
    let trusted = arguments.check_trusted();
    if !arguments.foreground {
        trusted?;
        let said = agent::start(directory, &arguments.words())?;
        return print(as_json, &said);
    }
    let failed = |error: std::io::Error| HostdError::Agent(format!("this program: {error}"));
    zenoh_session::on_one_thread().map_err(failed)?;
    log::start(arguments.log.clone())?;
    if let Err(error) = trusted {
        // At a boot it may come later.
        tracing::warn!(%error, "an interface is waited for");
    }
    let directory = HostsDirectory::open(directory.path())?;
    let options = RunOptions {
        listen: arguments.listen,
        discovery: arguments.discovery,
        peers: arguments.peer.clone(),
        no_scouting: arguments.no_scouting,
        router: arguments.router,
        lease: Some(arguments.lease),
        pool: arguments.pool.clone(),
        trusted: arguments.trusted.clone(),
        no_xdp: arguments.no_xdp,
        open_listen: arguments.open_listen,
        open_peers: arguments.open_peer.clone(),
    };
    agent::run(directory, &options, |address| {
        // Whoever started it may have gone.
        let _ = print(false, &format!("ready at {address}"));
        // Where systemd has not, nobody is told.
        if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
            tracing::warn!(%error, "the service manager is not told that the agent is ready");
        }
    })
}

/// For people a line, for programs JSON.
fn print(as_json: bool, said: &(impl Serialize + ?Sized)) -> Result<(), HostdError> {
    let fail = |error: std::io::Error| HostdError::Agent(format!("standard output: {error}"));
    let json = serde_json::to_value(said).map_err(|error| fail(error.into()))?;
    let line = match (as_json, json) {
        (false, serde_json::Value::String(text)) => text,
        (_, json) => json.to_string(),
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(fail)
}
