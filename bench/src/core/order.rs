//! What the core is told to do: the first words of a buffer over `control`. The core's side of the
//! same words is `rtos/apps/bench/order.h`.

use super::case::{Case, Payload, System, Wait};

/// Its bytes.
pub(super) const BYTES: usize = 16;

/// The words of an order, little endian; the last one is reserved.
pub(super) fn words(case: Case) -> [u32; BYTES / 4] {
    let system = match case.system {
        System::Hythe | System::Agent => 1,
        System::Copy => 2,
    };
    let wait = match case.wait {
        Wait::Poll => 1,
        Wait::Bell => 2,
    };
    let payload = match case.payload {
        Payload::Untouched => 1,
        Payload::Filled => 2,
    };
    [system, wait, payload, 0]
}

/// As they stand in memory.
pub(super) fn bytes(case: Case) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words(case)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
