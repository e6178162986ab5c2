//! Memory of large messages that are gone, for those to come.
//!
//! The allocator gives it back to the kernel, which then clears each page anew: programs that
//! exchange messages of a mebibyte would pay more for that than for copying them.

use std::ops::RangeInclusive;
use std::sync::{Mutex, TryLockError};

/// The largest that is kept.
pub(super) const BYTES_MAX: usize = 4 << 20;
/// Capacities that are kept: less costs few pages.
const KEPT_BYTES: RangeInclusive<usize> = 32 << 10..=BYTES_MAX;
/// One to write, one to read, and one more of each on its way.
const KEPT_MAX: usize = 4;

/// Of the process, as the allocator's.
static SPARES: Mutex<Spares> = Mutex::new(Spares(Vec::new()));

/// Memory that is needed no more.
pub fn keep(bytes: Vec<u8>) {
    if KEPT_BYTES.contains(&bytes.capacity()) {
        with_spares(|spares| spares.keep(bytes));
    }
}

/// So many bytes, whatever they are now.
pub(super) fn bytes(count: usize) -> Vec<u8> {
    match with_room(count) {
        Some(mut bytes) => {
            bytes.resize(count, 0);
            bytes
        }
        None => vec![0; count],
    }
}

/// Kept memory with room for so many bytes, if there is some.
#[must_use]
pub fn with_room(count: usize) -> Option<Vec<u8>> {
    match KEPT_BYTES.contains(&count) {
        true => with_spares(|spares| spares.take(count))?,
        false => None,
    }
}

/// Unless another thread has them: nobody waits for them.
fn with_spares<T>(act: impl FnOnce(&mut Spares) -> T) -> Option<T> {
    match SPARES.try_lock() {
        Ok(mut spares) => Some(act(&mut spares)),
        Err(TryLockError::Poisoned(spares)) => Some(act(&mut spares.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The oldest first.
#[derive(Debug)]
struct Spares(Vec<Vec<u8>>);

impl Spares {
    /// In place of the oldest, if there are enough: the sizes that a program uses may change.
    fn keep(&mut self, bytes: Vec<u8>) {
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(bytes);
    }

    /// The smallest with this room; of those the last one, which is most likely still in a cache.
    fn take(&mut self, room: usize) -> Option<Vec<u8>> {
        let fitting = self.0.iter().enumerate().rev();
        let fitting = fitting.filter(|(_, spare)| spare.capacity() >= room);
        let (index, _) = fitting.min_by_key(|(_, spare)| spare.capacity())?;
        Some(self.0.remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_kept_and_the_smallest_that_fits_is_taken() {
        let mut spares = Spares(Vec::new());
        for bytes in [50, 20, 40, 10, 30] {
            spares.keep(Vec::with_capacity(bytes));
        }
        // Capacities may be larger than asked for.
        let mut taken = |room| spares.take(room).map(|spare| spare.capacity() / 10);
        let found = [25, 25, 25, 10, 10, 1].map(&mut taken);
        assert_eq!(found, [Some(3), Some(4), None, Some(1), Some(2), None]);
    }

    #[test]
    fn what_is_too_small_or_too_large_is_not_kept() {
        assert_eq!(with_room(KEPT_BYTES.start() - 1), None);
        assert_eq!(with_room(KEPT_BYTES.end() + 1), None);
        assert_eq!(bytes(3), [0; 3]);
        assert_eq!(bytes(KEPT_BYTES.end() + 1).len(), KEPT_BYTES.end() + 1);
    }
}
