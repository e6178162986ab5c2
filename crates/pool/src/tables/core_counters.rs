//! What Linux counts of a core, in the rows that answer for it.
//!
//! Written by whoever is attached at the port of a row, and by the core's agent in the row of the
//! core as a whole: one writer at a time. For people to read: nothing is decided by them.

use hythe_abi::pool::participant;
use hythe_memory::{Memory, Ordering};

use super::Tables;
use super::members::MemberIndex;

/// What is counted of a core at one of its rows, since the row was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounters {
    /// Entries and words that the core should not have written.
    pub violations: u64,
    /// Messages and requests for which the queue to the core had no place.
    pub full: u64,
    /// Times that no empty slot was left: for a message to the core, or for its fill ring.
    pub no_slot: u64,
    /// Sessions that ended though the port had not ended them.
    pub lost: u64,
    /// Rings that the agent did not pass on.
    pub rings_ignored: u64,
    /// Sessions that the agent has begun anew because words of the link were impossible.
    pub renewals: u64,
    /// What was impossible last, by its number in `spec/link.md`; 0: nothing was.
    pub last_violation: u32,
    /// What stood there.
    pub last_value: u32,
}

/// One of [`CoreCounters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreCounter {
    /// [`CoreCounters::full`].
    Full,
    /// [`CoreCounters::no_slot`].
    NoSlot,
    /// [`CoreCounters::lost`].
    Lost,
    /// [`CoreCounters::rings_ignored`].
    RingsIgnored,
    /// [`CoreCounters::renewals`].
    Renewals,
}

impl CoreCounter {
    const fn at(self) -> usize {
        match self {
            Self::Full => participant::CORE_FULL,
            Self::NoSlot => participant::CORE_NO_SLOT,
            Self::Lost => participant::CORE_LOST,
            Self::RingsIgnored => participant::CORE_RINGS_IGNORED,
            Self::Renewals => participant::CORE_RENEWALS,
        }
    }
}

impl<M: Memory> Tables<'_, M> {
    /// What was counted at a row.
    pub fn core_counters(self, row: MemberIndex) -> CoreCounters {
        if !self.has_row(row) {
            return CoreCounters::default();
        }
        let at = self.layout().participant(row.0.into());
        let count = |offset| self.memory().load_cell(at + offset, Ordering::Relaxed);
        let last = count(participant::CORE_LAST_VIOLATION);
        CoreCounters {
            violations: count(participant::CORE_VIOLATIONS),
            full: count(participant::CORE_FULL),
            no_slot: count(participant::CORE_NO_SLOT),
            lost: count(participant::CORE_LOST),
            rings_ignored: count(participant::CORE_RINGS_IGNORED),
            renewals: count(participant::CORE_RENEWALS),
            last_violation: last as u32,
            last_value: (last >> 32) as u32,
        }
    }

    /// Counts at a row that the caller is attached at, or whose agent it is.
    pub fn count_core(self, row: MemberIndex, counter: CoreCounter, count: u64) {
        self.raise_cell(row, counter.at(), count);
    }

    /// As [`count_core`](Self::count_core): the core wrote something impossible. `what` is the
    /// number of the last in `spec/link.md`, `value` what stood there.
    pub fn count_core_violations(self, row: MemberIndex, count: u64, what: u32, value: u32) {
        self.raise_cell(row, participant::CORE_VIOLATIONS, count);
        if self.has_row(row) {
            let at = self.layout().participant(row.0.into()) + participant::CORE_LAST_VIOLATION;
            let last = u64::from(what) | u64::from(value) << 32;
            self.memory().store_cell(at, last, Ordering::Relaxed);
        }
    }

    fn raise_cell(self, row: MemberIndex, offset: usize, count: u64) {
        if self.has_row(row) {
            let at = self.layout().participant(row.0.into()) + offset;
            let before = self.memory().load_cell(at, Ordering::Relaxed);
            let after = before.wrapping_add(count);
            self.memory().store_cell(at, after, Ordering::Relaxed);
        }
    }

    /// For whoever fills the record of a participant.
    pub(crate) fn clear_core_counters(self, row: MemberIndex) {
        let at = self.layout().participant(row.0.into());
        let cells = participant::CORE_VIOLATIONS..=participant::CORE_LAST_VIOLATION;
        for offset in cells.step_by(8) {
            self.memory().store_cell(at + offset, 0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Control, Geometry, Identity, Member, MemberKind};
    use hythe_memory::Mapped;

    #[test]
    fn row_counts_for_itself_and_begins_with_zeroes() {
        let geometry = Geometry::for_bytes(16 << 20).expect("geometry");
        let bytes = geometry.layout().expect("layout").bytes();
        let memory = Mapped::anonymous(bytes).expect("memory");
        let control = Control::create(memory, &geometry, 1).expect("control");
        let identity = Identity {
            pid: 10,
            start_time: 1,
            pid_namespace: 1,
            uid: 0,
        };
        let tables = control.tables();
        let stale = MemberIndex(1);
        tables.count_core(stale, CoreCounter::Renewals, 9);
        let rows = ["a", "b"].map(|name| {
            let joined = Member::join(&control, MemberKind::CoreEndpoint, identity, name);
            joined.expect("a free record").index()
        });
        assert_eq!(tables.core_counters(stale), CoreCounters::default());
        tables.count_core_violations(rows[0], 1, 3, u32::MAX);
        tables.count_core(rows[0], CoreCounter::Full, 2);
        tables.count_core(rows[0], CoreCounter::NoSlot, 3);
        tables.count_core(rows[0], CoreCounter::Lost, 4);
        tables.count_core(rows[0], CoreCounter::RingsIgnored, 5);
        let expected = CoreCounters {
            violations: 1,
            full: 2,
            no_slot: 3,
            lost: 4,
            rings_ignored: 5,
            renewals: 0,
            last_violation: 3,
            last_value: u32::MAX,
        };
        assert_eq!(tables.core_counters(rows[0]), expected);
        assert_eq!(tables.core_counters(rows[1]), CoreCounters::default());
        // A number that no row has counts for nobody.
        tables.count_core_violations(MemberIndex(255), 1, 1, 1);
        assert_eq!(
            tables.core_counters(MemberIndex(255)),
            CoreCounters::default()
        );
    }
}
