//! Messages between the store and participants: whose the slot is decides where a message is.

use std::sync::Arc;

use hythe_memory::Mapped;
use hythe_pool::{LedgerSlot, MemberIndex, PoolError, QueuedMessage, Section, Taken};

use super::SyncError;
use crate::participant::Participant;
use crate::pool::Pool;

/// A message's buffer, if the store has it.
pub(super) fn stored(pool: &Pool, store: MemberIndex, message: QueuedMessage) -> Option<Taken> {
    let (control, descriptor) = (pool.control(), message.descriptor);
    let found = pool.regions().check(descriptor).ok()?;
    let (count, generation) = control.ledger().slot(found.slot);
    let is_held = count > 0 && control.ledger().holds(store, found.slot) > 0;
    (is_held && generation == descriptor.generation).then(|| found.taken(descriptor))
}

/// A message whose mover died is in the queue if the store has its slot; else it was not given yet,
/// or went to the one who died.
pub(super) fn settle_moving(
    pool: &Pool,
    section: &mut Section<'_, Mapped>,
    store: MemberIndex,
) -> Result<(), SyncError> {
    match section.moving()? {
        None => {}
        Some(message) if stored(pool, store, message).is_some() => {
            section.insert(message, false)?
        }
        Some(_) => section.end_move(),
    }
    Ok(())
}

/// Gives the buffers back of a queue that nobody has any more. With the lock of the table.
pub(super) fn clear(
    shared: &Arc<Participant>,
    section: &mut Section<'_, Mapped>,
) -> Result<(), SyncError> {
    let pool = shared.pool();
    let store = crate::joining::message_store(pool)?;
    settle_moving(pool, section, store)?;
    while let Some(message) = section.next_message(&mut |_| true)? {
        let Some(taken) = stored(pool, store, message) else {
            section.drop_message(message);
            continue;
        };
        section.begin_remove(message);
        let control = pool.control();
        let give_back = |slot: LedgerSlot| -> Result<(), PoolError> {
            shared.act(|member| {
                if member.reclaim(control, store, slot, 1)? {
                    member.release(control, slot, 1)?;
                }
                Ok(())
            })
        };
        let given_back = give_back(taken.slot);
        section.end_move();
        given_back.map_err(crate::NodeError::from)?;
    }
    Ok(())
}
