//! A timer wheel with a slot for every fraction of the interval, and the calls that stand at each.

/// The calls at each slot, by number. A new one goes where the fewest are.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    slots: Vec<Vec<u32>>,
}

impl Wheel {
    /// Slots without calls; each has capacity for `calls` in all, so that adding them allocates
    /// nothing more.
    pub(super) fn new(slots: usize, calls: usize) -> Self {
        let capacity = calls.div_ceil(slots.max(1));
        Self {
            slots: vec![Vec::with_capacity(capacity); slots.max(1)],
        }
    }

    /// Adds a call; returns its slot.
    pub(super) fn add(&mut self, call: u32) -> usize {
        // The first of the emptiest: there is at least one slot.
        let counts = self.slots.iter().map(Vec::len).enumerate();
        let slot = counts
            .min_by_key(|(_, count)| *count)
            .map_or(0, |(index, _)| index);
        self.slots[slot].push(call);
        slot
    }

    /// Takes a call off its slot; the others stay where they are.
    pub(super) fn remove(&mut self, slot: usize, call: u32) {
        if let Some(calls) = self.slots.get_mut(slot) {
            calls.retain(|other| *other != call);
        }
    }

    /// The calls at the slot that comes `turn` slots after the start.
    pub(super) fn at(&self, turn: u64) -> &[u32] {
        let slot = (turn % self.slots.len() as u64) as usize;
        &self.slots[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_spread_evenly_and_stay_where_they_are() {
        let mut wheel = Wheel::new(80, 2000);
        let places: Vec<usize> = (0..2000).map(|call| wheel.add(call)).collect();
        assert!((0..80).all(|turn| wheel.at(turn).len() == 25));
        wheel.remove(places[7], 7);
        assert!(!wheel.at(places[7] as u64).contains(&7));
        assert_eq!(wheel.add(5000), places[7]);
        for call in [0, 100, 1999] {
            assert!(wheel.at(places[call] as u64 + 80).contains(&(call as u32)));
        }
    }

    #[test]
    fn wheel_without_slots_has_one() {
        let mut wheel = Wheel::new(0, 0);
        assert_eq!(wheel.add(1), 0);
        wheel.remove(9, 1);
        assert_eq!(wheel.at(u64::MAX), [1]);
    }
}
