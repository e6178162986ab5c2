//! The region for network cards: slots that a card, or the kernel in its place, sends from.
//!
//! It is registered with the kernel, which keeps its pages from then on: so nothing of it is ever
//! punched out, other than of the region for the wire (ADR 0017). A slot is written again when
//! whoever sent from it has released it, and that is when the kernel has given the frames back.
//!
//! Called by a hop when it sets itself up; never on a data path. Never waits.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hythe_abi::RegionIndex;
use hythe_pool::{PoolError, SlotClass};

use crate::NodeError;
use crate::contention::retry_on_contention;
use crate::participant::Participant;

/// A slot for what one packet takes, and for what some packets take: longer messages go by the
/// kernel's protocols, which cut them by one call.
const CLASSES: [SlotClass; 2] = [
    SlotClass {
        slot_bytes: 4 << 10,
        count: 192,
        first: 0,
        offset: 0,
    },
    SlotClass {
        slot_bytes: 32 << 10,
        count: 64,
        first: 192,
        offset: 192 * (4 << 10),
    },
];
const BYTES: u64 = 192 * (4 << 10) + 64 * (32 << 10);

/// The region for network cards, as who registers it needs it.
#[derive(Debug)]
pub struct CardRegion {
    /// Its number.
    pub index: RegionIndex,
    /// Its slots, from the first byte on.
    pub file: OwnedFd,
    /// Of its slots: whole pages of 4 KiB. On huge pages the file is longer.
    pub bytes: u64,
}

/// Finds the region of the pool, or adds it.
///
/// # Errors
/// [`PoolError::LedgerFull`], [`PoolError::TooManyRegions`]; no room;
/// [`NodeError::NoHugePages`] in a pool whose slots are on huge pages, where this region is, too;
/// only the pool's owner adds it, and who may not write it does not get it.
pub(crate) fn find_or_add(shared: &Arc<Participant>) -> Result<CardRegion, NodeError> {
    shared.check_original()?;
    let pool = shared.pool();
    let control = pool.control();
    // A region that cannot be read is not there for us; opening the pool has said why.
    let _ = pool.regions().refresh(control);
    if pool.regions().card().is_none() {
        retry_on_contention(|| {
            shared.act(|member| {
                member.add_card_region(control, (BYTES, &CLASSES), |region| {
                    pool.add_card_file(region, BYTES)
                })
            })
        })?;
        pool.regions().refresh(control)?;
    }
    let gone = || PoolError::NotAPool("it has no region for network cards".to_owned());
    let region = pool.regions().card().ok_or_else(gone)?;
    let (file, bytes) = pool.open_region(region.index)?;
    if bytes < region.bytes {
        let (number, needed) = (region.index.0, region.bytes);
        let why = format!("region.{number} has {bytes} bytes and needs {needed}");
        return Err(PoolError::NotAPool(why).into());
    }
    Ok(CardRegion {
        index: region.index,
        file,
        bytes: region.bytes,
    })
}
