//! How a core is to be run, and how it is.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hythe_node::ClassPlan;

use crate::CoreError;

/// How to run a core.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    pub(crate) app: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) classes: Vec<ClassPlan>,
    pub(crate) start_bound: Duration,
    pub(crate) restarts: u32,
    pub(crate) record: Option<PathBuf>,
    pub(crate) outlives_agent: bool,
    pub(crate) wakes_at_every_ring: bool,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            app: None,
            name: None,
            classes: Vec::new(),
            start_bound: Duration::from_secs(10),
            restarts: 0,
            record: None,
            outlives_agent: false,
            wakes_at_every_ring: false,
        }
    }
}

impl CoreOptions {
    /// Wakes all who are attached at each ring of the core, also where no word of the link has
    /// changed: for programs whose rings announce what lies in slots. A core that rings without end
    /// then keeps them busy. Default: false.
    #[must_use]
    pub const fn wakes_at_every_ring(mut self, wakes: bool) -> Self {
        self.wakes_at_every_ring = wakes;
        self
    }

    /// Which application; default: the first that the board names.
    #[must_use]
    pub fn app(mut self, app: &str) -> Self {
        self.app = Some(app.to_owned());
        self
    }

    /// The core's own name in the pool, 1 to 32 letters, digits, `-` and `_`; default: its board's.
    /// The channels of a core with a name of its own are `NAME/ENDPOINT`, so that several cores of
    /// one board, or with the same endpoints, run side by side.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The slots of the core's region, 1 to 4 classes of payload size and count; default: those of
    /// its board. A region is made once in a pool: a later start with other classes is refused.
    #[must_use]
    pub fn classes(mut self, classes: &[ClassPlan]) -> Self {
        self.classes = classes.to_vec();
        self
    }

    /// How long the core may take from its start to its answer over the link; default 10 seconds.
    #[must_use]
    pub const fn start_bound(mut self, bound: Duration) -> Self {
        self.start_bound = bound;
        self
    }

    /// How often a core that died is started again; default never.
    #[must_use]
    pub const fn restarts(mut self, restarts: u32) -> Self {
        self.restarts = restarts;
        self
    }

    /// Whether the core goes on when its agent is killed, where processes and the core ring each
    /// other without it ([`Board::has_eventfds`](crate::Board::has_eventfds)); elsewhere it dies
    /// with the agent. Then [`control::stop`](crate::control::stop) ends it, and so does the next
    /// agent, before it starts the core anew. Default: it dies with the agent.
    #[must_use]
    pub const fn outlives_agent(mut self, outlives: bool) -> Self {
        self.outlives_agent = outlives;
        self
    }

    /// Run it so that its instructions are counted, and let its emulator record into this folder
    /// ([`Repeatable`](crate::Repeatable)).
    #[must_use]
    pub fn record(mut self, folder: &Path) -> Self {
        self.record = Some(folder.to_owned());
        self
    }
}

/// Where a core is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreState {
    /// It is being started.
    Starting,
    /// Its endpoints are behind their channels.
    Up,
    /// It has ended, and may be started again.
    Down,
    /// The agent has ended.
    Stopped,
}

/// A core as its agent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreStatus {
    /// Where it is in its life.
    pub state: CoreState,
    /// Why it is down, if not because it was told to.
    pub reason: Option<String>,
    /// Its process, the last one if it is down; 0: there was none yet.
    pub pid: u32,
    /// How often it was started again.
    pub restarts: u32,
    /// Its endpoints, which are the names of their channels.
    pub endpoints: Vec<String>,
}

/// The status as the thread that keeps the core reports it, and others wait for it.
#[derive(Debug)]
pub(crate) struct Reported {
    report: Mutex<Report>,
    changed: Condvar,
}

#[derive(Debug)]
struct Report {
    status: CoreStatus,
    failure: Option<CoreError>,
}

impl Reported {
    /// Of a core that is being started.
    pub(crate) fn starting() -> Self {
        let status = CoreStatus {
            state: CoreState::Starting,
            reason: None,
            pid: 0,
            restarts: 0,
            endpoints: Vec::new(),
        };
        let failure = None;
        Self {
            report: Mutex::new(Report { status, failure }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        // What is in there is whole after each statement.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut CoreStatus)) {
        change(&mut self.lock().status);
        self.changed.notify_all();
    }

    pub(crate) fn end(&self, reason: Option<String>, failure: Option<CoreError>) {
        let mut report = self.lock();
        report.status.state = CoreState::Stopped;
        report.status.reason = reason;
        report.failure = failure;
        self.changed.notify_all();
    }

    pub(crate) fn status(&self) -> CoreStatus {
        self.lock().status.clone()
    }

    /// Waits until the status is as wanted. False: not within the time.
    pub(crate) fn wait_until(
        &self,
        timeout: Duration,
        wanted: impl Fn(&CoreStatus) -> bool,
    ) -> bool {
        let is_other = |report: &mut Report| !wanted(&report.status);
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, is_other);
        let (report, _) = waited.unwrap_or_else(PoisonError::into_inner);
        wanted(&report.status)
    }

    /// Why the core ended, if it was not told to; said once.
    pub(crate) fn take_failure(&self) -> Option<CoreError> {
        self.lock().failure.take()
    }
}
