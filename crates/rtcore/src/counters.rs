//! What is counted of a core beyond the lives of its rows.
//!
//! Ports count in the rows of the core's endpoints, the agent in the row of the core as a whole
//! (`spec/pool.md`). Rows go with the process of the core: the agent adds what they counted, and
//! the sessions that were lost with it, to the row of the next life.

use std::collections::BTreeSet;
use std::ops::AddAssign;

use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_node::hop::HopPool as _;
use hythe_node::{ChannelIndex, MemberIndex, MemberInfo, MemberKind, Node, Pool};
use hythe_pool::{CoreCounter, CoreCounters, Identity};

/// Sums over rows, with the newest violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(pub(crate) CoreCounters);

impl AddAssign<CoreCounters> for Sum {
    fn add_assign(&mut self, more: CoreCounters) {
        let sum = &mut self.0;
        for (into, count) in [
            (&mut sum.violations, more.violations),
            (&mut sum.full, more.full),
            (&mut sum.no_slot, more.no_slot),
            (&mut sum.lost, more.lost),
            (&mut sum.rings_ignored, more.rings_ignored),
            (&mut sum.renewals, more.renewals),
        ] {
            *into = into.wrapping_add(count);
        }
        if more.last_violation != 0 {
            (sum.last_violation, sum.last_value) = (more.last_violation, more.last_value);
        }
    }
}

/// The rows of a core.
pub(crate) fn rows(pool: &Pool, core: Identity) -> impl Iterator<Item = MemberInfo> {
    let members = pool.control().tables().members();
    members.filter(move |row| row.kind == MemberKind::CoreEndpoint && row.identity == core)
}

/// The row of a core as a whole.
pub(crate) fn row_of_core(node: &Node, name: &str, core: Identity) -> Option<MemberIndex> {
    let mut rows = rows(node.pool(), core);
    rows.find(|row| row.name == name).map(|row| row.index)
}

/// The rows that a core has had in one life: what they counted stands there still when they have
/// been freed.
#[derive(Debug, Default)]
pub(crate) struct SeenRows(BTreeSet<u8>);

impl SeenRows {
    pub(crate) fn look(&mut self, pool: &Pool, row: Option<MemberIndex>) {
        let core = row.and_then(|row| pool.control().tables().member(row));
        if let Some(core) = core {
            self.0
                .extend(rows(pool, core.identity).map(|row| row.index.0));
        }
    }

    /// What was counted in a life that is over, with the sessions that are lost and of whose loss
    /// the ports do not know yet: those of who is still attached to one of these channels.
    pub(crate) fn sum(&self, pool: &Pool, channels: &[ChannelIndex]) -> CoreCounters {
        let tables = pool.control().tables();
        let mut sum = Sum::default();
        for &row in &self.0 {
            sum += tables.core_counters(MemberIndex(row));
        }
        let ports = channels
            .iter()
            .flat_map(|&channel| (0..CORE_PORTS_MAX).map(move |port| (channel, port)));
        let attached = ports.filter(|&(channel, port)| tables.attached(channel, port).is_some());
        sum.0.lost += attached.count() as u64;
        sum.0
    }
}

/// Goes on counting where an earlier life of the core ended.
pub(crate) fn carry(node: &Node, row: MemberIndex, earlier: &CoreCounters) {
    let tables = node.pool().control().tables();
    for (counter, count) in [
        (CoreCounter::Full, earlier.full),
        (CoreCounter::NoSlot, earlier.no_slot),
        (CoreCounter::Lost, earlier.lost),
        (CoreCounter::RingsIgnored, earlier.rings_ignored),
        (CoreCounter::Renewals, earlier.renewals),
    ] {
        tables.count_core(row, counter, count);
    }
    if earlier.violations > 0 {
        let (what, value) = (earlier.last_violation, earlier.last_value);
        tables.count_core_violations(row, earlier.violations, what, value);
    }
}
