//! Two hosts for the demo: a network each, a link between them, a pool each, and the agents that
//! carry channels over it.
//!
//! Nothing has a name that others see. The networks go with the processes in them, the agents with
//! this process, however it ends. Needs root. The host's own network is not touched.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Host;
use hythe::{ClassPlan, Pool};
use hythe_cluster::command::{Reply, Request, SOCKET_NAME, ask};
use hythe_cluster::{HostState, Status};
use hythe_command::error::CliError;
use hythe_command::program::HOSTD;
use hythe_command::workspace::{Purpose, Workspace};
use hythe_sys::namespaces::Network;
use hythe_sys::spawn::die_with_parent;
use hythe_terminal::escaped;

/// Names and addresses of the hosts: that of the core, that of the sender.
const NAMES: [&str; 2] = ["core", "sender"];
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
const INTERFACE: &str = "across";
/// A decoded frame of MP3, 1,152 samples of two channels, fits one; so many are underway at once.
const SLOTS: ClassPlan = ClassPlan {
    payload_bytes: 8192,
    count: 128,
};
/// How long agents may take to start, to meet and to end.
const BOUND: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// The two hosts, until it is dropped.
pub(super) struct Across {
    /// The pool of the sender.
    pool: Pool,
    networks: [Network; 2],
    agents: [Agent; 2],
    /// Holds the network of the core's host until its agent does.
    holder: Child,
}

impl Across {
    /// Makes them. The calling thread is on the sender's host afterwards, and must live as long as
    /// they shall.
    pub(super) fn make(workspace: &mut Workspace) -> Result<Self, CliError> {
        let core_pool = workspace.options.name().to_owned();
        let pool = workspace.add_pool(Purpose::Demo, &[SLOTS])?;
        let pools = [core_pool.as_str(), pool.options().name()];
        let program = HOSTD.find().ok_or_else(|| {
            failed(format!(
                "--across needs the agent, and there is no {}: `make hosts` builds it, and \
                 HYTHE_HOSTD can name it",
                escaped(&HOSTD.file())
            ))
        })?;
        let (networks, mut holder) = connected_networks()?;
        let agents = introduce(&program, workspace.files(), pools, &networks);
        match agents {
            Ok(agents) => Ok(Self {
                pool,
                networks,
                agents,
                holder,
            }),
            Err(error) => {
                end(&mut holder);
                Err(error)
            }
        }
    }

    /// Puts the calling thread on a host.
    /// The sender's pool.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn go_to(&self, host: Host) -> io::Result<()> {
        match host {
            Host::Core => self.networks[0].enter(),
            Host::Sender => self.networks[1].enter(),
        }
    }

    /// Ends the agents. Says how often each byte was copied on its way between them.
    pub(super) fn part(&self) -> io::Result<u32> {
        let copies = self.copies()?;
        for agent in &self.agents {
            stop_agent(&agent.socket)?;
        }
        Ok(copies)
    }

    fn copies(&self) -> io::Result<u32> {
        let [core, sender] = &self.agents;
        let session = |agent: &Agent| {
            let hosts = agent.status().into_iter().flat_map(|status| status.hosts);
            let mut sessions = hosts.filter_map(|host| host.session);
            let session = sessions.next().map(|session| session.copies);
            session.ok_or_else(|| io::Error::other("the two hosts are not connected any more"))
        };
        Ok(session(core)?.sending + session(sender)?.receiving)
    }
}

impl Drop for Across {
    fn drop(&mut self) {
        end(&mut self.holder);
    }
}

/// An agent of this process, killed with it.
struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(program: &Path, files: &Path, pool: &str) -> Result<Self, CliError> {
        let mut command = Command::new(program);
        // A terminal's interrupt is for this program, which then ends the agent.
        command.process_group(0);
        command.args(["start", "--foreground", "--no-scouting", "--pool", pool]);
        command.env("HYTHE_HOSTS_DIR", files);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(CliError::file("run", program))?;
        let output = child.stdout.take();
        let agent = Self {
            child,
            socket: files.join(SOCKET_NAME),
        };
        // It says so when it is ready; what it says when it is not is in its log.
        let said = output.map(|output| BufReader::new(output).lines().next());
        match said {
            Some(Some(Ok(line))) if line.starts_with("ready") => Ok(agent),
            _ => Err(failed(format!(
                "the agent with its files in {} does not start",
                escaped(files)
            ))),
        }
    }

    fn status(&self) -> Option<Status> {
        match ask(&self.socket, &Request::Status).ok()? {
            Reply::Status { status } => Some(*status),
            _ => None,
        }
    }

    fn is_connected(&self) -> bool {
        let hosts = self.status().into_iter().flat_map(|status| status.hosts);
        { hosts }.any(|host| host.state == HostState::Connected)
    }
}

