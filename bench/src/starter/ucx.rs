//! UCX, which has no starter. The side that answers is started here, by our remote shell where it
//! is on the other host, says its port, and ends with the exchange.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::{EXCHANGE, Hosts, compile, output, peer, remote_shell};
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;

const SOURCE: (&str, &str) = ("ucx_peer.c", include_str!("../../peers/ucx_peer.c"));
const PEER: &str = "ucx-peer";
const COMPILER: &str = "cc";
const HEADER: &str = "/usr/include/ucp/api/ucp.h";

/// Compiles the peer.
pub(crate) fn prepare_peer(folder: &Path) -> Result<(), String> {
    if !Path::new(HEADER).is_file() {
        return Err("ucp.h is not installed (package libucx-dev)".to_owned());
    }
    let program = peer(PEER, &[SOURCE, EXCHANGE], &["-lucp", "-lucs"]);
    compile(COMPILER, &program, folder)
}

/// What the side that measures printed.
pub(crate) fn measure(
    plan: &[String; 3],
    is_remote: bool,
    hosts: &Hosts<'_>,
    bound: Duration,
) -> Result<String, BenchError> {
    let program = hosts.folder.join(PEER);
    let [near_cpu, far_cpu] = hosts.cpu_words();
    let variables = variables(is_remote, hosts);
    let at = hosts.second(is_remote).to_string();
    let mut answering = match is_remote {
        true => {
            let place = (hosts.folder, "ucx-remote-shell");
            let mut command =
                Command::new(remote_shell::write(place, hosts.neighbour, &variables)?);
            command.arg(&at);
            command
        }
        false => {
            let mut command = Command::new("env");
            command.args(variables.map(|(name, value)| format!("{name}={value}")));
            command
        }
    };
    answering
        .arg(&program)
        .args(["answer", &at, &plan[0], &far_cpu]);
    let (_answering, port) = start(&mut answering)?;
    let mut measuring = Command::new(&program);
    measuring.envs(variables);
    measuring
        .args(["measure", &at, &port])
        .args(plan)
        .arg(near_cpu);
    output(&mut measuring, bound)
}

/// Shared memory within a host, TCP over the link between two; what it has to say goes to nobody
/// who reads times.
pub(super) fn variables<'a>(is_remote: bool, hosts: &Hosts<'a>) -> [(&'static str, &'a str); 4] {
    let [transports, devices] = match is_remote {
        true => ["tcp,self", hosts.interface],
        false => ["posix,sysv,cma,self", "all"],
    };
    [
        ("UCX_TLS", transports),
        ("UCX_NET_DEVICES", devices),
        ("UCX_LOG_LEVEL", "error"),
        ("UCX_WARN_UNUSED_ENV_VARS", "n"),
    ]
}

/// Killed and waited for when dropped.
struct Answering(Child);

impl Drop for Answering {
    fn drop(&mut self) {
        // It has ended already, or does so now; there is nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The side that answers, and its port.
fn start(command: &mut Command) -> Result<(Answering, String), BenchError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    hythe_sys::spawn::die_with_parent(command);
    let mut answering = Answering(command.spawn()?);
    let (said, line) = channel();
    if let Some(pipe) = answering.0.stdout.take() {
        std::thread::spawn(move || {
            let mut first = String::new();
            // An end is an empty line.
            let _ = BufReader::new(pipe).read_line(&mut first);
            let _ = said.send(first);
        });
    }
    let line = line.recv_timeout(SILENCE_BOUND).unwrap_or_default();
    match line.trim().parse::<u16>() {
        Ok(port) => Ok((answering, port.to_string())),
        Err(_) => Err(BenchError::PeerLost(format!(
            "UCX's side that answers said {line:?} for a port"
        ))),
    }
}
