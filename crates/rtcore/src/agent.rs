//! The agent: a core that runs for as long as a [`Core`] lives.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_node::{Node, Pool};
use rustix::event::{EventfdFlags, eventfd};

use crate::error::system;
use crate::log::Log;
use crate::status::{CoreOptions, CoreState, CoreStatus, Reported};
use crate::supervisor::Supervisor;
use crate::{Board, CoreError, control, manifest, orphan, region};

/// How often a start looks whether to give up.
const LOOK: Duration = Duration::from_millis(50);
/// How long an agent without a core is waited for: it may take one second until the rows of a core
/// that died are recovered, and two until it starts that again.
const LEAVING_BOUND: Duration = Duration::from_secs(10);

/// A running core. Dropped, it is stopped.
#[derive(Debug)]
pub struct Core {
    name: String,
    region: RegionIndex,
    stop: OwnedFd,
    shared: Arc<Reported>,
    supervisor: Option<JoinHandle<()>>,
    /// Whose core it is: not that of a forked child, which has a copy of this.
    process: u32,
}

impl Core {
    /// Starts a board's core in a pool, and returns when its endpoints are behind their channels.
    ///
    /// # Errors
    /// [`CoreError::NotRunnable`], [`CoreError::AlreadyRunning`], [`CoreError::Refused`],
    /// [`CoreError::NoAnswer`], [`CoreError::Died`]; a pool without room for the core's slots.
    pub fn start(pool: &Pool, board: &Board, options: &CoreOptions) -> Result<Self, CoreError> {
        Self::start_unless(pool, board, options, || false)
    }

    /// As [`Core::start`], asking now and then whether to give up; then nothing of the core is
    /// left.
    ///
    /// # Errors
    /// Those of [`Core::start`]; [`CoreError::GivenUp`].
    pub fn start_unless(
        pool: &Pool,
        board: &Board,
        options: &CoreOptions,
        give_up: impl Fn() -> bool,
    ) -> Result<Self, CoreError> {
        let name = options.name.as_deref().unwrap_or(board.name());
        if !manifest::is_plain_name(name) {
            return Err(CoreError::BadName {
                name: name.to_owned(),
            });
        }
        let app = options.app.as_deref().unwrap_or(board.default_app());
        let missing = board.missing(app);
        if !missing.is_empty() {
            return Err(CoreError::NotRunnable {
                board: board.name().to_owned(),
                missing,
            });
        }
        if board.runs_alone(app) {
            return Err(board.only_measured());
        }
        if options.record.is_some() && board.repeatable().is_none() {
            return Err(CoreError::NotRunnable {
                board: board.name().to_owned(),
                missing: vec!["its board.toml does not say how to count instructions".to_owned()],
            });
        }
        let log = begin_log(pool, name, &give_up)?;
        let node = Node::join(pool, &control::agent_name(name))?;
        orphan::end(pool, name, orphan::BOUND)?;
        let region = region::find_or_add(&node, board, name, &options.classes)?;
        let (stop, stopped) = stop_pair().map_err(system("make an event for", pool.path()))?;
        let shared = Arc::new(Reported::starting());
        let supervisor = Supervisor {
            node,
            name: name.to_owned(),
            board: board.clone(),
            options: options.clone(),
            region,
            pool: pool.path(),
            log,
            stop: stopped,
            shared: Arc::clone(&shared),
            counted: hythe_pool::CoreCounters::default(),
        };
        let (started, outcome) = channel();
        let supervisor = std::thread::Builder::new()
            .name("hythe-core".to_owned())
            .spawn(move || supervisor.run(started))
            .map_err(system("start a thread for", pool.path()))?;
        let core = Self {
            name: name.to_owned(),
            region,
            stop,
            shared,
            supervisor: Some(supervisor),
            process: std::process::id(),
        };
        core.await_start(&outcome, give_up).map(|()| core)
    }

    /// Bounded: the supervisor gives up by itself.
    fn await_start(
        &self,
        outcome: &Receiver<Result<(), CoreError>>,
        give_up: impl Fn() -> bool,
    ) -> Result<(), CoreError> {
        let board = self.name.clone();
        loop {
            match outcome.recv_timeout(LOOK) {
                Ok(started) => return started,
                Err(RecvTimeoutError::Timeout) if give_up() => {
                    return Err(CoreError::GivenUp { board });
                }
                Err(RecvTimeoutError::Timeout) => {}
                // It is gone without a word: it panicked.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(CoreError::Died {
                        board,
                        how: "its supervisor failed".to_owned(),
                        log: Vec::new(),
                    });
                }
            }
        }
    }

    /// The core's name in the pool: its board's, or the one that it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The region that the core sees.
    #[must_use]
    pub const fn region(&self) -> RegionIndex {
        self.region
    }

    /// How the core is.
    #[must_use]
    pub fn status(&self) -> CoreStatus {
        self.shared.status()
    }

    /// Waits until the status is as wanted. False: not within the time.
    #[must_use]
    pub fn wait_until(&self, timeout: Duration, wanted: impl Fn(&CoreStatus) -> bool) -> bool {
        self.shared.wait_until(timeout, wanted)
    }

    /// Waits until the agent has ended by itself: the core died, and may not be started again.
    /// False: it runs on.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, |status| status.state == CoreState::Stopped)
    }

    /// Stops the core and leaves the pool.
    ///
    /// # Errors
    /// Why the core had ended before, if it had.
    pub fn stop(mut self) -> Result<(), CoreError> {
        self.end();
        self.shared.take_failure().map_or(Ok(()), Err)
    }

    fn end(&mut self) {
        // An eventfd that holds nothing takes a write at once.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(supervisor) = self.supervisor.take() {
            // A supervisor that panicked has nothing to hand over; the core died with its thread.
            let _ = supervisor.join();
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Nor is its thread here, and what would stop it stops the parent's.
            std::mem::forget(self.supervisor.take());
            return;
        }
        self.end();
    }
}

/// Begins the log, which keeps other agents away. One whose core has died is about to leave, or
/// starts it again: that is waited for.
fn begin_log(pool: &Pool, name: &str, give_up: &impl Fn() -> bool) -> Result<Log, CoreError> {
    let begun = Instant::now();
    loop {
        if let Some(log) = Log::begin(&pool.path(), name)? {
            return Ok(log);
        }
        let board = name.to_owned();
        if give_up() {
            return Err(CoreError::GivenUp { board });
        }
        if orphan::find(pool, name).is_some() || begun.elapsed() > LEAVING_BOUND {
            let by = control::find_agent(pool, name);
            let by = by.map_or_else(|| "another agent".to_owned(), |agent| control::show(&agent));
            return Err(CoreError::AlreadyRunning { board, by });
        }
    }
}

fn stop_pair() -> Result<(OwnedFd, OwnedFd), rustix::io::Errno> {
    let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let stopped = rustix::io::fcntl_dupfd_cloexec(&stop, 0)?;
    Ok((stop, stopped))
}