/// Has the agent behind a socket end, and waits until it has.
fn stop_agent(socket: &Path) -> io::Result<()> {
    ask(socket, &Request::Stop)?;
    let since = Instant::now();
    while socket.exists() {
        if since.elapsed() > BOUND {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

impl Drop for Agent {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Makes two networks and a link between them. The second is the calling thread's own from then on,
/// the first is held by a process.
fn connected_networks() -> Result<([Network; 2], Child), CliError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => failed(
            "--across makes a network for each of its two hosts, which takes root: run it as root"
                .to_owned(),
        ),
        _ => failed(format!("cannot make a network: {error}")),
    };
    let core = Network::unshare().map_err(refused)?;
    run("ip", &["link", "set", "lo", "up"])?;
    let mut command = Command::new("sleep");
    // The process that dies with this one holds it, so that it can be named.
    command
        .process_group(0)
        .arg("infinity")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    die_with_parent(&mut command);
    let mut holder = command.spawn().map_err(CliError::file("run", "sleep"))?;
    let pid = holder.id().to_string();
    let made = (|| {
        let sender = Network::unshare().map_err(refused)?;
        run("ip", &["link", "set", "lo", "up"])?;
        run(
            "ip",
            &[
                "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", &pid,
            ],
        )?;
        let networks = [core, sender];
        for (network, address) in networks.iter().zip(ADDRESSES) {
            network.enter().map_err(refused)?;
            run(
                "ip",
                &["addr", "add", &format!("{address}/24"), "dev", INTERFACE],
            )?;
            run("ip", &["link", "set", INTERFACE, "up"])?;
        }
        Ok(networks)
    })();
    match made {
        Ok(networks) => Ok((networks, holder)),
        Err(error) => {
            end(&mut holder);
            Err(error)
        }
    }
}

/// Makes a realm of both hosts, as a user does, and starts their agents.
fn introduce(
    agent: &Path,
    files: &Path,
    pools: [&str; 2],
    networks: &[Network; 2],
) -> Result<[Agent; 2], CliError> {
    let folders = NAMES.map(|name| files.join(name));
    let on = |host: usize| {
        let entered = networks[host].enter();
        entered.map_err(|error| failed(format!("cannot go to host {}: {error}", NAMES[host])))
    };
    on(0)?;
    let of_core = |shell: Option<&Path>, words: &[&str]| {
        let mut command = Command::new(agent);
        command.args(words).env("HYTHE_HOSTS_DIR", &folders[0]);
        if let Some(shell) = shell {
            command.env("HYTHE_RSH", shell);
        }
        output(command)
    };
    of_core(
        None,
        &["init", "--name", NAMES[0], "--address", ADDRESSES[0]],
    )?;
    let core = Agent::start(agent, &folders[0], pools[0])?;
    on(1)?;
    let shell = remote_shell(files, agent, &folders[1], pools[1])?;
    let words = ["add", NAMES[1], "--address", ADDRESSES[1]];
    of_core(Some(&shell), &words)?;
    // The one that was started for a user stays when its starter is gone; the next one does not.
    let stopped = stop_agent(&folders[1].join(SOCKET_NAME));
    stopped.map_err(|error| failed(format!("host {} does not stop: {error}", NAMES[1])))?;
    let agents = [core, Agent::start(agent, &folders[1], pools[1])?];
    let since = Instant::now();
    while !agents.iter().all(Agent::is_connected) {
        if since.elapsed() > BOUND {
            let reasons = agents.iter().filter_map(Agent::status);
            let reasons = reasons.flat_map(|status| status.hosts);
            let reasons: Vec<String> = reasons.map(|host| host.reason).collect();
            let why = escaped(&reasons.join("; ")).to_string();
            return Err(failed(format!("the two hosts do not meet: {why}")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(agents)
}

/// A program that runs on the sender's host what it is told, as ssh would. It is called from there.
fn remote_shell(
    files: &Path,
    agent: &Path,
    folder: &Path,
    pool: &str,
) -> Result<PathBuf, CliError> {
    let path = files.join("remote-shell");
    let programs = agent.parent().unwrap_or(Path::new("/"));
    let script = format!(
        "#!/bin/sh\nshift\nexec env HYTHE_HOSTS_DIR='{}' HYTHE_POOL='{pool}' PATH='{}':\"$PATH\" \
         \"$@\"\n",
        folder.display(),
        programs.display()
    );
    let written = std::fs::write(&path, script)
        .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)));
    written.map_err(CliError::file("write", &path))?;
    Ok(path)
}

fn run(program: &str, words: &[&str]) -> Result<(), CliError> {
    let mut command = Command::new(program);
    command.args(words);
    output(command)
}

/// Runs a program to its end, which must be a good one.
fn output(mut command: Command) -> Result<(), CliError> {
    let program = PathBuf::from(command.get_program());
    let run = command.stdin(Stdio::null()).output();
    let output = run.map_err(CliError::file("run", &program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!(
        "{}: {}",
        escaped(&program),
        escaped(said.trim())
    )))
}

/// Ends a child; it may have ended by itself.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

const fn failed(text: String) -> CliError {
    CliError::Failed(text)
}
