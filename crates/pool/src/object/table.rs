//! The file: names, and who has what open.
//!
//! What stands in a header word of the file, or an object's name, kind, mode and openers, is
//! changed under the lock of the table, by stores each of which stands for itself: an object
//! appears by its state, which is stored last. So a dead owner of that lock leaves nothing to
//! put back.

use hythe_abi::objects::{
    FILE_BYTES, HEADER_BYTES, MAGIC, MESSAGE_BYTES_MAX, MESSAGES_MAX, NAME_BYTES, OBJECT_BYTES,
    OBJECTS_MAX, OPENERS_MAX, header, kind, object, opener, state,
};
use hythe_memory::{Memory, Ordering, read_name, write_name};

use super::section::{Owner, Section, SectionTaken, acquire, release};
use super::{ObjectError, Party};
use crate::tables::members::MemberIndex;

/// Number of an object, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectIndex(usize);

impl ObjectIndex {
    /// As a number.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0
    }

    const fn base(self) -> usize {
        HEADER_BYTES + self.0 * OBJECT_BYTES
    }
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A counting semaphore.
    Semaphore,
    /// A queue of messages with priorities.
    MessageQueue,
}

/// An object as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its number.
    pub index: ObjectIndex,
    /// What it is.
    pub kind: ObjectKind,
    /// Tells it from an earlier one of the same number.
    pub generation: u32,
    /// Who may use it, as of a file.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// A queue's most messages.
    pub messages_limit: u32,
    /// Most bytes of a message.
    pub message_bytes: u32,
}

/// An object to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    /// Its name, without a slash.
    pub name: &'a str,
    /// Who may use it, as of a file.
    pub mode: u32,
    /// Its owner and group.
    pub owner: (u32, u32),
    /// 1: counts of dead holders come back at once.
    pub flags: u32,
    /// A semaphore's value; a queue has none.
    pub value: u32,
    /// A queue's most messages, and bytes of a message; a semaphore has none.
    pub messages: Option<(u32, u32)>,
}

/// The file `objects`.
#[derive(Clone, Debug)]
pub struct ObjectTable<M> {
    memory: M,
}

impl<M: Memory> ObjectTable<M> {
    /// The file in `memory`. One of zeroes is empty.
    ///
    /// # Errors
    /// [`ObjectError::NotObjects`].
    pub fn open(memory: M) -> Result<Self, ObjectError> {
        if memory.bytes() < FILE_BYTES {
            return Err(ObjectError::NotObjects("it is too short"));
        }
        match memory.replace_cell(header::MAGIC, 0, MAGIC) {
            Ok(()) | Err(MAGIC) => Ok(Self { memory }),
            Err(_) => Err(ObjectError::NotObjects("its first bytes are others")),
        }
    }

    /// The words.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Where the word stands that changes with an object.
    #[must_use]
    pub const fn changed_at(index: ObjectIndex) -> usize {
        index.base() + object::CHANGED
    }

    /// Takes the lock of the table, if it is free or `dead`'s.
    ///
    /// # Errors
    /// Who has it.
    pub fn lock(&self, me: Owner, dead: Option<Owner>) -> Result<(), SectionTaken> {
        acquire(&self.memory, header::LOCK, me, dead)
    }

    /// Gives the lock of the table back.
    pub fn unlock(&self, me: Owner) {
        release(&self.memory, header::LOCK, me);
    }

