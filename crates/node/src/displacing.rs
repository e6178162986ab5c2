//! Sending to a subscriber that wants the newest: if its queue is full, the oldest is taken back.
//!
//! Called by [`crate::sending`] for such subscribers only, behind a first attempt that found the queue full. Never waits, never loses a message that it does not count.

use hythe_abi::Descriptor;
use hythe_memory::Mapped;
use hythe_pool::{ConnectionEnd, LedgerSlot, Member, PoolError, SendError};
use hythe_queue::Producer;

use crate::pool::Pool;

/// Sends; adds to `displaced` how many older messages made room.
pub(crate) fn send(
    member: &mut Member,
    pool: &Pool,
    end: &mut ConnectionEnd<Producer>,
    slot: LedgerSlot,
    descriptor: Descriptor,
    displaced: &mut u32,
) -> Result<(), SendError> {
    let control: &hythe_pool::Control<Mapped> = pool.control();
    match member.send(control, end, slot, descriptor) {
        Err(SendError::Full) => {}
        done => return done,
    }
    match member.drop_oldest(control, pool.regions(), end) {
        Ok(Some(oldest)) => {
            member.release(control, oldest.slot, 1)?;
            *displaced += 1;
        }
        // The subscriber was faster.
        Ok(None) => {}
        // Not what was sent: somebody wrote into the queue. It is out of the way, and lost.
        Err(PoolError::BadDescriptor { .. }) => *displaced += 1,
        Err(damage) => return Err(damage.into()),
    }
    member.send(control, end, slot, descriptor)
}
