//! Scenario `soak`: many processes that join, work, leave and are killed at random, for as long as
//! one likes, audited throughout.
//!
//! Nothing is measured against anybody here; what comes out says that nothing was lost, and how
//! soon the dead were recovered. `crew` starts, kills and hears the processes; `worker` is one of
//! them; `left_over` names what should not be there any more; `report` is what comes out. Seeded:
//! the same seed makes the same choices, though the scheduler has its say.

pub(crate) mod args;
mod crew;
mod left_over;
mod report;
mod worker;

use std::time::{Duration, Instant};

use hythe_node::hop::HopPool as _;
use hythe_node::{Node, Pool, PoolOptions};

use self::args::{SoakArguments, WorkerArguments};
use self::crew::Crew;
use self::left_over::left_over;
use self::report::{Counts, Report};
use crate::error::BenchError;
use crate::lookout::Lookout;

/// Somebody who is dead for so long and not recovered never will be.
const RECOVERY_BOUND: Duration = Duration::from_secs(20);
/// Between two looks at the ledger while everybody works.
const AUDIT_EVERY: Duration = Duration::from_secs(1);
/// Between two moments at which all are killed, and everything must be free.
const CLEAR_EVERY: Duration = Duration::from_secs(20);
/// Between two looks for the record of one that was killed: what its recovery is measured to.
const LOOK: Duration = Duration::from_micros(500);

/// A pool of one's own, removed with this value.
struct SoakPool(PoolOptions);

impl SoakPool {
    fn options(name: &str) -> PoolOptions {
        PoolOptions::new(name).bytes(32 << 20)
    }

    fn make() -> Result<Self, BenchError> {
        let options = Self::options(&format!("soak-{}", std::process::id()));
        Pool::create(&options)?;
        Ok(Self(options))
    }
}

impl Drop for SoakPool {
    fn drop(&mut self) {
        // Left behind, `hythe pool list` shows it.
        let _ = Pool::remove_by_force(&self.0);
    }
}

/// A small generator (splitmix64): seeded, the same everywhere.
#[derive(Debug)]
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % limit.max(1)
    }
}

/// One run. What went wrong is in the report, and ends the run early.
pub(crate) fn run(arguments: &SoakArguments) -> Result<Report, BenchError> {
    crate::machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let made = SoakPool::make()?;
    let pool = Pool::open(&made.0)?;
    let node = Node::join(&pool, "soak")?;
    let mut soak = Soak {
        crew: Crew::new(made.0.name(), arguments),
        choices: Choices(arguments.seed),
        counts: Counts::new()?,
        pool,
        node,
    };
    let load = crate::machine::load();
    let (start, time) = (
        Instant::now(),
        Duration::from_secs_f64(arguments.minutes * 60.0),
    );
    let done = soak.until(start + time, &lookout);
    soak.crew.kill_all();
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    soak.crew.hear(&mut soak.counts);
    match done {
        Ok(()) => {}
        Err(BenchError::Invalid(why)) => soak.counts.invalid = Some(why),
        Err(error) => return Err(error),
    }
    Ok(Report::new(arguments, soak.counts, minutes, load))
}

/// Worker of a soak: another process.
pub(crate) fn work(arguments: &WorkerArguments) -> Result<(), BenchError> {
    worker::work(&SoakPool::options(&arguments.pool), arguments.seed)
}

struct Soak {
    crew: Crew,
    choices: Choices,
    counts: Counts,
    pool: Pool,
    /// Its watcher is one of those that recover, also when all others are dead.
    node: Node,
}

impl Soak {
    fn until(&mut self, end: Instant, lookout: &Lookout) -> Result<(), BenchError> {
        let (mut audited, mut cleared) = (Instant::now(), Instant::now());
        while Instant::now() < end {
            lookout.check_stop()?;
            self.turn()?;
            self.crew.hear(&mut self.counts);
            self.crew.check_ends()?;
            if audited.elapsed() > AUDIT_EVERY {
                self.audit("while all work")?;
                audited = Instant::now();
            }
            if cleared.elapsed() > CLEAR_EVERY {
                self.clear()?;
                cleared = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(self.choices.below(60)));
        }
        self.clear()
    }

    /// Something happens to one of the crew.
    fn turn(&mut self) -> Result<(), BenchError> {
        let berth = self.choices.below(self.crew.berths() as u64) as usize;
        if !self.crew.is_there(berth) {
            let seed = self.choices.below(u64::MAX);
            self.counts.joins += 1;
            return self.crew.start(berth, seed);
        }
        match self.choices.below(4) {
            0 => {
                self.counts.departures += 1;
                self.crew.send_home(berth)
            }
            1 => {
                self.counts.kills += 1;
                let killed = Instant::now();
                let pid = self.crew.kill(berth)?;
                self.wait_for_recovery(pid, killed)
            }
            _ => Ok(()),
        }
    }

    fn wait_for_recovery(&mut self, pid: u32, killed: Instant) -> Result<(), BenchError> {
        let control = self.pool.control();
        while control
            .tables()
            .members()
            .any(|member| member.identity.pid == pid)
        {
            if killed.elapsed() > RECOVERY_BOUND {
                let why = format!("process {pid} was not recovered within {RECOVERY_BOUND:?}");
                return Err(BenchError::Invalid(why));
            }
            std::thread::sleep(LOOK);
        }
        self.counts.recovered(killed.elapsed());
        Ok(())
    }

    fn audit(&mut self, when: &str) -> Result<(), BenchError> {
        self.counts.audits += 1;
        let seen = self.pool.snapshot().audit;
        let sums = seen.free + seen.held + seen.queued == seen.slots;
        if seen.mismatches.is_empty() && sums {
            return Ok(());
        }
        let why = format!("{when}, the ledger does not add up: {:?}", seen.mismatches);
        Err(BenchError::Invalid(why))
    }

    /// Everybody is killed: all must come back.
    fn clear(&mut self) -> Result<(), BenchError> {
        self.counts.kills += self.crew.kill_all();
        let start = Instant::now();
        loop {
            let left = left_over(&self.pool.snapshot(), self.node.index());
            let Some(left) = left else {
                self.counts.clearings += 1;
                return Ok(());
            };
            if start.elapsed() > RECOVERY_BOUND {
                let why =
                    format!("with everybody dead for {RECOVERY_BOUND:?} there is still: {left}");
                return Err(BenchError::Invalid(why));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
