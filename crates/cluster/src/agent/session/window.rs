//! How much may be underway on a stream: what a receiver grants, and what a sender makes use of.

use hythe_node::Pool;
use hythe_node::hop::HopPool as _;

use crate::frame::Window;

/// Frames that a window has at least: twenty of them are underway while one acknowledgement is.
const WINDOW_FRAMES: u32 = 64;
/// A window has this part of the pool's slots.
const WINDOW_PART: u64 = 8;

/// The window for subscribers of this depth, and the longest payload that fits a slot of this pool.
pub(super) fn window_of(pool: &Pool, depth: u32) -> (Window, u32) {
    let regions = pool.regions();
    // A region that cannot be read has no slots; opening the pool has said why.
    let _ = regions.refresh(pool.control());
    let linux = regions.iter().find(|region| region.index.0 == 0);
    let classes = linux.map_or(&[][..], |region| &region.classes);
    // Fits: a slot's size is 32 bits.
    let bytes_of = |class: &hythe_node::SlotClass| class.payload_bytes() as u32;
    let largest = classes.iter().map(bytes_of).max().unwrap_or(0);
    let all = classes
        .iter()
        .map(|class| u64::from(class.count) * u64::from(bytes_of(class)));
    let window = Window {
        frames: depth.max(WINDOW_FRAMES),
        bytes: all.sum::<u64>() / WINDOW_PART,
    };
    (window, largest)
}
