//! The table of a core's segments, `segments.N` (`spec/segments.md`). Little endian.

/// First eight bytes of the table: "HYTHESG" and a one.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HYTHESG\x01");
/// Version of this layout.
pub const VERSION: u32 = 1;
/// Most segments of one core.
pub const SEGMENTS_MAX: usize = 128;
/// Bytes of the header, and where the first record stands.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 128;
/// Bytes of the whole table.
pub const FILE_BYTES: usize = HEADER_BYTES + SEGMENTS_MAX * RECORD_BYTES;
/// Unit of places and sizes in the area.
pub const PAGE_BYTES: usize = 4096;

/// Offsets in the header. A table of zeroes is empty and has none yet.
pub mod header {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/segments.md"
    )]
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const CAPACITY: usize = 12;
    /// Raised by one for each segment.
    pub const NEXT_ORDER: usize = 16;
    /// Inode of the IPC namespace whose segments stand in it.
    pub const NAMESPACE: usize = 24;
    pub const BYTES: usize = 32;
}

/// Offsets in a record.
pub mod record {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/segments.md"
    )]
    /// 0 free, 1 being made, 2 ready.
    pub const STATE: usize = 0;
    pub const ID: usize = 4;
    pub const KEY: usize = 8;
    /// First page, counted from the start of the area.
    pub const PAGE: usize = 12;
    /// Pages that are its own.
    pub const PAGES: usize = 16;
    /// 0 Linux, 1 the core.
    pub const MADE_ON: usize = 20;
    pub const SEGMENT_BYTES: usize = 24;
    /// The order of creation.
    pub const ORDER: usize = 32;
    pub const CREATOR: usize = 40;
    /// How many times the core has it attached, and which core that is.
    pub const CORE_ATTACHED: usize = 44;
    pub const CREATOR_START: usize = 48;
    /// When it was begun, in seconds since 1970.
    pub const BEGUN: usize = 56;
    pub const CORE: usize = 64;
    pub const CORE_START: usize = 72;
    /// The creator's name, zero padded.
    pub const NAME: usize = 80;
    pub const NAME_BYTES: usize = 32;
    /// Inode of the creator's PID namespace.
    pub const PID_NAMESPACE: usize = 112;
    /// Inode of the core's.
    pub const CORE_NAMESPACE: usize = 120;
}
