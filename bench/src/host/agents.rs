//! The agents of both hosts, made and joined by the shipped command, as a user does it.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::BenchError;

/// The command, and the agent that it starts.
const COMMAND: &str = "hythe";
const AGENT: &str = "hythe-hostd";
/// What the hosts are called.
const NEAR: &str = "near";
const FAR: &str = "far";

/// The other host.
#[derive(Debug)]
pub(super) struct Far {
    /// That holds its network.
    pub(super) process: u32,
    pub(super) pool: String,
    pub(super) address: IpAddr,
}

/// Why there are no agents here.
pub(super) fn why_not() -> Option<String> {
    let mut programs = [COMMAND, AGENT].into_iter();
    let missing = programs.find(|name| find(name).is_none());
    missing.map(|name| format!("{name} is not there: run `make hosts`, and build hythe"))
}

/// Makes a realm and an agent here, and adds the far host over a remote shell that leads into its
/// network.
pub(super) fn introduce(
    folder: &Path,
    (pool, own): (&str, IpAddr),
    far: &Far,
) -> Result<(), BenchError> {
    let near = folder.join(NEAR);
    let own = own.to_string();
    hythe(
        &near,
        pool,
        None,
        &["host", "init", "--name", NEAR, "--address", &own],
    )?;
    hythe(&near, pool, None, &["host", "start"])?;
    let shell = remote_shell(folder, far)?;
    let address = far.address.to_string();
    let words = ["host", "add", FAR, "--name", FAR, "--address", &address];
    hythe(&near, pool, Some(&shell), &words)
}

/// Ends the agent of this host.
pub(super) fn part(folder: &Path, pool: &str, is_near: bool) -> Result<(), BenchError> {
    let folder = folder.join(if is_near { NEAR } else { FAR });
    hythe(&folder, pool, None, &["host", "stop"])
}

/// A program that runs what it is told on the far host.
fn remote_shell(folder: &Path, far: &Far) -> Result<PathBuf, BenchError> {
    let path = folder.join("remote-shell");
    let hosts = folder.join(FAR);
    let agent = find(AGENT).unwrap_or_default();
    let programs = agent.parent().unwrap_or(Path::new("/"));
    let script = format!(
        "#!/bin/sh\nshift\nexec nsenter -t {} -n -m env HYTHE_HOSTS_DIR='{}' HYTHE_POOL='{}' \
         PATH='{}':\"$PATH\" \"$@\"\n",
        far.process,
        hosts.display(),
        far.pool,
        programs.display()
    );
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
    Ok(path)
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
