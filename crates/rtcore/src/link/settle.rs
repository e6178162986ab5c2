//! Taking back what a session that is over left: in the rows of the ledger, and in the queues.
//!
//! Called when the core has echoed session 0 of the flow: it holds nothing of it then, and pushes
//! nothing into it. What is left is in the port's row, or was published by the core and waits in
//! the queues of other flows, where their readers will find it.

use std::collections::HashMap;
use std::sync::Arc;

use hythe_abi::link::{Direction, Entry, Flow};
use hythe_pool::{CoreBinding, LedgerSlot, MemberIndex, MemberKind, PoolError, Taken};

use super::map::LinkMap;
use super::right::Place;
use hythe_node::NodeError;
use hythe_node::hop::{HopPool as _, Participant};

/// How often to look again while another participant is taking what was published.
const ROUNDS: usize = 100;

/// Empties the queue and the row of a flow.
pub(super) fn flow(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
    place: Place,
) -> Result<(), NodeError> {
    let flow = flow_of(core, place);
    if core.direction == Direction::FromCore {
        // Published to this flow and not taken any more. The slots that it supplied follow below.
        let messages = link.waiting(flow).into_iter();
        for entry in messages.filter(|entry| entry.descriptor.mark().is_none()) {
            let row = u8::try_from(entry.account).ok().map(MemberIndex);
            let Some(row) = row.filter(|&row| is_row_of_core(shared, core, row)) else {
                continue;
            };
            if let Some(taken) = reclaim(shared, core, row, entry)? {
                let control = shared.pool().control();
                shared.act(|member| member.release(control, taken.slot, 1))?;
            }
        }
    }
    link.forget_queue(flow);
    empty_row(shared, link, core, place.row)
}

const fn flow_of(core: CoreBinding, place: Place) -> Flow {
    Flow {
        endpoint: core.endpoint as usize,
        port: place.port,
    }
}

/// Is it the row of a port of this core?
pub(super) fn is_row_of_core(
    shared: &Arc<Participant>,
    core: CoreBinding,
    row: MemberIndex,
) -> bool {
    let member = |row| shared.pool().control().tables().member(row);
    let Some((first, row)) = member(core.row).zip(member(row)) else {
        return false;
    };
    row.kind == MemberKind::CoreEndpoint && row.identity == first.identity
}

/// Moves what an entry stands for out of a row of this core, and keeps one reference. `None`: the
/// core did not hold that much.
pub(super) fn reclaim(
    shared: &Arc<Participant>,
    core: CoreBinding,
    row: MemberIndex,
    entry: Entry,
) -> Result<Option<Taken>, NodeError> {
    let (pool, descriptor, count) = (shared.pool(), entry.descriptor, entry.references);
    if descriptor.place.region != core.region || count == 0 {
        return Ok(None);
    }
    let Ok(found) = pool.regions().check_current(pool.control(), descriptor) else {
        return Ok(None);
    };
    let ours = match shared.act(|member| member.reclaim(pool.control(), row, found.slot, count)) {
        // More than any slot can have: a lie.
        Err(PoolError::TooManyReferences { .. }) => return Ok(None),
        ours => ours?,
    };
    if ours && count > 1 {
        shared.act(|member| member.release(pool.control(), found.slot, count - 1))?;
    }
    Ok(ours.then(|| found.taken(descriptor)))
}

/// Does the row of a port answer for anything, or its queue hold anything? Or does the core wait
/// for replies there, which the end of the session ends?
pub(super) fn is_clean(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
    place: Place,
) -> bool {
    let pool = shared.pool();
    let Some(region) = pool.regions().region(core.region) else {
        return true;
    };
    let published = published(link, place.row);
    let empty = (0..region.slots).all(|slot| {
        let held = pool
            .control()
            .ledger()
            .held_by(place.row, LedgerSlot(region.ledger_base + slot));
        held <= published.get(&slot).copied().unwrap_or(0)
    });
    let nobody_reads = core.direction == Direction::FromCore;
    let flow = flow_of(core, place);
    let may_wait = nobody_reads && link.asks(flow.endpoint) && link.sessions(flow).0 != 0;
    empty && !may_wait && !(nobody_reads && link.has_waiting(flow))
}

/// Releases everything that the row of a port answers for, except what was published and is still
/// to be taken.
fn empty_row(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
    row: MemberIndex,
) -> Result<(), NodeError> {
    let pool = shared.pool();
    let Some(region) = pool.regions().region(core.region) else {
        return Ok(());
    };
    for _ in 0..ROUNDS {
        let before = published(link, row);
        let mut at_rest = true;
        shared.act(|member| -> Result<(), PoolError> {
            for index in 0..region.slots {
                let slot = LedgerSlot(region.ledger_base + index);
                let keep = before.get(&index).copied().unwrap_or(0);
                let held = pool.control().ledger().held_by(row, slot);
                at_rest &= keep == 0 || held >= keep;
                let surplus = held.saturating_sub(keep);
                if surplus > 0 && member.reclaim(pool.control(), row, slot, surplus)? {
                    member.release(pool.control(), slot, surplus)?;
                }
            }
            Ok(())
        })?;
        // A reader that took in between may have made us keep too many.
        if at_rest && published(link, row) == before {
            break;
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// References of a row, by slot, that wait in the queues of endpoints that give payload.
pub(super) fn published(link: &LinkMap, row: MemberIndex) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    let endpoints = 0..link.layout().endpoints();
    let flows = endpoints
        .filter(|&endpoint| link.is_from_core(endpoint))
        .flat_map(|endpoint| link.flows(endpoint));
    for entry in flows.flat_map(|flow| link.waiting(flow)) {
        let place = entry.descriptor.place;
        let is_message = entry.descriptor.mark().is_none() && place.region == link.region();
        if is_message && entry.account == u32::from(row.0) {
            let sum = found.entry(place.slot).or_insert(0_u32);
            *sum = sum.saturating_add(entry.references);
        }
    }
    found
}
