//! Hosts with the agent as it is shipped, each in a network namespace, and taken in over a remote
//! shell.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::{Lan, Namespace, Plug, set_speaking};
use hythe_cluster::command::{Reply, Request, SOCKET_NAME, ask};
use hythe_cluster::{HostState, HostStatus, Status};
use hythe_node::{Node, NodeError, Pool, PoolOptions};
use hythe_testing::Polling;
pub(crate) use hythe_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Far beyond what anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Longer than the machine is busy, shorter than a test.
pub(crate) const LEASE: &str = "10";

/// A host: a network, its files, a pool.
pub(crate) struct Host {
    pub(crate) space: Namespace,
    pub(crate) plug: Plug,
    pub(crate) folder: TempDir,
    /// What its agent has in its environment beside that of the test.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
}

impl Host {
    pub(crate) fn on(lan: &Lan, number: u8) -> Self {
        let (space, plug) = lan.host(number);
        let folder = tempfile::tempdir().expect("a directory");
        Self {
            space,
            plug,
            folder,
            environment: Vec::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `hythe-hostd` on this host.
    pub(crate) fn command(&self) -> Command {
        let program = programs().join("hythe-hostd");
        let mut command = self.space.command(program.to_str().expect("text"));
        command.env("HYTHE_HOSTS_DIR", self.path("hosts"));
        command.env("HYTHE_ROOT", self.path("pools"));
        command.envs(self.environment.iter().cloned());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command().args(words).output().expect("run")
    }

    pub(crate) fn said(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    pub(crate) fn refusal(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// A remote shell that leads to this host; `programs` is its PATH.
    fn remote_shell(&self, programs: &Path) -> PathBuf {
        let path = self.path("remote-shell");
        let more = self.environment.iter();
        let more = more.map(|(name, value)| format!("{name}='{}' ", value.display()));
        let more: String = more.collect();
        let script = format!(
            "#!/bin/sh\nshift\nexec nsenter --net=/proc/{}/ns/net env PATH='{}:/usr/bin:/bin' \
             HYTHE_HOSTS_DIR='{}' HYTHE_ROOT='{}' {more}\"$@\"\n",
            self.space.id(),
            programs.display(),
            self.path("hosts").display(),
            self.path("pools").display(),
        );
        std::fs::write(&path, script).expect("written");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&path, mode).expect("permitted");
        path
    }

    pub(crate) fn add(&self, other: &Self, name: &str, programs: &Path) -> Output {
        self.add_at(other, name, &other.plug.address(), programs)
    }

    /// Takes another host into the realm; its agent runs then.
    pub(crate) fn take_in(&self, other: &Self, name: &str) {
        self.take_in_at(other, name, &other.plug.address());
    }

    pub(crate) fn take_in_at(&self, other: &Self, name: &str, address: &str) {
        let added = self.add_at(other, name, address, &programs());
        assert!(added.status.success(), "{added:?}");
    }

    /// `hythe-hostd` of somebody of another realm, on this host.
    pub(crate) fn somebody_said(&self, words: &[&str]) {
        let mut command = self.command();
        command.env("HYTHE_HOSTS_DIR", self.path("somebody"));
        let output = command.args(words).output().expect("run");
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// Stops the agent of somebody of another realm.
    pub(crate) fn stop_somebody(&self) {
        let socket = self.path("somebody").join(SOCKET_NAME);
        ask(&socket, &Request::Stop).expect("asked");
        eventually("its ports are free", || !socket.exists());
    }

    /// The realm's list has that address of it.
    pub(crate) fn add_at(
        &self,
        other: &Self,
        name: &str,
        address: &str,
        programs: &Path,
    ) -> Output {
        let mut command = self.command();
        command.env("HYTHE_RSH", other.remote_shell(programs));
        command.args(["add", name, "--address", address]);
        command.output().expect("run")
    }

    pub(crate) fn ask(&self, request: &Request) -> Option<Reply> {
        ask(&self.path("hosts").join(SOCKET_NAME), request).ok()
    }

    /// What its agent says, if one runs.
    pub(crate) fn status(&self) -> Option<Status> {
        match self.ask(&Request::Status)? {
            Reply::Status { status } => Some(*status),
            _ => None,
        }
    }

    /// What its agent says of another host.
    pub(crate) fn status_of(&self, name: &str) -> Option<HostStatus> {
        let mut hosts = self.status()?.hosts.into_iter();
        hosts.find(|host| host.host.as_str() == name)
    }

    pub(crate) fn is_connected_with(&self, name: &str) -> bool {
        let status = self.status_of(name);
        status.is_some_and(|host| host.state == HostState::Connected)
    }

    /// A signal for its agent, which the kernel delivers before this returns.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.status().expect("it runs").pid;
        send(pid, signal);
    }

    /// Waits until its agent has stopped.
    pub(crate) fn stop(&self) {
        if self.ask(&Request::Stop).is_some() {
            let socket = self.path("hosts").join(SOCKET_NAME);
            let (since, mut polling) = (Instant::now(), Polling::new("the agent's end"));
            while socket.exists() && since.elapsed() < LONG {
                polling.pause();
            }
        }
    }

    /// Channels with other hosts.
    pub(crate) fn channels(&self) -> Vec<String> {
        let hosts = self.status().into_iter().flat_map(|status| status.hosts);
        let sessions = hosts.filter_map(|host| host.session);
        let channels = sessions.flat_map(|session| session.channels);
        channels.map(|channel| channel.channel).collect()
    }

    pub(crate) fn join(&self, name: &str) -> Node {
        let options = PoolOptions::new("default").root(&self.path("pools"));
        let pool = Pool::open_or_create(&options).expect("the agent's pool");
        Node::join(&pool, name).expect("joined")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A signal for a process that this test started.
pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process"), signal).expect("it runs");
}

pub(crate) fn programs() -> PathBuf {
    let own = std::env::current_exe().expect("a program");
    // Beside the folder of tests, and that of examples.
    let folder = own.parent().and_then(Path::parent).expect("a folder");
    folder.to_owned()
}

/// A realm of one host, whose agent runs.
pub(crate) fn first(lan: &Lan) -> Host {
    let a = Host::on(lan, 1);
    a.said(&["init", "--name", "a", "--address", &a.plug.address()]);
    assert!(a.said(&["start"]).starts_with("ready at "));
    a
}

/// Two hosts of a realm, whose agents are connected.
pub(crate) fn pair(lan: &Lan) -> [Host; 2] {
    let (a, b) = (first(lan), Host::on(lan, 2));
    a.take_in(&b, "b");
    eventually("a and b are connected", || are_connected(&a, &b));
    [a, b]
}

/// The same, for a test that is not about how soon a host is missed.
pub(crate) fn patient_pair(lan: &Lan) -> [Host; 2] {
    let [a, b] = pair(lan);
    have_patience(&[&a, &b]);
    eventually("a and b are connected again", || are_connected(&a, &b));
    [a, b]
}

/// Starts agents anew, with a lease that also one lives through that gets no CPU for seconds, as on
/// a machine under load.
pub(crate) fn have_patience(hosts: &[&Host]) {
    start_anew(hosts, |_| Vec::new());
}

/// The same, each with more options.
pub(crate) fn start_anew(hosts: &[&Host], options: fn(&Host) -> Vec<String>) {
    for host in hosts {
        host.stop();
    }
    for host in hosts {
        let options = options(host);
        let mut words = vec!["start", "--lease", LEASE];
        words.extend(options.iter().map(String::as_str));
        eventually("its agent runs", || host.run(&words).status.success());
    }
}

/// Three hosts of a realm, whose agents are connected.
pub(crate) fn three(lan: &Lan) -> [Host; 3] {
    let [a, b] = pair(lan);
    let c = Host::on(lan, 3);
    a.take_in(&c, "c");
    let hosts = [a, b, c];
    eventually("all are connected", || are_together(&hosts));
    hosts
}

/// Hosts `a` and `b`.
pub(crate) fn are_connected(a: &Host, b: &Host) -> bool {
    a.is_connected_with("b") && b.is_connected_with("a")
}

/// Each of the three with each.
pub(crate) fn are_together(hosts: &[Host; 3]) -> bool {
    let names = ["a", "b", "c"];
    let mut pairs = hosts.iter().zip(names);
    pairs.all(|(host, own)| {
        let mut others = names.iter().filter(|name| **name != own);
        others.all(|other| host.is_connected_with(other))
    })
}

/// A network fails between host b and the others, or is mended.
type Fail = fn(&Lan, &[Host; 3], bool);

/// In which ways: what comes from b, what goes to it, both.
pub(crate) const FAILURES: [(&str, Fail); 3] = [
    ("cut both ways", |lan, hosts, is_whole| {
        lan.set_passing(hosts[1].plug, is_whole);
    }),
    ("cut from b", |_, [a, b, c], is_whole| {
        set_speaking(&b.space, b.plug, &[a.plug, c.plug], is_whole);
    }),
    ("cut to b", |_, [a, b, c], is_whole| {
        for other in [a, c] {
            set_speaking(&other.space, other.plug, &[b.plug], is_whole);
        }
    }),
];

/// A wait for a reply of host b has ended as it does when that host is gone.
pub(crate) fn assert_b_lost<T: std::fmt::Debug>(waited: Result<T, NodeError>) {
    match waited {
        Err(NodeError::ServerLost { server, .. }) => {
            assert!(server.starts_with("host b (pid "), "{server}");
        }
        other => panic!("{other:?}"),
    }
}
