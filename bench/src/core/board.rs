//! The core of a run: started in a pool of its own, watched while it is measured, audited behind
//! each run and at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hythe_node::{Node, Pool, PoolOptions};
use hythe_rtcore::{Board, Core, CoreError, CoreOptions, CoreState};

use super::case::{Rings, System};
use crate::cpus;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::pool::{self, BenchPool};

/// Ports and the control tables; payload is in the core's region.
const POOL_BYTES: usize = 12 << 20;
/// The name of a second core.
const SECOND: &str = "second";
/// Far longer than any board takes on a busy machine.
const START_BOUND: Duration = Duration::from_secs(60);
/// How often the watch looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(200);
/// What ports have given up is free after this long at the latest.
const SETTLE_BOUND: Duration = Duration::from_secs(10);

/// A core that runs. Dropped, it is stopped and its pool removed.
#[derive(Debug)]
pub(super) struct Running {
    // In the order in which they have to go.
    node: Node,
    /// Its rings pass through the agent on each board.
    agent_node: Node,
    has_eventfds: bool,
    core: Core,
    pool: BenchPool,
}

impl Running {
    /// Starts the board's core with that program. Its process runs on `cpu`, if that is given.
    pub(super) fn start(board: &Board, app: &str, cpu: Option<usize>) -> Result<Self, BenchError> {
        let options = PoolOptions::new(&pool::pool_name()).bytes(POOL_BYTES);
        let pool = BenchPool::make_with(&options)?;
        let options = CoreOptions::default()
            .app(app)
            .start_bound(START_BOUND)
            // What is copied is announced by rings alone.
            .wakes_at_every_ring(true);
        let core = Core::start(pool.pool(), board, &options).map_err(lost)?;
        let node = hythe_rtcore::join(pool.pool(), "bench")?;
        let agent_node = hythe_rtcore::join_without_doorbells(pool.pool(), "bench-agent")?;
        pin(&core, cpu)?;
        Ok(Self {
            node,
            agent_node,
            has_eventfds: board.has_eventfds(),
            core,
            pool,
        })
    }

    /// Starts one more core of the board, in the same pool. Its process runs on `cpu`, too.
    pub(super) fn start_second(
        &self,
        board: &Board,
        app: &str,
        cpu: Option<usize>,
    ) -> Result<Core, BenchError> {
        let options = CoreOptions::default()
            .app(app)
            .name(SECOND)
            .start_bound(START_BOUND);
        let core = Core::start(self.pool(), board, &options).map_err(lost)?;
        pin(&core, cpu)?;
        Ok(core)
    }

    /// The node of this side, in the runs of a system.
    pub(super) const fn node(&self, system: System) -> &Node {
        match system {
            System::Agent => &self.agent_node,
            System::Hythe | System::Copy => &self.node,
        }
    }

    /// Do the rings of the open ports go the way that is to be measured?
    pub(super) fn check_rings(&self, system: System) -> Result<(), BenchError> {
        let name = self.core.name();
        let status = hythe_rtcore::control::status(self.pool(), name).map_err(lost)?;
        let flows = status.link.map(|link| link.flows).unwrap_or_default();
        let mut open = flows.iter().filter(|flow| flow.session != 0);
        let wanted = self.rings(system) == Rings::Eventfd;
        if open.all(|flow| flow.has_doorbell == wanted) {
            return Ok(());
        }
        Err(BenchError::Unable(
            "the agent did not hand out the eventfds of its core in time".to_owned(),
        ))
    }

    /// Which way the rings of a system go.
    pub(super) const fn rings(&self, system: System) -> Rings {
        match (self.has_eventfds, system) {
            (true, System::Hythe | System::Copy) => Rings::Eventfd,
            _ => Rings::Agent,
        }
    }

    pub(super) fn pool(&self) -> &Pool {
        self.pool.pool()
    }

    /// The name of its core in the pool.
    pub(super) fn board(&self) -> &str {
        self.core.name()
    }

    /// The core's process.
    pub(super) fn pid(&self) -> u32 {
        self.core.status().pid
    }

