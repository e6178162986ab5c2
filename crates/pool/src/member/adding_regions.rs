//! Adding a region while the pool is in use: for a core, for the wire, or for network cards.
//!
//! Called by whoever sets a hop up; never on a data path. At most one record is claimed at a time,
//! by somebody whose death frees it. A region that is ready never changes or goes.

use hythe_abi::pool::{REGIONS_MAX, region};
use hythe_abi::{PAGE_BYTES, RegionIndex};
use hythe_memory::{Memory, Ordering};

use super::Member;
use crate::PoolError;
use crate::control::Control;
use crate::regions::records::{STATUS_CLAIMED, STATUS_FREE, write_region};
use crate::regions::{LinkPlace, RegionGeometry, RegionKind, Regions, SegmentPlace, SlotClass};

/// A region to be added for a core.
#[derive(Clone, Debug)]
pub struct CoreRegionPlan<'a> {
    /// The board.
    pub name: &'a str,
    /// Size of the slot area.
    pub bytes: u64,
    /// Its classes, at most four.
    pub classes: &'a [SlotClass],
    /// Its link.
    pub link: LinkPlace,
    /// Where segments are that the core sees, too.
    pub segments: Option<SegmentPlace>,
}

/// A region to be added for the wire: slots of one size, whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireRegionPlan {
    /// Size of a slot, headroom included: a multiple of 4096.
    pub slot_bytes: u32,
    /// How many.
    pub slots: u32,
}

impl WireRegionPlan {
    /// Size of the region.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        // Below 2^64: both have 32 bits.
        self.slot_bytes as u64 * self.slots as u64
    }
}

impl Member {
    /// Adds a region for a core: its slots become part of the pool for as long as the pool lives.
    ///
    /// `make_file` is called with the number of the region while the record is claimed, before
    /// anyone else can see it.
    ///
    /// # Errors
    /// [`PoolError::TooManyRegions`], [`PoolError::LedgerFull`], [`PoolError::Busy`] while another
    /// is being added, [`PoolError::BadGeometry`], or what `make_file` says.
    pub fn add_core_region<M: Memory, E: From<PoolError>>(
        &self,
        control: &Control<M>,
        plan: &CoreRegionPlan<'_>,
        make_file: impl FnOnce(RegionIndex) -> Result<(), E>,
    ) -> Result<RegionIndex, E> {
        if plan.classes.len() > hythe_abi::link::CLASSES_MAX {
            let classes = plan.classes.len();
            let why = format!("{classes} slot classes; a core's region has at most 4");
            return Err(PoolError::BadGeometry(why).into());
        }
        let added = Added {
            kind: RegionKind::Core,
            name: plan.name,
            bytes: plan.bytes,
            classes: plan.classes,
            link: Some(plan.link),
            segments: plan.segments,
        };
        self.with_claimed_record(control, |index| {
            let regions = Regions::read(control)?;
            let region = added.placed(index, &regions, control.layout().limits().slots)?;
            make_file(region.index)?;
            write_region(control, &region);
            Ok(region.index)
        })
    }

    /// Finds the region for the wire, or adds it: a pool has one, which stays for as long as the
    /// pool lives. One that is there is left as it is.
    ///
    /// `make_file` is called with the number of the region while the record is claimed, before
    /// anyone else can see it.
    ///
    /// # Errors
    /// As [`Member::add_core_region`].
    pub fn add_wire_region<M: Memory, E: From<PoolError>>(
        &self,
        control: &Control<M>,
        plan: WireRegionPlan,
        make_file: impl FnOnce(RegionIndex) -> Result<(), E>,
    ) -> Result<RegionIndex, E> {
        let WireRegionPlan { slot_bytes, slots } = plan;
        if slots == 0 || slot_bytes == 0 || !slot_bytes.is_multiple_of(PAGE_BYTES as u32) {
            let why = format!(
                "{slots} slots of {slot_bytes} bytes for the wire; at least one, of whole pages"
            );
            return Err(PoolError::BadGeometry(why).into());
        }
        let classes = [SlotClass {
            slot_bytes,
            count: slots,
            first: 0,
            offset: 0,
        }];
        let added = Added {
            kind: RegionKind::Wire,
            name: "wire",
            bytes: plan.bytes(),
            classes: &classes,
            link: None,
            segments: None,
        };
        self.find_or_add(control, &added, make_file)
    }

    /// Finds the region for network cards, or adds it, with these classes: a pool has one, which
    /// stays for as long as the pool lives. One that is there is left as it is.
    ///
    /// `make_file` is called with the number of the region while the record is claimed, before
    /// anyone else can see it.
    ///
    /// # Errors
    /// As [`Member::add_core_region`].
    pub fn add_card_region<M: Memory, E: From<PoolError>>(
        &self,
        control: &Control<M>,
        (bytes, classes): (u64, &[SlotClass]),
        make_file: impl FnOnce(RegionIndex) -> Result<(), E>,
    ) -> Result<RegionIndex, E> {
        if !bytes.is_multiple_of(PAGE_BYTES as u64) {
            let why = format!("{bytes} bytes for network cards; whole pages are needed");
            return Err(PoolError::BadGeometry(why).into());
        }
        let added = Added {
            kind: RegionKind::Card,
            name: "card",
            bytes,
            classes,
            link: None,
            segments: None,
        };
        self.find_or_add(control, &added, make_file)
    }

