//! The region of a core: made once per pool, found again afterwards by the core's name.

use hythe_abi::link::CLASSES_MAX;
use hythe_abi::{HEADROOM_BYTES, RegionIndex};
use hythe_node::hop::HopNode as _;
use hythe_node::{
    ClassPlan, CoreRegionPlan, LinkPlace, Node, RegionGeometry, SegmentPlace, SlotClass,
};

use crate::{Board, CoreError, SlotPlan};

/// Slots begin and end at lines of any core's cache.
const SLOT_ALIGN: u64 = 1024;

/// Finds the region of the core with this name in the pool of `node`, or adds it. Without classes
/// it has those of its board.
pub(crate) fn find_or_add(
    node: &Node,
    board: &Board,
    name: &str,
    wanted: &[ClassPlan],
) -> Result<RegionIndex, CoreError> {
    let shared = board.shared()?;
    let own = own_classes(wanted, shared.region.bytes).map_err(|reason| CoreError::BadClasses {
        core: name.to_owned(),
        reason,
    })?;
    let classes = laid_out(if own.is_empty() { board.slots() } else { &own });
    let link = LinkPlace {
        bytes: shared.link.bytes,
        offset: shared.link.offset,
    };
    let segments = shared.segments.as_ref().map(|area| SegmentPlace {
        offset: area.offset,
        bytes: area.bytes,
    });
    let plan = CoreRegionPlan {
        name,
        bytes: shared.region.bytes,
        classes: &classes,
        link,
        segments,
    };
    if let Some(found) = node.core_region(name) {
        return match node
            .pool()
            .region(found)
            .map(|region| difference(&region, &plan))
        {
            Some(Some(reason)) => Err(CoreError::RegionDiffers {
                board: name.to_owned(),
                reason,
            }),
            _ => Ok(found),
        };
    }
    // A board whose region names no file is refused when it is read.
    let file_bytes = shared.size(&shared.region.file).unwrap_or(0);
    Ok(node.add_core_region(&plan, file_bytes)?)
}

/// The slots that were asked for, smallest first, with headroom.
fn own_classes(wanted: &[ClassPlan], region_bytes: u64) -> Result<Vec<SlotPlan>, String> {
    if wanted.len() > CLASSES_MAX {
        return Err(format!(
            "{} classes, and a core's region has at most {CLASSES_MAX}",
            wanted.len()
        ));
    }
    let plan = |class: &ClassPlan| {
        let bytes = class.payload_bytes as u64 + u64::from(HEADROOM_BYTES);
        let slot_bytes = u32::try_from(bytes.next_multiple_of(SLOT_ALIGN)).ok()?;
        let count = class.count;
        Some(SlotPlan { slot_bytes, count })
    };
    let too_large = || "a slot of more than 4 GiB".to_owned();
    let plans: Option<Vec<SlotPlan>> = wanted.iter().map(plan).collect();
    let mut plans = plans.ok_or_else(too_large)?;
    plans.sort_by_key(|plan| plan.slot_bytes);
    let bytes = plans
        .iter()
        .map(|plan| u64::from(plan.slot_bytes) * u64::from(plan.count));
    let bytes: u64 = bytes.sum();
    if bytes > region_bytes {
        return Err(format!(
            "{bytes} bytes of slots (each with {HEADROOM_BYTES} of headroom, and a multiple of {SLOT_ALIGN}), \
             and the board has a region of {region_bytes}"
        ));
    }
    Ok(plans)
}

fn laid_out(plans: &[SlotPlan]) -> Vec<SlotClass> {
    let mut first = 0;
    let mut offset = 0;
    let mut classes = Vec::new();
    for plan in plans {
        let class = SlotClass {
            slot_bytes: plan.slot_bytes,
            count: plan.count,
            first,
            offset,
        };
        first += plan.count;
        offset += u64::from(plan.slot_bytes) * u64::from(plan.count);
        classes.push(class);
    }
    classes
}

fn difference(region: &RegionGeometry, plan: &CoreRegionPlan<'_>) -> Option<String> {
    let other = if region.classes != plan.classes {
        "other slot classes"
    } else if region.link != Some(plan.link) {
        "another place of the link"
    } else if region.segments != plan.segments {
        "another place of the segments"
    } else {
        return None;
    };
    Some(other.to_owned())
}
