//! Taking the oldest back out of the queue of a subscriber that wants the newest.
//!
//! Called by [`crate::sending`] for such subscribers only, behind a first attempt that found the
//! queue, or its quota, full. Never waits, never loses a message that is not counted.

use hythe_memory::Mapped;
use hythe_pool::{ConnectionEnd, Member, PoolError};
use hythe_queue::Producer;

use crate::pool::Pool;

/// What was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    One,
    /// The queue is empty, or the subscriber was faster.
    None,
}

pub(crate) fn evict_oldest(
    member: &mut Member,
    pool: &Pool,
    end: &mut ConnectionEnd<Producer>,
) -> Result<Evicted, PoolError> {
    let control: &hythe_pool::Control<Mapped> = pool.control();
    match member.evict_oldest(control, pool.regions(), end) {
        Ok(Some(oldest)) => {
            member.release(control, oldest.slot, 1)?;
            Ok(Evicted::One)
        }
        Ok(None) => Ok(Evicted::None),
        // Not what was sent: somebody wrote into the queue. It is out of the way, and lost.
        Err(PoolError::BadDescriptor { .. }) => Ok(Evicted::One),
        Err(damage) => Err(damage),
    }
}
