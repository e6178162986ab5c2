//! How soon a stream comes back to a slot: the fewer slots it is written to in turn, the more of
//! what is written lies in a cache already.
//!
//! The distance of a message is the number of slots written since its slot was written last, its
//! own included: in a ring of N slots it is N. Never chooses a slot.

use hdrhistogram::Histogram;

/// More slots than that are as good as all.
const SLOTS_MAX: u64 = 1 << 20;

/// The distances of the messages of one stream.
#[derive(Debug)]
pub(super) struct ReuseDistance {
    /// Addresses, the one that was written last at the end.
    written: Vec<usize>,
    distances: Histogram<u64>,
}

impl Default for ReuseDistance {
    fn default() -> Self {
        #[allow(
            clippy::expect_used,
            reason = "proof: the bounds are constants that the crate documents as valid"
        )]
        let distances = Histogram::new_with_bounds(1, SLOTS_MAX, 3).expect("valid bounds");
        Self {
            written: Vec::new(),
            distances,
        }
    }
}

impl ReuseDistance {
    /// The next message is written to the slot at this address. What is written for the first time
    /// has no distance.
    pub(super) fn wrote(&mut self, address: usize) {
        if let Some(place) = self.written.iter().rposition(|&known| known == address) {
            let distance = self.written.len() - place;
            self.distances.saturating_record(distance as u64);
            self.written.remove(place);
        }
        self.written.push(address);
    }

    /// The median, unless no slot was written twice.
    pub(super) fn slots(&self) -> Option<f64> {
        (!self.distances.is_empty()).then(|| self.distances.value_at_quantile(0.5) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_has_the_distance_of_its_slots() {
        let mut reuse = ReuseDistance::default();
        (0..6).for_each(|slot| reuse.wrote(slot * 4096));
        assert_eq!(reuse.slots(), None);
        (0..60).for_each(|slot| reuse.wrote(slot % 6 * 4096));
        assert_eq!(reuse.slots(), Some(6.0));
    }

    #[test]
    fn what_was_free_last_is_near() {
        let mut reuse = ReuseDistance::default();
        // A hundred slots that are written once do not make the way back to two longer.
        (0..100).for_each(|slot| reuse.wrote(slot));
        (0..100).for_each(|slot| reuse.wrote(200 + slot % 2));
        assert_eq!(reuse.slots(), Some(2.0));
    }
}
