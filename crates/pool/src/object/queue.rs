//! A message queue: descriptors of slots that the store holds, by priority and age.
//!
//! A message that was accepted has an entry, and the store one reference to its slot. On its way
//! in or out the object names it (`MOVING`), with the words of its entry: if the one who moves it
//! dies, the next owner finds out whom the slot belongs to, and the entry follows. An entry and
//! that note change together, so a message is never in the queue twice, nor nowhere.
//!
//! A message that is being handed to a core stays where it is until the core has it, with a claim
//! of the one who hands it over: nobody else takes it as long as that one's session goes on.

use core::ops::Range;

use hythe_abi::Descriptor;
use hythe_abi::objects::{MESSAGES_MAX, PRIORITIES, entry, object};
use hythe_memory::Memory;

use super::section::Section;
use super::{ObjectError, ObjectIndex, ObjectTable, Party};
use crate::tables::members::MemberIndex;

/// A message in a queue, or on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Larger goes first.
    pub priority: u32,
    /// Smaller goes first. No two messages of a queue have the same.
    pub order: u32,
    /// Where it is. Somebody's claim, to be checked.
    pub descriptor: Descriptor,
    /// Its entry.
    place: usize,
}

/// Who is to be notified of a message in an empty queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// The participant.
    pub party: Party,
    /// Tells it from earlier ones.
    pub number: u32,
}

/// The entries of a queue for so many messages: a new one takes the first that is free.
fn entries(limit: u32) -> Range<usize> {
    0..MESSAGES_MAX.min(limit as usize)
}

const fn entry_at(index: usize) -> usize {
    object::ENTRIES + index * entry::BYTES
}

impl<M: Memory> ObjectTable<M> {
    /// Does no message wait in a queue, as its words stand now? Somebody may be changing it, or
    /// have died in a change: only a look with its lock is certain.
    pub fn seems_without_message(&self, index: ObjectIndex) -> bool {
        self.messages_seen(index) == 0
    }

    /// Messages that wait in a queue, as [`Self::seems_without_message`] sees them.
    pub(super) fn messages_seen(&self, index: ObjectIndex) -> u32 {
        let limit = self.word(index, object::MESSAGES_LIMIT);
        let waits = |place: &usize| self.word(index, entry_at(*place)) != 0;
        entries(limit).filter(waits).count() as u32
    }
}

