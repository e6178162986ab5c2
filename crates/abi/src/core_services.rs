//! The services that an agent has for its core (`spec/services.md`, "Services for a core"): the
//! endpoints, their type, the methods, and what is said of a segment.

/// The endpoint, and the end of its channel's name.
pub const ENDPOINT: &str = "core/services";

/// The endpoint for what is too large for the other: messages of queues.
pub const MESSAGES_ENDPOINT: &str = "core/messages";

/// What the endpoints carry, with its version.
pub const TYPE: &str = "hythe.services/1";

/// Word `type` of an endpoint's record: FNV-1a of [`TYPE`].
pub const TYPE_HASH: u32 = fnv1a(TYPE.as_bytes());

/// Name of the same type as a channel has it; its size is that of a call's header, aligned to 1.
pub const TYPE_NAME: &str = "hythe.services";

/// Version of the same type as a channel has it.
pub const TYPE_VERSION: u32 = 1;

/// An agent's empty slots take requests of so many bytes. Replies may have more.
pub const REQUEST_BYTES: u32 = 1024;

/// Methods.
pub mod method {
    /// Finds a segment or makes it.
    pub const SHM_GET: u32 = 0x8000_0001;
    /// Attaches one to the core.
    pub const SHM_ATTACH: u32 = 0x8000_0002;
    /// Gives one attachment up.
    pub const SHM_DETACH: u32 = 0x8000_0003;
    /// Says what the kernel knows of a segment.
    pub const SHM_STAT: u32 = 0x8000_0004;
    /// Changes owner, group and mode.
    pub const SHM_SET: u32 = 0x8000_0005;
    /// Removes a segment; it goes with its last attachment.
    pub const SHM_REMOVE: u32 = 0x8000_0006;

    /// Finds a semaphore or makes it.
    pub const SEM_OPEN: u32 = 0x8000_0010;
    /// Closes a handle of one.
    pub const SEM_CLOSE: u32 = 0x8000_0011;
    /// Takes its name away.
    pub const SEM_UNLINK: u32 = 0x8000_0012;
    /// Takes one count, waiting for it.
    pub const SEM_WAIT: u32 = 0x8000_0013;
    /// Adds one count.
    pub const SEM_POST: u32 = 0x8000_0014;
    /// Says its value.
    pub const SEM_VALUE: u32 = 0x8000_0015;
    /// Gives back what dead holders had.
    pub const SEM_RECOVER: u32 = 0x8000_0016;

    /// Finds a message queue or makes it.
    pub const MQ_OPEN: u32 = 0x8000_0020;
    /// Closes a handle of one.
    pub const MQ_CLOSE: u32 = 0x8000_0021;
    /// Takes its name away.
    pub const MQ_UNLINK: u32 = 0x8000_0022;
    /// Gets a message, waiting for it.
    pub const MQ_RECEIVE: u32 = 0x8000_0023;
    /// Says how many messages wait.
    pub const MQ_ATTRIBUTES: u32 = 0x8000_0024;
    /// Waits for a notification.
    pub const MQ_NOTICE: u32 = 0x8000_0025;
    /// Asks for a notification, or for none.
    pub const MQ_NOTIFY: u32 = 0x8000_0026;
    /// Waits for a place for a message.
    pub const MQ_WAIT_SPACE: u32 = 0x8000_0027;
    /// Sends a message, without waiting.
    pub const MQ_SEND: u32 = 0x8000_0028;
    /// The core has a message that it got; not answered.
    pub const MQ_TAKEN: u32 = 0x8000_0029;

    /// A task of the core has ended; not answered.
    pub const TASK_ENDED: u32 = 0x8000_0030;
    /// The processor has stopped a task of the core; not answered.
    pub const TASK_EVENT: u32 = 0x8000_0031;
}

/// The channel of events about a core, beside that of [`ENDPOINT`].
pub const EVENTS: &str = "core/events";

/// Event of [`EVENTS`]: a task was stopped by the processor.
pub const EVENT_TASK_FAULTED: u8 = 0;

/// Bits of `flags` of [`SEM_OPEN`](method::SEM_OPEN) and [`MQ_OPEN`](method::MQ_OPEN), as on
/// Linux; the lowest two of a queue are its directions, 0 to receive, 1 to send, 2 for both.
pub const O_CREATE: u32 = 0o100;
/// Refused if there is one.
pub const O_EXCLUSIVE: u32 = 0o200;
/// Of a semaphore: counts of a dead holder come back at once.
pub const SEM_RECOVER: u32 = 0x1_0000;

/// Calls of a core that may wait at once: each is an open request, and others must find one.
pub const WAITS_MAX: usize = 20;

/// Bytes of what is said of a segment.
pub const SEGMENT_STATUS_BYTES: usize = 88;

/// What is said of a segment: behind the header of the reply to
/// [`SHM_STAT`](method::SHM_STAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStatus {
    /// Its key; 0 for a private one, and for one that was removed.
    pub key: i32,
    /// Its owner and the owner's group.
    pub owner: [u32; 2],
    /// Its maker and the maker's group.
    pub creator: [u32; 2],
    /// Nine bits of permission, and [`SEGMENT_REMOVED`].
    pub mode: u32,
    /// 0 Linux, 1 the core.
    pub made_on: u32,
    /// First page in the area.
    pub page: u32,
    /// Its size.
    pub bytes: u64,
    /// When it was attached, detached and changed last, in seconds since 1970; 0: never.
    pub times: [i64; 3],
    /// How many times it is attached: by all, and by the core.
    pub attached: [u32; 2],
    /// The processes that made it, and that attached or detached it last.
    pub processes: [u32; 2],
    /// The order of creation.
    pub order: u64,
}

/// In the mode of a segment: it was removed, and goes with its last attachment.
pub const SEGMENT_REMOVED: u32 = 0o1000;

impl SegmentStatus {
    /// The bytes as they stand behind the header.
    #[must_use]
    pub fn to_bytes(self) -> [u8; SEGMENT_STATUS_BYTES] {
        let long = |value: u64| [value as u32, (value >> 32) as u32];
        let [attach, detach, change] = self.times.map(|time| long(time.cast_unsigned()));
        let pairs = [
            [self.key.cast_unsigned(), self.owner[0]],
            [self.owner[1], self.creator[0]],
            [self.creator[1], self.mode],
            [self.made_on, self.page],
            long(self.bytes),
            attach,
            detach,
            change,
            self.attached,
            self.processes,
            long(self.order),
        ];
        let mut bytes = [0; SEGMENT_STATUS_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(pairs.as_flattened()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// 32 bits of FNV-1a.
const fn fnv1a(bytes: &[u8]) -> u32 {
    let mut hash: u32 = 0x811C_9DC5;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}
