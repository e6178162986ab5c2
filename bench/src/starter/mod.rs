//! Systems with a starter of their own, which reaches the other host: Open MPI, MPICH, UCX and
//! PVM, where they are installed. Scenarios `host` and `pvm` use them, and `ipc` where both sides
//! are on one host.
//!
//! What they start are small programs in C (`bench/peers`, `bench/programs`), compiled here for the
//! run: nothing of the project needs these systems. Whoever is not installed is left out, and said.

pub(crate) mod mpi;
pub(crate) mod pvm;
pub(crate) mod remote_shell;
pub(crate) mod ucx;

use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::statistics;

/// For the start of all sides, beside the time that they measure.
pub(crate) const STARTING: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(2);
/// For a program that is asked to end, and ends what it has started.
const ENDING: Duration = Duration::from_secs(5);
pub(crate) const EXCHANGE: (&str, &str) = ("exchange.h", include_str!("../../peers/exchange.h"));

/// The other host, as this one sees it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Neighbour {
    /// That holds its network.
    pub(crate) process: u32,
    /// This host's and the other's, where there are two.
    pub(crate) cpus: Option<[usize; 2]>,
}

/// The two hosts, for a starter on the near one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosts<'a> {
    pub(crate) folder: &'a Path,
    /// Between them.
    pub(crate) interface: &'a str,
    pub(crate) own: IpAddr,
    pub(crate) other: IpAddr,
    pub(crate) neighbour: Neighbour,
}

impl Hosts<'_> {
    /// Of the side that measures and of the other one.
    pub(crate) fn cpu_words(&self) -> [String; 2] {
        let cpus = self.neighbour.cpus.map(|cpus| cpus.map(|cpu| cpu as i64));
        cpus.unwrap_or([-1; 2]).map(|cpu| cpu.to_string())
    }

    /// The host of every second side.
    pub(crate) const fn second(&self, is_remote: bool) -> IpAddr {
        match is_remote {
            true => self.other,
            false => self.own,
        }
    }
}

/// A program in C, or in C++ where its compiler's name ends so: its name, and its files, whose
/// first is compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'a> {
    pub(crate) name: &'a str,
    pub(crate) files: &'a [(&'a str, &'a str)],
    /// Behind the file.
    pub(crate) options: &'a [&'a str],
}

/// One side of the exchanges of scenario `host`.
const fn peer<'a>(
    name: &'a str,
    files: &'a [(&'a str, &'a str); 2],
    options: &'a [&'a str],
) -> Program<'a> {
    Program {
        name,
        files,
        options,
    }
}

/// Compiles a program into `folder`, unless that is done; why not.
pub(crate) fn compile(compiler: &str, program: &Program<'_>, folder: &Path) -> Result<(), String> {
    let built = folder.join(program.name);
    if built.exists() {
        return Ok(());
    }
    for (name, text) in program.files {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    let first = program.files.first().map_or("", |(name, _)| name);
    let mut command = Command::new(compiler);
    let standard = match compiler.ends_with("++") {
        true => "-std=c++14",
        false => "-std=c11",
    };
    command.args([standard, "-O2", "-o"]).arg(&built);
    command.arg(folder.join(first)).args(program.options);
    let ran = command.stdin(Stdio::null()).output();
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
pub(crate) fn installed(program: &str, package: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| format!("{program} is not installed (package {package})"))
}

/// The times that a peer printed, a line each.
pub(crate) fn times(printed: &str) -> Result<Histogram<u64>, BenchError> {
    let mut times = statistics::histogram();
    for line in printed.lines() {
        let time: u64 = line
            .trim()
            .parse()
            .map_err(|_| BenchError::PeerLost(format!("it printed {line:?}, which is no time")))?;
        statistics::record(&mut times, Duration::from_nanos(time));
    }
    match times.is_empty() {
        true => Err(BenchError::PeerLost("it printed no times".to_owned())),
        false => Ok(times),
    }
}

/// What a program printed; ended if it takes longer than `bound`.
pub(crate) fn output(command: &mut Command, bound: Duration) -> Result<String, BenchError> {
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
    let Some(status) = end_of(&mut child, bound)? else {
        end(&mut child)?;
        return Err(BenchError::PeerLost(format!(
            "{name} was not done after {bound:?}, and is ended"
        )));
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

/// Waits for it, so long at most.
fn end_of(child: &mut Child, bound: Duration) -> Result<Option<ExitStatus>, BenchError> {
    let start = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if start.elapsed() < bound => std::thread::sleep(LOOK),
            None => return Ok(None),
        }
    }
}

/// Asks it to end, and kills it where it does not: what is only killed leaves behind what it has
/// started, which would spin on the CPUs of all that is measured from then on.
fn end(child: &mut Child) -> Result<(), BenchError> {
    if let Some(process) = Pid::from_raw(child.id().cast_signed()) {
        // It has not been waited for: the number is its own.
        let _ = kill_process(process, Signal::TERM);
    }
    if end_of(child, ENDING)?.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok(())
}

fn reader(mut pipe: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // What is not text is no answer.
        let _ = pipe.read_to_string(&mut text);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `mpirun` ends its ranks.
    #[test]
    fn program_that_takes_too_long_may_end_what_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let tidied = folder.path().join("tidied");
        let mut command = Command::new("sh");
        let script =
            r#"trap 'kill $sleeper; touch "$0"; exit 1' TERM; sleep 600 & sleeper=$!; wait"#;
        command.args(["-c", script]).arg(&tidied);
        let error = output(&mut command, Duration::from_millis(300)).expect_err("too long");
        assert!(error.to_string().contains("was not done"), "{error}");
        assert!(tidied.exists());
    }
}
