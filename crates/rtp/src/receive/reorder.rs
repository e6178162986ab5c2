//! Puts packets in order: what is missing is waited for, but not longer than allowed, and never
//! with more memory than given.
//!
//! A receiver pushes each packet, received or repaired, under its extended sequence number, and
//! pops until nothing comes. A missing packet is waited for from the arrival that revealed the
//! hole; then it is given up and counted. What is pushed is a handle on a packet (a span of a
//! buffer, a sample of a pool): it comes out, or back at once as refused, exactly once, so whoever
//! pushes knows when to release.
//!
//! Pure: the time is handed in. After it was made nothing is allocated, and a call does work for
//! the packets that it moves and the numbers that it gives up, at most for the whole ring.

use super::gaps::Gaps;

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// As it was sent.
    Network,
    /// Sent again, as a retransmission.
    Resent,
    /// Computed from others and their parity.
    Parity,
}

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is there already, or has come out.
    Duplicate,
    /// It was given up before.
    Late,
    /// There is no free capacity until packets have been popped by [`Reorder::pop_now`].
    Ahead,
}

/// A packet that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<T> {
    /// What was pushed.
    pub item: T,
    /// Why it comes back.
    pub reason: Reason,
}

/// A packet in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready<T> {
    /// Its extended sequence number.
    pub number: u64,
    /// What was pushed.
    pub item: T,
    /// How many packets directly in front of it were given up.
    pub missing: u64,
}

/// A packet that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its extended sequence number.
    pub number: u64,
    /// When a later one came.
    pub since_ns: u64,
    /// When it will be given up.
    pub until_ns: u64,
}

/// What went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets given up.
    pub lost: u64,
    /// Packets that were missing and came by repair.
    pub recovered: u64,
    /// Those of them that parity repaired.
    pub by_parity: u64,
    /// Packets that were missing and came by themselves.
    pub reordered: u64,
    /// Packets that came after they were given up.
    pub late: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Most packets missing in a row.
    pub largest_gap: u64,
}

/// How far in front of the first packet that came others of the same beginning may be.
const EARLIER_MAX: u64 = 8;

/// A beginning of which the first packet may not have come yet.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// The last packet that came.
    last: Option<u64>,
    /// Until then nothing comes out.
    until_ns: u64,
}

#[derive(Clone, Copy, Debug)]
enum Slot<T> {
    /// Of a packet that came out.
    Gone,
    /// Of a packet that was given up, or never waited for.
    Lost,
    /// Of a packet that is waited for since this instant.
    Missing(u64),
    /// Of a packet that waits for its turn.
    Held(T),
}

/// The buffer. Numbers in `next..end` are held or missing; slots of numbers before `next` keep what
/// became of them until the ring comes round.
#[derive(Debug)]
pub struct Reorder<T> {
    slots: Box<[Slot<T>]>,
    delay_ns: u64,
    next: u64,
    end: u64,
    opening: Option<Opening>,
    held: usize,
    /// Given up since the last packet that came out.
    gap: u64,
    gaps: Gaps,
    counts: Counts,
}

impl<T> Reorder<T> {
    /// A buffer for `capacity` (at least 1) packets, held or missing, that waits for a missing one
    /// for `delay_ns` at most.
    #[must_use]
    pub fn new(capacity: usize, delay_ns: u64) -> Self {
        Self {
            slots: (0..capacity.max(1)).map(|_| Slot::Lost).collect(),
            delay_ns,
            next: 0,
            end: 0,
            opening: None,
            held: 0,
            gap: 0,
            gaps: Gaps::new(),
            counts: Counts::default(),
        }
    }

    /// Numbers begin anew at `first`. Everything was popped before: what is still held is dropped.
    pub fn start(&mut self, first: u64) {
        self.slots.fill_with(|| Slot::Lost);
        (self.next, self.end, self.held, self.gap) = (first, first, 0, 0);
        self.opening = None;
    }

