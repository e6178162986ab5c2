//! Which word a hostile peer writes, and what.

use hythe_abi::pool::{
    ControlLayout, QUEUE_SEGMENT_DESCRIPTORS, REGIONS_MAX, channel, connection, participant, port,
    region,
};
use hythe_abi::{Descriptor, LINE_BYTES, PAGE_BYTES};

use super::choices::Choices;

/// A word of any table, each table as likely as any other.
pub(crate) fn anywhere(layout: &ControlLayout, choices: &mut Choices) -> usize {
    let limits = layout.limits();
    let table = choices.below(11);
    let mut row = |count: u32| choices.below(count) as usize;
    let (record, bytes) = match table {
        0 => (0, PAGE_BYTES),
        1 => (layout.region(row(REGIONS_MAX as u32)), region::BYTES),
        2 => (
            layout.participant(row(limits.participants)),
            participant::BYTES,
        ),
        3 => (
            layout.witness(row(limits.participants), row(limits.participants)),
            4,
        ),
        4 => (layout.channel(row(limits.channels)), channel::BYTES),
        5 => (layout.port(row(limits.ports)), port::BYTES),
        6 => (
            layout.connection(row(limits.connections)),
            connection::BYTES,
        ),
        7 => (layout.queue_segment_owner(row(limits.queue_segments)), 8),
        8 => (layout.slot_cell(row(limits.slots)), LINE_BYTES),
        9 => (layout.hold(row(limits.participants), row(limits.slots)), 8),
        _ => (
            layout.queue_segment(row(limits.queue_segments)),
            QUEUE_SEGMENT_DESCRIPTORS * Descriptor::BYTES,
        ),
    };
    record + row(bytes as u32 / 4) * 4
}

/// What to write over what stands there: mostly something that could be true.
pub(crate) fn lie(found: u32, choices: &mut Choices) -> u32 {
    match choices.below(8) {
        0 => 0,
        1 => u32::MAX,
        2 => choices.below(8),
        3 => found.wrapping_add(1),
        4 => found.wrapping_sub(1),
        5 => found ^ 1 << choices.below(32),
        6 => 1 << choices.below(32),
        _ => choices.below(u32::MAX),
    }
}
