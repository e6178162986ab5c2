//! How many slots of a class one receiver may occupy, whatever the depth of its queue.
//!
//! A queue's depth counts messages, but what runs out is slots: a class of large slots has fewer of
//! them than a usual queue has places. So a sender knows, for each connection, which slots it has
//! sent over it that have not come back ([`Outstanding`]), and treats the queue as full once they
//! are too many for the class ([`Quota`]). ADR 0022 has the sum.
//!
//! Called by every sender of references: publishers, their histories, clients and servers. Reads
//! what the receiver says of itself (its queue's head, its hold records); a receiver that lies
//! there gains no more than the slots that it could lease anyway. Never waits, never releases
//! anything.

use std::cell::OnceCell;

use hythe_abi::Generation;
use hythe_abi::pool::{CLASSES_MAX, REGIONS_MAX};
use hythe_memory::Memory;
use hythe_pool::{ConnectionInfo, Control, LedgerSlot, MemberIndex, PoolError, PortIndex};

use crate::buffer::Reference;
use crate::participant::Participant;
use crate::pool::Pool;

/// Of all regions of a pool.
const CLASSES: usize = REGIONS_MAX * CLASSES_MAX;
/// While less than this part of a class is free, its slots are scarce.
const SCARCE_PART: u32 = 4;
/// A receiver far from its limit gets this part of the distance without another look.
const UNSEEN_PART: u32 = 8;

/// What one sender lets each of its receivers occupy. By default: a half of each class, for those
/// who have asked for what they get.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    /// As many for each region as it can have; those that it has not are without slots.
    classes: Vec<Class>,
    /// `None`: each gets a half, also of what is scarce.
    receivers: Option<u32>,
}

/// The slots of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    first: LedgerSlot,
    slots: u32,
    /// Up to here, at least 1, a receiver that gives back is not looked at.
    unseen: u32,
}

impl Class {
    /// Does this participant hold all of them?
    fn is_all_of<M: Memory>(&self, control: &Control<M>, member: MemberIndex) -> bool {
        (self.first.0..self.first.0 + self.slots)
            .all(|slot| control.ledger().held_by(member, LedgerSlot(slot)) > 0)
    }
}

/// The number of a class among those of a [`Quota`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassNumber(usize);

/// A slot that was sent.
#[derive(Clone, Copy, Debug)]
struct SentSlot {
    slot: LedgerSlot,
    generation: Generation,
    /// Of the last descriptor that named it.
    position: u32,
    class: ClassNumber,
}

/// What is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    slot: LedgerSlot,
    generation: Generation,
    class: ClassNumber,
    /// Free slots of the class, as far as they matter: counted once for all receivers.
    free: OnceCell<u32>,
}

/// What was sent over one connection and is not known to have come back.
#[derive(Debug)]
pub(crate) struct Outstanding {
    sent: Vec<SentSlot>,
    /// Messages of a class that need no look.
    granted: (ClassNumber, u32),
    /// It has released something: it is not one that was stopped before its first message.
    gives_back: bool,
}

impl Quota {
    /// For a sender with this many receivers.
    pub(crate) fn for_receivers(pool: &Pool, receivers: usize) -> Self {
        Self::new(pool, Some(u32::try_from(receivers).unwrap_or(u32::MAX)))
    }

    fn new(pool: &Pool, receivers: Option<u32>) -> Self {
        // A region that cannot be read has no slots that could be sent.
        let _ = pool.regions().refresh(pool.control());
        let mut classes = vec![Class::default(); CLASSES];
        for region in pool.regions().iter() {
            let from = usize::from(region.index.0) * CLASSES_MAX;
            for (place, class) in classes[from..].iter_mut().zip(&region.classes) {
                *place = Class {
                    first: LedgerSlot(region.ledger_base + class.first),
                    slots: class.count,
                    unseen: (share(class.count, receivers.unwrap_or(0)) / 2).max(1),
                };
            }
        }
        Self { classes, receivers }
    }

    /// What is to be sent.
    ///
    /// # Errors
    /// [`PoolError::NotAPool`]: no region has its slot.
    #[inline]
    pub(crate) fn parcel(
        &mut self,
        shared: &Participant,
        reference: &Reference,
    ) -> Result<Parcel, PoolError> {
        let (slot, generation) = (reference.slot(), reference.descriptor().generation);
        let class = match self.class_of(slot) {
            Some(class) => class,
            None => self.class_of_new_region(shared, slot)?,
        };
        Ok(Parcel {
            slot,
            generation,
            class,
            free: OnceCell::new(),
        })
    }

