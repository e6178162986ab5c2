//! For how long this machine keeps somebody waiting who wants to run at once: what takes its time
//! for that is not the agents' fault.

use hythe_testing::let_time_pass;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How late this machine lets a thread run that wants to.
pub(crate) struct Machine {
    clock: Clock,
    is_over: Arc<AtomicBool>,
    watching: Option<JoinHandle<()>>,
}

/// The time, and all that the machine was late so far.
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn now(&self) -> Moment {
        Moment {
            at: Instant::now(),
            late: Duration::from_micros(self.0.load(Ordering::Relaxed)),
        }
    }
}

impl Machine {
    pub(crate) fn watch() -> Self {
        let (clock, is_over) = (Clock::default(), Arc::<AtomicBool>::default());
        let (late, over) = (clock.clone(), Arc::clone(&is_over));
        let watching = std::thread::spawn(move || {
            let nap = Duration::from_millis(5);
            while !over.load(Ordering::Relaxed) {
                let since = Instant::now();
                let_time_pass(nap, "how late it ends shows how busy the machine is");
                let more = since.elapsed().saturating_sub(nap);
                late.0.fetch_add(more.as_micros() as u64, Ordering::Relaxed);
            }
        });
        Self {
            clock,
            is_over,
            watching: Some(watching),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(watching) = self.watching.take() {
            watching.join().expect("it sleeps and counts");
        }
    }
}

/// A time, and how late the machine was in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    pub(crate) late: Duration,
}

/// A moment, and how late the machine had been by then.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    at: Instant,
    late: Duration,
}

impl Moment {
    pub(crate) fn until(self, later: Self) -> Took {
        Took {
            time: later.at.saturating_duration_since(self.at),
            late: later.late.saturating_sub(self.late),
        }
    }
}
