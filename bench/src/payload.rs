//! What senders write and receivers read: each message has a content of its own, so that a wrong
//! one is noticed.
//!
//! The same two loops for every system. Sizes are multiples of 8.

/// Writes message `number`.
#[inline]
pub(crate) fn fill(bytes: &mut [u8], number: u64) {
    let word = content(number).to_le_bytes();
    for place in bytes.chunks_exact_mut(8) {
        place.copy_from_slice(&word);
    }
}

/// Reads every byte. Is it message `number`?
#[inline]
pub(crate) fn is_message(bytes: &[u8], number: u64) -> bool {
    sum(bytes) == sum_of(number, bytes.len())
}

/// Reads every byte: the sum of its words, modulo 2^64.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|place| {
        let mut word = [0; 8];
        word.copy_from_slice(place);
        u64::from_le_bytes(word)
    });
    words.fold(0, u64::wrapping_add)
}

/// The sum of message `number`.
#[inline]
pub(crate) const fn sum_of(number: u64, bytes: usize) -> u64 {
    content(number).wrapping_mul(bytes as u64 / 8)
}

/// As [`is_message`], for systems that give words.
#[inline]
pub(crate) fn are_words(words: &[u64], number: u64) -> bool {
    let values = words.iter().map(|&word| u64::from_le(word));
    values.fold(0, u64::wrapping_add) == sum_of(number, words.len() * 8)
}

/// The word that message `number` is made of, for systems that fill word by word.
#[inline]
pub(crate) const fn word_of(number: u64) -> u64 {
    content(number).to_le()
}

/// Odd, and unlike that of the neighbours in all bytes (the multiplier is that of splitmix64).
const fn content(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bytes_are_one_message() {
        let words = [word_of(7); 8];
        assert!(are_words(&words, 7) && !are_words(&words, 8));
        let mut bytes = [0; 8];
        fill(&mut bytes, 7);
        assert_eq!(bytes, word_of(7).to_ne_bytes());
    }

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