    /// Takes the lock of an object, if it is free or `dead`'s. Call [`Section::settle`] first.
    ///
    /// # Errors
    /// Who has it.
    pub fn enter(
        &self,
        index: ObjectIndex,
        me: Owner,
        dead: Option<Owner>,
    ) -> Result<Section<'_, M>, SectionTaken> {
        Section::enter(&self.memory, (index.0, index.base()), me, dead)
    }

    /// An object that has a name, or is open still.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`]; [`ObjectError::Gone`] if there is none of this number.
    pub fn info(&self, index: ObjectIndex) -> Result<ObjectInfo, ObjectError> {
        let word = |at| self.word(index, at);
        let damaged = |what, found| ObjectError::Damaged {
            object: index.0,
            what,
            found,
        };
        match word(object::STATE) {
            state::FREE => return Err(ObjectError::Gone),
            state::NAMED | state::UNLINKED => {}
            other => return Err(damaged("the state", other)),
        }
        let (messages_limit, message_bytes) =
            (word(object::MESSAGES_LIMIT), word(object::MESSAGE_BYTES));
        let kind = match word(object::KIND) {
            kind::SEMAPHORE => ObjectKind::Semaphore,
            kind::MESSAGE_QUEUE
                if messages_limit == 0 || messages_limit as usize > MESSAGES_MAX =>
            {
                return Err(damaged("the most messages of a queue", messages_limit));
            }
            kind::MESSAGE_QUEUE if message_bytes > MESSAGE_BYTES_MAX => {
                return Err(damaged("the most bytes of a message", message_bytes));
            }
            kind::MESSAGE_QUEUE => ObjectKind::MessageQueue,
            other => return Err(damaged("the kind", other)),
        };
        Ok(ObjectInfo {
            index,
            kind,
            generation: word(object::GENERATION),
            mode: word(object::MODE),
            uid: word(object::UID),
            gid: word(object::GID),
            messages_limit,
            message_bytes,
        })
    }

    /// All numbers of objects.
    pub fn indices() -> impl Iterator<Item = ObjectIndex> {
        (0..OBJECTS_MAX).map(ObjectIndex)
    }

    /// An object's name.
    pub fn name(&self, index: ObjectIndex) -> String {
        read_name(&self.memory, index.base() + object::NAME, NAME_BYTES)
    }

    /// The state of an object, as it stands there.
    pub fn state(&self, index: ObjectIndex) -> u32 {
        self.word(index, object::STATE)
    }

    pub(super) fn word(&self, index: ObjectIndex, at: usize) -> u32 {
        self.memory.load(index.base() + at, Ordering::Acquire)
    }

    /// The object of that kind and name. With the lock of the table.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`].
    pub fn find(&self, wanted: ObjectKind, name: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        for index in Self::indices() {
            if self.state(index) == state::NAMED && self.has_name(index, name) {
                let info = self.info(index)?;
                if info.kind == wanted {
                    return Ok(Some(info));
                }
            }
        }
        Ok(None)
    }

    /// Compares without a copy on the heap.
    fn has_name(&self, index: ObjectIndex, name: &str) -> bool {
        let mut bytes = name.bytes();
        let base = index.base() + object::NAME;
        let mut words = (base..base + NAME_BYTES).step_by(4).flat_map(|at| {
            let word = self.memory.load(at, Ordering::Relaxed);
            word.to_le_bytes()
        });
        words.all(|byte| byte == bytes.next().unwrap_or(0)) && bytes.next().is_none()
    }

    /// Makes an object. With the lock of the table, after [`find`](Self::find).
    ///
    /// # Errors
    /// [`ObjectError::TableFull`].
    pub fn make(&self, new: &NewObject<'_>) -> Result<ObjectIndex, ObjectError> {
        let limit = OBJECTS_MAX;
        let mut indices = Self::indices();
        let index = indices
            .find(|&index| self.state(index) == state::FREE)
            .ok_or(ObjectError::TableFull { limit })?;
        let base = index.base();
        for at in (object::CHANGED..OBJECT_BYTES).step_by(4) {
            self.memory.store(base + at, 0, Ordering::Release);
        }
        let generation = self.memory.load(header::NEXT_GENERATION, Ordering::Relaxed);
        let generation = generation.wrapping_add(1);
        self.memory
            .store(header::NEXT_GENERATION, generation, Ordering::Release);
        let (messages_limit, message_bytes) = new.messages.unwrap_or((0, 0));
        let number = match new.messages {
            None => kind::SEMAPHORE,
            Some(_) => kind::MESSAGE_QUEUE,
        };
        for (at, value) in [
            (object::KIND, number),
            (object::GENERATION, generation),
            (object::FLAGS, new.flags),
            (object::MODE, new.mode),
            (object::UID, new.owner.0),
            (object::GID, new.owner.1),
            (object::VALUE, new.value),
            (object::MESSAGES_LIMIT, messages_limit),
            (object::MESSAGE_BYTES, message_bytes),
        ] {
            self.memory.store(base + at, value, Ordering::Release);
        }
        self.memory
            .store_cell(base + object::LOCK, 0, Ordering::Release);
        write_name(&self.memory, base + object::NAME, NAME_BYTES, new.name);
        // Pairs with the acquire load in `state`: whoever sees it sees the rest.
        self.put_state(index, state::NAMED);
        Ok(index)
    }

    /// Takes an object's name away. With the lock of the table.
    pub fn unlink(&self, index: ObjectIndex) {
        self.put_state(index, state::UNLINKED);
    }

    /// The object's place is free. With the lock of the table; nobody has it open.
    pub fn free(&self, index: ObjectIndex) {
        self.put_state(index, state::FREE);
    }

    fn put_state(&self, index: ObjectIndex, value: u32) {
        let at = index.base() + object::STATE;
        self.memory.store(at, value, Ordering::Release);
    }

    /// Notes that a participant has the object open, or not any more. With the lock of the table.
    pub fn set_open(&self, index: ObjectIndex, party: Party, is_open: bool) {
        let at = self.opener_at(index, party.member);
        let session = if is_open { party.session } else { 0 };
        self.memory
            .store(at + opener::RECEIVERS, 0, Ordering::Release);
        self.memory
            .store(at + opener::SESSION, session, Ordering::Release);
    }

    /// Is the object open in a session that `is_dead` does not know of as over?
    pub fn is_open(&self, index: ObjectIndex, is_dead: &mut dyn FnMut(Party) -> bool) -> bool {
        self.openers(index).any(|(party, _)| !is_dead(party))
    }

    /// Who has it open, and how many of its receivers wait for a message.
    pub fn openers(&self, index: ObjectIndex) -> impl Iterator<Item = (Party, u32)> {
        let members = (0..OPENERS_MAX as u16 - 1).map(|member| MemberIndex(member as u8));
        members.filter_map(move |member| {
            let at = self.opener_at(index, member);
            let session = self.memory.load(at + opener::SESSION, Ordering::Acquire);
            let receivers = self.memory.load(at + opener::RECEIVERS, Ordering::Acquire);
            (session != 0).then_some((Party { member, session }, receivers))
        })
    }

    /// One more receiver of the participant waits, or one fewer. By that participant alone.
    pub fn note_receiver(&self, index: ObjectIndex, party: Party, waits: bool) {
        let at = self.opener_at(index, party.member) + opener::RECEIVERS;
        let by = if waits { 1 } else { 1_u32.wrapping_neg() };
        self.memory.add(at, by, Ordering::AcqRel);
    }

    const fn opener_at(&self, index: ObjectIndex, member: MemberIndex) -> usize {
        index.base() + object::OPENERS + member.0 as usize * opener::BYTES
    }
}
