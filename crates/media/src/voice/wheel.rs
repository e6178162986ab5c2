//! A wheel with a tooth for every fraction of the interval, and the calls that stand at each.

/// The calls at each tooth, by number. A new one goes where the fewest are.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    teeth: Vec<Vec<u32>>,
}

impl Wheel {
    /// Teeth without calls; each has room for `calls` in all, so that adding them allocates nothing
    /// more.
    pub(super) fn new(teeth: usize, calls: usize) -> Self {
        let room = calls.div_ceil(teeth.max(1));
        Self {
            teeth: vec![Vec::with_capacity(room); teeth.max(1)],
        }
    }

    /// Adds a call; returns its tooth.
    pub(super) fn add(&mut self, call: u32) -> usize {
        // The first of the emptiest: there is at least one tooth.
        let counts = self.teeth.iter().map(Vec::len).enumerate();
        let tooth = counts
            .min_by_key(|(_, count)| *count)
            .map_or(0, |(index, _)| index);
        self.teeth[tooth].push(call);
        tooth
    }

    /// Takes a call off its tooth; the others stay where they are.
    pub(super) fn remove(&mut self, tooth: usize, call: u32) {
        if let Some(calls) = self.teeth.get_mut(tooth) {
            calls.retain(|other| *other != call);
        }
    }

    /// The calls at the tooth that comes `turn` teeth after the start.
    pub(super) fn at(&self, turn: u64) -> &[u32] {
        let tooth = (turn % self.teeth.len() as u64) as usize;
        &self.teeth[tooth]
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
    fn a_wheel_without_teeth_has_one() {
        let mut wheel = Wheel::new(0, 0);
        assert_eq!(wheel.add(1), 0);
        wheel.remove(9, 1);
        assert_eq!(wheel.at(u64::MAX), [1]);
    }
}
