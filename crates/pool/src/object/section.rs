//! The right to change one object, and changes that happen as a whole.
//!
//! The lock is one cell: 0, or its owner. Its owner alone writes the object's other words. A
//! change notes the words as they were, then their number, stores the new ones, and sets the number
//! to 0: that store is the moment at which it has happened. A process that is killed stops between
//! two stores, so the next owner finds either no number, or all the words to put back. Every store
//! is a release: it comes behind the ones before it, also for the compiler.

use hythe_abi::objects::{OBJECT_BYTES, UNDO_MAX, object, undo};
use hythe_memory::{Memory, Ordering};

use super::{ObjectError, Party};
use crate::tables::members::MemberIndex;

/// What the lock's cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u64);

impl Owner {
    /// The participant that has the lock, if the cell can be one's.
    #[must_use]
    pub fn party(self) -> Option<Party> {
        let row = u8::try_from((self.0 as u32).checked_sub(1)?).ok()?;
        let session = (self.0 >> 32) as u32;
        (session != 0).then_some(Party {
            member: MemberIndex(row),
            session,
        })
    }
}

impl From<Party> for Owner {
    fn from(party: Party) -> Self {
        Self(u64::from(party.session) << 32 | (u64::from(party.member.0) + 1))
    }
}

/// The lock's owner is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionTaken(pub Owner);

/// Takes the lock at `at` if it is free, or from exactly the owner that is proven dead.
///
/// # Errors
/// Who has it.
pub(super) fn acquire<M: Memory>(
    memory: &M,
    at: usize,
    me: Owner,
    dead: Option<Owner>,
) -> Result<(), SectionTaken> {
    let expected = dead.map_or(0, |owner| owner.0);
    // Acquire pairs with the release in `release`: what the last owner stored is seen.
    memory
        .replace_cell(at, expected, me.0)
        .map_err(|found| SectionTaken(Owner(found)))
}

/// Gives the lock back.
pub(super) fn release<M: Memory>(memory: &M, at: usize, me: Owner) {
    // If somebody wrote over it, it is theirs to make good.
    let _ = memory.replace_cell(at, me.0, 0);
}

/// One object, changed by nobody else until this value goes.
#[derive(Debug)]
pub struct Section<'m, M: Memory> {
    memory: &'m M,
    /// The object's first byte.
    base: usize,
    index: usize,
    me: Owner,
    /// New words, by offset in the object.
    staged: [(u32, u32); UNDO_MAX],
    count: usize,
}

impl<M: Memory> Drop for Section<'_, M> {
    fn drop(&mut self) {
        release(self.memory, self.base + object::LOCK, self.me);
    }
}

impl<'m, M: Memory> Section<'m, M> {
    /// Takes the lock of an object, and puts back what a dead owner left half done.
    pub(super) fn enter(
        memory: &'m M,
        (index, base): (usize, usize),
        me: Owner,
        dead: Option<Owner>,
    ) -> Result<Self, SectionTaken> {
        acquire(memory, base + object::LOCK, me, dead)?;
        Ok(Self {
            memory,
            base,
            index,
            me,
            staged: [(0, 0); UNDO_MAX],
            count: 0,
        })
    }

    /// Puts back the words of an operation whose owner died in it. Before anything else is read.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn settle(&mut self) -> Result<(), ObjectError> {
        let count = self.load(object::UNDO_COUNT);
        if count == 0 {
            return Ok(());
        }
        if count as usize > UNDO_MAX {
            return Err(self.damaged("the number of words to put back", count));
        }
        for index in 0..count as usize {
            let at = object::UNDO + index * undo::BYTES;
            let offset = self.load(at + undo::OFFSET);
            if !is_changeable(offset) {
                return Err(self.damaged("the place of a word to put back", offset));
            }
            let before = self.load(at + undo::BEFORE);
            self.store(offset as usize, before);
        }
        self.store(object::UNDO_COUNT, 0);
        Ok(())
    }

    /// A word of the object.
    #[inline]
    pub(super) fn load(&self, at: usize) -> u32 {
        // Relaxed: the lock has put it in order.
        self.memory.load(self.base + at, Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, at: usize, value: u32) {
        self.memory.store(self.base + at, value, Ordering::Release);
    }

    /// Will be `value` with the next [`commit`](Self::commit).
    pub(super) fn set(&mut self, at: usize, value: u32) {
        debug_assert!(is_changeable(at as u32), "{at} is no word that changes");
        // The largest operation is known, and its number of words is the table's size.
        if let Some(place) = self.staged.get_mut(self.count) {
            *place = (at as u32, value);
            self.count += 1;
        }
    }

    /// A word that counts, one more.
    pub(super) fn count_up(&mut self, at: usize, by: u32) {
        let now = self.load(at);
        self.set(at, now.wrapping_add(by));
    }

    /// All that was set happens, or nothing.
    pub(super) fn commit(&mut self) {
        let staged = self.staged;
        let staged = &staged[..self.count];
        for (index, (offset, _)) in staged.iter().enumerate() {
            let at = object::UNDO + index * undo::BYTES;
            let before = self.load(*offset as usize);
            self.store(at + undo::OFFSET, *offset);
            self.store(at + undo::BEFORE, before);
        }
        self.store(object::UNDO_COUNT, staged.len() as u32);
        for (offset, value) in staged {
            self.store(*offset as usize, *value);
        }
        self.store(object::UNDO_COUNT, 0);
        self.count = 0;
        // Whoever sleeps on it looks again; a wake is the node's.
        let changed = self.load(object::CHANGED);
        self.store(object::CHANGED, changed.wrapping_add(1));
    }

    pub(super) const fn damaged(&self, what: &'static str, found: u32) -> ObjectError {
        ObjectError::Damaged {
            object: self.index,
            what,
            found,
        }
    }
}

/// Is it a word that operations change, and none of the record of how?
const fn is_changeable(offset: u32) -> bool {
    let offset = offset as usize;
    let is_counter = offset >= object::VALUE && offset < object::UNDO;
    let is_table = offset >= object::HOLDERS && offset < OBJECT_BYTES;
    offset.is_multiple_of(4) && (is_counter || is_table)
}
