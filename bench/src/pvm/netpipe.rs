//! NetPIPE between the two hosts: a program of its own for each system, and a table of sizes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::case::{Case, Metric, System};
use super::message::{Found, Run};
use super::tasks::{self, Surroundings, surround};
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;
use crate::starter::mpi::{Mpi, Ranks};
use crate::starter::{self, installed, pvm, remote_shell};
use crate::statistics;

/// The largest message, in bytes.
const LARGEST: &str = "1048576";
const LARGEST_QUICK: &str = "1024";
/// Trips of each size; NetPIPE keeps the best of several trials.
const TRIPS: &str = "100";
const TRIPS_QUICK: &str = "10";
/// For one table.
const BOUND: Duration = Duration::from_secs(60);
/// Until the far side is there, which does not say so.
const MEETING: Duration = Duration::from_secs(20);
/// What each task of a job does. The first looks for the other once, and what comes to the table is
/// its own.
const EACH_RANK: &str = r#"[ "$HYTHE_RANK" = 0 ] || exec "$0" "$@" -o /dev/null
sleep 1; exec "$0" -h far "$@""#;
const LOOK: Duration = Duration::from_millis(200);

/// Why a system has no table here.
pub(super) fn why_not(case: Case, library: Option<&Path>) -> Result<(), String> {
    program(case.system)?;
    match case.system {
        System::Openmpi => Mpi::Open.look_for(),
        System::Mpich => Mpi::Mpich.look_for(),
        System::Pvm | System::Hythe => tasks::why_not(case, library),
        System::Tcp | System::HytheNative => Ok(()),
    }
}

fn program(system: System) -> Result<PathBuf, String> {
    match system {
        System::Tcp => installed("NPtcp", "netpipe-tcp"),
        System::Openmpi => installed("NPopenmpi", "netpipe-openmpi"),
        System::Mpich => installed("NPmpich2", "netpipe-mpich2"),
        System::Pvm | System::Hythe | System::HytheNative => installed("NPpvm", "netpipe-pvm"),
    }
}

pub(super) fn measure(run: &Run, around: &Surroundings<'_>) -> Result<Vec<Found>, BenchError> {
    let hosts = around.hosts;
    let table = hosts.folder.join("netpipe.out");
    let program = program(run.case.system).map_err(BenchError::Unable)?;
    match run.case.system {
        System::Openmpi | System::Mpich => {
            let mpi = match run.case.system {
                System::Openmpi => Mpi::Open,
                _ => Mpi::Mpich,
            };
            let ranks = Ranks {
                count: 2,
                are_remote: true,
                share_cpus: run.case.subject.shares_cpus(hosts.neighbour.cpus),
            };
            let mut command = mpi.mpirun(ranks, hosts)?;
            command.arg(&program);
            starter::output(options(&mut command, run, &table), BOUND)?;
        }
        System::Hythe | System::HytheNative => as_one_job(run, around, (&program, &table))?,
        System::Pvm | System::Tcp => between_two(run, around, (&program, &table))?,
    }
    let text = std::fs::read_to_string(&table)?;
    rows(&text)?
        .into_iter()
        .map(|(size, time)| {
            let mut times = statistics::histogram();
            statistics::record(&mut times, time);
            Ok(Found {
                metric: Metric::OneWay,
                size,
                times: statistics::encode(&[times])?,
            })
        })
        .collect()
}

/// The far side waits, and is ended when the near one has measured.
fn between_two(
    run: &Run,
    around: &Surroundings<'_>,
    (program, table): (&Path, &Path),
) -> Result<(), BenchError> {
    let hosts = around.hosts;
    // `VirtualMachine` has written the one of PVM, with its variables.
    let shell = match run.case.system {
        System::Pvm => hosts.folder.join("pvm-remote-shell"),
        _ => {
            let place = (hosts.folder, "netpipe-remote-shell");
            remote_shell::write(place, hosts.neighbour, &[])?
        }
    };
    let mut far = Command::new(shell);
    far.args(["far", "exec"]).arg(program);
    options(&mut far, run, Path::new("/dev/null"));
    let _far = Running::start(&mut far)?;
    let start = Instant::now();
    if run.case.system != System::Tcp {
        wait_for_the_far_task(run.case, around)?;
    }
    loop {
        let mut near = Command::new(program);
        near.args(["-h", &hosts.other.to_string()]);
        match run.case.system {
            System::Tcp => {}
            _ => surround(&mut near, run.case, around),
        }
        match starter::output(options(&mut near, run, table), BOUND) {
            Ok(_) => return Ok(()),
            Err(_) if start.elapsed() < MEETING => std::thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
    }
}

/// With a task on each host: those of two jobs do not reach each other there.
fn as_one_job(
    run: &Run,
    around: &Surroundings<'_>,
    (program, table): (&Path, &Path),
) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        let mut job = Command::new("sh");
        job.args(["-c", EACH_RANK]).arg(program);
        surround(options(&mut job, run, table), run.case, around);
        match starter::output(&mut job, BOUND) {
            Ok(_) => return Ok(()),
            Err(_) if start.elapsed() < MEETING => std::thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
    }
}

/// The near program takes the one other task of the machine for the far one, were it a leftover of
/// ours that is about to end, and then waits for it without a bound. With the far one there, a
/// leftover makes three, which it refuses.
fn wait_for_the_far_task(case: Case, around: &Surroundings<'_>) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        let mut look = pvm::peer_command(around.hosts.folder, &["elsewhere"]);
        surround(&mut look, case, around);
        if starter::output(&mut look, SILENCE_BOUND)?.trim() == "1" {
            return Ok(());
        }
        if start.elapsed() > MEETING {
            let why = format!("the far NetPIPE has not joined the machine within {MEETING:?}");
            return Err(BenchError::PeerLost(why));
        }
        std::thread::sleep(LOOK);
    }
}

fn options<'a>(command: &'a mut Command, run: &Run, table: &Path) -> &'a mut Command {
    let (largest, trips) = match run.is_quick {
        true => (LARGEST_QUICK, TRIPS_QUICK),
        false => (LARGEST, TRIPS),
    };
    // Powers of two and what lies between them, without neighbours.
    command.args(["-p", "0", "-u", largest, "-n", trips, "-o"]);
    command.arg(table)
}

/// Size, one way: of lines `BYTES MBIT_PER_SECOND SECONDS`.
fn rows(text: &str) -> Result<Vec<(usize, Duration)>, BenchError> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let size = words.next()?.parse().ok()?;
        let seconds: f64 = words.nth(1)?.parse().ok()?;
        Some((size, Duration::try_from_secs_f64(seconds).ok()?))
    };
    let rows: Option<Vec<_>> = text.lines().map(row).collect();
    let rows = rows.filter(|rows| !rows.is_empty());
    rows.ok_or_else(|| BenchError::PeerLost(format!("NetPIPE wrote {text:?}, which is no table")))
}

/// Killed and waited for when dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self, BenchError> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        hythe_sys::spawn::die_with_parent(command);
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or does so now; there is nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_netpipe_is_read_and_nothing_else() {
        let read = rows("      4 9.307865   0.00000328\n   1024 347.796416   0.00002246\n");
        let expected = [(4, 3_280), (1024, 22_460)];
        let expected = expected.map(|(size, ns)| (size, Duration::from_nanos(ns)));
        assert_eq!(read.expect("a table"), expected);
        assert!(rows("").is_err() && rows("4 9.3").is_err() && rows("4 9.3 -1").is_err());
    }
}
