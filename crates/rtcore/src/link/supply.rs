//! Empty slots for a core: how many of its region a port may give it.
//!
//! Half of those that are large enough stay with Linux: without them nobody could send to the core,
//! or reply to it. Never waits.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_node::NodeError;
use hythe_node::hop::{HopPool as _, Outgoing, Participant};
use hythe_pool::{CoreCounter, LedgerSlot, MemberIndex, PoolError};

use super::attachment::Attachment;

/// How long the rows of an endpoint's ports are remembered.
const ROWS_AGE: Duration = Duration::from_millis(100);

/// Where one port gets the slots that it gives its core.
#[derive(Debug, Default)]
pub(super) struct Supply {
    /// Slots that are large enough for the endpoint: classes are sorted by size, so they follow
    /// each other.
    fitting: Range<u32>,
    /// The rows of all ports of the endpoint, and when they were looked up.
    rows: Vec<MemberIndex>,
    rows_seen: Option<Instant>,
    /// There was no slot, and none has been leased since.
    is_short: bool,
}

impl Supply {
    /// For the session that an attachment has begun.
    pub(super) fn begin(&mut self, attachment: &Attachment) {
        self.fitting = attachment.fitting_slots();
        self.rows_seen = None;
    }

    /// A slot for the core. `None`: there is none, or it must stay with Linux.
    pub(super) fn lease(
        &mut self,
        participant: &Arc<Participant>,
        attachment: &Attachment,
    ) -> Result<Option<Outgoing>, NodeError> {
        if !self.leaves_enough(participant, attachment) {
            self.note_short(attachment);
            return Ok(None);
        }
        let (region, bytes) = (attachment.core.region, attachment.slot_bytes as usize);
        match Outgoing::lease(participant, region, bytes) {
            Ok(empty) => {
                self.is_short = false;
                Ok(Some(empty))
            }
            Err(NodeError::Pool(PoolError::PoolFull { .. })) => {
                self.note_short(attachment);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts that there is no slot for the core: once, until there is one again.
    pub(super) fn note_short(&mut self, attachment: &Attachment) {
        if !std::mem::replace(&mut self.is_short, true) {
            attachment.count(CoreCounter::NoSlot);
        }
    }

    /// Are fewer slots with the core than half of those that are large enough, and beyond half of
    /// that only while more than a quarter is free? Receivers may keep the other half. Where there
    /// are many, the windows of all ports together come to less.
    fn leaves_enough(&mut self, participant: &Participant, attachment: &Attachment) -> bool {
        let fitting = self.fitting.len() as u32;
        let (half, quarter) = ((fitting / 2).max(1), fitting / 4);
        let windows = CORE_PORTS_MAX as u32 * 2 * attachment.window();
        if quarter >= windows {
            return true;
        }
        // Whoever attached a moment ago is missed this once.
        if self.rows_seen.is_none_or(|seen| seen.elapsed() > ROWS_AGE) {
            self.rows = attachment.rows();
            self.rows_seen = Some(Instant::now());
        }
        let ledger = participant.pool().control().ledger();
        let is_at_core = |slot: &u32| {
            let mut rows = self.rows.iter();
            rows.any(|&row| ledger.held_by(row, LedgerSlot(*slot)) > 0)
        };
        let at_core = self.fitting.clone().filter(is_at_core);
        let at_core = at_core.take(half as usize).count() as u32;
        let is_free = || {
            let first = LedgerSlot(self.fitting.start);
            ledger.free_slots(first, fitting, quarter + 1) > quarter
        };
        at_core < half && (at_core < quarter.max(1) || is_free())
    }
}
