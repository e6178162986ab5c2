//! What a message takes in steady state beside time, at the side that measures: allocations and
//! system calls of the thread that sends and receives.
//!
//! The kernel counts the calls (`perf stat`), which makes none of them slower: what goes by time,
//! such as acknowledgements, stays as rare as it is. Calls that find nothing are a look, of which a
//! side that spins makes many, and no message's: they are left out.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::gettid;

use crate::document::Steady;
use crate::error::BenchError;

const PROGRAM: &str = "perf";
const PACKAGE: &str = "linux-perf";
const EVENT: &str = "raw_syscalls:sys_exit";
/// But for `EAGAIN`.
const FOUND_SOMETHING: &str = "ret != -11";
/// Counted over so many, or for so long.
const ROUND_TRIPS_MAX: u64 = 10_000;
const WHILE: Duration = Duration::from_secs(1);
const BATCH: u64 = 20;
/// Until the counter answers, and until it has written what it counted.
const BOUND: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Why they cannot be counted here. Whether the kernel lets it is seen in the run: the counter
/// mounts what it asks the kernel by, which is to happen on one of the hosts only.
pub(super) fn why_not() -> Option<String> {
    let mut command = Command::new(PROGRAM);
    let found = command.arg("--version").stdout(Stdio::null()).status();
    match found.is_ok_and(|status| status.success()) {
        true => None,
        false => Some(format!("{PROGRAM} is not installed (package {PACKAGE})")),
    }
}

/// Counts over round trips of which `exchange` makes as many as it is asked for, in this thread.
pub(super) fn count(
    folder: &Path,
    mut exchange: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<Steady, BenchError> {
    let mut exchanged = Ok(0);
    let allocated = allocation_counter::measure(|| exchanged = for_a_while(&mut exchange));
    let allocations = allocated.count_total as f64 / messages(exchanged?);
    let mut counter = Counter::start(folder)?;
    counter.order("enable")?;
    let exchanged = for_a_while(&mut exchange);
    counter.order("disable")?;
    let calls = counter.end()?;
    Ok(Steady {
        allocations,
        system_calls: calls as f64 / messages(exchanged?),
    })
}

/// How many round trips it made.
fn for_a_while(
    exchange: &mut impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<u64, BenchError> {
    let start = Instant::now();
    let mut made = 0;
    while made < ROUND_TRIPS_MAX && start.elapsed() < WHILE {
        exchange(BATCH)?;
        made += BATCH;
    }
    Ok(made)
}

/// There and back.
fn messages(round_trips: u64) -> f64 {
    (2 * round_trips) as f64
}

/// Counts the system calls of one thread; killed and waited for when dropped.
struct Counter {
    child: Child,
    orders: File,
    answers: File,
    counted: PathBuf,
}

impl Counter {
    /// Of the calling thread, and does not count yet.
    fn start(folder: &Path) -> Result<Self, BenchError> {
        let [orders, answers, counted] =
            ["orders", "answers", "counted"].map(|name| folder.join(format!("calls-{name}")));
        for pipe in [&orders, &answers] {
            make_pipe(pipe)?;
        }
        let mut command = Command::new(PROGRAM);
        command.args(["stat", "-x,", "-e", EVENT, "--filter", FOUND_SOMETHING]);
        command.args(["-t", &gettid().as_raw_nonzero().to_string(), "-D", "-1"]);
        let control = format!("fifo:{},{}", orders.display(), answers.display());
        command.arg("--control").arg(control);
        command.arg("-o").arg(&counted);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        hythe_sys::spawn::die_with_parent(&mut command);
        // Both ends of each, so that neither waits for the other to open it.
        let open = |path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            options.custom_flags(libc::O_NONBLOCK).open(path)
        };
        Ok(Self {
            orders: open(&orders)?,
            answers: open(&answers)?,
            child: command.spawn()?,
            counted,
        })
    }

    /// Returns when it has obeyed.
    fn order(&mut self, order: &str) -> Result<(), BenchError> {
        self.orders.write_all(format!("{order}\n").as_bytes())?;
        let start = Instant::now();
        let mut said = Vec::new();
        while !said.ends_with(b"\n") && !said.ends_with(b"\0") {
            let mut bytes = [0; 64];
            match self.answers.read(&mut bytes) {
                Ok(length) => said.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                Err(error) => return Err(error.into()),
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(BenchError::Unable(format!("{PROGRAM}: {status}")));
            }
            if start.elapsed() > BOUND {
                return Err(BenchError::silent(BOUND));
            }
        }
        Ok(())
    }

    /// How many it has counted.
    fn end(mut self) -> Result<u64, BenchError> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::INT)?;
        }
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > BOUND {
                return Err(BenchError::silent(BOUND));
            }
            std::thread::sleep(LOOK);
        }
        let text = std::fs::read_to_string(&self.counted)?;
        let nothing = || BenchError::Unable(format!("{PROGRAM} counted nothing but {text:?}"));
        counted(&text).ok_or_else(nothing)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pipe with a name, unless it is there.
fn make_pipe(path: &Path) -> Result<(), BenchError> {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    match rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The first field of the line of the event.
fn counted(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_read_as_it_is_written() {
        let text = "# started on Fri\n\n145,,raw_syscalls:sys_exit,1998617,100.00,,\n";
        assert_eq!(counted(text), Some(145));
        assert_eq!(
            counted("<not counted>,,raw_syscalls:sys_exit,0,0.00,,"),
            None
        );
        assert_eq!(counted(""), None);
    }

    #[test]
    fn what_is_allocated_and_called_is_counted_and_looks_are_not() {
        let is_mounted = Path::new("/sys/kernel/tracing/events").exists();
        if !is_mounted || why_not().is_some() {
            eprintln!("SKIPPED: needs {PROGRAM}, and tracefs at /sys/kernel/tracing");
            return;
        }
        let folder = tempfile::tempdir().expect("a directory");
        let (mut empty, _other) = std::os::unix::net::UnixStream::pair().expect("made");
        empty.set_nonblocking(true).expect("permitted");
        let counted = count(folder.path(), |round_trips| {
            for _ in 0..2 * round_trips {
                drop(std::hint::black_box(vec![0_u8; 64]));
                std::hint::black_box(rustix::process::getppid());
                assert!(empty.read(&mut [0]).is_err());
            }
            Ok(())
        });
        let counted = counted.expect("counted");
        assert_eq!(counted.allocations, 1.0);
        // And the few that order the counter.
        assert!((1.0..1.2).contains(&counted.system_calls), "{counted:?}");
    }
}
