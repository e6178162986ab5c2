//! What takes a while: questions to the agent of this host, each on a thread of its own, so that
//! the runner goes on with all else. How long one takes is bounded by what it asks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use rustix::event::{EventfdFlags, eventfd};

use crate::tasks::error::TaskError;

/// Threads at a time. More is asked when one of them has ended.
const ERRANDS_MAX: usize = 16;

/// All of a runner.
#[derive(Debug)]
pub(super) struct Errands {
    /// Those that were given up count, too, until they end.
    running: Arc<AtomicUsize>,
    /// Counts those that have ended.
    ended: Arc<OwnedFd>,
}

/// One of them. Dropped, its result goes nowhere.
#[derive(Debug)]
pub(super) struct Errand<T>(Receiver<Result<T, TaskError>>);

/// One that runs, until it is dropped.
struct Running(Arc<AtomicUsize>);

impl Errands {
    pub(super) fn new() -> Result<Self, TaskError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ended = eventfd(0, flags).map_err(|error| TaskError::System {
            action: "make an eventfd",
            source: error.into(),
        })?;
        Ok(Self {
            running: Arc::default(),
            ended: Arc::new(ended),
        })
    }

    /// Readable when one has ended.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Nothing has ended from now on: call before results are looked for.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.ended, &mut [0; 8]);
    }

    /// Starts one. `None`: there are too many for now.
    pub(super) fn start<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> Result<T, TaskError> + Send + 'static,
    ) -> Result<Option<Errand<T>>, TaskError> {
        if self.running.load(Ordering::Acquire) >= ERRANDS_MAX {
            return Ok(None);
        }
        self.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(&self.running));
        let ended = Arc::clone(&self.ended);
        let (to, from) = channel();
        let thread = std::thread::Builder::new().name("hythe-errand".to_owned());
        let thread = thread.spawn(move || {
            // Whoever gave it up does not want it.
            let _ = to.send(body());
            drop(running);
            let _ = rustix::io::write(&ended, &1_u64.to_ne_bytes());
        });
        thread.map_err(|source| TaskError::System {
            action: "start a thread that asks the agent",
            source,
        })?;
        Ok(Some(Errand(from)))
    }
}

impl<T> Errand<T> {
    /// `None`: it runs still.
    pub(super) fn result(&self) -> Option<Result<T, TaskError>> {
        match self.0.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(TaskError::Agent {
                reason: "the thread that asked it has failed".to_owned(),
            })),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags};

    use super::*;

    #[test]
    fn end_of_an_errand_is_seen_and_their_number_has_a_bound() {
        let errands = Errands::new().expect("an eventfd");
        let mut gates = Vec::new();
        let mut all = Vec::new();
        loop {
            let (open, gate) = channel::<u32>();
            let started = errands.start(move || Ok(gate.recv().unwrap_or(0)));
            let Some(errand) = started.expect("a thread") else {
                break;
            };
            gates.push(open);
            all.push(errand);
        }
        assert_eq!(all.len(), ERRANDS_MAX);
        assert!(all.iter().all(|errand| errand.result().is_none()));
        gates.pop().expect("one").send(7).expect("it waits");
        let file = errands.as_fd();
        let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
        assert!(hythe_sys::wait::ready(&mut polled, Duration::from_secs(60))[0]);
        errands.clear();
        let result = all.pop().expect("one").result().expect("it has ended");
        assert_eq!(result.expect("no error"), 7);
        assert!(errands.start(|| Ok(())).expect("a thread").is_some());
    }
}
