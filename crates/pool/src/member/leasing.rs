//! The ledger's own steps: lease, duplicate, release.

use hythe_abi::Generation;
use hythe_abi::pool::{CLASSES_MAX, REFERENCES_MAX};
use hythe_memory::Memory;

use super::Member;
use crate::PoolError;
use crate::cell::{self, Unchanged};
use crate::control::Control;
use crate::counted::Counted;
use crate::journal::{self, Operation, Step};
use crate::ledger::{LedgerSlot, contended};
use crate::regions::{RegionGeometry, SlotClass};
use crate::tables::members::MemberIndex;

/// Slots leased lately that are looked at again: as many as are under way where a queue of the
/// usual depth is full, and some.
const RECENT_SLOTS: usize = 48;
/// So many of them, from the oldest on, are looked at for one lease. More than one, because a
/// receiver may keep some.
const RECENT_LOOKS: usize = 4;
/// Smaller slots are leased in turn: their cells come ahead of time that way ([`LEASES_AHEAD`]),
/// and writing them costs less than a look at a cell that the receiver is about to change.
const RECENT_BYTES_MIN: u32 = 4096;

/// Where one participant looks first for a free slot, in each class of a region. It may point
/// anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursors {
    first_looks: [u32; CLASSES_MAX],
    /// A bit for each class: its first look is at a slot that this participant released last.
    is_own_release: u32,
    /// Large slots that it has leased, by their number in the region, oldest first. In a stream the
    /// receiver releases them in this order: the oldest is free again first, and its bytes are
    /// still in a cache, where those of the next slot in turn were written a whole pool ago.
    recent: [u32; RECENT_SLOTS],
    recent_count: usize,
}

impl Default for Cursors {
    fn default() -> Self {
        Self {
            first_looks: [0; CLASSES_MAX],
            is_own_release: 0,
            recent: [0; RECENT_SLOTS],
            recent_count: 0,
        }
    }
}

impl Cursors {
    /// A slot has become free by this participant's release. It is the next to be leased: its bytes
    /// are still in this processor's cache.
    #[inline]
    pub fn note_free(&mut self, region: &RegionGeometry, slot: LedgerSlot) {
        let index = slot.0.wrapping_sub(region.ledger_base);
        let holds = |class: &SlotClass| index.wrapping_sub(class.first) < class.count;
        let number = region.classes.iter().position(holds);
        if let Some(number) = number.filter(|number| *number < CLASSES_MAX) {
            self.first_looks[number] = index - region.classes[number].first;
            self.is_own_release |= 1 << number;
        }
    }

    /// The slot is the one that was leased last.
    fn note_leased(&mut self, slot: u32) {
        let known = self.recent[..self.recent_count]
            .iter()
            .position(|recent| *recent == slot);
        let oldest = (self.recent_count == RECENT_SLOTS).then_some(0);
        if let Some(place) = known.or(oldest) {
            self.recent.copy_within(place + 1..self.recent_count, place);
            self.recent_count -= 1;
        }
        self.recent[self.recent_count] = slot;
        self.recent_count += 1;
    }

    /// The oldest of a class that were leased lately.
    fn oldest_leased(&self, class: &SlotClass) -> [Option<u32>; RECENT_LOOKS] {
        let recent = self.recent[..self.recent_count].iter().copied();
        let mut of_class = recent.filter(|slot| slot.wrapping_sub(class.first) < class.count);
        [(); RECENT_LOOKS].map(|()| of_class.next())
    }
}

