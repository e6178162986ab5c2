//! A process of a test's own, which has a flow and is killed: this program again, with one of its
//! tests. It says on standard error how far it is.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use hythe_sys::spawn::die_with_parent;

use super::Served;
use crate::links::{BOUND, FAR, NEAR, udp};

/// Its parent's hold of it; killed when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    said: Receiver<String>,
}

/// In the child: where the service is, and a socket that hears the far one only. `None`: this is an
/// ordinary run of the tests, and that test is none.
pub(crate) fn role(variable: &str) -> Option<(PathBuf, UdpSocket)> {
    let role = std::env::var_os(variable)?;
    let role = role.to_str().expect("readable");
    let (path, port) = role.split_once(' ').expect("two words");
    let near = udp(NEAR);
    let far: u16 = port.parse().expect("a port");
    near.connect((FAR, far)).expect("set");
    Some((PathBuf::from(path), near))
}

/// In the child: its flow is there.
pub(crate) fn say_where(near: &UdpSocket) {
    eprintln!("at {}", near.local_addr().expect("bound").port());
}

impl Child {
    /// Starts a test of this program as one, and returns the port of its flow, which hears `far`.
    /// It ends with the thread that calls this.
    pub(crate) fn start(
        (test, variable): (&str, &str),
        served: &Served,
        far: &UdpSocket,
    ) -> (Self, u16) {
        let port = far.local_addr().expect("bound").port();
        let mut command = Command::new(std::env::current_exe().expect("itself"));
        command
            .args([test, "--exact", "--nocapture"])
            .env(variable, format!("{} {port}", served.path.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        die_with_parent(&mut command);
        let mut process = command.spawn().expect("started");
        let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let (saying, said) = channel();
        // Ends with the process, or with who listens.
        std::thread::spawn(move || {
            let mut lines = lines.map_while(Result::ok);
            let _ = lines.try_for_each(|line| saying.send(line));
        });
        let child = Self { process, said };
        let near = child.word("at ").parse().expect("a port");
        (child, near)
    }

    /// What it says behind these words; what it said before is passed over.
    pub(crate) fn word(&self, begin: &str) -> String {
        loop {
            let line = self.said.recv_timeout(BOUND);
            let line = line.unwrap_or_else(|_| panic!("it has not said {begin}"));
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }

    /// Has it said so by now?
    pub(crate) fn has_said(&self, what: &str) -> bool {
        self.said.try_iter().any(|line| line == what)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself, which the test notices otherwise.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
