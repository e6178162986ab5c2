//! `examples/directory` in a namespace, and what it says.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use super::realm::Realm;
use super::{Namespace, Plug};

pub(crate) const PORT: u16 = 7_450;
/// Where the hosts say that their connections are taken; nobody listens there.
pub(crate) const ANNOUNCED: &str = "0.0.0.0:7410";

/// It says so when it had nothing else to say for a second.
pub(crate) const IDLE: &str = "idle";

/// A host's directory.
pub(crate) struct Peer {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    started: Instant,
}

impl Peer {
    pub(crate) fn start(
        namespace: &Namespace,
        realm: &Realm,
        host: &str,
        options: &[String],
    ) -> Self {
        let folder = realm.path().to_str().expect("text");
        let listen = format!("0.0.0.0:{PORT}");
        let mut command = namespace.command(&program("directory"));
        command
            .args([host, folder, &listen, ANNOUNCED])
            .args(options);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("nsenter");
        let stdout = process.stdout.take().expect("piped");
        let mut peer = Self {
            process,
            lines: BufReader::new(stdout).lines(),
            started: Instant::now(),
        };
        assert_eq!(peer.line(), "ready");
        peer
    }

    /// The next thing that it says. It waits for as long as it takes; the runner of the tests ends
    /// a test that hangs.
    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("it runs").expect("text")
    }

    /// The next thing that it says of a host.
    pub(crate) fn line_of_host(&mut self) -> String {
        loop {
            let line = self.line();
            if line != IDLE {
                return line;
            }
        }
    }

    /// Waits until it says this.
    pub(crate) fn until(&mut self, wanted: &str) {
        loop {
            let line = match wanted {
                IDLE => self.line(),
                _ => self.line_of_host(),
            };
            eprintln!("{:5} ms: {line}", self.started.elapsed().as_millis());
            if line == wanted {
                return;
            }
        }
    }

    pub(crate) fn until_seen(&mut self, host: &str, plug: Plug) {
        self.until(&format!("seen {host} {}:7410", plug.address()));
    }

    pub(crate) fn until_gone(&mut self, host: &str) {
        self.until(&format!("gone {host}"));
    }

    /// Of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("waited");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An example of this package, beside the test's own program.
fn program(name: &str) -> String {
    let own = std::env::current_exe().expect("a program");
    let built = own
        .parent()
        .and_then(|deps| deps.parent())
        .expect("a target directory");
    built
        .join("examples")
        .join(name)
        .to_str()
        .expect("text")
        .to_owned()
}