impl Member {
    /// Leases this slot, if it is free: one atomic step from free to mine.
    ///
    /// # Errors
    /// [`PoolError::Damaged`] if the cell never stands still.
    #[inline(always)]
    pub fn lease<M: Memory>(
        &mut self,
        control: &Control<M>,
        slot: LedgerSlot,
    ) -> Result<Option<Generation>, PoolError> {
        if control.ledger().slot(slot).0 != 0 {
            return Ok(None);
        }
        let before = control.ledger().hold(self.index(), slot);
        let step = Step {
            slot: slot.0,
            before: before.to_bits(),
            ..Step::default()
        };
        let mark = journal::begin(control, self.index(), Operation::Lease, step);
        let at = control.ledger().slot_at(slot);
        let free_to_mine =
            |cell: Counted| (cell.count == 0).then(|| (1, Generation(cell.upper).next().0));
        let leased = cell::change(control.memory(), control.layout(), at, mark, free_to_mine);
        if leased.is_ok() {
            let mine = Counted {
                count: 1,
                upper: self.now(),
                ..before
            };
            control.ledger().set_hold(self.index(), slot, mine);
        }
        journal::end(control, self.index());
        match leased {
            Ok(free) => Ok(Some(Generation(free.upper).next())),
            Err(Unchanged::Declined) => Ok(None),
            Err(Unchanged::Contended) => Err(contended(slot)),
        }
    }

    /// Leases the slot that the cursor of the smallest class points to which takes `payload_bytes`.
    /// `None`: it is not free, or there is no such class, and [`lease_any`](Self::lease_any) looks
    /// further.
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    #[inline(always)]
    pub fn lease_next<M: Memory>(
        &mut self,
        control: &Control<M>,
        region: &RegionGeometry,
        payload_bytes: usize,
        cursors: &mut Cursors,
    ) -> Result<Option<(u32, Generation)>, PoolError> {
        let fits = |class: &SlotClass| class.payload_bytes() >= payload_bytes && class.count > 0;
        let Some(number) = region.classes.iter().position(fits) else {
            return Ok(None);
        };
        let class = &region.classes[number];
        if class.slot_bytes >= RECENT_BYTES_MIN {
            return self.lease_recent(control, region, number, cursors);
        }
        let cursor = &mut cursors.first_looks[number];
        let index = if *cursor < class.count { *cursor } else { 0 };
        *cursor = index + 1;
        let slot = class.first + index;
        let leased = self.lease(control, LedgerSlot(region.ledger_base + slot))?;
        expect_lease(control, region, class, index + LEASES_AHEAD);
        Ok(leased.map(|generation| (slot, generation)))
    }

    /// Leases a slot of a class of large ones: the own release, else one of the oldest that were
    /// leased lately, else the next in turn.
    #[inline(never)]
    fn lease_recent<M: Memory>(
        &mut self,
        control: &Control<M>,
        region: &RegionGeometry,
        number: usize,
        cursors: &mut Cursors,
    ) -> Result<Option<(u32, Generation)>, PoolError> {
        let class = &region.classes[number];
        let is_own_release = cursors.is_own_release & 1 << number != 0;
        cursors.is_own_release &= !(1 << number);
        let recent = if is_own_release {
            [None; RECENT_LOOKS]
        } else {
            cursors.oldest_leased(class)
        };
        for slot in recent.into_iter().flatten() {
            if let Some(generation) = self.lease(control, LedgerSlot(region.ledger_base + slot))? {
                cursors.note_leased(slot);
                return Ok(Some((slot, generation)));
            }
        }
        let cursor = &mut cursors.first_looks[number];
        let index = if *cursor < class.count { *cursor } else { 0 };
        *cursor = index + 1;
        let slot = class.first + index;
        let leased = self.lease(control, LedgerSlot(region.ledger_base + slot))?;
        if leased.is_some() {
            cursors.note_leased(slot);
        }
        Ok(leased.map(|generation| (slot, generation)))
    }

    /// Leases a free slot of a region that takes `payload_bytes`, looking from the cursor on in
    /// each class, smallest first.
    ///
    /// # Errors
    /// [`PoolError::TooLarge`], [`PoolError::PoolFull`], [`PoolError::Damaged`].
    pub fn lease_any<M: Memory>(
        &mut self,
        control: &Control<M>,
        region: &RegionGeometry,
        payload_bytes: usize,
        cursors: &mut Cursors,
    ) -> Result<(u32, Generation), PoolError> {
        for (number, class) in region.classes.iter().enumerate().take(CLASSES_MAX) {
            if class.payload_bytes() < payload_bytes {
                continue;
            }
            for _ in 0..class.count {
                let cursor = &mut cursors.first_looks[number];
                let index = if *cursor < class.count { *cursor } else { 0 };
                *cursor = index + 1;
                let slot = class.first + index;
                let leased = self.lease(control, LedgerSlot(region.ledger_base + slot))?;
                if let Some(generation) = leased {
                    if class.slot_bytes >= RECENT_BYTES_MIN {
                        cursors.note_leased(slot);
                    }
                    expect_lease(control, region, class, index + LEASES_AHEAD);
                    return Ok((slot, generation));
                }
            }
        }
        Err(none_free(region, payload_bytes))
    }

