//! Systems with a starter of their own, which reaches the other host: Open MPI and PVM, where they
//! are installed.
//!
//! Their two sides are small programs in C (`bench/peers`), compiled here for the run: nothing of
//! the project needs these systems. Whoever is not installed is left out, and said.

mod openmpi;
pub(super) mod pvm;
pub(super) mod remote_shell;

use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::case::{Reach, System};
use super::message::{Neighbour, Run};
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;
use crate::statistics;

const EXCHANGE: &str = include_str!("../../../peers/exchange.h");
/// For the start of both sides, beside the time that they measure.
const STARTING: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(2);

/// The two hosts, for a starter on the near one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosts<'a> {
    pub(super) folder: &'a Path,
    /// Between them.
    pub(super) interface: &'a str,
    pub(super) own: IpAddr,
    pub(super) other: IpAddr,
    pub(super) neighbour: Neighbour,
}

impl Hosts<'_> {
    /// Of the side that measures and of the other one.
    fn cpu_words(&self) -> [String; 2] {
        let cpus = self.neighbour.cpus.map(|cpus| cpus.map(|cpu| cpu as i64));
        cpus.unwrap_or([-1; 2]).map(|cpu| cpu.to_string())
    }

    /// Where the other side runs.
    const fn of(&self, reach: Reach) -> IpAddr {
        match reach {
            Reach::Local => self.own,
            Reach::Remote => self.other,
        }
    }
}

/// Compiles the two sides of a system into `folder`, once. Why that is not possible here.
pub(super) fn prepare(system: System, folder: &Path) -> Option<String> {
    let prepared = match system {
        System::Openmpi => openmpi::prepare(folder),
        _ => pvm::prepare(folder),
    };
    prepared.err()
}

/// There and back; what was found, as base64 of an HdrHistogram V2.
pub(super) fn measure(run: &Run, hosts: &Hosts<'_>) -> Result<String, BenchError> {
    let mut command = match run.case.system {
        System::Openmpi => openmpi::command(run, hosts)?,
        _ => pvm::command(run, hosts),
    };
    let printed = output(&mut command, STARTING + SILENCE_BOUND + 2 * run.time)?;
    let mut times = statistics::histogram();
    for line in printed.lines() {
        let time: u64 = line
            .trim()
            .parse()
            .map_err(|_| BenchError::PeerLost(format!("it printed {line:?}, which is no time")))?;
        statistics::record(&mut times, Duration::from_nanos(time));
    }
    if times.is_empty() {
        return Err(BenchError::PeerLost("it printed no times".to_owned()));
    }
    statistics::encode(&[times])
}

/// Compiles `source` into `folder`, unless that is done; why not.
fn compile(
    compiler: &str,
    (name, source): (&str, &str),
    libraries: &[&str],
    folder: &Path,
) -> Result<(), String> {
    let program = folder.join(name);
    if program.exists() {
        return Ok(());
    }
    let file = folder.join(format!("{name}.c"));
    let written = std::fs::write(folder.join("exchange.h"), EXCHANGE);
    written
        .and_then(|()| std::fs::write(&file, source))
        .map_err(|error| error.to_string())?;
    let mut command = Command::new(compiler);
    command
        .args(["-std=c11", "-O2", "-o"])
        .arg(&program)
        .arg(&file);
    let ran = command.args(libraries).stdin(Stdio::null()).output();
    let output = ran.map_err(|error| format!("{compiler}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let first = said.lines().find(|line| line.contains("error"));
            Err(format!("{compiler}: {}", first.unwrap_or(said.trim())))
        }
    }
}

/// A program of `PATH`, or the package that brings it.
fn installed(program: &str, package: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| format!("{program} is not installed (package {package})"))
}

/// What a program printed; killed if it takes longer than `bound`.
fn output(command: &mut Command, bound: Duration) -> Result<String, BenchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    hythe_sys::spawn::die_with_parent(command);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => BenchError::Unable(format!("{name} is missing")),
        _ => error.into(),
    })?;
    let [printed, said] = [
        child.stdout.take().map(|pipe| reader(Box::new(pipe))),
        child.stderr.take().map(|pipe| reader(Box::new(pipe))),
    ];
    let start = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if start.elapsed() < bound => std::thread::sleep(LOOK),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(BenchError::silent(bound));
            }
        }
    };
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    };
    let (printed, said) = (text(printed), text(said));
    match status.success() {
        true => Ok(printed),
        false => Err(BenchError::Unable(format!(
            "{name}: {status}: {}",
            said.trim()
        ))),
    }
}

fn reader(mut pipe: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // What is not text is no answer.
        let _ = pipe.read_to_string(&mut text);
        text
    })
}
