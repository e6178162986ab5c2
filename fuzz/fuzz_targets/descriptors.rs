//! Descriptors as a peer may claim them, against regions as a peer may describe them: what passes
//! the check is inside.
//!
//! `cargo +nightly fuzz run descriptors`

#![no_main]

use hythe_abi::pool::{Limits, region};
use hythe_abi::{Descriptor, RegionIndex};
use hythe_memory::{Mapped, Memory, Ordering};
use hythe_pool::{ClassPlan, Control, Geometry, Regions};

const LIMITS: Limits = Limits {
    participants: 2,
    channels: 1,
    ports: 1,
    connections: 1,
    queue_segments: 1,
    slots: 8,
};
/// Words of the record of region 1, behind its state.
const RECORD_WORDS: usize = (region::BYTES - 8) / 4;

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let words = bytes.chunks_exact(4);
    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let plan = [768, 3840].map(|payload_bytes| ClassPlan {
        payload_bytes,
        count: 3,
    });
    let geometry = Geometry::with_classes(LIMITS, &plan).expect("geometry");
    let memory = Mapped::anonymous(geometry.layout().expect("layout").bytes()).expect("memory");
    let control = Control::create(memory, &geometry, 1).expect("control");
    // Four words of a claim; then as much of a region's record as there is.
    let mut given = words(bytes);
    let mut claim = [0; 4];
    claim.fill_with(|| given.next().unwrap_or(0));
    let at = control.layout().region(1);
    for (index, word) in given.take(RECORD_WORDS).enumerate() {
        let place = at + 8 + index * 4;
        control.memory().store(place, word, Ordering::Relaxed);
    }
    let state = at + region::STATE;
    control.memory().store_cell(state, 2, Ordering::Release);
    let regions = Regions::default();
    // A record that makes no sense is refused; region 0 is there all the same.
    let _ = regions.refresh(&control);
    assert!(regions.region(RegionIndex(0)).is_some());
    for region in regions.iter() {
        let end = region.ledger_base.checked_add(region.slots);
        assert!(end.is_some_and(|end| end <= control.layout().limits().slots));
    }
    let descriptor = Descriptor::from_words(claim);
    let _ = regions.check_current(&control, descriptor);
    if let Ok(slot) = regions.check(descriptor) {
        let region = regions.region(descriptor.place.region).expect("checked");
        let offset = region.slot_offset(descriptor.place.slot).expect("checked") as u64;
        let end = offset + u64::from(descriptor.offset) + u64::from(descriptor.length);
        assert!(end <= region.bytes, "{descriptor:?} leaves {region:?}");
        assert!(slot.slot.0 < control.layout().limits().slots);
    }
});
