//! What a publisher keeps for those who come late: its last few samples, as references of its own.
//!
//! Kept by [`crate::Publisher`], given to a subscriber when the publisher connects to it. It is the
//! first thing that goes when the pool is full ([`Reserve`]). Never copies payload, never keeps
//! more than was asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hythe_abi::Descriptor;
use hythe_pool::{ConnectionEnd, LedgerSlot, PoolError, SendError};
use hythe_queue::Producer;

use crate::NodeError;
use crate::buffer::Reference;
use crate::participant::Participant;
use crate::quota::Quota;
use crate::reserve::{Reserve, Wanted};
use crate::transport::{FirstMessages, QueueTarget};

/// The most messages of a history: as many as the deepest queue of a subscriber holds.
pub const HISTORY_MAX: u32 = 32_768;

/// Refuses a history that is longer.
pub(crate) fn check(messages: u32) -> Result<(), NodeError> {
    if messages > HISTORY_MAX {
        return Err(NodeError::HistoryTooLong {
            messages,
            largest: HISTORY_MAX,
        });
    }
    Ok(())
}

/// Oldest first.
#[derive(Debug, Default)]
struct Kept(Mutex<VecDeque<Reference>>);

/// The last samples of one publisher. Empty, and free of cost, unless it was asked for.
#[derive(Debug, Default)]
pub(crate) struct History {
    wanted: usize,
    /// What is being published, until it is known whether it went out.
    next: Option<Reference>,
    kept: Option<Arc<Kept>>,
}

impl History {
    pub(crate) fn new(shared: &Participant, wanted: u32) -> Self {
        let mut history = Self::default();
        history.extend(shared, wanted);
        history
    }

    /// Keeps as many as this from now on, if that is more than before.
    pub(crate) fn extend(&mut self, shared: &Participant, wanted: u32) {
        self.wanted = self.wanted.max(wanted as usize);
        if self.wanted > 0 && self.kept.is_none() {
            let kept = Arc::new(Kept::default());
            let reserve = Arc::downgrade(&kept);
            shared.reserves().add(reserve);
            self.kept = Some(kept);
        }
    }

    /// Is anything kept at all?
    #[inline]
    pub(crate) const fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// One more reference to what is about to be published: [`keep`](Self::keep) follows.
    #[cold]
    pub(crate) fn copy(
        &mut self,
        shared: &Participant,
        reference: &Reference,
    ) -> Result<(), NodeError> {
        if self.keeps() {
            let control = shared.pool().control();
            shared.act(|member| member.duplicate(control, reference.slot(), 1))?;
            self.next = Some(reference.same_again());
        }
        Ok(())
    }

    /// Keeps what was copied, if it was published; the oldest goes if there are too many.
    pub(crate) fn keep(&mut self, is_published: bool) {
        let next = self.next.take().filter(|_| is_published);
        if let (Some(kept), Some(published)) = (&self.kept, next) {
            let mut kept = kept.lock();
            kept.push_back(published);
            let surplus = kept.len().saturating_sub(self.wanted);
            kept.drain(..surplus);
        }
    }

    /// In a forked child: it is the parent's.
    pub(crate) fn forget(&mut self) {
        std::mem::forget((self.next.take(), self.kept.take()));
    }
}

impl FirstMessages for History {
    fn is_there(&self) -> bool {
        self.keeps()
    }

    /// Gives a new subscriber what it wants of it, oldest first: the newest, as many as it may
    /// occupy.
    fn give(
        &self,
        shared: &Participant,
        quota: &mut Quota,
        target: &mut QueueTarget,
    ) -> Result<(), NodeError> {
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        let kept = kept.lock();
        let Some(newest) = kept.back() else {
            return Ok(());
        };
        let receiver = &target.receiver;
        let most = {
            let parcel = quota.parcel(shared, newest)?;
            quota.most(&parcel).min(receiver.depth)
        };
        let wanted = receiver.history.min(most) as usize;
        let earlier = kept.len().saturating_sub(wanted);
        for reference in kept.iter().skip(earlier) {
            let parcel = quota.parcel(shared, reference)?;
            let (control, outstanding) = (shared.pool().control(), &mut target.outstanding);
            let (info, position) = (target.end.info, target.end.queue.tail());
            let end = &mut target.end;
            if !outstanding.look(quota, control, &info, &parcel)
                || !send_one_more(shared, end, reference.slot(), reference.descriptor())?
            {
                break;
            }
            outstanding.note(&parcel, position);
        }
        Ok(())
    }
}

/// False: it did not fit, or the subscriber's words make no sense; whoever sends to it next finds
/// that out.
fn send_one_more(
    shared: &Participant,
    end: &mut ConnectionEnd<Producer>,
    slot: LedgerSlot,
    descriptor: Descriptor,
) -> Result<bool, NodeError> {
    let control = shared.pool().control();
    let sent = shared.act(|member| -> Result<bool, PoolError> {
        member.duplicate(control, slot, 1)?;
        match member.send(control, end, slot, descriptor) {
            Ok(()) => Ok(true),
            Err(SendError::Full | SendError::Pool(_)) => {
                member.release(control, slot, 1).map(|_| false)
            }
        }
    });
    Ok(sent?)
}

impl Reserve for Kept {
    fn held(&self, wanted: &Wanted<'_>) -> Option<usize> {
        let kept = self.lock();
        let any = kept
            .iter()
            .any(|reference| wanted.fits(reference.descriptor().place));
        any.then(|| kept.len())
    }

    fn give_up_one(&self, wanted: &Wanted<'_>) -> bool {
        let mut kept = self.lock();
        let oldest = kept
            .iter()
            .position(|reference| wanted.fits(reference.descriptor().place));
        oldest.is_some_and(|oldest| kept.remove(oldest).is_some())
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Reference>> {
        // A panic in between leaves a whole queue: each change of it is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
