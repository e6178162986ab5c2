//! A thread that wakes the one that serves a core when an object of the pool changes, as long as a
//! call of the core waits for that. It begins with the first such call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use hythe_node::hop;
use hythe_node::object::ObjectChanges;
use hythe_node::{MemberIndex, Pool};

/// The thread, and what it is told. Its end ends the thread.
#[derive(Debug)]
pub(in crate::services) struct Waker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    pool: Pool,
    /// Who is woken.
    member: MemberIndex,
    /// Raised before each wake.
    wakes: Arc<AtomicU32>,
    is_wanted: AtomicBool,
    is_over: AtomicBool,
}

impl Waker {
    /// Will wake that participant, and raise `wakes` before it does.
    pub(in crate::services) fn new(
        pool: &Pool,
        member: MemberIndex,
        wakes: Arc<AtomicU32>,
    ) -> Self {
        let shared = Shared {
            pool: pool.clone(),
            member,
            wakes,
            is_wanted: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            thread: None,
        }
    }

    /// Shall it wake from now on?
    pub(super) fn set(&mut self, is_wanted: bool) {
        // Release pairs with the acquire in `goes_on`.
        let before = self.shared.is_wanted.swap(is_wanted, Ordering::AcqRel);
        if before || !is_wanted {
            return;
        }
        match &self.thread {
            Some(thread) => thread.thread().unpark(),
            None => {
                let theirs = Arc::clone(&self.shared);
                let started = hythe_sys::wait::spawn("hythe-waits", move || theirs.run());
                match started {
                    Ok(thread) => self.thread = Some(thread),
                    // Then the calls are looked at when the thread that serves wakes by itself.
                    Err(error) => tracing::error!(%error, "no thread for a core's waits"),
                }
            }
        }
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let changes = ObjectChanges::of(&self.pool);
        while !self.is_over.load(Ordering::Acquire) {
            if self.is_wanted.load(Ordering::Acquire) {
                changes.follow(|| self.wake());
                // Where nothing can be followed, the thread that serves looks by itself.
                std::thread::park_timeout(ObjectChanges::LONGEST);
            } else {
                std::thread::park();
            }
        }
    }

    /// False: nobody waits any more.
    fn wake(&self) -> bool {
        let goes_on =
            self.is_wanted.load(Ordering::Acquire) && !self.is_over.load(Ordering::Acquire);
        if goes_on {
            self.wakes.fetch_add(1, Ordering::Release);
            hop::wake(&self.pool, self.member);
        }
        goes_on
    }
}
