//! `examples/directory` in a namespace, and what it says.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use super::realm::Realm;
use super::{Namespace, Plug};

pub(crate) const PORT: u16 = 7_450;
/// Where the hosts say that their connections are taken; nobody listens there.
pub(crate) const ANNOUNCED: &str = "0.0.0.0:7410";

/// It says so when it had nothing else to say for a second.
pub(crate) const IDLE: &str = "idle";

/// The longest wait for one line; it only ends a test that has failed.
const LINE_TIMEOUT: Duration = Duration::from_secs(100);
/// Lines that nobody has asked for yet; the program waits beyond that.
const LINES_MAX: usize = 1_000;

/// A host's directory.
pub(crate) struct Peer {
    process: Child,
    lines: Receiver<String>,
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
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut peer = Self {
            process,
            lines,
            started: Instant::now(),
        };
        assert_eq!(peer.line(), "ready");
        peer
    }

    /// The next thing that it says.
    pub(crate) fn line(&mut self) -> String {
        self.line_by(Instant::now() + LINE_TIMEOUT)
    }

    fn line_by(&mut self, deadline: Instant) -> String {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = self.lines.recv_timeout(left);
        line.unwrap_or_else(|error| panic!("it says nothing more within {LINE_TIMEOUT:?}: {error}"))
    }

    /// The next thing that it says of a host.
    pub(crate) fn line_of_host(&mut self) -> String {
        let deadline = Instant::now() + LINE_TIMEOUT;
        loop {
            let line = self.line_by(deadline);
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
