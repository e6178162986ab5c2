//! Leases a slot. When none is free, it waits for a bounded time and takes slots back from
//! reserves.
//!
//! Nodes and ports call it. The error of a full pool names the holders. Never waits without a
//! bound.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::{Generation, HEADROOM_BYTES, RegionIndex};
use hythe_memory::Memory;
use hythe_pool::{LEASES_AHEAD, PoolError, RegionGeometry, RegionKind};

use crate::buffer::{Lease, Reference};
use crate::participant::Participant;
use crate::{NodeError, holders, wire};

/// How long one message may wait for full queues and for a free slot, unless the sender chooses
/// another time.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_millis(100);
/// A release wakes nobody: a thread that waits for a free slot looks again after this long.
const LEASE_LOOK: Duration = Duration::from_millis(1);

/// How to go on when no slot is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseWait {
    /// How long to wait for one.
    pub(crate) timeout: Duration,
    /// How many receivers there are for what is leased, if that is known: for the error.
    pub(crate) receivers: usize,
}

impl LeaseWait {
    pub(crate) const NONE: Self = Self {
        timeout: Duration::ZERO,
        receivers: 0,
    };
}

impl Default for LeaseWait {
    fn default() -> Self {
        Self {
            timeout: SEND_TIMEOUT,
            receivers: 0,
        }
    }
}

/// As [`lease_in`], with what a user of the crate wants besides: histories give way, a slot that
/// comes free is waited for, and an error names who holds the slots.
pub(crate) fn named_lease_in(
    shared: &Arc<Participant>,
    region: RegionIndex,
    bytes: usize,
    wait: LeaseWait,
) -> Result<Lease, NodeError> {
    lease_or(shared, region, bytes, |geometry, refusal| {
        lease_when_free(shared, geometry, bytes, wait, refusal)
    })
}

pub(crate) fn lease_in(
    shared: &Arc<Participant>,
    region: RegionIndex,
    bytes: usize,
) -> Result<Lease, NodeError> {
    lease_or(shared, region, bytes, |_, refusal| Err(refusal.into()))
}

/// Leases; what the pool refuses is `instead`'s. In each caller: the lease is made where it is
/// returned, and moved nowhere.
#[inline(always)]
pub(crate) fn lease_or(
    shared: &Arc<Participant>,
    region: RegionIndex,
    bytes: usize,
    instead: impl FnOnce(&RegionGeometry, PoolError) -> Result<(u32, Generation), NodeError>,
) -> Result<Lease, NodeError> {
    shared.check_original()?;
    let pool = shared.pool();
    let memory = pool.map_to_write(region)?;
    let unknown = || PoolError::NotAPool(format!("it has no region {}", region.0));
    let geometry = pool.regions().region(region).ok_or_else(unknown)?;
    let next = {
        let (control, mut acting) = (pool.control().view(), shared.acting());
        let (member, cursors) = acting.parts();
        member.lease_next(
            &control,
            geometry,
            bytes,
            &mut cursors[usize::from(region.0)],
        )
    };
    pool.check_whole()?;
    let (slot, generation) = match next {
        Ok(Some(found)) => found,
        Ok(None) => match lease_any(shared, geometry, bytes)? {
            Ok(found) => found,
            Err(refusal) => {
                if matches!(refusal, PoolError::PoolFull { .. }) {
                    pool.control().note_slots(pool.regions());
                }
                instead(geometry, refusal)?
            }
        },
        Err(damaged) => instead(geometry, damaged)?,
    };
    let Some(class) = geometry.class_of(slot) else {
        return Err(unknown().into());
    };
    let at = geometry.slot_offset(slot).unwrap_or(0);
    let reference = Reference::leased(shared, geometry, (slot, at), generation);
    if geometry.kind == RegionKind::Wire {
        // Only with fresh pages is it handed out; else the slot goes back.
        wire::renew(pool, geometry, slot)?;
    }
    // As the ledger's line of that slot: it comes while the messages before it are made.
    if slot - class.first + LEASES_AHEAD < class.count {
        let ahead = LEASES_AHEAD as usize * class.slot_bytes as usize;
        memory.expect_store(at + ahead + HEADROOM_BYTES as usize);
    }
    Ok(Lease::new(reference, class.payload_bytes()))
}

/// Looks for a free slot everywhere.
#[cold]
fn lease_any(
    shared: &Participant,
    geometry: &RegionGeometry,
    bytes: usize,
) -> Result<Result<(u32, Generation), PoolError>, NodeError> {
    let leased = shared.act_with_cursors(|member, cursors| {
        let cursors = &mut cursors[usize::from(geometry.index.0)];
        member.lease_any(shared.pool().control(), geometry, bytes, cursors)
    });
    shared.pool().check_whole()?;
    Ok(leased)
}

/// Goes on after a refusal.
#[cold]
pub(crate) fn lease_when_free(
    shared: &Participant,
    geometry: &RegionGeometry,
    bytes: usize,
    wait: LeaseWait,
    mut refusal: PoolError,
) -> Result<(u32, Generation), NodeError> {
    let start = Instant::now();
    while matches!(refusal, PoolError::PoolFull { .. }) {
        // Each turn: a history has one sample less, or time has passed.
        if !shared
            .reserves()
            .give_up_one(shared.pool(), geometry.index, bytes)
        {
            let left = wait.timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(LEASE_LOOK.min(left));
        }
        match lease_any(shared, geometry, bytes)? {
            Ok(found) => return Ok(found),
            Err(again) => refusal = again,
        }
    }
    let full = holders::named(shared.pool(), refusal.into());
    Err(holders::with_remedy(shared.pool(), full, wait.receivers))
}
