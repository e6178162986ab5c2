//! The size of a pool as a sum with a reason per term, and the use of its slots.

use std::collections::HashMap;

use hythe::inspect::{HolderKind, RegionGeometry, RegionKind, SlotClass, Snapshot};
use serde::Serialize;

use crate::output::table;
use crate::units;

/// One part of the size of a pool.
#[derive(Debug, Serialize)]
pub(crate) struct TermDocument {
    reason: String,
    bytes: u64,
}

/// A region and the use of its slots.
#[derive(Debug, Serialize)]
pub(crate) struct RegionDocument {
    pub(crate) region: u8,
    kind: &'static str,
    pub(crate) name: String,
    bytes: u64,
    link_bytes: u64,
    segments_bytes: u64,
    pub(crate) classes: Vec<ClassDocument>,
}

/// A class of slots and its use.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ClassDocument {
    pub(crate) payload_bytes: u64,
    slot_bytes: u32,
    pub(crate) slots: u32,
    pub(crate) free: u32,
    pub(crate) held: u32,
    pub(crate) queued: u32,
    /// The most that were in use at once, sampled five times a second and whenever the class was
    /// full.
    pub(crate) highest_sampled: u32,
}

/// The sum, control tables first.
pub(crate) fn terms(snapshot: &Snapshot) -> Vec<TermDocument> {
    let control = snapshot.control_terms.iter();
    let mut terms: Vec<TermDocument> = control
        .map(|&(part, bytes)| TermDocument {
            reason: format!("control: {part}"),
            bytes: bytes as u64,
        })
        .collect();
    for region in &snapshot.regions {
        let named = |reason: String| format!("region {}: {reason}", region.index.0);
        let mut slots = 0;
        for class in &region.classes {
            let bytes = u64::from(class.slot_bytes) * u64::from(class.count);
            slots += bytes;
            let reason = format!(
                "{} slots of {} (payload {})",
                class.count,
                class.slot_bytes,
                class.payload_bytes()
            );
            terms.push(TermDocument {
                reason: named(reason),
                bytes,
            });
        }
        let mut more = |reason: &str, bytes| {
            if bytes > 0 {
                terms.push(TermDocument {
                    reason: named(reason.to_owned()),
                    bytes,
                });
            }
        };
        more("not used by slots", region.bytes.saturating_sub(slots));
        more("link to the core", link_bytes(region));
        more("segments", segments_bytes(region));
    }
    terms
}

/// The sum's result.
pub(crate) fn total(terms: &[TermDocument]) -> u64 {
    terms.iter().map(|term| term.bytes).sum()
}

fn link_bytes(region: &RegionGeometry) -> u64 {
    region.link.map_or(0, |link| link.bytes.into())
}

fn segments_bytes(region: &RegionGeometry) -> u64 {
    region.segments.map_or(0, |segments| segments.bytes)
}

/// The regions with the use of each class.
pub(crate) fn regions(snapshot: &Snapshot) -> Vec<RegionDocument> {
    // A slot that a participant holds counts as held, whatever queues it is in as well: as in the
    // audit.
    let mut in_use: HashMap<(u8, u32), bool> = HashMap::new();
    for held in snapshot.held_buffers() {
        let is_held = in_use
            .entry((held.place.region.0, held.place.slot))
            .or_default();
        *is_held |= matches!(held.holder, HolderKind::Member(_));
    }
    let regions = snapshot.regions.iter().map(|region| RegionDocument {
        region: region.index.0,
        kind: match region.kind {
            RegionKind::Linux => "linux",
            RegionKind::Core => "core",
            RegionKind::Wire => "wire",
            RegionKind::Card => "card",
        },
        name: region.name.clone(),
        bytes: region.bytes,
        link_bytes: link_bytes(region),
        segments_bytes: segments_bytes(region),
        classes: region
            .classes
            .iter()
            .map(|class| {
                let mut found = ClassDocument {
                    payload_bytes: class.payload_bytes() as u64,
                    slot_bytes: class.slot_bytes,
                    slots: class.count,
                    highest_sampled: highest(snapshot, region, class),
                    ..ClassDocument::default()
                };
                for slot in class.first..class.first + class.count {
                    match in_use.get(&(region.index.0, slot)) {
                        None => found.free += 1,
                        Some(true) => found.held += 1,
                        Some(false) => found.queued += 1,
                    }
                }
                found
            })
            .collect(),
    });
    regions.collect()
}

fn highest(snapshot: &Snapshot, region: &RegionGeometry, class: &SlotClass) -> u32 {
    let marks = snapshot.high_water.classes.iter();
    let mut of_class =
        marks.filter(|mark| mark.region == region.index && mark.first == class.first);
    of_class.next().map_or(0, |mark| mark.slots)
}

/// The sum as people read it.
pub(crate) fn terms_text(terms: &[TermDocument]) -> String {
    let sum = TermDocument {
        reason: "sum".to_owned(),
        bytes: total(terms),
    };
    let rows: Vec<Vec<String>> = terms
        .iter()
        .chain([&sum])
        .map(|term| {
            vec![
                term.bytes.to_string(),
                units::bytes(term.bytes),
                term.reason.clone(),
            ]
        })
        .collect();
    table(&[">BYTES", ">", "FOR"], &rows)
}

/// The regions as people read them.
pub(crate) fn regions_text(regions: &[RegionDocument]) -> String {
    let mut rows = Vec::new();
    for region in regions {
        for class in &region.classes {
            rows.push(vec![
                format!("{} {}", region.region, region.name),
                class.payload_bytes.to_string(),
                class.slots.to_string(),
                class.free.to_string(),
                class.held.to_string(),
                class.queued.to_string(),
                class.highest_sampled.to_string(),
            ]);
        }
    }
    table(
        &[
            "REGION",
            ">PAYLOAD",
            ">SLOTS",
            ">FREE",
            ">HELD",
            ">QUEUED",
            ">HIGHEST (SAMPLED)",
        ],
        &rows,
    )
}
