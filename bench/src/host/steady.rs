//! What a message takes in steady state beside time, at the side that measures: allocations of its
//! thread, and system calls of its process, as `strace` counts them.
//!
//! Behind a timed run, since whoever is traced is slow. Calls that find nothing are a look, of
//! which a side that spins makes many, and no message's: they are left out.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::document::Steady;
use crate::error::BenchError;

const PROGRAM: &str = "strace";
/// There and back.
const ROUND_TRIPS: u64 = 1000;
/// Until it has begun, and until it has written what it counted.
const BOUND: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Why they cannot be counted here.
pub(super) fn why_not() -> Option<String> {
    let found = Command::new(PROGRAM)
        .arg("-V")
        .stdout(Stdio::null())
        .status();
    match found.is_ok_and(|status| status.success()) {
        true => None,
        false => Some(format!("{PROGRAM} is not installed (package {PROGRAM})")),
    }
}

/// Counts over so many round trips as it asks `exchange` for.
pub(super) fn count(
    folder: &Path,
    mut exchange: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<Steady, BenchError> {
    let mut exchanged = Ok(());
    let allocated = allocation_counter::measure(|| exchanged = exchange(ROUND_TRIPS));
    exchanged?;
    let file = folder.join("system-calls");
    let tracer = Tracer::attach(&file)?;
    let exchanged = exchange(ROUND_TRIPS);
    tracer.detach()?;
    exchanged?;
    let summary = std::fs::read_to_string(&file)?;
    let calls = successful(&summary)
        .ok_or_else(|| BenchError::Unable(format!("{PROGRAM} wrote no summary but {summary:?}")))?;
    let messages = (2 * ROUND_TRIPS) as f64;
    Ok(Steady {
        allocations: allocated.count_total as f64 / messages,
        system_calls: calls as f64 / messages,
    })
}

/// Killed and waited for when dropped.
struct Tracer(Child);

impl Tracer {
    /// Of all threads of this process.
    fn attach(file: &Path) -> Result<Self, BenchError> {
        let mut command = Command::new(PROGRAM);
        command.args(["-f", "-qq", "-c", "-o"]).arg(file);
        command.args(["-p", &std::process::id().to_string()]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        hythe_sys::spawn::die_with_parent(&mut command);
        let mut tracer = Self(command.spawn()?);
        let start = Instant::now();
        while !is_traced()? {
            if let Some(status) = tracer.0.try_wait()? {
                return Err(BenchError::Unable(format!("{PROGRAM}: {status}")));
            }
            if start.elapsed() > BOUND {
                return Err(BenchError::silent(BOUND));
            }
            std::thread::sleep(LOOK);
        }
        Ok(tracer)
    }

    /// It writes what it has counted, and ends.
    fn detach(mut self) -> Result<(), BenchError> {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::INT)?;
        }
        let start = Instant::now();
        while self.0.try_wait()?.is_none() {
            if start.elapsed() > BOUND {
                return Err(BenchError::silent(BOUND));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_traced() -> Result<bool, BenchError> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let tracer = lines.find_map(|line| line.strip_prefix("TracerPid:"));
    Ok(tracer.is_some_and(|tracer| tracer.trim() != "0"))
}

/// Of the last line, `100.00 SECONDS USECS/CALL CALLS [ERRORS] total`: calls that did not fail.
fn successful(summary: &str) -> Option<u64> {
    let mut lines = summary.lines().rev();
    let total = lines.find(|line| line.trim_end().ends_with(" total"))?;
    let fields: Vec<&str> = total.split_whitespace().collect();
    let calls: u64 = fields.get(3)?.parse().ok()?;
    let errors: u64 = match fields.len() {
        5 => 0,
        _ => fields.get(4)?.parse().ok()?,
    };
    calls.checked_sub(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_failed_do_not_count() {
        let head = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    90.00    0.100000           1      5000      3000 recvfrom\n";
        let total = "100.00    0.200000           1      6010      3000 total\n";
        assert_eq!(successful(&(head.to_owned() + total)), Some(3010));
        let total = "100.00    0.200000           1      6010           total\n";
        assert_eq!(successful(&(head.to_owned() + total)), Some(6010));
        assert_eq!(successful(head), None);
    }

    #[test]
    fn what_is_allocated_and_called_is_counted() {
        if let Some(why) = why_not() {
            eprintln!("SKIPPED: {why}");
            return;
        }
        let folder = tempfile::tempdir().expect("a directory");
        // Other tests of this program are traced meanwhile, too: at least, not exactly.
        let counted = count(folder.path(), |round_trips| {
            for _ in 0..2 * round_trips {
                drop(std::hint::black_box(vec![0_u8; 64]));
                std::hint::black_box(rustix::process::getppid());
            }
            Ok(())
        });
        let counted = counted.expect("counted");
        assert!(counted.allocations >= 1.0, "{counted:?}");
        assert!(counted.system_calls >= 1.0, "{counted:?}");
    }
}
