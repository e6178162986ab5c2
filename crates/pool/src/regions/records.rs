//! The records of regions in a control file.

use hythe_abi::RegionIndex;
use hythe_abi::pool::{CLASSES_MAX, NAME_BYTES, region};
use hythe_memory::{Memory, Ordering, read_name, write_name};

use super::{LinkPlace, RegionGeometry, RegionKind, SegmentPlace, SlotClass};
use crate::PoolError;
use crate::control::Control;

pub(crate) const STATUS_FREE: u64 = 0;
pub(crate) const STATUS_CLAIMED: u64 = 1;
pub(crate) const STATUS_READY: u64 = 2;

/// A region as its record says, if it is ready.
pub(super) fn read_region<M: Memory>(
    control: &Control<M>,
    index: usize,
) -> Result<Option<RegionGeometry>, PoolError> {
    let (memory, at) = (control.memory(), control.layout().region(index));
    if memory.load_cell(at + region::STATE, Ordering::Acquire) & 0xFF != STATUS_READY {
        return Ok(None);
    }
    let word = |offset| memory.load(at + offset, Ordering::Relaxed);
    let cell = |offset| memory.load_cell(at + offset, Ordering::Relaxed);
    let kind = word(region::KIND);
    // What has to be done before its slots are used is not known.
    let kind = RegionKind::of_number(kind)
        .ok_or_else(|| PoolError::NotAPool(format!("region {index}: unknown kind {kind}")))?;
    let count = (word(region::CLASSES) as usize).min(CLASSES_MAX);
    let classes = (0..count).map(|class| {
        let entry = region::CLASS_TABLE + class * region::CLASS_BYTES;
        SlotClass {
            slot_bytes: word(entry + region::CLASS_SLOT_BYTES),
            count: word(entry + region::CLASS_COUNT),
            first: word(entry + region::CLASS_FIRST),
            offset: cell(entry + region::CLASS_OFFSET),
        }
    });
    let found = RegionGeometry {
        index: RegionIndex(index as u8),
        kind,
        name: read_name(memory, at + region::NAME, NAME_BYTES),
        bytes: cell(region::REGION_BYTES),
        ledger_base: word(region::LEDGER_BASE),
        slots: word(region::SLOTS),
        classes: classes.collect(),
        link: match word(region::LINK_BYTES) {
            0 => None,
            bytes => Some(LinkPlace {
                bytes,
                offset: cell(region::LINK_OFFSET),
            }),
        },
        segments: match cell(region::SEGMENTS_BYTES) {
            0 => None,
            bytes => Some(SegmentPlace {
                offset: cell(region::SEGMENTS_OFFSET),
                bytes,
            }),
        },
    };
    match found.check(control.layout().limits().slots) {
        Ok(()) => Ok(Some(found)),
        Err(why) => Err(PoolError::NotAPool(format!("region {index}: {why}"))),
    }
}

/// Writes a region's record; its state is the caller's business.
pub(crate) fn write_region<M: Memory>(control: &Control<M>, found: &RegionGeometry) {
    let (memory, at) = (
        control.memory(),
        control.layout().region(found.index.0.into()),
    );
    let word = |offset, value| memory.store(at + offset, value, Ordering::Relaxed);
    let cell = |offset, value| memory.store_cell(at + offset, value, Ordering::Relaxed);
    cell(region::REGION_BYTES, found.bytes);
    word(region::KIND, found.kind.number());
    word(region::CLASSES, found.classes.len() as u32);
    word(region::LEDGER_BASE, found.ledger_base);
    word(region::SLOTS, found.slots);
    word(region::LINK_BYTES, found.link.map_or(0, |link| link.bytes));
    cell(
        region::LINK_OFFSET,
        found.link.map_or(0, |link| link.offset),
    );
    let segments = found.segments.unwrap_or_default();
    cell(region::SEGMENTS_OFFSET, segments.offset);
    cell(region::SEGMENTS_BYTES, segments.bytes);
    write_name(memory, at + region::NAME, NAME_BYTES, &found.name);
    for (index, class) in found.classes.iter().enumerate() {
        let entry = region::CLASS_TABLE + index * region::CLASS_BYTES;
        word(entry + region::CLASS_SLOT_BYTES, class.slot_bytes);
        word(entry + region::CLASS_COUNT, class.count);
        word(entry + region::CLASS_FIRST, class.first);
        cell(entry + region::CLASS_OFFSET, class.offset);
    }
    memory.store_cell(at + region::STATE, STATUS_READY, Ordering::Release);
}
