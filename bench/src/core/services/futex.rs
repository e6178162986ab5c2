//! A count handed over by a word in shared memory and the kernel's futex: what a semaphore costs
//! where it has no name, no rights, and no care for the dead.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use hythe_memory::{Access, Mapped, Memory, Ordering, full_barrier};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::case::{Case, Wait};
use super::end::{End, Side};
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};

/// As long as our own waits look.
const SPIN: Duration = Duration::from_micros(50);
const BYTES: usize = 4096;
/// The words of each direction, in lines of their own: how many were handed over, and whether
/// somebody sleeps.
const WAYS: [usize; 2] = [0, 128];
const SLEEPS: usize = 64;

/// The memory, and how the other process finds it.
pub(super) fn make() -> Result<(OwnedFd, String), BenchError> {
    let file = memfd_create("hythe-bench-futex", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, BYTES as u64)?;
    let place = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file, place))
}

/// One end.
#[derive(Debug)]
pub(super) struct FutexEnd {
    memory: Mapped,
    outgoing: usize,
    incoming: usize,
    spin: Duration,
}

impl FutexEnd {
    pub(super) fn open(case: Case, side: Side, place: &str) -> Result<Self, BenchError> {
        let file = OpenOptions::new().read(true).write(true).open(place)?;
        let memory = Mapped::file(&file, 0, BYTES, Access::Write)?;
        let _ = memory.prefault();
        let [outgoing, incoming] = side.order(WAYS);
        let spin = match case.wait {
            Wait::Adaptive => SPIN,
            Wait::Block => Duration::ZERO,
        };
        Ok(Self {
            memory,
            outgoing,
            incoming,
            spin,
        })
    }

    /// Is the count above `number`?
    fn has_come(&self, number: u32) -> bool {
        self.memory.load(self.incoming, Ordering::Acquire) != number
    }

    fn spins_until_come(&self, number: u32) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < self.spin {
            for _ in 0..32 {
                if self.has_come(number) {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        self.has_come(number)
    }
}

impl End for FutexEnd {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        let count = number as u32 + 1;
        self.memory.store(self.outgoing, count, Ordering::Release);
        // Its partner is the one in `receive`: either the sleeper is seen, or the count.
        full_barrier();
        if self.memory.load(self.outgoing + SLEEPS, Ordering::Relaxed) != 0 {
            self.memory.wake_some(self.outgoing, 1);
        }
        Ok(())
    }

    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        let (number, sleeps) = (number as u32, self.incoming + SLEEPS);
        if self.spins_until_come(number) {
            return Ok(());
        }
        let mut bounded_wait = BoundedWait::new(lookout);
        self.memory.store(sleeps, 1, Ordering::Release);
        full_barrier();
        while !self.has_come(number) {
            self.memory.wait(self.incoming, number, NAP);
            if !self.has_come(number) {
                bounded_wait.look_up()?;
            }
        }
        self.memory.store(sleeps, 0, Ordering::Release);
        Ok(())
    }
}
