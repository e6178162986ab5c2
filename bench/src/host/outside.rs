//! Systems that are programs of their own: the floor of TLS and Zenoh, which are built with the
//! agent (`make hosts`), because nothing else of the project has cryptography in it.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::agents::find;
use super::case::System;
use super::message::Run;
use crate::error::BenchError;
use crate::ipc::case::word;
use crate::lookout::SILENCE_BOUND;

/// Answers and measures; the other scenarios' loops in a program of its own.
const PROGRAM: &str = "hythe-host-peers";

/// Why there is no such program.
pub(super) fn why_not() -> Option<String> {
    match find(PROGRAM) {
        Some(_) => None,
        None => Some(format!("{PROGRAM} is not there: run `make hosts`")),
    }
}

/// One side of a run; killed and waited for when dropped.
#[derive(Debug)]
pub(super) struct Outside {
    child: Child,
    /// It ends when this is closed.
    _leash: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Outside {
    /// The side that answers, and at which port.
    pub(super) fn echo(
        system: System,
        own: IpAddr,
        folder: &Path,
    ) -> Result<(Self, u16), BenchError> {
        let own = own.to_string();
        let outside = Self::start(system, folder, &["echo", "--listen", &own])?;
        let port = outside.line(SILENCE_BOUND)?;
        let port = port
            .parse()
            .map_err(|_| BenchError::PeerLost(format!("it said {port:?} for a port")))?;
        Ok((outside, port))
    }

    /// The side that measures; what it found, as base64 of an HdrHistogram V2.
    pub(super) fn measure(
        run: &Run,
        other: SocketAddr,
        folder: &Path,
    ) -> Result<String, BenchError> {
        let words = [
            "ping",
            "--connect",
            &other.to_string(),
            "--size",
            &run.size.to_string(),
            "--count",
            &run.count.to_string(),
            "--seconds",
            &run.time.as_secs_f64().to_string(),
        ];
        let outside = Self::start(run.case.system, folder, &words)?;
        outside.line(SILENCE_BOUND + 2 * run.time)
    }

    fn start(system: System, folder: &Path, words: &[&str]) -> Result<Self, BenchError> {
        let missing = || BenchError::Unable(why_not().unwrap_or_default());
        let program = find(PROGRAM).ok_or_else(missing)?;
        let mut command = Command::new(program);
        command.arg(word(system)).args(words);
        command.arg("--folder").arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        hythe_sys::spawn::die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let (said, lines) = channel();
        if let Some(output) = child.stdout.take() {
            // Ends with the process, or with the channel.
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                for line in lines {
                    if said.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self {
            _leash: child.stdin.take(),
            child,
            lines,
        })
    }

    fn line(&self, bound: Duration) -> Result<String, BenchError> {
        let line = self.lines.recv_timeout(bound);
        line.map_err(|_| BenchError::PeerLost(format!("{PROGRAM} said nothing for {bound:?}")))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // It has ended already, or does so now; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