    #[inline]
    fn class_of(&self, slot: LedgerSlot) -> Option<ClassNumber> {
        let within = |class: &Class| slot.0.wrapping_sub(class.first.0) < class.slots;
        self.classes.iter().position(within).map(ClassNumber)
    }

    #[cold]
    fn class_of_new_region(
        &mut self,
        shared: &Participant,
        slot: LedgerSlot,
    ) -> Result<ClassNumber, PoolError> {
        *self = Self::new(shared.pool(), self.receivers);
        let unknown = || PoolError::NotAPool(format!("no region of it has slot {}", slot.0));
        self.class_of(slot).ok_or_else(unknown)
    }

    /// As many slots of its class as a receiver may occupy at most.
    pub(crate) fn most(&self, parcel: &Parcel) -> u32 {
        (self.classes[parcel.class.0].slots / 2).max(1)
    }

    /// How many slots of its class a receiver may occupy now, this message included.
    fn limit<M: Memory>(
        &self,
        control: &Control<M>,
        info: &ConnectionInfo,
        parcel: &Parcel,
        gives_back: bool,
    ) -> u32 {
        self.limit_of(control, info.producer, parcel, || {
            gives_back || keeps_up(control, info.consumer_port)
        })
    }

    /// The same for any kind of receiver. `returns`: has it shown that the last slot comes back?
    pub(crate) fn limit_of<M: Memory>(
        &self,
        control: &Control<M>,
        sender: MemberIndex,
        parcel: &Parcel,
        returns: impl FnOnce() -> bool,
    ) -> u32 {
        let (class, half) = (self.classes[parcel.class.0], self.most(parcel));
        let Some(receivers) = self.receivers else {
            return half;
        };
        let free = |enough| {
            let count = || {
                control
                    .ledger()
                    .free_slots(class.first, class.slots, enough)
            };
            *parcel.free.get_or_init(count)
        };
        // The last slot is for those who have shown that it comes back, to this sender or to
        // others; for a newcomer only where the sender itself has all the others.
        let gets_last = || returns() || class.is_all_of(control, sender);
        receiver_share(class.slots, receivers, free, gets_last)
    }
}

/// The slots of one class, of `slots`, that one of so many receivers may occupy. `free` counts free
/// ones up to a number; `gets_last`: may it have the last one?
pub fn receiver_share(
    slots: u32,
    receivers: u32,
    free: impl FnOnce(u32) -> u32,
    gets_last: impl FnOnce() -> bool,
) -> u32 {
    let (half, plenty) = ((slots / 2).max(1), slots.div_ceil(SCARCE_PART));
    match free(plenty) {
        0 => u32::from(gets_last()),
        free if free < plenty => share(slots, receivers).min(half),
        _ => half,
    }
}

impl Quota {
    /// The slots of the parcel's class, all of them.
    pub(crate) fn slots_like(&self, parcel: &Parcel) -> impl Iterator<Item = LedgerSlot> {
        let class = self.classes[parcel.class.0];
        (class.first.0..class.first.0 + class.slots).map(LedgerSlot)
    }
}

/// Has the port taken all that was ever sent to it, and something at all?
fn keeps_up<M: Memory>(control: &Control<M>, port: PortIndex) -> bool {
    let taken = control.tables().last_statistics(port).messages;
    taken > 0 && !control.tables().something_waits_for(port)
}

/// What each of `receivers` gets of a class whose slots are scarce: two shares stay for the sender.
fn share(slots: u32, receivers: u32) -> u32 {
    (slots / receivers.saturating_add(2)).max(1)
}

impl Parcel {
    #[inline]
    pub(crate) const fn slot(&self) -> LedgerSlot {
        self.slot
    }

    /// The same, some time later: what is free is counted again.
    pub(crate) const fn anew(&self) -> Self {
        Self {
            free: OnceCell::new(),
            ..*self
        }
    }
}

impl SentSlot {
    /// Is it in the queue, of which so many were taken?
    const fn waits(&self, taken: u32) -> bool {
        // Positions wrap; no queue holds as many as half of their range.
        self.position.wrapping_sub(taken) <= u32::MAX / 2
    }
}