    /// Numbers begin anew at `first` or a little in front of it: the first packet that came may
    /// have overtaken others. Nothing comes out until two came in sequence, or `first` was held for
    /// as long as a missing packet is waited for.
    pub fn start_near(&mut self, first: u64, now_ns: u64) {
        self.start(first);
        let until_ns = now_ns.saturating_add(self.delay_ns);
        let last = None;
        self.opening = Some(Opening { last, until_ns });
    }

    /// Lets a packet in front of all others begin the numbers, as long as they are still opening.
    fn open_earlier(&mut self, number: u64, now_ns: u64) {
        let most = EARLIER_MAX.min(self.capacity().saturating_sub(1));
        let is_near = self.opening.is_some() && number < self.next && number + most + 1 >= self.end;
        if is_near {
            for missing in number..self.next {
                *self.slot(missing) = Slot::Missing(now_ns);
            }
            self.next = number;
        }
    }

    /// Takes a packet. `now_ns` never goes back.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the packet.
    pub fn push(
        &mut self,
        number: u64,
        item: T,
        origin: Origin,
        now_ns: u64,
    ) -> Result<(), Refused<T>> {
        self.open_earlier(number, now_ns);
        if number < self.next {
            return Err(self.refuse_past(number, item));
        }
        // Repair has no claim on the space of packets that may still come.
        let is_ahead = origin != Origin::Network && number - self.next >= self.capacity();
        if is_ahead || !self.make_capacity(number) {
            let reason = Reason::Ahead;
            return Err(Refused { item, reason });
        }
        let is_new = number >= self.end;
        if is_new {
            for missing in self.end..number {
                *self.slot(missing) = Slot::Missing(now_ns);
            }
            self.end = number + 1;
        } else if matches!(self.slot(number), Slot::Held(_)) {
            self.counts.duplicates += 1;
            let reason = Reason::Duplicate;
            return Err(Refused { item, reason });
        }
        match origin {
            Origin::Network => self.counts.reordered += u64::from(!is_new),
            // Parity may come in front of the packet that would have shown what it repairs to be
            // missing.
            Origin::Resent | Origin::Parity => {
                self.counts.recovered += 1;
                self.counts.by_parity += u64::from(origin == Origin::Parity);
            }
        }
        *self.slot(number) = Slot::Held(item);
        self.held += 1;
        if let Some(opening) = &mut self.opening
            && opening
                .last
                .replace(number)
                .is_some_and(|last| last + 1 == number)
        {
            self.opening = None;
        }
        Ok(())
    }

    fn refuse_past(&mut self, number: u64, item: T) -> Refused<T> {
        let is_remembered = number + self.capacity() >= self.end;
        let reason = if is_remembered && matches!(self.slot(number), Slot::Gone) {
            self.counts.duplicates += 1;
            Reason::Duplicate
        } else {
            self.counts.late += 1;
            Reason::Late
        };
        Refused { item, reason }
    }

    /// Gives missing numbers up as far as `number` needs their slots; whether that was enough.
    fn make_capacity(&mut self, number: u64) -> bool {
        let least = (number + 1).saturating_sub(self.capacity());
        if self.held == 0 && least > self.end {
            // Then nothing is missing either: the last number before `end` was held once, and what
            // is in front of it came out.
            self.slots.fill_with(|| Slot::Lost);
            self.count_gap(self.end, least - self.end);
            (self.next, self.end) = (least, least);
        }
        self.give_up_until(least);
        self.next >= least
    }

    /// Gives numbers up to `until`, as far as nothing is held.
    fn give_up_until(&mut self, until: u64) {
        while self.next < until.min(self.end) && !matches!(self.slot(self.next), Slot::Held(_)) {
            *self.slot(self.next) = Slot::Lost;
            self.count_gap(self.next, 1);
            self.next += 1;
        }
    }

