//! Taking back what a session that is over left: in the rows of the ledger, and in the queues.
//!
//! Called when the core has echoed session 0 of the endpoint: it holds nothing then, and pushes
//! nothing. What is left is in the endpoint's row, or was forwarded by the core and waits in the
//! queue of another endpoint, where its reader will find it.

use std::collections::HashMap;
use std::sync::Arc;

use hythe_abi::link::Direction;
use hythe_abi::{Descriptor, Place};
use hythe_pool::{CoreBinding, LedgerSlot, MemberIndex, PoolError, RegionKind, Taken};

use super::map::LinkMap;
use hythe_node::NodeError;
use hythe_node::hop::{HopPool as _, Participant};

/// How often to look again while another participant is taking what was forwarded.
const ROUNDS: usize = 100;

/// Empties the queue and the row of an endpoint.
pub(super) fn endpoint(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
) -> Result<(), NodeError> {
    let endpoint = core.endpoint as usize;
    let waiting = link.waiting(endpoint);
    if core.direction == Direction::FromCore {
        // Forwarded to this endpoint and not taken any more. The endpoint's own slots follow below.
        let rows = rows_to_core(shared, core);
        for descriptor in waiting.into_iter().filter(|found| found.mark().is_none()) {
            for &row in &rows {
                if let Some(taken) = reclaim(shared, core, row, descriptor)? {
                    let control = shared.pool().control();
                    shared.act(|member| member.release(control, taken.slot, 1))?;
                    break;
                }
            }
        }
    }
    link.forget_queue(endpoint);
    empty_row(shared, link, core)
}

/// Rows of the same core's endpoints that take payload: what came in there may be forwarded out of
/// here.
pub(super) fn rows_to_core(shared: &Arc<Participant>, core: CoreBinding) -> Vec<MemberIndex> {
    let bindings = shared
        .pool()
        .control()
        .tables()
        .channels()
        .filter_map(|channel| channel.core);
    bindings
        .filter(|other| other.region == core.region && other.direction == Direction::ToCore)
        .map(|other| other.row)
        .collect()
}

/// Moves a reference that came back out of a row of this core. `None`: the core did not hold it.
pub(super) fn reclaim(
    shared: &Arc<Participant>,
    core: CoreBinding,
    row: MemberIndex,
    descriptor: Descriptor,
) -> Result<Option<Taken>, NodeError> {
    let pool = shared.pool();
    if descriptor.place.region != core.region {
        return Ok(None);
    }
    let Ok(found) = pool.regions().check_current(pool.control(), descriptor) else {
        return Ok(None);
    };
    let ours = shared.act(|member| member.reclaim(pool.control(), row, found.slot))?;
    Ok(ours.then(|| found.taken(descriptor)))
}

/// Does the row of an endpoint answer for anything, or its queue hold anything?
pub(super) fn is_clean(shared: &Arc<Participant>, link: &LinkMap, core: CoreBinding) -> bool {
    let pool = shared.pool();
    let Some(region) = pool.regions().region(core.region) else {
        return true;
    };
    let handed_on = handed_on(link);
    let empty = (0..region.slots).all(|slot| {
        let held = pool
            .control()
            .ledger()
            .held_by(core.row, LedgerSlot(region.ledger_base + slot));
        held <= handed_on.get(&slot).copied().unwrap_or(0)
    });
    let nobody_reads = core.direction == Direction::FromCore;
    empty && !(nobody_reads && link.has_waiting(core.endpoint as usize))
}

/// Releases everything that the row of an endpoint answers for, except what was forwarded and is
/// still to be taken.
fn empty_row(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
) -> Result<(), NodeError> {
    let pool = shared.pool();
    let Some(region) = pool.regions().region(core.region) else {
        return Ok(());
    };
    debug_assert!(
        region.kind == RegionKind::Core,
        "rows of endpoints hold slots of a core's region"
    );
    for _ in 0..ROUNDS {
        let before = handed_on(link);
        let mut at_rest = true;
        shared.act(|member| -> Result<(), PoolError> {
            for index in 0..region.slots {
                let slot = LedgerSlot(region.ledger_base + index);
                let keep = before.get(&index).copied().unwrap_or(0);
                let held = pool.control().ledger().held_by(core.row, slot);
                at_rest &= keep == 0 || held >= keep;
                for _ in keep..held {
                    if member.reclaim(pool.control(), core.row, slot)? {
                        member.release(pool.control(), slot, 1)?;
                    }
                }
            }
            Ok(())
        })?;
        // A reader that took in between may have made us keep one too many.
        if at_rest && handed_on(link) == before {
            break;
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// References, by slot, that wait in queues of endpoints that give payload.
fn handed_on(link: &LinkMap) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    for endpoint in 0..link.layout().endpoints() {
        let record = link.endpoint(endpoint);
        if record.is_none_or(|record| record.direction != Direction::FromCore) {
            continue;
        }
        for descriptor in link.waiting(endpoint) {
            let Place { region, slot } = descriptor.place;
            if region == link.region() && descriptor.mark().is_none() {
                *found.entry(slot).or_default() += 1;
            }
        }
    }
    found
}