    /// Its process runs on that CPU from now on.
    pub(super) fn pin(&self, cpu: usize) -> Result<(), BenchError> {
        pin(&self.core, Some(cpu))
    }

    /// Measures while somebody watches the core: a wait for one that has ended is given up at once.
    pub(super) fn watched<T>(
        &self,
        lookout: &Lookout,
        measure: impl FnOnce(&Lookout) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let (lookout, gone) = lookout.for_peer();
        let done = AtomicBool::new(false);
        let measured = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let is_down = |state| state != CoreState::Up;
                    if self.core.wait_until(LOOK, |status| is_down(status.state)) {
                        gone.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            });
            let measured = measure(&lookout);
            done.store(true, Ordering::Release);
            measured
        });
        measured.map_err(|error| self.explain(error))
    }

    /// A core that has ended is the reason for whatever failed.
    fn explain(&self, error: BenchError) -> BenchError {
        if self.core.status().state == CoreState::Up || matches!(error, BenchError::Stopped) {
            return error;
        }
        ended(&self.core)
    }

    /// After a run the sums are right, and every slot is free but for what the core's own ports
    /// hold, which is nothing once they are closed.
    pub(super) fn audit(&self, case: &impl ToString, size: usize) -> Result<(), BenchError> {
        let deadline = Instant::now() + SETTLE_BOUND;
        loop {
            let audit = self.pool().snapshot().audit;
            let why = if let Some(mismatch) = audit.mismatches.first() {
                format!("slots do not add up, the first of them {mismatch:?}")
            } else if audit.free == audit.slots {
                return Ok(());
            } else {
                let busy = audit.slots - audit.free;
                format!("{busy} of {} slots are not free", audit.slots)
            };
            if Instant::now() > deadline {
                let case = case.to_string();
                return Err(BenchError::Audit { case, size, why });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// After a run the sums are right. What a core's own ports hold meanwhile is not free.
    pub(super) fn check_sums(&self, case: &impl ToString, size: usize) -> Result<(), BenchError> {
        match self.pool().snapshot().audit.mismatches.first() {
            None => Ok(()),
            Some(mismatch) => Err(BenchError::Audit {
                case: case.to_string(),
                size,
                why: format!("slots do not add up, the first of them {mismatch:?}"),
            }),
        }
    }

    /// Stops the core; then everything is free, and nobody is there any more.
    pub(super) fn stop(self) -> Result<(), BenchError> {
        let Self {
            node,
            agent_node,
            core,
            pool,
            ..
        } = self;
        drop((node, agent_node));
        core.stop().map_err(lost)?;
        pool.audit("the last run", 0)
    }
}

/// Stops a second core.
pub(super) fn stop(core: Core) -> Result<(), BenchError> {
    core.stop().map_err(lost)
}

/// The board, if its core can run that program here.
pub(super) fn find(name: &str, app: &str) -> Result<Board, BenchError> {
    let unable = |error: CoreError| BenchError::Unable(error.to_string());
    let board = Board::find(name).map_err(unable)?;
    let missing = board.missing(app);
    if missing.is_empty() {
        return Ok(board);
    }
    let missing = missing.join("; ");
    Err(BenchError::Unable(format!(
        "board `{name}` cannot run here: {missing}"
    )))
}

/// Binds a core's process, if a CPU is given. It may have ended before that.
fn pin(core: &Core, cpu: Option<usize>) -> Result<(), BenchError> {
    let Some(cpu) = cpu else { return Ok(()) };
    if cpus::pin_process(core.status().pid, cpu)? {
        return Ok(());
    }
    // Who watches it says why, and may not have seen it yet.
    let _ = core.wait_until(SETTLE_BOUND, |status| status.state != CoreState::Up);
    Err(ended(core))
}

/// Why a core is not up any more.
fn ended(core: &Core) -> BenchError {
    let reason = core.status().reason;
    let why = reason.unwrap_or_else(|| "it has ended".to_owned());
    BenchError::PeerLost(format!("the core: {why}"))
}

fn lost(error: CoreError) -> BenchError {
    BenchError::PeerLost(format!("the core: {error}"))
}