    /// Makes `more` references to a slot of which this participant holds at least one.
    ///
    /// # Errors
    /// [`PoolError::TooManyReferences`], [`PoolError::Damaged`] if it holds none.
    pub fn duplicate<M: Memory>(
        &mut self,
        control: &Control<M>,
        slot: LedgerSlot,
        more: u32,
    ) -> Result<(), PoolError> {
        let too_many = PoolError::TooManyReferences {
            limit: REFERENCES_MAX,
        };
        let before = control.ledger().hold(self.index(), slot);
        if before.count == 0 {
            return Err(not_held(self.index(), before.count, slot, 1));
        }
        let after = more
            .checked_add(before.count)
            .filter(|sum| *sum <= REFERENCES_MAX);
        let after = after
            .and_then(|_| before.gained(more, self.now()))
            .ok_or(too_many.clone())?;
        let step = Step {
            slot: slot.0,
            count: more,
            before: before.to_bits(),
            ..Step::default()
        };
        let mark = journal::begin(control, self.index(), Operation::Duplicate, step);
        let at = control.ledger().slot_at(slot);
        let add = |cell: Counted| {
            let sum = cell.count + more;
            (cell.count > 0 && sum <= REFERENCES_MAX).then_some((sum, cell.upper))
        };
        let changed = cell::change(control.memory(), control.layout(), at, mark, add);
        if changed.is_ok() {
            control.ledger().set_hold(self.index(), slot, after);
        }
        journal::end(control, self.index());
        match changed {
            Ok(_) => Ok(()),
            Err(Unchanged::Declined) => Err(too_many),
            Err(Unchanged::Contended) => Err(contended(slot)),
        }
    }

    /// Gives back `count` references to a slot. True: that was the last, and the slot is free.
    ///
    /// # Errors
    /// [`PoolError::Damaged`] if this participant, or the cell, has fewer.
    #[inline(always)]
    pub fn release<M: Memory>(
        &mut self,
        control: &Control<M>,
        slot: LedgerSlot,
        count: u32,
    ) -> Result<bool, PoolError> {
        let before = control.ledger().hold(self.index(), slot);
        if before.count < count {
            return Err(not_held(self.index(), before.count, slot, count));
        }
        let step = Step {
            slot: slot.0,
            count,
            before: before.to_bits(),
            // Stands still while this participant holds references.
            position: control.ledger().slot(slot).1.0,
            ..Step::default()
        };
        let mark = journal::begin(control, self.index(), Operation::Release, step);
        let at = control.ledger().slot_at(slot);
        let subtract = |cell: Counted| cell.count.checked_sub(count).map(|left| (left, cell.upper));
        let changed = cell::change(control.memory(), control.layout(), at, mark, subtract);
        // Even if the cell declined (damage): this participant no longer answers for them.
        if let Some(after) = before.lost(count) {
            control.ledger().set_hold(self.index(), slot, after);
        }
        journal::end(control, self.index());
        match changed {
            Ok(cell) => Ok(cell.count == count),
            Err(Unchanged::Declined) => Err(fewer_than_held(slot)),
            Err(Unchanged::Contended) => Err(contended(slot)),
        }
    }

    /// References that this participant holds on a slot.
    pub fn holds<M: Memory>(&self, control: &Control<M>, slot: LedgerSlot) -> u32 {
        control.ledger().hold(self.index(), slot).count
    }
}

