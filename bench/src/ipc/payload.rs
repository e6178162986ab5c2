//! What senders write and receivers read: each message has a content of its own, so that a wrong one is noticed.
//!
//! The same two loops for every system. Sizes are multiples of 8.

/// Writes message `number`.
#[inline]
pub(super) fn fill(bytes: &mut [u8], number: u64) {
    let word = content(number).to_le_bytes();
    for place in bytes.chunks_exact_mut(8) {
        place.copy_from_slice(&word);
    }
}

/// Reads every byte. Is it message `number`?
#[inline]
pub(super) fn is_message(bytes: &[u8], number: u64) -> bool {
    let mut sum = 0_u64;
    for place in bytes.chunks_exact(8) {
        let mut word = [0; 8];
        word.copy_from_slice(place);
        sum = sum.wrapping_add(u64::from_le_bytes(word));
    }
    sum == content(number).wrapping_mul(bytes.len() as u64 / 8)
}

/// Odd, and unlike that of the neighbours in all bytes (the multiplier is that of splitmix64).
const fn content(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_and_every_other_message_is_noticed() {
        let mut bytes = [0; 64];
        fill(&mut bytes, 7);
        assert!(is_message(&bytes, 7));
        assert!(!is_message(&bytes, 8));
        for index in 0..bytes.len() {
            bytes[index] ^= 1;
            assert!(!is_message(&bytes, 7), "byte {index}");
            bytes[index] ^= 1;
        }
    }
}
