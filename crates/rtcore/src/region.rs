//! The region of a core: made once per pool, found again afterwards by the core's name.

use hythe_abi::RegionIndex;
use hythe_node::hop::HopNode as _;
use hythe_node::{CoreRegionPlan, LinkPlace, Node, RegionGeometry, SlotClass};

use crate::{Board, CoreError};

/// Finds the region of the core with this name in the pool of `node`, or adds it.
pub(crate) fn find_or_add(
    node: &Node,
    board: &Board,
    name: &str,
) -> Result<RegionIndex, CoreError> {
    let shared = board.shared()?;
    let classes = classes(board);
    let link = LinkPlace {
        bytes: shared.link.bytes,
        offset: shared.link.offset,
    };
    if let Some(found) = node.core_region(name) {
        return match node
            .pool()
            .region(found)
            .map(|region| difference(&region, &classes, link))
        {
            Some(Some(reason)) => Err(CoreError::RegionDiffers {
                board: name.to_owned(),
                reason,
            }),
            _ => Ok(found),
        };
    }
    let plan = CoreRegionPlan {
        name,
        bytes: shared.region.bytes,
        classes: &classes,
        link,
    };
    // A board whose region names no file is refused when it is read.
    let file_bytes = shared.size(&shared.region.file).unwrap_or(0);
    Ok(node.add_core_region(&plan, file_bytes)?)
}

fn classes(board: &Board) -> Vec<SlotClass> {
    let mut first = 0;
    let mut offset = 0;
    let mut classes = Vec::new();
    for plan in board.slots() {
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

fn difference(region: &RegionGeometry, classes: &[SlotClass], link: LinkPlace) -> Option<String> {
    if region.classes != classes {
        return Some("other slot classes".to_owned());
    }
    (region.link != Some(link)).then(|| "another place of the link".to_owned())
}