/// A participant has fewer references than it moves.
#[cold]
pub(crate) fn not_held(by: MemberIndex, held: u32, slot: LedgerSlot, wanted: u32) -> PoolError {
    PoolError::Damaged(format!(
        "participant {} answers for {held} references to slot {}, not {wanted}",
        by.0, slot.0
    ))
}

#[cold]
fn fewer_than_held(slot: LedgerSlot) -> PoolError {
    PoolError::Damaged(format!(
        "slot {} has fewer references than its holders",
        slot.0
    ))
}

/// In a stream, slots are leased one behind the other, and each was last changed by the receiver:
/// its line takes about as long to come as so many messages take to be made.
pub const LEASES_AHEAD: u32 = 4;

/// Has the line of a cell come while the messages before it are made.
#[inline]
fn expect_lease<M: Memory>(
    control: &Control<M>,
    region: &RegionGeometry,
    class: &SlotClass,
    index: u32,
) {
    if index < class.count {
        let slot = LedgerSlot(region.ledger_base + class.first + index);
        control
            .memory()
            .expect_store(control.ledger().slot_at(slot));
    }
}

/// Why nothing was leased.
#[cold]
fn none_free(region: &RegionGeometry, payload_bytes: usize) -> PoolError {
    let payload = |class: &SlotClass| class.payload_bytes();
    let fitting = region
        .classes
        .iter()
        .filter(|class| payload(class) >= payload_bytes);
    let slots = fitting.map(|class| class.count).sum();
    if slots > 0 {
        return PoolError::PoolFull {
            region: region.index,
            bytes: payload_bytes,
            slots,
        };
    }
    PoolError::TooLarge {
        region: region.index,
        bytes: payload_bytes,
        largest: region.classes.iter().map(payload).max().unwrap_or(0),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene::{self, PAYLOAD_BYTES, SLOTS};
    use hythe_abi::RegionIndex;

    #[test]
    fn payload_that_no_slot_takes_is_refused_with_the_largest() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let bytes = PAYLOAD_BYTES + 1;
        let refused = scene::with_region(&control, |_, region| {
            member.lease_any(&control, region, bytes, &mut Cursors::default())
        });
        let region = RegionIndex(0);
        assert_eq!(
            refused,
            Err(PoolError::TooLarge {
                region,
                bytes,
                largest: PAYLOAD_BYTES
            })
        );
    }

    #[test]
    fn full_pool_says_how_many_slots_would_have_done() {
        let control = scene::control();
        let mut member = scene::join(&control);
        scene::with_region(&control, |_, region| {
            for _ in 0..SLOTS {
                member
                    .lease_any(&control, region, 100, &mut Cursors::default())
                    .expect("a free slot");
            }
            let refused = member.lease_any(&control, region, 100, &mut Cursors::default());
            let full = PoolError::PoolFull {
                region: RegionIndex(0),
                bytes: 100,
                slots: SLOTS,
            };
            assert_eq!(refused, Err(full));
            member.release(&control, LedgerSlot(1), 1).expect("release");
            let (slot, generation) = member
                .lease_any(&control, region, 100, &mut Cursors::default())
                .expect("free");
            assert_eq!((slot, generation), (1, Generation(2)));
        });
    }

    #[test]
    fn next_slot_is_leased_without_a_search() {
        let control = scene::control();
        let mut member = scene::join(&control);
        scene::with_region(&control, |_, region| {
            let (mut cursors, base) = (Cursors::default(), region.ledger_base);
            let next = |member: &mut Member, cursors: &mut Cursors, bytes| {
                member.lease_next(&control, region, bytes, cursors)
            };
            let first = (0, Generation(1));
            assert_eq!(next(&mut member, &mut cursors, 1), Ok(Some(first)));
            let too_large = PAYLOAD_BYTES + 1;
            assert_eq!(next(&mut member, &mut cursors, too_large), Ok(None));
            // What became free last comes first, and a slot that is not free is left alone.
            let slot = LedgerSlot(base);
            member.release(&control, slot, 1).expect("held");
            cursors.note_free(region, slot);
            let again = (0, Generation(2));
            assert_eq!(next(&mut member, &mut cursors, 1), Ok(Some(again)));
            cursors.note_free(region, slot);
            assert_eq!(next(&mut member, &mut cursors, 1), Ok(None));
            assert_eq!(control.ledger().slot(slot), (1, Generation(2)));
        });
    }

    /// The slots that a stream writes to, of which so many are under way; the first one stays held.
    fn slots_of_a_stream(under_way: usize, messages: usize) -> Vec<u32> {
        let (control, _) = scene::pool_of(crate::ClassPlan {
            payload_bytes: RECENT_BYTES_MIN as usize,
            count: 20,
        });
        let mut member = scene::join(&control);
        scene::with_region(&control, |_, region| {
            let (mut cursors, mut slots) = (Cursors::default(), Vec::new());
            for message in 0..messages {
                let next = member.lease_next(&control, region, 1, &mut cursors);
                let found = next
                    .expect("undamaged")
                    .map_or_else(|| member.lease_any(&control, region, 1, &mut cursors), Ok);
                slots.push(found.expect("a free slot").0);
                // Elsewhere: nothing is noted of it.
                if let Some(oldest) = message.checked_sub(under_way).filter(|oldest| *oldest > 0) {
                    let slot = LedgerSlot(region.ledger_base + slots[oldest]);
                    member.release(&control, slot, 1).expect("held");
                }
            }
            slots
        })
    }

    #[test]
    fn stream_writes_to_as_few_slots_as_are_under_way() {
        let slots = slots_of_a_stream(2, 40);
        let used: std::collections::BTreeSet<u32> = slots.iter().copied().collect();
        // Two under way, one being written, and the one that is held.
        assert_eq!(used.len(), 4, "{slots:?}");
        // The one that was written longest ago is the next.
        assert!(
            slots[10..].windows(4).all(|next| next[0] == next[3]),
            "{slots:?}"
        );
    }

    #[test]
    fn as_many_slots_as_there_are_are_remembered_and_each_once() {
        let mut cursors = Cursors::default();
        for slot in 0..RECENT_SLOTS as u32 + 2 {
            cursors.note_leased(slot);
        }
        cursors.note_leased(4);
        assert_eq!(cursors.recent_count, RECENT_SLOTS);
        let class = SlotClass {
            slot_bytes: RECENT_BYTES_MIN,
            count: 4,
            first: 3,
            offset: 0,
        };
        let oldest = cursors.oldest_leased(&class);
        assert_eq!(oldest, [Some(3), Some(5), Some(6), Some(4)]);
    }

    #[test]
    fn nobody_gives_back_or_shares_what_it_does_not_hold() {
        let control = scene::control();
        let (mut holder, mut other) = (scene::join(&control), scene::join(&control));
        let slot = LedgerSlot(0);
        assert_eq!(holder.lease(&control, slot), Ok(Some(Generation(1))));
        assert_eq!(other.lease(&control, slot), Ok(None));
        assert!(matches!(
            other.release(&control, slot, 1),
            Err(PoolError::Damaged(_))
        ));
        assert!(matches!(
            other.duplicate(&control, slot, 1),
            Err(PoolError::Damaged(_))
        ));
        assert!(matches!(
            holder.release(&control, slot, 2),
            Err(PoolError::Damaged(_))
        ));
        assert_eq!(control.ledger().slot(slot), (1, Generation(1)));
        assert_eq!(holder.release(&control, slot, 1), Ok(true));
    }

    #[test]
    fn references_are_counted_up_to_the_limit() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let slot = LedgerSlot(0);
        member.lease(&control, slot).expect("lease");
        member
            .duplicate(&control, slot, REFERENCES_MAX - 1)
            .expect("up to the limit");
        for more in [1, REFERENCES_MAX, u32::MAX] {
            let refused = member.duplicate(&control, slot, more);
            assert_eq!(
                refused,
                Err(PoolError::TooManyReferences {
                    limit: REFERENCES_MAX
                })
            );
        }
        assert_eq!(member.release(&control, slot, REFERENCES_MAX), Ok(true));
    }
}
