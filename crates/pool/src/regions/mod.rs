//! The regions of a pool: private, checked copies of what the control file says about them.

pub(crate) mod records;

use std::sync::OnceLock;

use hythe_abi::pool::REGIONS_MAX;
use hythe_abi::{Descriptor, Generation, HEADROOM_BYTES, PAGE_BYTES, Place, RegionIndex};
use hythe_memory::Memory;

use crate::PoolError;
use crate::control::Control;
use crate::ledger::LedgerSlot;
use records::read_region;

/// Who else can see a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Processes of this Linux only.
    Linux,
    /// A core as well.
    Core,
    /// Processes of this Linux; the network stack may still have pages that were in it. Whoever
    /// leases a slot gives it fresh pages first.
    Wire,
    /// Processes of this Linux; network cards may send from it, and keep the pages that they were
    /// given. Those are never punched out.
    Card,
}

/// Slots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotClass {
    /// Size of a slot, headroom included.
    pub slot_bytes: u32,
    /// How many.
    pub count: u32,
    /// Index of the first in its region.
    pub first: u32,
    /// From the region's first byte to the first slot.
    pub offset: u64,
}

impl SlotClass {
    /// The largest payload.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        (self.slot_bytes - HEADROOM_BYTES) as usize
    }

    /// From the region's first byte to that of a slot of this class.
    #[inline(always)]
    fn slot_offset(&self, slot: u32) -> Option<usize> {
        let offset = self.offset + u64::from(slot - self.first) * u64::from(self.slot_bytes);
        usize::try_from(offset).ok()
    }
}

impl RegionKind {
    /// The number of a kind in the table.
    const ALL: [(u32, Self); 4] = [
        (0, Self::Linux),
        (1, Self::Core),
        (2, Self::Wire),
        (3, Self::Card),
    ];

    fn of_number(number: u32) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|known| known.0 == number);
        known.map(|known| known.1)
    }

    fn number(self) -> u32 {
        let known = Self::ALL.into_iter().find(|known| known.1 == self);
        known.map_or(0, |known| known.0)
    }
}

/// A region, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionGeometry {
    /// Its number.
    pub index: RegionIndex,
    /// Who else can see it.
    pub kind: RegionKind,
    /// `memory`, `wire`, `card`, or the board it belongs to.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The ledger's index of its slot 0.
    pub ledger_base: u32,
    /// Its slots.
    pub slots: u32,
    /// Its classes, smallest first.
    pub classes: Vec<SlotClass>,
    /// The core link that belongs to it.
    pub link: Option<LinkPlace>,
    /// Where segments are that its core sees, too.
    pub segments: Option<SegmentPlace>,
}

/// Where the link of a core's region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlace {
    /// Both sections.
    pub bytes: u32,
    /// In the region's file, behind the slots; 0: in a file of its own.
    pub offset: u64,
}

/// Where the segments of a core's region are: in its file, behind the slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentPlace {
    /// First byte, at a page.
    pub offset: u64,
    /// Size, whole pages.
    pub bytes: u64,
}

impl SegmentPlace {
    /// Whole pages, behind so many bytes of slots?
    fn is_behind(self, slots_bytes: u64) -> bool {
        let page = PAGE_BYTES as u64;
        let end = self.offset.checked_add(self.bytes);
        let is_whole = self.offset.is_multiple_of(page) && self.bytes.is_multiple_of(page);
        is_whole && self.offset >= slots_bytes && end.is_some_and(|end| end <= i64::MAX as u64)
    }
}

/// What a claimed descriptor names, checked against the geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedSlot {
    /// The slot.
    pub slot: LedgerSlot,
    /// From the region's first byte to the slot's.
    pub slot_offset: usize,
}

impl ClaimedSlot {
    /// The reference that a descriptor brought, once it is in an own row.
    #[must_use]
    #[inline(always)]
    pub const fn taken(self, descriptor: Descriptor) -> Taken {
        Taken {
            descriptor,
            slot: self.slot,
            slot_offset: self.slot_offset,
            missed: 0,
        }
    }
}

/// A reference taken out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The payload.
    pub descriptor: Descriptor,
    /// Its slot.
    pub slot: LedgerSlot,
    /// From the region's first byte to the slot's.
    pub slot_offset: usize,
    /// Messages of its sender that did not reach the taking port since the one before, as far as
    /// that is known.
    pub missed: u32,
}

impl RegionGeometry {
    /// The class that a slot of this region belongs to.
    #[must_use]
    #[inline(always)]
    pub fn class_of(&self, slot: u32) -> Option<&SlotClass> {
        self.classes
            .iter()
            .find(|class| slot >= class.first && slot - class.first < class.count)
    }

    /// From the region's first byte to the slot's.
    #[must_use]
    #[inline(always)]
    pub fn slot_offset(&self, slot: u32) -> Option<usize> {
        self.class_of(slot)?.slot_offset(slot)
    }