impl Outstanding {
    /// With memory for as many slots as are sent between two looks.
    pub(crate) fn for_quota(quota: &Quota) -> Self {
        let unseen: u32 = quota.classes.iter().map(|class| class.unseen).sum();
        Self {
            sent: Vec::with_capacity(unseen as usize),
            granted: (ClassNumber(0), 0),
            gives_back: false,
        }
    }

    /// May the receiver get this, too? False: only a [`look`](Self::look) can tell.
    #[inline]
    pub(crate) fn admits_unseen(&mut self, parcel: &Parcel) -> bool {
        if self.sent.last().map(|last| last.slot) == Some(parcel.slot) {
            return true;
        }
        let (class, left) = &mut self.granted;
        let granted = *class == parcel.class && *left > 0;
        *left -= u32::from(granted);
        granted
    }

    /// May the receiver get this, too?
    pub(crate) fn admits<M: Memory>(
        &mut self,
        quota: &Quota,
        control: &Control<M>,
        info: &ConnectionInfo,
        parcel: &Parcel,
    ) -> bool {
        self.admits_unseen(parcel) || self.look(quota, control, info, parcel)
    }

    /// It was sent, as the descriptor number `position` of the queue.
    #[inline]
    pub(crate) fn note(&mut self, parcel: &Parcel, position: u32) {
        if let Some(last) = self.sent.last_mut()
            && last.slot == parcel.slot
        {
            last.generation = parcel.generation;
            last.position = position;
            return;
        }
        self.sent.push(SentSlot {
            slot: parcel.slot,
            generation: parcel.generation,
            position,
            class: parcel.class,
        });
    }

    /// May the receiver get this, too? Looks what it has released.
    #[cold]
    pub(crate) fn look<M: Memory>(
        &mut self,
        quota: &Quota,
        control: &Control<M>,
        info: &ConnectionInfo,
        parcel: &Parcel,
    ) -> bool {
        self.forget_returned(control, info);
        let kept = self.count(|sent| sent.class == parcel.class);
        let unseen = quota.classes[parcel.class.0].unseen;
        let granted = if kept == 0 && self.gives_back {
            unseen - 1
        } else {
            let limit = quota.limit(control, info, parcel, self.gives_back);
            let Some(distance) = limit.checked_sub(kept).filter(|distance| *distance > 0) else {
                return false;
            };
            let few = if self.gives_back { unseen } else { 0 };
            few.saturating_sub(kept + 1).max(distance / UNSEEN_PART)
        };
        self.granted = (parcel.class, granted);
        true
    }

    fn count(&self, counts: impl Fn(&SentSlot) -> bool) -> u32 {
        let counted = self.sent.iter().filter(|sent| counts(sent)).count();
        // Fits: there are as many slots at most.
        u32::try_from(counted).unwrap_or(u32::MAX)
    }

    /// Would the quota allow this message if nothing of its class waited in the queue?
    pub(crate) fn evicting_helps<M: Memory>(
        &mut self,
        quota: &Quota,
        control: &Control<M>,
        info: &ConnectionInfo,
        parcel: &Parcel,
    ) -> bool {
        self.forget_returned(control, info);
        let taken = control.tables().taken_from(info);
        let held = self.count(|sent| sent.class == parcel.class && !sent.waits(taken));
        held < quota.limit(control, info, parcel, self.gives_back)
    }

    /// Forgets what the receiver has taken and released.
    fn forget_returned<M: Memory>(&mut self, control: &Control<M>, info: &ConnectionInfo) {
        let before = self.sent.len();
        // First the head: what was taken before it is in the hold record by then.
        let taken = control.tables().taken_from(info);
        self.sent.retain(|sent| {
            // What waits has its reference in the queue: its cell, which the receiver is about to
            // change, stays where it is.
            sent.waits(taken) || {
                let (references, generation) = control.ledger().slot(sent.slot);
                let is_same = references > 0 && generation == sent.generation;
                is_same && control.ledger().held_by(info.consumer, sent.slot) > 0
            }
        });
        self.gives_back |= self.sent.len() < before;
        // A slot that was sent in parts, between others, occupies one.
        let behind = |sent: &SentSlot| taken.wrapping_sub(sent.position).cast_signed();
        self.sent
            .sort_unstable_by_key(|sent| (sent.slot, behind(sent)));
        self.sent.dedup_by_key(|sent| sent.slot);
    }
}