    fn count_gap(&mut self, first: u64, packets: u64) {
        self.gaps.lost(first, packets);
        self.gap += packets;
        self.counts.lost += packets;
        self.counts.largest_gap = self.counts.largest_gap.max(self.gap);
    }

    /// The next packet in order, if it is there, or if those in front of it have been waited for
    /// long enough.
    pub fn pop(&mut self, now_ns: u64) -> Option<Ready<T>> {
        if self
            .opening
            .is_some_and(|opening| now_ns < opening.until_ns)
        {
            return None;
        }
        self.opening = None;
        while self.next < self.end {
            let Slot::Missing(since_ns) = *self.slot(self.next) else {
                return self.take();
            };
            if now_ns < since_ns.saturating_add(self.delay_ns) {
                return None;
            }
            self.give_up_until(self.next + 1);
        }
        None
    }

    /// The next packet that is there: what is missing in front of it is waited for no longer. For
    /// the end of a stream, and for want of free capacity.
    pub fn pop_now(&mut self) -> Option<Ready<T>> {
        self.opening = None;
        self.give_up_until(self.end);
        self.take()
    }

    fn take(&mut self) -> Option<Ready<T>> {
        if self.next == self.end {
            return None;
        }
        let Slot::Held(item) = std::mem::replace(self.slot(self.next), Slot::Gone) else {
            return None;
        };
        let number = self.next;
        self.next += 1;
        self.held -= 1;
        let missing = std::mem::take(&mut self.gap);
        Some(Ready {
            number,
            item,
            missing,
        })
    }

