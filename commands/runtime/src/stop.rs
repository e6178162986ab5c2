//! Ctrl-C, SIGTERM and the end of the terminal (SIGHUP): asked for politely, so that a command can
//! leave the pool in order. A second wish, some time after the first, ends it at once.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hythe_sys::end_signals::end_at_second;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::CliError;

/// How long a wait that cannot see signals may last before it looks.
pub const LOOK: Duration = Duration::from_millis(100);

/// Whether somebody asked the command to stop.
#[derive(Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// Becomes readable when somebody does.
    woken: UnixStream,
}

impl Stop {
    /// From now on, signals ask instead of killing.
    pub fn on_signals() -> Result<Self, CliError> {
        // Where `nohup` has it ignored, it stays so.
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        Self::on(hangup)
    }

    /// As [`on_signals`](Self::on_signals), for a command to which SIGHUP means something else.
    pub fn on_signals_but_hangup() -> Result<Self, CliError> {
        Self::on(None)
    }

    fn on(hangup: Option<i32>) -> Result<Self, CliError> {
        Self::register(hangup)
            .map_err(|error| CliError::Failed(format!("cannot listen for signals: {error}")))
    }

    fn register(hangup: Option<i32>) -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let (wake, woken) = UnixStream::pair()?;
        let signals: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hangup).collect();
        // Before the others, which call what was there.
        end_at_second(&signals)?;
        for signal in signals {
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Self { asked, woken })
    }

    /// Has somebody asked?
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Becomes readable when somebody asks, and stays so.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Whether somebody has asked, for other threads.
    pub fn watch(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let asked = Arc::clone(&self.asked);
        move || asked.load(Ordering::Relaxed)
    }

    /// Sleeps, at most until somebody asks.
    pub fn sleep_until(&self, end: Instant) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // Whatever wakes us early, the caller looks at flag and clock again.
        hythe_sys::wait::ready(&mut [PollFd::new(&self.woken, PollFlags::IN)], left);
    }

    /// Waits until there is something to read. False: somebody asked first.
    pub fn wait_readable(&self, from: BorrowedFd<'_>) -> io::Result<bool> {
        loop {
            if self.asked() {
                return Ok(false);
            }
            let mut both = [
                PollFd::new(&self.woken, PollFlags::IN),
                PollFd::from_borrowed_fd(from, PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Ok(_) if !both[1].revents().is_empty() => return Ok(true),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Was a signal ignored when the process began? Asked before anything is registered for it.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// A reader that comes to its end when somebody asks the command to stop.
#[derive(Debug)]
pub struct StoppableReader<'a, R> {
    /// Whether to end.
    pub stop: &'a Stop,
    /// What is read.
    pub from: R,
}

impl<R: Read + AsFd> Read for StoppableReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.wait_readable(self.from.as_fd())? {
            self.from.read(into)
        } else {
            Ok(0)
        }
    }
}
