//! A semaphore: a value, and who holds counts taken from it.
//!
//! A wait moves one count from the value to its holder, a post adds one to the value and ends one
//! hold: the own one, else the oldest. So who dies between the two is known, with what it took.

use hythe_abi::objects::{HOLDERS_MAX, VALUE_MAX, holder, object};
use hythe_memory::Memory;

use super::section::Section;
use super::{ObjectError, ObjectIndex, ObjectTable, Party, Who};
use crate::tables::members::MemberIndex;

/// What a look at a semaphore gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One count is the caller's.
    Taken,
    /// The value is 0.
    Empty,
    /// A holder died; nothing was taken. Reported once.
    OwnerDead,
}

impl<M: Memory> ObjectTable<M> {
    /// Is there nothing to take from a semaphore, as its words stand now? Somebody may be changing
    /// it, or have died in a change: only a look with its lock is certain.
    pub fn seems_empty(&self, index: ObjectIndex) -> bool {
        let word = |at| self.word(index, at);
        word(object::VALUE) == 0 && word(object::OWNER_DEAD) == 0
    }
}

/// A record of the table of holders.
#[derive(Clone, Copy, Debug)]
struct Hold {
    at: usize,
    who: Who,
    count: u32,
    order: u32,
}

impl<M: Memory> Section<'_, M> {
    /// The semaphore's value.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn value(&self) -> Result<u32, ObjectError> {
        match self.load(object::VALUE) {
            value if value <= VALUE_MAX => Ok(value),
            value => Err(self.damaged("the value", value)),
        }
    }

    /// Takes one count for `who`, if there is one.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn wait(&mut self, who: Who) -> Result<Wait, ObjectError> {
        if self.load(object::OWNER_DEAD) != 0 {
            self.set(object::OWNER_DEAD, 0);
            self.commit();
            return Ok(Wait::OwnerDead);
        }
        let value = self.value()?;
        if value == 0 {
            return Ok(Wait::Empty);
        }
        self.set(object::VALUE, value - 1);
        self.count_up(object::DELIVERED, 1);
        match self.own_or_free(who)? {
            Some(hold) => self.hold_one_more(hold, who),
            None => self.count_up(object::UNTRACKED, 1),
        }
        self.commit();
        Ok(Wait::Taken)
    }

    fn hold_one_more(&mut self, hold: Hold, who: Who) {
        if hold.count == 0 {
            let order = self.load(object::NEXT_ORDER);
            self.set(object::NEXT_ORDER, order.wrapping_add(1));
            self.set(hold.at + holder::ROW, u32::from(who.party.member.0) + 1);
            self.set(hold.at + holder::SESSION, who.party.session);
            self.set(hold.at + holder::TASK, who.task);
            self.set(hold.at + holder::ORDER, order);
        }
        self.set(hold.at + holder::COUNT, hold.count + 1);
    }

    /// Adds one count; ends one hold of `who`, else the oldest.
    ///
    /// # Errors
    /// [`ObjectError::Overflow`], [`ObjectError::Damaged`].
    pub fn post(&mut self, who: Who) -> Result<(), ObjectError> {
        let value = self.value()?;
        if value == VALUE_MAX {
            return Err(ObjectError::Overflow { limit: VALUE_MAX });
        }
        let ended = self.hold_to_end(who)?;
        self.set(object::VALUE, value + 1);
        self.count_up(object::ACCEPTED, 1);
        if let Some(hold) = ended {
            self.set(hold.at + holder::COUNT, hold.count - 1);
        }
        self.commit();
        Ok(())
    }

    /// Counts that dead holders had come back. Returns how many.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn recover(&mut self) -> Result<u32, ObjectError> {
        let abandoned = self.load(object::ABANDONED);
        let value = self.value()?;
        let back = abandoned.min(VALUE_MAX - value);
        if abandoned == 0 && self.load(object::OWNER_DEAD) == 0 {
            return Ok(0);
        }
        self.set(object::VALUE, value + back);
        self.set(object::ABANDONED, 0);
        self.set(object::OWNER_DEAD, 0);
        self.count_up(object::RECOVERED, back);
        self.commit();
        Ok(back)
    }

    /// Looks which holders have died: each is reported by the next wait, or its counts come back at
    /// once where the semaphore was made so. Returns how many had died.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn settle_holders(
        &mut self,
        is_dead: &mut dyn FnMut(Who) -> bool,
    ) -> Result<u32, ObjectError> {
        let mut died = 0;
        for index in 0..HOLDERS_MAX {
            if let Some(hold) = self.hold(index)?.filter(|hold| is_dead(hold.who)) {
                self.abandon(hold)?;
                died += 1;
            }
        }
        Ok(died)
    }

    fn abandon(&mut self, hold: Hold) -> Result<(), ObjectError> {
        let comes_back = self.load(object::FLAGS) & 1 != 0;
        if comes_back {
            let value = self.value()?;
            let back = hold.count.min(VALUE_MAX - value);
            self.set(object::VALUE, value + back);
            self.count_up(object::RECOVERED, back);
        } else {
            let abandoned = self.load(object::ABANDONED);
            self.set(
                object::ABANDONED,
                abandoned.saturating_add(hold.count).min(VALUE_MAX),
            );
            self.set(object::OWNER_DEAD, 1);
        }
        self.set(hold.at + holder::COUNT, 0);
        self.count_up(object::OWNERS_DIED, 1);
        self.commit();
        Ok(())
    }

    /// Somebody closes the semaphore: what it took is nobody's hold any more.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn forget_holds(&mut self, party: Party) -> Result<(), ObjectError> {
        self.forget_holds_of(&mut |who| who.party == party)
    }

    /// The same for some of a participant's: those of one task, for instance.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn forget_holds_of(
        &mut self,
        is_asked: &mut dyn FnMut(Who) -> bool,
    ) -> Result<(), ObjectError> {
        for index in 0..HOLDERS_MAX {
            if let Some(hold) = self.hold(index)?.filter(|hold| is_asked(hold.who)) {
                self.set(hold.at + holder::COUNT, 0);
                self.commit();
            }
        }
        Ok(())
    }

    /// Counts that dead holders had and nobody gave back.
    pub fn abandoned(&self) -> u32 {
        self.load(object::ABANDONED)
    }

    /// Counts that are held, by whom.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn holders(&self) -> Result<Vec<(Who, u32)>, ObjectError> {
        let mut found = Vec::new();
        for index in 0..HOLDERS_MAX {
            found.extend(self.hold(index)?.map(|hold| (hold.who, hold.count)));
        }
        Ok(found)
    }

    /// A record in use.
    fn hold(&self, index: usize) -> Result<Option<Hold>, ObjectError> {
        let at = object::HOLDERS + index * holder::BYTES;
        let count = self.load(at + holder::COUNT);
        if count == 0 {
            return Ok(None);
        }
        if count > VALUE_MAX {
            return Err(self.damaged("the count of a holder", count));
        }
        let row = self.load(at + holder::ROW);
        let member = row.checked_sub(1).and_then(|row| u8::try_from(row).ok());
        let member = member.ok_or_else(|| self.damaged("the participant of a holder", row))?;
        Ok(Some(Hold {
            at,
            who: Who {
                party: Party {
                    member: MemberIndex(member),
                    session: self.load(at + holder::SESSION),
                },
                task: self.load(at + holder::TASK),
            },
            count,
            order: self.load(at + holder::ORDER),
        }))
    }

    /// The record of `who`, else a free one; `None`: the table is full.
    fn own_or_free(&self, who: Who) -> Result<Option<Hold>, ObjectError> {
        let mut free = None;
        for index in 0..HOLDERS_MAX {
            match self.hold(index)? {
                Some(hold) if hold.who == who => return Ok(Some(hold)),
                None if free.is_none() => {
                    free = Some(Hold {
                        at: object::HOLDERS + index * holder::BYTES,
                        who,
                        count: 0,
                        order: 0,
                    });
                }
                _ => {}
            }
        }
        Ok(free)
    }

    /// The own hold, else the oldest.
    fn hold_to_end(&self, who: Who) -> Result<Option<Hold>, ObjectError> {
        let next = self.load(object::NEXT_ORDER);
        let mut oldest: Option<Hold> = None;
        for index in 0..HOLDERS_MAX {
            let Some(hold) = self.hold(index)? else {
                continue;
            };
            if hold.who == who {
                return Ok(Some(hold));
            }
            let age = |hold: &Hold| next.wrapping_sub(hold.order);
            if oldest.is_none_or(|oldest| age(&hold) > age(&oldest)) {
                oldest = Some(hold);
            }
        }
        Ok(oldest)
    }
}
