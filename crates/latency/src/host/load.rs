//! What the machine does while it is measured: threads of our own at ordinary priority, ended in
//! order.
//!
//! They are threads and their file has no name, so nothing of them outlives the process, however it
//! ends. Never runs at real-time priority: a load is what a real-time thread shall win against.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::cpus;
use crate::LatencyError;

/// A thread that is slower to end hangs in the kernel.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// More than the caches that a CPU has for itself.
const MEMORY_BYTES: usize = 16 << 20;
const CACHE_LINE_BYTES: usize = 64;
/// Written, brought to the device and read back in each round.
const FILE_BYTES: usize = 4 << 20;
const BLOCK_BYTES: usize = 64 << 10;

/// What the machine does meanwhile, on each of the measured CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Nothing of ours.
    Idle,
    /// A thread that computes all the time.
    Hog,
    /// One that writes all over 16 MiB, so that caches are foreign when the measuring thread wakes.
    Memory,
    /// One that writes a file of 4 MiB, brings it to the device and reads it back.
    Io,
    /// Two that wake each other over a socket: system calls and switches without end.
    Switch,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Hog, Self::Memory, Self::Io, Self::Switch];

    /// What results call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Hog => "hog",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Switch => "switch",
        }
    }
}

/// A load that runs until it is [ended](Running::end), or dropped.
#[derive(Debug)]
pub(super) struct Running {
    load: Load,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    /// Of all threads.
    rounds: AtomicU64,
}

impl Shared {
    /// Counts a round. False: it was the last.
    fn goes_on(&self) -> bool {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        !self.ended.load(Ordering::Relaxed)
    }
}

impl Running {
    /// Starts `load` on each of `cpus`, and returns when all of it has done a first round.
    pub(super) fn start(load: Load, on: &[usize], directory: &Path) -> Result<Self, LatencyError> {
        let mut running = Self {
            load,
            shared: Arc::new(Shared::default()),
            threads: Vec::new(),
        };
        for &cpu in on {
            running
                .start_on(cpu, directory)
                .map_err(|error| failed(load, &error))?;
        }
        let wanted = running.threads.len() as u64;
        let began = Instant::now();
        while running.shared.rounds.load(Ordering::Relaxed) < wanted {
            if running.threads.iter().any(JoinHandle::is_finished) {
                running.end()?;
                return Err(failed(
                    load,
                    &io::Error::other("one of its threads ended by itself"),
                ));
            }
            if began.elapsed() > TIME_LIMIT {
                return Err(failed(load, &io::Error::from(io::ErrorKind::TimedOut)));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(running)
    }

    fn start_on(&mut self, cpu: usize, directory: &Path) -> io::Result<()> {
        match self.load {
            Load::Idle => Ok(()),
            Load::Hog => self.add(cpu, hog),
            Load::Memory => {
                let memory = vec![1; MEMORY_BYTES];
                self.add(cpu, move |shared| write_all_over(shared, memory))
            }
            Load::Io => {
                let file = tempfile::tempfile_in(directory)?;
                self.add(cpu, move |shared| write_and_read(shared, file))
            }
            Load::Switch => {
                let (one, other) = UnixStream::pair()?;
                other.set_read_timeout(Some(TIME_LIMIT))?;
                one.set_read_timeout(Some(TIME_LIMIT))?;
                self.add(cpu, move |shared| pass_on(shared, one, true))?;
                self.add(cpu, move |shared| pass_on(shared, other, false))
            }
        }
    }

    fn add(
        &mut self,
        cpu: usize,
        work: impl FnOnce(&Shared) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = move || {
            cpus::bind(cpu)?;
            work(&shared)
        };
        let name = format!("load/{}/{cpu}", self.load.name());
        self.threads
            .push(thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }

    /// Ends it, and returns how many rounds it did.
    pub(super) fn end(mut self) -> Result<u64, LatencyError> {
        self.finish().map_err(|error| failed(self.load, &error))?;
        Ok(self.shared.rounds.load(Ordering::Relaxed))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shared.ended.store(true, Ordering::Relaxed);
        let began = Instant::now();
        let mut outcome = Ok(());
        for thread in self.threads.drain(..) {
            while !thread.is_finished() {
                if began.elapsed() > TIME_LIMIT {
                    // It ends with the process: a thread in the kernel cannot be ended.
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "a thread of it hangs in the kernel",
                    ));
                }
                thread::sleep(Duration::from_millis(1));
            }
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of it panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever wants to know calls `end`.
        let _ = self.finish();
    }
}

fn failed(load: Load, error: &io::Error) -> LatencyError {
    LatencyError::Host {
        what: format!("the load `{}` does not run: {error}", load.name()),
    }
}

fn hog(shared: &Shared) -> io::Result<()> {
    let mut state = 1_u64;
    while shared.goes_on() {
        for _ in 0..100_000 {
            // A step of a generator: nothing that a compiler could do in advance.
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
    }
    Ok(())
}

fn write_all_over(shared: &Shared, mut memory: Vec<u8>) -> io::Result<()> {
    while shared.goes_on() {
        for line in memory.chunks_mut(CACHE_LINE_BYTES) {
            line[0] = line[0].wrapping_add(1);
        }
        black_box(&mut memory);
    }
    Ok(())
}

fn write_and_read(shared: &Shared, mut file: File) -> io::Result<()> {
    let mut block = vec![0x5a; BLOCK_BYTES];
    while shared.goes_on() {
        file.seek(SeekFrom::Start(0))?;
        for _ in 0..FILE_BYTES / BLOCK_BYTES {
            file.write_all(&block)?;
        }
        file.sync_data()?;
        file.seek(SeekFrom::Start(0))?;
        for _ in 0..FILE_BYTES / BLOCK_BYTES {
            file.read_exact(&mut block)?;
        }
    }
    Ok(())
}

/// Until either end is told to end: the other finds its socket closed then.
fn pass_on(shared: &Shared, mut peer: UnixStream, begins: bool) -> io::Result<()> {
    let mut ball = [0];
    let mut pass = |has_ball: bool| -> io::Result<()> {
        if has_ball {
            peer.write_all(&ball)?;
        }
        peer.read_exact(&mut ball)
    };
    let mut outcome = pass(begins);
    while outcome.is_ok() && shared.goes_on() {
        outcome = pass(true);
    }
    let is_over = shared.ended.load(Ordering::Relaxed);
    if is_over { Ok(()) } else { outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_runs_and_ends() {
        let on = cpus::allowed().expect("Linux");
        for load in Load::ALL {
            let running = Running::start(load, &on, &std::env::temp_dir()).expect("started");
            let threads = running.threads.len() as u64;
            let rounds = running.end().expect("ended");
            assert!(rounds >= threads, "{load:?}: {rounds}");
            assert_eq!(threads == 0, load == Load::Idle);
        }
    }

    #[test]
    fn load_without_a_place_is_named() {
        let said = Running::start(Load::Io, &[0], Path::new("/does/not/exist"))
            .expect_err("no such directory")
            .to_string();
        assert!(said.contains("`io`"), "{said}");
    }
}
