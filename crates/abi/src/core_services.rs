//! The services that an agent has for its core (`spec/services.md`, "Services for a core"): the
//! endpoint, its type, its methods, and what is said of a segment.

/// The endpoint, and the end of its channel's name.
pub const ENDPOINT: &str = "core/services";

/// What the endpoint carries, with its version.
pub const TYPE: &str = "hythe.services/1";

/// Word `type` of the endpoint's record: FNV-1a of [`TYPE`].
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

    /// The processor has stopped a task of the core.
    pub const TASK_EVENT: u32 = 0x8000_0031;
}

/// The channel of events about a core, beside that of [`ENDPOINT`].
pub const EVENTS: &str = "core/events";

/// Event of [`EVENTS`]: a task was stopped by the processor.
pub const EVENT_TASK_FAULTED: u8 = 0;

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