impl<M: Memory> Section<'_, M> {
    /// How many messages wait.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn queued(&self) -> Result<u32, ObjectError> {
        let mut count = 0;
        for index in self.entries() {
            count += u32::from(self.entry(index)?.is_some());
        }
        Ok(count)
    }

    /// Has the queue a place for one more?
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn has_room(&self) -> Result<bool, ObjectError> {
        Ok(self.queued()? < self.load(object::MESSAGES_LIMIT))
    }

    /// The message that goes next, of those that nobody has claimed in a session that goes on.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn next_message(
        &self,
        is_over: &mut dyn FnMut(Party) -> bool,
    ) -> Result<Option<QueuedMessage>, ObjectError> {
        let newest = self.load(object::NEXT_ORDER);
        let age = |message: &QueuedMessage| newest.wrapping_sub(message.order);
        let mut next: Option<QueuedMessage> = None;
        for index in self.entries() {
            let Some(found) = self.entry(index)? else {
                continue;
            };
            let goes_first =
                next.is_none_or(|next| (found.priority, age(&found)) > (next.priority, age(&next)));
            if goes_first && self.claimant(found).is_none_or(&mut *is_over) {
                next = Some(found);
            }
        }
        Ok(next)
    }

    /// Nobody but `party` takes the message from now on, as long as its session goes on.
    pub fn claim(&mut self, message: QueuedMessage, party: Party) {
        let at = entry_at(message.place);
        self.set(at + entry::CLAIM_ROW, u32::from(party.member.0) + 1);
        self.set(at + entry::CLAIM_SESSION, party.session);
        self.commit();
    }

    /// The message is anybody's again, at its old place.
    pub fn end_claim(&mut self, message: QueuedMessage) {
        self.set(entry_at(message.place) + entry::CLAIM_ROW, 0);
        self.commit();
    }

    /// The message that `party` has claimed, by its [order](QueuedMessage::order).
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn claimed(&self, party: Party, order: u32) -> Result<Option<QueuedMessage>, ObjectError> {
        for index in 0..MESSAGES_MAX {
            let found = self.entry(index)?.filter(|found| found.order == order);
            if let Some(found) = found.filter(|&found| self.claimant(found) == Some(party)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// One that cannot be a participant's is nobody's claim.
    fn claimant(&self, message: QueuedMessage) -> Option<Party> {
        let at = entry_at(message.place);
        let row = self.load(at + entry::CLAIM_ROW).checked_sub(1)?;
        Some(Party {
            member: MemberIndex(u8::try_from(row).ok()?),
            session: self.load(at + entry::CLAIM_SESSION),
        })
    }

    /// Notes a message on its way in. Then the slot goes to the store, and then
    /// [`insert`](Self::insert).
    pub fn begin_insert(&mut self, priority: u32, descriptor: Descriptor) -> QueuedMessage {
        let message = QueuedMessage {
            priority,
            order: self.load(object::NEXT_ORDER),
            descriptor,
            place: 0,
        };
        self.stage_moving(Some(message));
        self.commit();
        message
    }

    /// The message is in the queue: from now on it is accepted. With `notifies` it came into an
    /// empty queue, so a registration to be notified ends.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn insert(&mut self, message: QueuedMessage, notifies: bool) -> Result<(), ObjectError> {
        let free = self
            .entries()
            .find(|&index| self.load(entry_at(index)) == 0);
        let Some(index) = free else {
            return Err(self.damaged("the number of messages", MESSAGES_MAX as u32));
        };
        self.stage_entry(entry_at(index), message);
        self.set(entry_at(index) + entry::CLAIM_ROW, 0);
        self.set(object::MOVING, 0);
        if message.order == self.load(object::NEXT_ORDER) {
            self.count_up(object::NEXT_ORDER, 1);
            self.count_up(object::ACCEPTED, 1);
        }
        if notifies && self.load(object::NOTIFY_ROW) != 0 {
            self.set(object::NOTIFY_ROW, 0);
            self.set(object::NOTIFIED, self.load(object::NOTIFY_NUMBER));
        }
        self.commit();
        Ok(())
    }

    /// Takes a message out of the queue and notes it on its way out. Then its slot goes from the
    /// store to the receiver, and then [`end_move`](Self::end_move).
    pub fn begin_remove(&mut self, message: QueuedMessage) {
        self.set(entry_at(message.place), 0);
        self.stage_moving(Some(message));
        self.count_up(object::DELIVERED, 1);
        self.commit();
    }

    /// The message that was on its way has arrived, or stayed where it was.
    pub fn end_move(&mut self) {
        self.stage_moving(None);
        self.commit();
    }

    /// A message that was on its way when its mover died. Where its slot belongs to the store, it
    /// goes back by [`insert`](Self::insert), else [`end_move`](Self::end_move).
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn moving(&self) -> Result<Option<QueuedMessage>, ObjectError> {
        if self.load(object::MOVING) == 0 {
            return Ok(None);
        }
        self.read_entry(object::MOVING_DESCRIPTOR, 0)
    }

    /// Takes an entry away whose slot the store does not hold.
    pub fn drop_message(&mut self, message: QueuedMessage) {
        self.set(entry_at(message.place), 0);
        self.commit();
    }

    /// Who is to be notified.
    pub fn registrant(&self) -> Option<Registrant> {
        let row = self.load(object::NOTIFY_ROW).checked_sub(1)?;
        Some(Registrant {
            party: Party {
                member: MemberIndex(u8::try_from(row).ok()?),
                session: self.load(object::NOTIFY_SESSION),
            },
            number: self.load(object::NOTIFY_NUMBER),
        })
    }

    /// Registers one, or nobody. Returns the number of the registration.
    pub fn register(&mut self, party: Option<Party>) -> u32 {
        let number = self.load(object::NOTIFY_NUMBER).wrapping_add(1);
        match party {
            None => self.set(object::NOTIFY_ROW, 0),
            Some(party) => {
                self.set(object::NOTIFY_ROW, u32::from(party.member.0) + 1);
                self.set(object::NOTIFY_SESSION, party.session);
                self.set(object::NOTIFY_NUMBER, number);
            }
        }
        self.commit();
        number
    }

    /// Has the registration of that number ended with a message?
    pub fn is_notified(&self, number: u32) -> bool {
        self.load(object::NOTIFIED) == number
    }

    fn entries(&self) -> Range<usize> {
        entries(self.load(object::MESSAGES_LIMIT))
    }

    fn entry(&self, index: usize) -> Result<Option<QueuedMessage>, ObjectError> {
        self.read_entry(entry_at(index), index)
    }

    fn read_entry(&self, at: usize, place: usize) -> Result<Option<QueuedMessage>, ObjectError> {
        let Some(priority) = self.load(at + entry::PRIORITY).checked_sub(1) else {
            return Ok(None);
        };
        if priority >= PRIORITIES {
            return Err(self.damaged("the priority of a message", priority));
        }
        let word = |index: usize| self.load(at + entry::DESCRIPTOR + index * 4);
        Ok(Some(QueuedMessage {
            priority,
            order: self.load(at + entry::ORDER),
            descriptor: Descriptor::from_words(core::array::from_fn(word)),
            place,
        }))
    }

    fn stage_entry(&mut self, at: usize, message: QueuedMessage) {
        self.set(at + entry::PRIORITY, message.priority + 1);
        self.set(at + entry::ORDER, message.order);
        for (index, word) in message.descriptor.to_words().into_iter().enumerate() {
            self.set(at + entry::DESCRIPTOR + index * 4, word);
        }
    }

    fn stage_moving(&mut self, message: Option<QueuedMessage>) {
        self.set(object::MOVING, u32::from(message.is_some()));
        if let Some(message) = message {
            self.stage_entry(object::MOVING_DESCRIPTOR, message);
        }
    }
}