    pub(crate) fn check(&self, ledger_slots: u32) -> Result<(), String> {
        let end = self.ledger_base.checked_add(self.slots);
        if end.is_none_or(|end| end > ledger_slots) {
            return Err(format!("its {} slots leave the ledger", self.slots));
        }
        let mut next = 0_u32;
        for class in &self.classes {
            let bytes = u64::from(class.slot_bytes) * u64::from(class.count);
            let fits = class
                .offset
                .checked_add(bytes)
                .is_some_and(|end| end <= self.bytes);
            let sound = fits && class.slot_bytes >= 2 * HEADROOM_BYTES && class.first == next;
            let after = next.checked_add(class.count).filter(|_| sound);
            next = after.ok_or_else(|| format!("class {class:?} does not fit"))?;
        }
        if next != self.slots {
            return Err(format!("its classes have {next} slots, not {}", self.slots));
        }
        if let Some(place) = self.segments.filter(|place| !place.is_behind(self.bytes)) {
            let SegmentPlace { offset, bytes } = place;
            return Err(format!(
                "its {bytes} bytes of segments at {offset} are not whole pages behind its slots"
            ));
        }
        Ok(())
    }
}

/// The regions that this process knows, by number. A region never changes or goes while its pool
/// lives, so what is known stays true; what is not known yet may have been added since.
#[derive(Debug, Default)]
pub struct Regions {
    known: [OnceLock<RegionGeometry>; REGIONS_MAX],
}

impl Regions {
    /// Reads and checks every region of the pool.
    ///
    /// # Errors
    /// [`PoolError::NotAPool`] for a region that does not fit the ledger.
    pub fn read<M: Memory>(control: &Control<M>) -> Result<Self, PoolError> {
        let regions = Self::default();
        regions.refresh(control)?;
        Ok(regions)
    }

    /// Reads the regions that were added since. One that makes no sense does not hide the others.
    ///
    /// # Errors
    /// [`PoolError::NotAPool`] for a region that does not fit the ledger.
    pub fn refresh<M: Memory>(&self, control: &Control<M>) -> Result<(), PoolError> {
        let mut outcome = Ok(());
        for (index, known) in self.known.iter().enumerate() {
            if known.get().is_some() {
                continue;
            }
            match read_region(control, index) {
                Ok(Some(found)) => {
                    // Another thread may have been quicker, with the same.
                    let _ = known.set(found);
                }
                Ok(None) => {}
                Err(refused) => outcome = outcome.and(Err(refused)),
            }
        }
        outcome
    }

    /// For models, whose memory has no region table.
    #[cfg(all(test, loom))]
    pub(crate) fn of(region: RegionGeometry) -> Self {
        let regions = Self::default();
        let _ = regions.known[usize::from(region.index.0)].set(region);
        regions
    }

    /// A region, if known.
    #[must_use]
    #[inline(always)]
    pub fn region(&self, index: RegionIndex) -> Option<&RegionGeometry> {
        self.known.get(usize::from(index.0))?.get()
    }

    /// The region for the wire, if known.
    #[must_use]
    pub fn wire(&self) -> Option<&RegionGeometry> {
        self.first_of(RegionKind::Wire)
    }

    /// The region for network cards, if known.
    #[must_use]
    pub fn card(&self) -> Option<&RegionGeometry> {
        self.first_of(RegionKind::Card)
    }

    /// The first of a kind, if known.
    pub(crate) fn first_of(&self, kind: RegionKind) -> Option<&RegionGeometry> {
        self.iter().find(|region| region.kind == kind)
    }

    /// All known regions.
    pub fn iter(&self) -> impl Iterator<Item = &RegionGeometry> {
        self.known.iter().filter_map(OnceLock::get)
    }

    /// The ledger's slot for a place.
    #[must_use]
    pub fn ledger_slot(&self, place: Place) -> Option<LedgerSlot> {
        let region = self.region(place.region)?;
        (place.slot < region.slots).then(|| LedgerSlot(region.ledger_base + place.slot))
    }

    /// The place of a ledger slot.
    #[must_use]
    pub fn place(&self, slot: LedgerSlot) -> Option<Place> {
        let region = self.iter().find(|region| {
            slot.0 >= region.ledger_base && slot.0 - region.ledger_base < region.slots
        })?;
        Some(Place {
            region: region.index,
            slot: slot.0 - region.ledger_base,
        })
    }

    /// Checks a claimed descriptor against the geometry.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`] naming what does not fit.
    #[inline(always)]
    pub fn check(&self, descriptor: Descriptor) -> Result<ClaimedSlot, PoolError> {
        let refuse = |reason| PoolError::BadDescriptor { reason, descriptor };
        self.find(descriptor).map_err(refuse)
    }

