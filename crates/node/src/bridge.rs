//! From the bell to a file descriptor: a thread that sleeps on the bell's futex and writes an
//! eventfd when it was rung.
//!
//! Started only where a wait set also waits for file descriptors or is waited for by one, and where
//! waits end by the doorbells of other hops, too. It always sleeps on the count that it saw last,
//! so that asking for rings ([`Bridge::arm`]) wakes nobody: it announces a sleeper, as every sleep
//! does, and looks for work again. The first ring takes the announcement back, so that a burst of
//! messages costs one. Bounded naps; ends with its owner.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_memory::Memory;
use hythe_pool::MemberIndex;
use hythe_queue::Bell;
use hythe_sys::own_file::OwnFile;

use crate::pool::Pool;

/// Bounds what a ring lost by an emulator can delay.
const NAP: Duration = Duration::from_secs(1);

/// Stops its thread when dropped.
#[derive(Debug)]
pub(crate) struct Bridge {
    line: Arc<Line>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner share.
#[derive(Debug)]
struct Line {
    pool: Pool,
    me: MemberIndex,
    /// Written when the bell was rung.
    rung: OwnFile<OwnedFd>,
    /// A sleeper is announced at the bell, for this bridge.
    armed: AtomicBool,
    stop: AtomicBool,
}

impl Bridge {
    /// Writes `rung` whenever the participant's bell is rung.
    pub(crate) fn start(pool: Pool, me: MemberIndex, rung: OwnedFd) -> std::io::Result<Self> {
        let line = Arc::new(Line {
            pool,
            me,
            rung: OwnFile::new(rung),
            armed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        // Before the thread: what rings from now on is seen.
        let seen = line.count();
        let own = Arc::clone(&line);
        let thread = hythe_sys::wait::spawn("hythe-bridge", move || own.run(seen))?;
        Ok(Self {
            line,
            thread: Some(thread),
        })
    }

    /// Asks for a ring. The caller now looks for work again.
    pub(crate) fn arm(&self) {
        if !self.line.armed.swap(true, Ordering::AcqRel) {
            let _ = self.line.bell().lie_down(self.line.pool.control().memory());
        } else {
            // Between the earlier announcement and the look that follows, as `lie_down` does.
            hythe_memory::full_barrier();
        }
    }

    /// Takes that back.
    pub(crate) fn disarm(&self) {
        self.line.disarm();
    }
}

impl Line {
    fn bell(&self) -> Bell {
        self.pool.control().tables().bell(self.me)
    }

    fn count(&self) -> u32 {
        let memory = self.pool.control().memory();
        memory.load(self.bell().count, Ordering::Acquire)
    }

    fn disarm(&self) {
        if self.armed.swap(false, Ordering::AcqRel) {
            self.bell().rise(self.pool.control().memory());
        }
    }

    fn run(&self, mut seen: u32) {
        let memory = self.pool.control().memory();
        // Acquire pairs with the release store in `drop`.
        while !self.stop.load(Ordering::Acquire) {
            let now = self.count();
            if now == seen {
                memory.wait(self.bell().count, seen, NAP);
                continue;
            }
            seen = now;
            self.disarm();
            if !self.pool.is_missing_descriptors() {
                ring(&self.rung);
            }
        }
    }
}

/// Makes an eventfd readable. One that is full is readable already.
pub(crate) fn ring(rung: &OwnFile<OwnedFd>) {
    // The program may have closed it, and its number may be a file's.
    if rung.is_open() {
        let _ = rustix::io::write(rung, &1_u64.to_ne_bytes());
    }
}

/// Makes an eventfd unreadable.
pub(crate) fn hush(rung: BorrowedFd<'_>) {
    // It does not block: an empty one says so.
    let _ = rustix::io::read(rung, &mut [0; 8]);
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.line.stop.store(true, Ordering::Release);
        let memory = self.line.pool.control().memory();
        let bell = self.line.bell();
        bell.ring_always(memory);
        memory.wake(bell.count);
        if let Some(thread) = self.thread.take() {
            hythe_sys::wait::for_end_of(thread);
        }
        self.line.disarm();
    }
}
