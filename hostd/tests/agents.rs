//! Two hosts with the agent as it is shipped, each in a network namespace: taken in over a remote
//! shell, and then a message from one to the other.

mod network;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use hythe_cluster::HostState;
use hythe_cluster::command::{Reply, Request, SOCKET_NAME, ask};
use hythe_node::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions};
use network::{Lan, Namespace, Plug, is_skipped};
use tempfile::TempDir;

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A host: a network, its files, a pool.
struct Host {
    space: Namespace,
    plug: Plug,
    folder: TempDir,
}

impl Host {
    fn on(lan: &Lan, number: u8) -> Self {
        let (space, plug) = lan.host(number);
        let folder = tempfile::tempdir().expect("a directory");
        Self {
            space,
            plug,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `hythe-hostd` on this host.
    fn command(&self) -> Command {
        let mut command = self.space.command(env!("CARGO_BIN_EXE_hythe-hostd"));
        command.env("HYTHE_HOSTS_DIR", self.path("hosts"));
        command.env("HYTHE_ROOT", self.path("pools"));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command().args(words).output().expect("run")
    }

    fn said(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn refusal(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// A remote shell that leads to this host; `programs` is its PATH.
    fn remote_shell(&self, programs: &Path) -> PathBuf {
        let path = self.path("remote-shell");
        let script = format!(
            "#!/bin/sh\nshift\nexec nsenter --net=/proc/{}/ns/net env PATH='{}:/usr/bin:/bin' \
             HYTHE_HOSTS_DIR='{}' HYTHE_ROOT='{}' \"$@\"\n",
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

    fn add(&self, other: &Self, name: &str, programs: &Path) -> Output {
        let mut command = self.command();
        command.env("HYTHE_RSH", other.remote_shell(programs));
        command.args(["add", name, "--address", &other.plug.address()]);
        command.output().expect("run")
    }

    fn ask(&self, request: &Request) -> Option<Reply> {
        ask(&self.path("hosts").join(SOCKET_NAME), request).ok()
    }

    fn is_connected_with(&self, name: &str) -> bool {
        let Some(Reply::Status { status }) = self.ask(&Request::Status) else {
            return false;
        };
        let mut hosts = status.hosts.iter();
        hosts.any(|host| host.host.as_str() == name && host.state == HostState::Connected)
    }

    fn join(&self, name: &str) -> Node {
        let options = PoolOptions::new("default").root(&self.path("pools"));
        let pool = Pool::open_or_create(&options).expect("the agent's pool");
        Node::join(&pool, name).expect("joined")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.ask(&Request::Stop).is_some() {
            let socket = self.path("hosts").join(SOCKET_NAME);
            let since = Instant::now();
            while socket.exists() && since.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn programs() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_hythe-hostd"));
    program.parent().expect("a folder").to_owned()
}

/// A realm of one host, whose agent runs.
fn first(lan: &Lan) -> Host {
    let a = Host::on(lan, 1);
    a.said(&["init", "--name", "a", "--address", &a.plug.address()]);
    assert!(a.said(&["start"]).starts_with("ready at "));
    a
}

#[test]
fn a_host_is_taken_in_and_a_message_reaches_it() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let a = first(&lan);
    let b = Host::on(&lan, 2);
    let added = a.add(&b, "b", &programs());
    assert!(added.status.success(), "{added:?}");
    eventually("a and b are connected", || {
        a.is_connected_with("b") && b.is_connected_with("a")
    });
    let (here, there) = (a.join("sender"), b.join("receiver"));
    let mut frames = there
        .subscriber("frames", &SubscriberOptions::default())
        .expect("subscribed");
    let mut publisher = here
        .publisher("frames", &PublisherOptions::default())
        .expect("published");
    let reached = publisher.wait_for_subscribers(1, LONG);
    assert!(reached.expect("sound"), "host b is no subscriber");
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at / 251) as u8).collect();
    for _ in 0..3 {
        let mut lease = publisher.lease(sent.len()).expect("a slot");
        lease.write(0, &sent);
        publisher.publish(lease, sent.len()).expect("published");
        let frame = frames.take(LONG).expect("sound").expect("it arrives");
        assert_eq!(frame.to_vec(), sent);
    }
    // Put out, it is known on neither side any more.
    a.said(&["remove", "b"]);
    eventually("b is cut off", || !a.is_connected_with("b"));
}

#[test]
fn what_is_wrong_with_a_host_is_named() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let a = first(&lan);
    let taken = a.refusal(&["init", "--name", "z"]);
    assert!(taken.contains("this host is a of realm"), "{taken}");
    let twice = a.refusal(&["start"]);
    assert!(twice.contains("runs already"), "{twice}");
    let unknown = a.refusal(&["remove", "nobody"]);
    assert!(unknown.contains("no host nobody; it has: a"), "{unknown}");
    let option = a.refusal(&["add", "--name", "b", "--", "-oProxyCommand=true"]);
    assert!(option.contains("is no host"), "{option}");
    let rule = a.refusal(&["allow", "b", "frames", "look"]);
    assert!(rule.contains("read|write|spawn|none"), "{rule}");
    let b = Host::on(&lan, 2);
    let nobody = a.add(&b, "b", Path::new("/nowhere"));
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
    assert!(said.contains("host b: there is no hythe-hostd"), "{said}");
    let same = a.add(&b, "a", &programs());
    let said = String::from_utf8_lossy(&same.stderr);
    assert!(said.contains("the name a is taken"), "{said}");
    let stranger = b.refusal(&["start"]);
    assert!(stranger.contains("belongs to no realm"), "{stranger}");
}
