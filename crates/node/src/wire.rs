//! The wire region: slots that the network stack may send from without a copy.
//!
//! `sendfile` to a socket hands the stack the pages of a file, not their bytes, and nothing says
//! when it lets go of them: a page that is written again before it left changes what arrives. So
//! **whoever leases a slot of such a region gets it with fresh pages** ([`renew`], by every lease):
//! the old ones are punched out of the file, and belong to the packets in flight alone, whoever
//! sent them and whatever became of it.
//!
//! Who may still send from old pages does not matter, then, and nobody keeps account of it. The
//! lease stands in the ledger before the punch, so nobody else can be reading or writing the slot.
//! A lessee that dies before the punch, between punch and reservation, or behind both, leaves a
//! slot that recovery frees like any other, with old pages, without pages, or with new ones: the
//! next lessee punches out whatever is there. Nobody touches a slot that it does not hold, so
//! nobody meets the hole.
//!
//! Never writes a word of the control file, never touches a slot that is not leased, never waits.

use std::sync::Arc;

use hythe_abi::RegionIndex;
use hythe_pool::{PoolError, RegionGeometry, WireRegionPlan};
use rustix::fs::{self, FallocateFlags};
use rustix::io::retry_on_intr;

use crate::NodeError;
use crate::contention::retry_on_contention;
use crate::error::file;
use crate::participant::Participant;
use crate::pool::Pool;

/// How large the wire region is, if it has to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireOptions {
    /// Size of a slot in bytes, 256 of them headroom: a multiple of 4096. Default 256 KiB: three
    /// sends of 64 KB. Larger ones cost as much per byte, but all at once (ADR 0017).
    pub slot_bytes: u32,
    /// How many. Each takes one of the ledger entries that a pool keeps for regions that come later
    /// (2,048 unless its maker chose otherwise). Default 64: 16 MiB.
    pub slots: u32,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            slot_bytes: 256 << 10,
            slots: 64,
        }
    }
}

/// Finds the wire region of the pool, or adds it.
pub(crate) fn find_or_add(
    shared: &Arc<Participant>,
    options: &WireOptions,
) -> Result<RegionIndex, NodeError> {
    shared.check_original()?;
    let pool = shared.pool();
    let control = pool.control();
    // A region that cannot be read is not there for us; opening the pool has said why.
    let _ = pool.regions().refresh(control);
    if let Some(found) = pool.regions().wire() {
        return Ok(found.index);
    }
    let plan = WireRegionPlan {
        slot_bytes: options.slot_bytes,
        slots: options.slots,
    };
    let added = retry_on_contention(|| {
        shared.act(|member| {
            member.add_wire_region(control, plan, |region| pool.make_wire_file(region, plan))
        })
    })?;
    pool.regions().refresh(control)?;
    Ok(added)
}

/// Gives a slot, which the caller has leased, fresh pages: old ones stay with whoever still sends
/// from them.
///
/// On an error the slot may have a hole, and must not be touched: the caller gives it back.
pub(crate) fn renew(pool: &Pool, region: &RegionGeometry, slot: u32) -> Result<(), NodeError> {
    let memory = pool.map_to_write(region.index)?;
    let opened = pool.wire_file(region.index)?;
    let unknown = || PoolError::NotAPool(format!("no slot {slot} in region {}", region.index.0));
    let class = region.class_of(slot).ok_or_else(unknown)?;
    let at = region.slot_offset(slot).ok_or_else(unknown)?;
    let (offset, bytes) = (at as u64, u64::from(class.slot_bytes));
    // Whatever happens to the file, it is not made longer.
    let keep = FallocateFlags::KEEP_SIZE;
    let punch = || fs::fallocate(opened, FallocateFlags::PUNCH_HOLE | keep, offset, bytes);
    let path = || pool.region_path(region.index);
    retry_on_intr(punch)
        .map_err(|error| file("take the pages of a slot out of", path())(error.into()))?;
    retry_on_intr(|| fs::fallocate(opened, keep, offset, bytes)).map_err(|error| {
        NodeError::NoRoom {
            bytes,
            path: path(),
            source: error.into(),
        }
    })?;
    // Cheaper than a fault for each page. Where it is not possible, they come one by one.
    let _ = memory.populate(at, class.slot_bytes as usize);
    Ok(())
}
