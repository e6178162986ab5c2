//! Named semaphores and message queues of a pool, the file `objects` (`spec/objects.md`). Little
//! endian.

/// First eight bytes of the file: "HYTHEOB" and the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HYTHEOB\x01");
/// Most objects of a pool.
pub const OBJECTS_MAX: usize = 64;
/// Bytes of the header, and where the first object stands.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of an object.
pub const OBJECT_BYTES: usize = 8192;
/// Bytes of the whole file.
pub const FILE_BYTES: usize = HEADER_BYTES + OBJECTS_MAX * OBJECT_BYTES;
/// Bytes of a name, without the slash that it starts with in POSIX.
pub const NAME_BYTES: usize = 64;
/// Largest value of a semaphore: `SEM_VALUE_MAX` of POSIX's least.
pub const VALUE_MAX: u32 = 32767;
/// Holders of a semaphore that are known one by one.
pub const HOLDERS_MAX: usize = 32;
/// Most messages of a queue.
pub const MESSAGES_MAX: usize = 64;
/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: u32 = 65536;
/// Priorities are smaller: `MQ_PRIO_MAX` of POSIX's least.
pub const PRIORITIES: u32 = 32;
/// Words that one operation changes at most.
pub const UNDO_MAX: usize = 24;
/// Participants that can have an object open.
pub const OPENERS_MAX: usize = 256;

/// Offsets in the header.
pub mod header {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    pub const MAGIC: usize = 0;
    /// Who makes, opens and closes objects.
    pub const LOCK: usize = 8;
    /// Changes with every object that somebody watches.
    pub const CHANGES: usize = 16;
    /// How many wait for [`CHANGES`].
    pub const WATCHERS: usize = 20;
    /// Raised by one for each object.
    pub const NEXT_GENERATION: usize = 24;
    pub const BYTES: usize = 28;
}

/// Values of [`object::STATE`].
pub mod state {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    pub const FREE: u32 = 0;
    pub const NAMED: u32 = 1;
    /// Has no name any more, and is open still.
    pub const UNLINKED: u32 = 2;
}

/// Values of [`object::KIND`].
pub mod kind {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    pub const SEMAPHORE: u32 = 1;
    pub const MESSAGE_QUEUE: u32 = 2;
}

/// Offsets in an object.
pub mod object {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    pub const STATE: usize = 0;
    pub const KIND: usize = 4;
    pub const GENERATION: usize = 8;
    /// 1: what a dead holder held comes back at once.
    pub const FLAGS: usize = 12;
    /// Who changes it: session in the upper half, participant plus one below.
    pub const LOCK: usize = 16;
    pub const MODE: usize = 24;
    pub const UID: usize = 28;
    pub const GID: usize = 32;
    /// Changes with each change.
    pub const CHANGED: usize = 36;
    /// How many sleep on [`CHANGED`].
    pub const SLEEPERS: usize = 40;
    /// Words of an operation that is under way; 0: none.
    pub const UNDO_COUNT: usize = 44;
    pub const NAME: usize = 64;

    /// A semaphore's value.
    pub const VALUE: usize = 128;
    /// Raised by one for each hold or message.
    pub const NEXT_ORDER: usize = 132;
    /// Counts that dead holders held and nobody gave back.
    pub const ABANDONED: usize = 136;
    /// 1: the next wait reports a dead holder.
    pub const OWNER_DEAD: usize = 140;
    /// Posts, or messages accepted.
    pub const ACCEPTED: usize = 144;
    /// Waits that were granted, or messages delivered.
    pub const DELIVERED: usize = 148;
    pub const OWNERS_DIED: usize = 152;
    /// Counts given back for dead holders.
    pub const RECOVERED: usize = 156;
    /// Counts taken while the table of holders was full.
    pub const UNTRACKED: usize = 160;

    /// A queue's most messages, and bytes of a message.
    pub const MESSAGES_LIMIT: usize = 164;
    pub const MESSAGE_BYTES: usize = 168;
    /// Who is notified of a message: its participant plus one, session, and registration.
    pub const NOTIFY_ROW: usize = 172;
    pub const NOTIFY_SESSION: usize = 176;
    pub const NOTIFY_NUMBER: usize = 180;
    /// The registration that a message has ended last.
    pub const NOTIFIED: usize = 184;
    /// 1: the slot of the descriptor behind it moves between a participant and the store.
    pub const MOVING: usize = 188;
    pub const MOVING_DESCRIPTOR: usize = 192;

    pub const UNDO: usize = 256;
    pub const HOLDERS: usize = 512;
    pub const ENTRIES: usize = 1536;
    pub const OPENERS: usize = 4096;
}

/// Offsets in a word to be put back.
pub mod undo {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    /// Of the word, from the object's start.
    pub const OFFSET: usize = 0;
    pub const BEFORE: usize = 4;
    pub const BYTES: usize = 8;
}

/// Offsets in a holder.
pub mod holder {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    /// Participant plus one.
    pub const ROW: usize = 0;
    pub const SESSION: usize = 4;
    /// Of a core; 0: of a process.
    pub const TASK: usize = 8;
    /// 0: the record is free.
    pub const COUNT: usize = 12;
    /// Of its oldest hold.
    pub const ORDER: usize = 16;
    pub const BYTES: usize = 32;
}

/// Offsets in a message.
pub mod entry {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    /// 1 and the priority; 0: the record is free.
    pub const PRIORITY: usize = 0;
    pub const ORDER: usize = 4;
    pub const DESCRIPTOR: usize = 8;
    /// 1 and the participant that hands the message to a core at this moment; 0: nobody does.
    pub const CLAIM_ROW: usize = 24;
    pub const CLAIM_SESSION: usize = 28;
    pub const BYTES: usize = 32;
}

/// Offsets in the record of a participant that has the object open.
pub mod opener {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/objects.md"
    )]
    /// 0: it has not.
    pub const SESSION: usize = 0;
    /// Receivers that wait for a message.
    pub const RECEIVERS: usize = 4;
    pub const BYTES: usize = 8;
}