    fn find_or_add<M: Memory, E: From<PoolError>>(
        &self,
        control: &Control<M>,
        added: &Added<'_>,
        make_file: impl FnOnce(RegionIndex) -> Result<(), E>,
    ) -> Result<RegionIndex, E> {
        self.with_claimed_record(control, |index| {
            // Nobody else adds one while the record is claimed.
            let regions = Regions::read(control)?;
            if let Some(found) = regions.first_of(added.kind) {
                release_record(control, index);
                return Ok(found.index);
            }
            let region = added.placed(index, &regions, control.layout().limits().slots)?;
            make_file(region.index)?;
            write_region(control, &region);
            Ok(region.index)
        })
    }

    /// Claims a free record for `add`, which fills it; it is free again if that fails.
    fn with_claimed_record<M: Memory, E: From<PoolError>>(
        &self,
        control: &Control<M>,
        add: impl FnOnce(usize) -> Result<RegionIndex, E>,
    ) -> Result<RegionIndex, E> {
        let claim = STATUS_CLAIMED | u64::from(self.index().0) << 8;
        let index = claim_record(control, claim)?;
        add(index).inspect_err(|_| release_record(control, index))
    }
}

/// What is added, before it has a place in the ledger.
struct Added<'a> {
    kind: RegionKind,
    name: &'a str,
    bytes: u64,
    classes: &'a [SlotClass],
    link: Option<LinkPlace>,
    segments: Option<SegmentPlace>,
}

impl Added<'_> {
    /// The same behind what the ledger has already, of `limit` slots.
    fn placed(
        &self,
        index: usize,
        regions: &Regions,
        limit: u32,
    ) -> Result<RegionGeometry, PoolError> {
        let ends = regions
            .iter()
            .map(|region| region.ledger_base + region.slots);
        let base = ends.max().unwrap_or(0);
        let counts = self.classes.iter().map(|class| u64::from(class.count));
        let (wanted, left) = (counts.sum::<u64>(), limit.saturating_sub(base));
        let slots = u32::try_from(wanted).ok().filter(|slots| *slots <= left);
        let slots = slots.ok_or_else(|| {
            let own = regions.region(RegionIndex(0));
            let later = base.saturating_sub(own.map_or(0, |region| region.slots));
            PoolError::LedgerFull {
                name: self.name.to_owned(),
                slots: wanted,
                left,
                needed: u64::from(later).saturating_add(wanted),
            }
        })?;
        let region = RegionGeometry {
            index: RegionIndex(index as u8),
            kind: self.kind,
            name: self.name.to_owned(),
            bytes: self.bytes,
            ledger_base: base,
            slots,
            classes: self.classes.to_vec(),
            link: self.link,
            segments: self.segments,
        };
        region.check(limit).map_err(PoolError::BadGeometry)?;
        Ok(region)
    }
}

fn release_record<M: Memory>(control: &Control<M>, index: usize) {
    let state = control.layout().region(index) + region::STATE;
    control
        .memory()
        .store_cell(state, STATUS_FREE, Ordering::Release);
}

/// Claims a free record; only one may be claimed at a time, because each one's place in the ledger
/// depends on the others.
fn claim_record<M: Memory>(control: &Control<M>, claim: u64) -> Result<usize, PoolError> {
    let memory = control.memory();
    let state = |index| control.layout().region(index) + region::STATE;
    let free = (1..REGIONS_MAX)
        .find(|&index| {
            memory
                .replace_cell(state(index), STATUS_FREE, claim)
                .is_ok()
        })
        .ok_or(PoolError::TooManyRegions {
            limit: REGIONS_MAX as u32,
        })?;
    let contested = (1..REGIONS_MAX).any(|index| {
        index != free && memory.load_cell(state(index), Ordering::Acquire) & 0xFF == STATUS_CLAIMED
    });
    if contested {
        release_record(control, free);
        return Err(PoolError::Busy("the table of regions"));
    }
    Ok(free)
}

/// Frees the record that a dead member had claimed.
pub(super) fn forget_claims<M: Memory>(control: &Control<M>, dead: u8) {
    for index in 1..REGIONS_MAX {
        let at = control.layout().region(index) + region::STATE;
        let claimed = STATUS_CLAIMED | u64::from(dead) << 8;
        // Someone else's claim, or none: nothing to do.
        let _ = control.memory().replace_cell(at, claimed, STATUS_FREE);
    }
}
