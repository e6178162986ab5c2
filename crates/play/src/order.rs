//! Which access unit goes to the core next.
//!
//! Usually the one behind the last. A decoder that began anew is sent the units from the last key
//! frame before what is shown next, which is another pass; one that is too slow goes on with a
//! later key frame as soon as that is due. It is handed the time, and neither reads nor sends.

use hythe::media::source::mp4::movie::PlacedSample;

use crate::ports::{LAST_NUMBER, UnitTag};
use crate::stage::Wanted;

/// The order in which units are sent.
pub(crate) struct UnitOrder<'a> {
    units: &'a [PlacedSample],
    /// Numbers of the units at which decoding may begin.
    keys: Vec<usize>,
    pass: u32,
    next: usize,
    is_end_sent: bool,
}

impl<'a> UnitOrder<'a> {
    pub(crate) fn new(units: &'a [PlacedSample]) -> Self {
        let keys = units.iter().enumerate().filter(|(_, unit)| unit.is_key);
        Self {
            units,
            keys: keys.map(|(number, _)| number).collect(),
            pass: 0,
            next: 0,
            is_end_sent: false,
        }
    }

    /// What is to be sent; a tag alone ends the stream. `None`: all was sent.
    pub(crate) fn next(&self) -> Option<(UnitTag, Option<&'a PlacedSample>)> {
        let pass = self.pass;
        if let Some(unit) = self.units.get(self.next) {
            let number = self.next as u32;
            return Some((UnitTag { pass, number }, Some(unit)));
        }
        let number = LAST_NUMBER;
        (!self.is_end_sent).then_some((UnitTag { pass, number }, None))
    }

    /// What [`Self::next`] said was sent.
    pub(crate) fn sent(&mut self) {
        self.is_end_sent = self.next >= self.units.len();
        self.next += 1;
    }

    /// The unit that is next cannot be sent: what follows it is worth nothing up to a key frame.
    pub(crate) fn damaged(&mut self) {
        let behind = self.keys.iter().find(|key| **key > self.next);
        self.next = behind.copied().unwrap_or(self.units.len());
    }

    /// Goes back to the last key frame in front of what is wanted, if that is another pass.
    pub(crate) fn follow(&mut self, wanted: Wanted) {
        if wanted.pass == self.pass {
            return;
        }
        let number = wanted.number as usize;
        let keys = self.keys.partition_point(|key| *key <= number);
        self.next = keys
            .checked_sub(1)
            .map_or(0, |last| self.keys.get(last).copied().unwrap_or(0));
        self.pass = wanted.pass;
        self.is_end_sent = false;
    }

    /// If what is next was to be shown before `late_ns`, goes on with the last key frame that is
    /// shown up to `due_ns`, if there is one.
    pub(crate) fn catch_up(&mut self, late_ns: i64, due_ns: i64) {
        let is_late = |unit: &PlacedSample| unit.time_ns < late_ns;
        if !self.units.get(self.next).is_some_and(is_late) {
            return;
        }
        let is_due = |key: &usize| self.units[*key].time_ns <= due_ns;
        let due = self.keys.partition_point(is_due);
        if let Some(key) = self.keys[..due].last().filter(|key| **key > self.next) {
            self.next = *key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit each 10 ns; those of `keys` are key frames.
    fn units(count: usize, keys: &[usize]) -> Vec<PlacedSample> {
        let unit = |number: usize| PlacedSample {
            offset: 0,
            bytes: 1,
            time_ns: number as i64 * 10,
            from_ns: number as i64 * 10,
            end_ns: number as i64 * 10 + 10,
            is_shown: true,
            is_shortened: false,
            is_key: keys.contains(&number),
        };
        (0..count).map(unit).collect()
    }

    /// Sends all, and says with which tags.
    fn rest(order: &mut UnitOrder<'_>) -> Vec<(u32, u32)> {
        let mut tags = Vec::new();
        while let Some((tag, unit)) = order.next() {
            assert_eq!(unit.is_none(), tag.number == LAST_NUMBER);
            tags.push((tag.pass, tag.number));
            order.sent();
        }
        tags
    }

    fn wanted(pass: u32, number: u32) -> Wanted {
        Wanted { pass, number }
    }

    #[test]
    fn units_go_in_order_and_the_end_behind_them() {
        let units = units(3, &[0]);
        let mut order = UnitOrder::new(&units);
        order.follow(Wanted::default());
        let expected = [(0, 0), (0, 1), (0, 2), (0, LAST_NUMBER)];
        assert_eq!(rest(&mut order), expected);
        assert_eq!(order.next(), None);
    }

    #[test]
    fn another_pass_begins_at_the_last_key_frame_also_after_the_end() {
        let units = units(6, &[0, 3]);
        let mut order = UnitOrder::new(&units);
        rest(&mut order);
        order.follow(wanted(1, 4));
        order.follow(wanted(1, 4));
        let expected = [(1, 3), (1, 4), (1, 5), (1, LAST_NUMBER)];
        assert_eq!(rest(&mut order), expected);
        for (pass, number, first) in [(2, 3, 3), (3, 2, 0), (4, LAST_NUMBER, 3)] {
            order.follow(wanted(pass, number));
            let tag = order.next().expect("a unit").0;
            assert_eq!((tag.pass, tag.number), (pass, first));
        }
    }

    #[test]
    fn without_a_key_frame_a_pass_begins_at_the_start() {
        let units = units(2, &[]);
        let mut order = UnitOrder::new(&units);
        rest(&mut order);
        order.follow(wanted(1, 1));
        assert_eq!(rest(&mut order)[0], (1, 0));
    }

    #[test]
    fn who_is_late_goes_on_with_the_last_key_frame_that_is_due() {
        let units = units(9, &[0, 2, 4, 8]);
        let mut order = UnitOrder::new(&units);
        for (late_ns, due_ns, number) in [
            (0, 90, 0),   // it is in time
            (1, 10, 0),   // no other is due
            (1, 59, 4),   // that of number 2 would be late, too
            (100, 70, 4), // it is there
        ] {
            order.catch_up(late_ns, due_ns);
            assert_eq!(order.next().expect("a unit").0.number, number);
        }
        rest(&mut order);
        order.catch_up(100, 100);
        assert_eq!(order.next(), None);
    }

    #[test]
    fn behind_damage_the_next_key_frame_begins() {
        let units = units(5, &[0, 3]);
        let mut order = UnitOrder::new(&units);
        order.sent();
        order.damaged();
        assert_eq!(order.next().expect("a unit").0.number, 3);
        order.damaged();
        assert_eq!(rest(&mut order), [(0, LAST_NUMBER)]);
    }
}
