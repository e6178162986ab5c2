//! The agents of both hosts, made and joined by the shipped command, as a user does it: a realm and
//! a pool of its own for each carrier, so that no row pays for the carrier of another.

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::case::Carrier;
use crate::error::BenchError;
use crate::network::Link;
use crate::starter::{Neighbour, remote_shell};

/// The command, and the agent that it starts.
const COMMAND: &str = "hythe";
const AGENT: &str = "hythe-hostd";
/// What the hosts are called.
pub(crate) const NEAR: &str = "near";
pub(crate) const FAR: &str = "far";
/// Where agents take connections and are found: at the address of their carrier's link.
const PORT: u16 = 7450;
const DISCOVERY_PORT: u16 = 7451;
/// Agents share a CPU with a side that spins.
const LEASE_SECONDS: &str = "10";
/// Until an interface is served.
const SERVING: Duration = Duration::from_secs(10);
/// Of an agent that is asked to stop.
const ENDING_SECONDS: &str = "60";
/// Until agents have found each other.
const MEETING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// The agent of one carrier on one of the hosts.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// Where the directories of all agents are.
    pub(crate) folder: PathBuf,
    pub(crate) carrier: Carrier,
    pub(crate) is_near: bool,
    /// That it serves.
    pub(crate) pool: String,
    /// Of its environment, which the tasks that it starts for other hosts have, too.
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

/// The far host, as the near one takes it into its realm.
#[derive(Debug)]
pub(crate) struct FarHost<'a> {
    pub(crate) pool: &'a str,
    pub(crate) address: IpAddr,
    pub(crate) neighbour: Neighbour,
}

/// Why there are no agents here.
pub(crate) fn why_not() -> Option<String> {
    let mut programs = [COMMAND, AGENT].into_iter();
    let missing = programs.find(|name| find(name).is_none());
    missing.map(|name| format!("{name} is not there: run `make hosts`, and build hythe"))
}

impl Agent {
    /// The same carrier's on the other host, as far as it can be asked how it is.
    pub(super) fn other(&self) -> Self {
        Self {
            is_near: !self.is_near,
            ..self.clone()
        }
    }

    /// Begins a realm on this host, and takes the far one in, whose agent runs then.
    pub(crate) fn introduce(&self, own: IpAddr, far: &FarHost<'_>) -> Result<(), BenchError> {
        let [own, other] = [own, far.address].map(|address| address.to_string());
        self.hythe(&["host", "init", "--name", NEAR, "--address", &own], None)?;
        let shell = self.remote_shell(far)?;
        let words = ["host", "add", FAR, "--name", FAR, "--address", &other];
        self.hythe(&words, Some(&shell)).map(|_said| ())
    }

    /// At this link, and nowhere else.
    pub(crate) fn start(&self, link: &Link) -> Result<(), BenchError> {
        let at = |port| Ok::<_, BenchError>(SocketAddr::new(link.own_ip()?, port).to_string());
        let (listen, discovery) = (at(PORT)?, at(DISCOVERY_PORT)?);
        let mut words = vec!["host", "start", "--lease", LEASE_SECONDS];
        words.extend(["--listen", &listen, "--discovery", &discovery]);
        if self.carrier.is_for_trusted() {
            words.extend(["--trusted", &link.interface]);
        }
        if self.carrier == Carrier::Tcp {
            words.push("--no-xdp");
        }
        self.hythe(&words, None).map(|_said| ())
    }

    /// Tasks of the other host may start programs on this one.
    pub(crate) fn let_other_spawn(&self) -> Result<(), BenchError> {
        let other = if self.is_near { FAR } else { NEAR };
        let words = ["host", "allow", other, "*", "spawn"];
        self.hythe(&words, None).map(|_said| ())
    }

    pub(crate) fn stop(&self) -> Result<(), BenchError> {
        let words = ["host", "stop", "--timeout", ENDING_SECONDS];
        self.hythe(&words, None).map(|_said| ())
    }

    /// The document of `hythe host status --json`.
    pub(super) fn status(&self) -> Result<Value, BenchError> {
        let said = self.hythe(&["--json", "host", "status"], None)?;
        Ok(serde_json::from_slice(&said).map_err(std::io::Error::from)?)
    }

