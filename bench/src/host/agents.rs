//! The agents of both hosts, made and joined by the shipped command, as a user does it.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::case::Carrier;
use crate::error::BenchError;
use crate::starter::{Neighbour, remote_shell};

/// The command, and the agent that it starts.
const COMMAND: &str = "hythe";
const AGENT: &str = "hythe-hostd";
/// What the hosts are called.
const NEAR: &str = "near";
const FAR: &str = "far";

/// The agents of one carrier: on which pools, and where.
#[derive(Debug)]
pub(super) struct Agents<'a> {
    /// Where their directories are.
    pub(super) folder: &'a Path,
    pub(super) carrier: Carrier,
    pub(super) pools: [&'a str; 2],
    pub(super) addresses: [IpAddr; 2],
    pub(super) neighbour: Neighbour,
}

/// Why there are no agents here.
pub(super) fn why_not() -> Option<String> {
    let mut programs = [COMMAND, AGENT].into_iter();
    let missing = programs.find(|name| find(name).is_none());
    missing.map(|name| format!("{name} is not there: run `make hosts`, and build hythe"))
}

/// Makes a realm and an agent here, and adds the far host over a remote shell that leads into its
/// network.
pub(super) fn introduce(agents: &Agents<'_>) -> Result<(), BenchError> {
    let near = directory(agents.folder, agents.carrier, true);
    let [pool, far_pool] = agents.pools;
    let [own, other] = agents.addresses.map(|address| address.to_string());
    let init = ["host", "init", "--name", NEAR, "--address", &own];
    hythe(&near, pool, None, &init)?;
    hythe(&near, pool, None, &["host", "start"])?;
    let shell = remote_shell(agents, far_pool)?;
    let words = ["host", "add", FAR, "--name", FAR, "--address", &other];
    hythe(&near, pool, Some(&shell), &words)
}

/// Ends the agent of this host, if it was started.
pub(super) fn part(
    folder: &Path,
    carrier: Carrier,
    pool: &str,
    is_near: bool,
) -> Result<(), BenchError> {
    hythe(
        &directory(folder, carrier, is_near),
        pool,
        None,
        &["host", "stop"],
    )
}

/// Of an agent.
fn directory(folder: &Path, carrier: Carrier, is_near: bool) -> PathBuf {
    let name = if is_near { NEAR } else { FAR };
    folder.join(format!("{name}-{carrier:?}"))
}

/// A program that runs what it is told on the far host.
fn remote_shell(agents: &Agents<'_>, far_pool: &str) -> Result<PathBuf, BenchError> {
    let hosts = directory(agents.folder, agents.carrier, false);
    let agent = find(AGENT).unwrap_or_default();
    let programs = agent.parent().unwrap_or(Path::new("/"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", programs.display());
    let name = format!("remote-shell-{:?}", agents.carrier);
    let variables = [
        ("HYTHE_HOSTS_DIR", &*hosts.display().to_string()),
        ("HYTHE_POOL", far_pool),
        ("PATH", &path),
    ];
    Ok(remote_shell::write(
        (agents.folder, &name),
        agents.neighbour,
        &variables,
    )?)
}

fn hythe(
    hosts: &Path,
    pool: &str,
    remote_shell: Option<&Path>,
    words: &[&str],
) -> Result<(), BenchError> {
    let program = find(COMMAND).unwrap_or_else(|| PathBuf::from(COMMAND));
    let mut command = Command::new(&program);
    command.args(["--pool", pool]).args(words);
    command.env("HYTHE_HOSTS_DIR", hosts).stdin(Stdio::null());
    if let Some(agent) = find(AGENT) {
        command.env("HYTHE_HOSTD", agent);
    }
    if let Some(shell) = remote_shell {
        command.env("HYTHE_RSH", shell);
    }
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => BenchError::Unable(format!("{} is missing", program.display())),
        _ => error.into(),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let words = words.join(" ");
    Err(BenchError::Unable(format!("`hythe {words}`: {said}")))
}

/// A program beside this one, or where `make hosts` puts it.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?;
    let hosts = Path::new("../hosts").join(folder.file_name()?);
    let places = [folder.to_owned(), folder.join(hosts)];
    let files = places.into_iter().map(|place| place.join(name));
    files.into_iter().find(|file| file.is_file())
}
