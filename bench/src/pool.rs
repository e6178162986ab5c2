//! A pool of a run's own, removed at the end, and the audit of its ledger.

use std::time::{Duration, Instant};

use hythe_node::{Pool, PoolOptions};
use hythe_pool::{MemberInfo, MemberKind};

use crate::error::BenchError;

/// Between two looks at the ports.
const LOOK: Duration = Duration::from_millis(1);

/// A pool of this run alone, removed at the end.
#[derive(Debug)]
pub(crate) struct BenchPool {
    pool: Pool,
}

impl BenchPool {
    pub(crate) fn make() -> Result<Self, BenchError> {
        Self::make_with(&options(&pool_name()))
    }

    /// With nothing but the defaults.
    pub(crate) fn make_plain(name: &str) -> Result<Self, BenchError> {
        Self::make_with(&PoolOptions::new(name))
    }

    /// With these options, which name it.
    pub(crate) fn make_with(options: &PoolOptions) -> Result<Self, BenchError> {
        let pool = Pool::open_or_create(options)?;
        Ok(Self { pool })
    }

    pub(crate) fn name(&self) -> &str {
        self.pool.options().name()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits until all ports are closed.
    pub(crate) fn wait_for_no_port(&self, timeout: Duration) -> Result<(), BenchError> {
        let start = Instant::now();
        loop {
            let Some(port) = self.pool.ports().into_iter().next() else {
                return Ok(());
            };
            if start.elapsed() > timeout {
                return Err(BenchError::PortsLeft { timeout, port });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// After a run nobody takes part any more, every slot is free, and the sums are right.
    pub(crate) fn audit(&self, case: &str, size: usize) -> Result<(), BenchError> {
        let snapshot = self.pool.snapshot();
        let audit = &snapshot.audit;
        let refused = |why| {
            let case = case.to_owned();
            Err(BenchError::Audit { case, size, why })
        };
        if let Some(mismatch) = audit.mismatches.first() {
            return refused(format!(
                "{} slots do not add up, the first of them {mismatch:?}",
                audit.mismatches.len()
            ));
        }
        if audit.free != audit.slots {
            let busy = audit.slots - audit.free;
            return refused(format!("{busy} of {} slots are not free", audit.slots));
        }
        // What keeps messages stays as long as its pool.
        let keeps = |member: &&MemberInfo| member.kind != MemberKind::MessageStore;
        match snapshot.members.iter().filter(keeps).count() {
            0 => Ok(()),
            count => refused(format!("{count} participants are still there")),
        }
    }
}

impl Drop for BenchPool {
    fn drop(&mut self) {
        if let Err(error) = Pool::remove_by_force(self.pool.options()) {
            eprintln!("hythe-bench: the pool stays behind: {error}");
        }
    }
}

/// Of this run alone.
pub(crate) fn pool_name() -> String {
    format!("bench-{}", std::process::id())
}

/// Touched at the start, so that no first touch falls into a measurement.
pub(crate) fn options(name: &str) -> PoolOptions {
    PoolOptions::new(name).prefault(true)
}

#[cfg(test)]
mod tests {
    use hythe_node::Node;

    use super::*;

    #[test]
    fn audit_refuses_leased_slot_and_remaining_participant() {
        let root = tempfile::tempdir().expect("a directory");
        let options = options("audited").root(root.path()).bytes(16 << 20);
        let pool = BenchPool::make_with(&options).expect("a pool");
        let case = "hythe/poll/filled";
        let why = || pool.audit(case, 8).expect_err("refused").to_string();

        let node = Node::join(pool.pool(), "leaker").expect("joined");
        let lease = node.lease(8).expect("a slot");
        assert!(why().contains("1 of"), "{}", why());
        drop(lease);
        assert!(why().contains("1 participants"), "{}", why());
        drop(node);
        pool.audit(case, 8).expect("all free, nobody there");
        drop(pool);
        assert!(Pool::open(&options).is_err(), "the pool stayed behind");
    }
}