    /// Waits until it and the one of the other host are connected.
    pub(crate) fn wait_for_other(&self) -> Result<(), BenchError> {
        let start = Instant::now();
        while !(is_connected(&self.status()?) && is_connected(&self.other().status()?)) {
            if start.elapsed() > MEETING {
                let (carrier, status) = (self.carrier, self.status()?);
                return Err(BenchError::Unable(format!(
                    "the agents of carrier {carrier:?} did not meet within {MEETING:?}: {status}"
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// By which commands find it and its pool.
    pub(crate) fn environment(&self, command: &mut Command) {
        command.env("HYTHE_POOL", &self.pool);
        command.env("HYTHE_HOSTS_DIR", self.directory());
        command.envs(self.variables.iter().cloned());
    }

    fn directory(&self) -> PathBuf {
        let name = if self.is_near { NEAR } else { FAR };
        self.folder.join(format!("{name}-{:?}", self.carrier))
    }

    /// A program that runs what it is told on the far host.
    fn remote_shell(&self, far: &FarHost<'_>) -> Result<PathBuf, BenchError> {
        let hosts = self.other().directory();
        let agent = find(AGENT).unwrap_or_default();
        let programs = agent.parent().unwrap_or(Path::new("/"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", programs.display());
        let name = format!("remote-shell-{:?}", self.carrier);
        let variables = [
            ("HYTHE_HOSTS_DIR", &*hosts.display().to_string()),
            ("HYTHE_POOL", far.pool),
            ("PATH", &path),
        ];
        Ok(remote_shell::write(
            (&self.folder, &name),
            far.neighbour,
            &variables,
        )?)
    }

    /// What the command said on its standard output.
    fn hythe(&self, words: &[&str], remote_shell: Option<&Path>) -> Result<Vec<u8>, BenchError> {
        let mut command = hythe();
        command.args(words);
        self.environment(&mut command);
        if let Some(agent) = find(AGENT) {
            command.env("HYTHE_HOSTD", agent);
        }
        if let Some(shell) = remote_shell {
            command.env("HYTHE_RSH", shell);
        }
        let output = command.output().map_err(missing)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let words = words.join(" ");
        Err(BenchError::Unable(format!("`hythe {words}`: {said}")))
    }
}

/// `hythe host wire` on this host; ended when dropped.
#[derive(Debug)]
pub(super) struct Wire(Child);

impl Wire {
    /// Waits until it serves the interface. `/run` must be this host's own.
    pub(super) fn serve(interface: &str) -> Result<Self, BenchError> {
        let mut command = hythe();
        command.args(["host", "wire", interface]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        hythe_sys::spawn::die_with_parent(&mut command);
        let mut wire = Self(command.spawn().map_err(missing)?);
        let socket = Path::new(WIRES).join(interface);
        let start = Instant::now();
        while !socket.exists() {
            if wire.0.try_wait()?.is_some() {
                let mut said = String::new();
                if let Some(stderr) = &mut wire.0.stderr {
                    stderr.read_to_string(&mut said)?;
                }
                let why = format!("`hythe host wire {interface}` has ended: {}", said.trim());
                return Err(BenchError::Unable(why));
            }
            if start.elapsed() > SERVING {
                return Err(BenchError::silent(SERVING));
            }
            std::thread::sleep(LOOK);
        }
        Ok(wire)
    }
}

/// Where each interface that is served has its socket.
const WIRES: &str = "/run/hythe/wire";

impl Drop for Wire {
    fn drop(&mut self) {
        // Its program at the interface, which is this host's alone, goes with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says an agent that it is connected with the one other host?
fn is_connected(status: &Value) -> bool {
    status["hosts"][0]["state"] == "connected"
}

fn hythe() -> Command {
    let program = find(COMMAND).unwrap_or_else(|| PathBuf::from(COMMAND));
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

fn missing(error: std::io::Error) -> BenchError {
    match error.kind() {
        ErrorKind::NotFound => BenchError::Unable(format!("{COMMAND} is missing")),
        _ => error.into(),
    }
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
