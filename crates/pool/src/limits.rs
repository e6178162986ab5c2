//! The ranges of a pool's limits.
//!
//! [`crate::Geometry`] asks when a pool is made, [`crate::Control`] when one is opened. Never
//! decides what follows from a limit out of range.

use hythe_abi::Place;
use hythe_abi::pool::{Limits, PARTICIPANTS_MAX};

/// The first limit that is out of range: its name, its value and the largest.
pub(crate) fn limit_out_of_range(limits: &Limits) -> Option<(&'static str, u32, u32)> {
    const TABLE_MAX: u32 = 1 << 20;
    let ranges = [
        ("participants", limits.participants, PARTICIPANTS_MAX),
        ("channels", limits.channels, TABLE_MAX),
        ("ports", limits.ports, TABLE_MAX),
        ("connections", limits.connections, TABLE_MAX),
        ("queue-segments", limits.queue_segments, TABLE_MAX),
        ("slots", limits.slots, Place::SLOT_MAX),
    ];
    let mut ranges = ranges.into_iter();
    ranges.find(|(_, value, max)| *value == 0 || value > max)
}