    /// When the next missing packet will be given up, or the beginning is waited for no longer;
    /// `None`: none is missing.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        match self.opening {
            Some(opening) => Some(opening.until_ns),
            None => self.missing().next().map(|missing| missing.until_ns),
        }
    }

    /// The packets that are waited for, in order.
    pub fn missing(&self) -> impl Iterator<Item = Missing> + '_ {
        (self.next..self.end).filter_map(|number| match self.slots[self.index(number)] {
            Slot::Missing(since_ns) => Some(Missing {
                number,
                since_ns,
                until_ns: since_ns.saturating_add(self.delay_ns),
            }),
            _ => None,
        })
    }

    /// Is this number waited for?
    #[must_use]
    pub fn is_missing(&self, number: u64) -> bool {
        let is_inside = (self.next..self.end).contains(&number);
        is_inside && matches!(self.slots[self.index(number)], Slot::Missing(_))
    }

    /// May this number be one of the last of a stream that did not come, which no later one shows
    /// to be missing?
    #[must_use]
    pub fn is_just_ahead(&self, number: u64) -> bool {
        /// A burst of losses that is longer is no loss of a few packets.
        const LAST_MAX: u64 = 64;
        (self.end..self.end + LAST_MAX).contains(&number)
    }

    /// Was this number given up, or never waited for?
    #[must_use]
    pub fn was_given_up(&self, number: u64) -> bool {
        let is_remembered = number < self.next && number + self.capacity() >= self.end;
        is_remembered && matches!(self.slots[self.index(number)], Slot::Lost)
    }

    /// The last gaps that were given up.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Is anything missing?
    #[must_use]
    pub fn has_missing(&self) -> bool {
        (self.end - self.next) as usize > self.held
    }

    /// Packets that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// What went through.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The number whose low 16 bits are `sequence` and that is nearest to the next one in order:
    /// what a repaired packet is.
    #[must_use]
    pub fn extend(&self, sequence: u16) -> u64 {
        let ahead = sequence.wrapping_sub(self.next as u16) as i16;
        self.next.saturating_add_signed(i64::from(ahead))
    }

    fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    fn index(&self, number: u64) -> usize {
        (number % self.capacity()) as usize
    }

    fn slot(&mut self, number: u64) -> &mut Slot<T> {
        let index = self.index(number);
        &mut self.slots[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const DELAY: u64 = 50;

    fn buffer(capacity: usize, first: u64) -> Reorder<u64> {
        let mut buffer = Reorder::new(capacity, DELAY);
        buffer.start(first);
        buffer
    }

    /// Pushes a packet that is its own number.
    fn push(buffer: &mut Reorder<u64>, number: u64, now_ns: u64) -> Result<(), Reason> {
        let pushed = buffer.push(number, number, Origin::Network, now_ns);
        pushed.map_err(|refused| {
            assert_eq!(refused.item, number);
            refused.reason
        })
    }

    fn pop_all(buffer: &mut Reorder<u64>, now_ns: u64) -> Vec<u64> {
        std::iter::from_fn(|| buffer.pop(now_ns))
            .map(|ready| ready.item)
            .collect()
    }

    #[test]
    fn packets_in_order_come_out_at_once() {
        let mut buffer = buffer(4, 7);
        for number in 7..100 {
            push(&mut buffer, number, 0).unwrap();
            assert_eq!(pop_all(&mut buffer, 0), [number]);
            assert_eq!(buffer.deadline_ns(), None);
        }
        assert_eq!(buffer.counts(), Counts::default());
    }

    #[test]
    fn beginning_waits_for_packets_that_were_overtaken() {
        let opened = |order: &[u64]| {
            let mut buffer = Reorder::new(16, DELAY);
            buffer.start_near(order[0], 0);
            for number in order {
                push(&mut buffer, *number, 0).unwrap();
            }
            buffer
        };
        for order in [&[101, 100, 102][..], &[102, 100, 101], &[108, 100, 101]] {
            let mut buffer = opened(order);
            let out = pop_all(&mut buffer, DELAY);
            assert_eq!(out[..2], [100, 101], "{order:?}");
            assert_eq!(buffer.counts().late, 0);
        }
        // One packet is let out in time, and two in sequence at once.
        let mut buffer = opened(&[100]);
        assert_eq!(buffer.deadline_ns(), Some(DELAY));
        assert_eq!(pop_all(&mut buffer, DELAY - 1), []);
        assert_eq!(pop_all(&mut buffer, DELAY), [100]);
        let mut buffer = opened(&[100, 101]);
        assert_eq!(pop_all(&mut buffer, 0), [100, 101]);
        assert_eq!(push(&mut buffer, 99, 0), Err(Reason::Late));
        // Far in front is none of the beginning.
        let mut buffer = opened(&[100]);
        assert_eq!(push(&mut buffer, 99 - EARLIER_MAX, 0), Err(Reason::Late));
        assert_eq!(buffer.pop_now().map(|ready| ready.number), Some(100));
    }

    #[test]
    fn hole_is_waited_for_from_when_it_showed() {
        let mut buffer = buffer(8, 0);
        push(&mut buffer, 2, 100).unwrap();
        push(&mut buffer, 3, 120).unwrap();
        push(&mut buffer, 5, 130).unwrap();
        let missing: Vec<_> = buffer.missing().map(|m| (m.number, m.since_ns)).collect();
        assert_eq!(missing, [(0, 100), (1, 100), (4, 130)]);
        assert!(buffer.has_missing());
        let is_missing = (0..7).filter(|number| buffer.is_missing(*number));
        assert_eq!(is_missing.collect::<Vec<_>>(), [0, 1, 4]);
        assert_eq!(buffer.deadline_ns(), Some(150));
        assert_eq!(buffer.pop(149), None);
        push(&mut buffer, 0, 149).unwrap();
        assert_eq!(pop_all(&mut buffer, 149), [0]);
        let ready = buffer.pop(150).unwrap();
        assert_eq!((ready.number, ready.missing), (2, 1));
        assert_eq!(pop_all(&mut buffer, 150), [3]);
        assert_eq!(buffer.deadline_ns(), Some(180));
        assert_eq!(buffer.push(4, 4, Origin::Resent, 179), Ok(()));
        assert_eq!(pop_all(&mut buffer, 179), [4, 5]);
        assert_eq!(push(&mut buffer, 1, 180), Err(Reason::Late));
        assert_eq!(push(&mut buffer, 4, 180), Err(Reason::Duplicate));
        let expected = Counts {
            lost: 1,
            recovered: 1,
            by_parity: 0,
            reordered: 1,
            late: 1,
            duplicates: 1,
            largest_gap: 1,
        };
        assert_eq!(buffer.counts(), expected);
        assert_eq!(buffer.gaps().iter().count(), 1);
        assert_eq!(buffer.gaps().iter().next().map(|gap| gap.first), Some(1));
        // Repaired before anybody could know that it was missing.
        assert_eq!(buffer.push(6, 6, Origin::Parity, 190), Ok(()));
        assert_eq!(buffer.counts().by_parity, 1);
    }

    #[test]
    fn without_delay_nothing_waits() {
        let mut buffer = Reorder::new(8, 0);
        buffer.start(0);
        push(&mut buffer, 3, 5).unwrap();
        let ready = buffer.pop(5).unwrap();
        assert_eq!((ready.number, ready.missing), (3, 3));
        assert_eq!(push(&mut buffer, 1, 5), Err(Reason::Late));
    }

    #[test]
    fn full_buffer_wants_to_be_popped_and_an_empty_one_jumps() {
        let mut buffer = buffer(4, 0);
        push(&mut buffer, 1, 0).unwrap();
        push(&mut buffer, 3, 0).unwrap();
        // 4 takes the space of 0, which is given up; 7 that of 3, which is held.
        push(&mut buffer, 4, 0).unwrap();
        assert_eq!(push(&mut buffer, 7, 0), Err(Reason::Ahead));
        assert_eq!(
            buffer.push(9, 9, Origin::Resent, 0).unwrap_err().reason,
            Reason::Ahead
        );
        let outs: Vec<_> = std::iter::from_fn(|| buffer.pop_now()).collect();
        let outs: Vec<_> = outs.iter().map(|out| (out.number, out.missing)).collect();
        assert_eq!(outs, [(1, 1), (3, 1), (4, 0)]);
        push(&mut buffer, 1_000_007, 0).unwrap();
        assert_eq!(buffer.missing().count(), 3);
        let ready = buffer.pop_now().unwrap();
        assert_eq!((ready.number, ready.missing), (1_000_007, 1_000_002));
        assert_eq!(buffer.counts().largest_gap, 1_000_002);
        assert_eq!(push(&mut buffer, 1_000_005, 0), Err(Reason::Late));
    }

    #[test]
    fn sequence_numbers_are_extended_to_the_nearest() {
        let buffer = buffer(4, 65_536 * 3);
        assert_eq!(buffer.extend(0), 65_536 * 3);
        assert_eq!(buffer.extend(65_535), 65_536 * 3 - 1);
        assert_eq!(buffer.extend(100), 65_536 * 3 + 100);
    }

    /// What the buffer is to do, in maps that grow.
    #[derive(Default)]
    struct Model {
        next: u64,
        end: u64,
        capacity: u64,
        /// Packets that are there, and when missing ones showed.
        known: BTreeMap<u64, Option<u64>>,
        came_out: Vec<u64>,
        lost: Vec<u64>,
    }

    impl Model {
        fn give_up(&mut self) {
            self.lost.push(self.next);
            self.known.remove(&self.next);
            self.next += 1;
        }

        fn push(&mut self, number: u64, now_ns: u64) -> Result<(), Reason> {
            if number < self.next {
                let is_old = number + self.capacity < self.end;
                let is_out = self.came_out.contains(&number) && !is_old;
                return Err(if is_out {
                    Reason::Duplicate
                } else {
                    Reason::Late
                });
            }
            while number >= self.next + self.capacity {
                if self.known.get(&self.next) == Some(&None) {
                    return Err(Reason::Ahead);
                }
                self.give_up();
                self.end = self.end.max(self.next);
            }
            if self.known.get(&number) == Some(&None) {
                return Err(Reason::Duplicate);
            }
            for missing in self.end..number {
                self.known.insert(missing, Some(now_ns));
            }
            self.end = self.end.max(number + 1);
            self.known.insert(number, None);
            Ok(())
        }

        fn pop(&mut self, now_ns: u64, is_forced: bool) -> Option<u64> {
            loop {
                match *self.known.get(&self.next)? {
                    None => break,
                    Some(since) if is_forced || now_ns >= since + DELAY => self.give_up(),
                    Some(_) => return None,
                }
            }
            self.known.remove(&self.next);
            self.came_out.push(self.next);
            self.next += 1;
            Some(self.next - 1)
        }
    }

    /// One step of a test: how far the time goes, and which packet comes, relative to the last one
    /// that was sent.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arrive { later_ns: u64, ahead: i64 },
        Wait { later_ns: u64 },
        Force,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let ahead = prop_oneof![6 => Just(1_i64), 2 => 2..5_i64, 2 => -6..1_i64, 1 => -40..60_i64];
        let arrive =
            (0..20_u64, ahead).prop_map(|(later_ns, ahead)| Step::Arrive { later_ns, ahead });
        let wait = (0..80_u64).prop_map(|later_ns| Step::Wait { later_ns });
        prop::collection::vec(
            prop_oneof![12 => arrive, 1 => wait, 1 => Just(Step::Force)],
            1..200,
        )
    }

    proptest! {
        #[test]
        fn it_does_what_the_model_does(
            capacity in 1..20_usize,
            first in prop_oneof![Just(65_536_u64 - 20), Just(65_536 * 9), 70_000..70_100_u64],
            steps in steps(),
        ) {
            let mut buffer = buffer(capacity, first);
            let mut model = Model { next: first, end: first, capacity: capacity as u64, ..Model::default() };
            let (mut now_ns, mut last) = (0, first);
            let mut refused = 0;
            for step in steps {
                let mut is_forced = false;
                match step {
                    Step::Arrive { later_ns, ahead } => {
                        now_ns += later_ns;
                        let number = last.saturating_add_signed(ahead);
                        last = last.max(number);
                        let pushed = push(&mut buffer, number, now_ns);
                        prop_assert_eq!(pushed, model.push(number, now_ns));
                        refused += u64::from(matches!(pushed, Err(Reason::Duplicate | Reason::Late)));
                    }
                    Step::Wait { later_ns } => now_ns += later_ns,
                    Step::Force => is_forced = true,
                }
                if is_forced {
                    let out = buffer.pop_now().map(|ready| ready.number);
                    prop_assert_eq!(out, model.pop(now_ns, true));
                }
                while let Some(ready) = buffer.pop(now_ns) {
                    prop_assert_eq!(ready.number, ready.item);
                    prop_assert_eq!(Some(ready.number), model.pop(now_ns, false));
                }
                prop_assert_eq!(model.pop(now_ns, false), None);
                prop_assert_eq!(buffer.counts().lost, model.lost.len() as u64);
                let missing: Vec<_> = buffer.missing().map(|m| (m.number, m.since_ns)).collect();
                let expected = model.known.iter().filter_map(|(number, since)| Some((*number, (*since)?)));
                prop_assert_eq!(&missing, &expected.collect::<Vec<_>>());
                prop_assert_eq!(buffer.has_missing(), !missing.is_empty());
                prop_assert_eq!(buffer.held() + missing.len(), model.known.len());
                prop_assert!(model.known.len() <= capacity);
                prop_assert!(buffer.deadline_ns().is_none_or(|deadline| deadline > now_ns));
            }
            prop_assert!(model.came_out.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(buffer.counts().late + buffer.counts().duplicates, refused);
        }
    }
}