    /// As [`check`](Self::check); says what does not fit.
    #[inline(always)]
    pub(crate) fn find(&self, descriptor: Descriptor) -> Result<ClaimedSlot, &'static str> {
        let region = self
            .region(descriptor.place.region)
            .ok_or("unknown region")?;
        let slot = descriptor.place.slot;
        let class = region.class_of(slot).ok_or("no such slot")?;
        let end = descriptor.end().ok_or("length out of range")?;
        if end > class.slot_bytes {
            return Err("payload leaves the slot");
        }
        if descriptor.generation == Generation(0) || descriptor.generation.0 > Generation::MAX {
            return Err("impossible generation");
        }
        Ok(ClaimedSlot {
            slot: LedgerSlot(region.ledger_base + slot),
            slot_offset: class.slot_offset(slot).ok_or("no such slot")?,
        })
    }

    /// Checks a descriptor from a queue or from a core's link against geometry and ledger.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`] naming what does not fit.
    #[inline(always)]
    pub fn check_current<M: Memory>(
        &self,
        control: &Control<M>,
        descriptor: Descriptor,
    ) -> Result<ClaimedSlot, PoolError> {
        self.seek(control, descriptor.place.region);
        let found = self.check(descriptor)?;
        if !is_current(control, found, descriptor) {
            return Err(PoolError::BadDescriptor {
                reason: STALE,
                descriptor,
            });
        }
        Ok(found)
    }

    /// Looks for a region again if it is not known.
    #[inline(always)]
    pub fn seek<M: Memory>(&self, control: &Control<M>, index: RegionIndex) {
        if self.region(index).is_none() {
            // It may have been added since we last looked. If it makes no sense, it is not there
            // for us.
            let _ = self.refresh(control);
        }
    }
}

/// What a descriptor is whose slot has been leased again, or is free.
pub(crate) const STALE: &str = "stale generation";

/// Is the slot still leased as it was when the descriptor was made?
#[inline(always)]
pub(crate) fn is_current<M: Memory>(
    control: &Control<M>,
    found: ClaimedSlot,
    descriptor: Descriptor,
) -> bool {
    let (references, generation) = control.ledger().slot(found.slot);
    references > 0 && generation == descriptor.generation
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene::{self, PAYLOAD_BYTES, SLOTS};
    use hythe_abi::pool::region;
    use hythe_memory::Ordering;

    #[test]
    fn descriptors_are_checked_against_private_geometry() {
        // Region, slot, generation, offset, length: as a peer may claim them.
        let claim = |[region, slot, generation, offset, length]: [u32; 5]| Descriptor {
            place: Place {
                region: RegionIndex(region as u8),
                slot,
            },
            generation: Generation(generation),
            offset,
            length,
        };
        let (head, full) = (HEADROOM_BYTES, PAYLOAD_BYTES as u32);
        scene::with_region(&scene::control(), |regions, _| {
            let good = claim([0, SLOTS - 1, 1, head, full]);
            assert_eq!(
                regions.check(good).map(|found| found.slot),
                Ok(LedgerSlot(SLOTS - 1))
            );
            for (reason, words) in [
                ("unknown region", [1, 0, 1, head, full]),
                ("unknown region", [255, 0, 1, head, full]),
                ("no such slot", [0, SLOTS, 1, head, full]),
                ("payload leaves the slot", [0, 0, 1, head + 1, full]),
                ("payload leaves the slot", [0, 0, 1, head, full + 1]),
                ("length out of range", [0, 0, 1, head, Descriptor::CREDIT]),
                ("impossible generation", [0, 0, 0, head, full]),
                ("impossible generation", [0, 0, 1 << 24, head, full]),
            ] {
                let descriptor = claim(words);
                let refused = Err(PoolError::BadDescriptor { reason, descriptor });
                assert_eq!(regions.check(descriptor), refused);
            }
        });
    }

    #[test]
    fn region_that_leaves_the_ledger_is_refused() {
        let (control, memory) = scene::pool();
        let at = control.layout().region(0);
        for (word, value) in [
            (region::SLOTS, scene::LIMITS.slots + SLOTS + 1),
            (region::LEDGER_BASE, u32::MAX),
            (region::KIND, 4),
            (region::KIND, u32::MAX),
            (region::CLASS_TABLE + region::CLASS_FIRST, 1),
            (region::SEGMENTS_BYTES, 4096),
            (region::SEGMENTS_BYTES, u32::MAX),
            (region::CLASS_TABLE + region::CLASS_SLOT_BYTES, u32::MAX),
        ] {
            let good = memory.load(at + word, Ordering::Relaxed);
            memory.store(at + word, value, Ordering::Relaxed);
            let refused = Regions::read(&control).expect_err("damaged");
            assert!(
                matches!(refused, PoolError::NotAPool(_)),
                "{word}: {refused}"
            );
            memory.store(at + word, good, Ordering::Relaxed);
        }
        Regions::read(&control).expect("mended");
    }
}
