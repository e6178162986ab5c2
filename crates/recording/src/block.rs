//! The heads of blocks, and the contents of index and end: bytes to fields and back, nothing more.

use crate::header::{HEADER_BYTES, cell, word};

/// Size of the head in front of each block's content.
pub const BLOCK_HEAD_BYTES: usize = 32;
/// Most records between two indexes.
pub const INDEX_RECORDS: usize = 256;
/// Blocks begin at multiples of this.
const ALIGN_BYTES: u64 = 8;
const ENTRY_BYTES: usize = 16;
const INDEX_FIXED_BYTES: usize = 8;
/// Largest content of an index.
pub(crate) const INDEX_BYTES_MAX: usize = INDEX_FIXED_BYTES + INDEX_RECORDS * ENTRY_BYTES;
/// Size of the content of a block that counts missed messages.
pub(crate) const MISSED_BYTES: usize = 8;
/// Size of the end block's content.
pub(crate) const END_BYTES: usize = 32;
/// Size of the end block with its head.
pub(crate) const END_BLOCK_BYTES: u64 = (BLOCK_HEAD_BYTES + END_BYTES) as u64;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Record,
    Index,
    Missed,
    End,
}

impl Kind {
    const fn mark(self) -> [u8; 4] {
        match self {
            Self::Record => *b"HREC",
            Self::Index => *b"HIDX",
            Self::Missed => *b"HMIS",
            Self::End => *b"HEND",
        }
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) bytes: u32,
    pub(crate) number: u64,
    pub(crate) time_ns: u64,
    pub(crate) checksum: u32,
}

impl Head {
    pub(crate) fn to_bytes(self) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[0..4].copy_from_slice(&self.kind.mark());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32c::crc32c(&bytes[..28]);
        bytes[28..32].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// `None`: nobody wrote that as the head of a block.
    pub(crate) fn from_bytes(bytes: &[u8; BLOCK_HEAD_BYTES]) -> Option<Self> {
        if word(bytes, 28) != crc32c::crc32c(&bytes[..28]) {
            return None;
        }
        let kinds = [Kind::Record, Kind::Index, Kind::Missed, Kind::End];
        let kind = kinds.into_iter().find(|kind| bytes[0..4] == kind.mark())?;
        Some(Self {
            kind,
            bytes: word(bytes, 4),
            number: cell(bytes, 8),
            time_ns: cell(bytes, 16),
            checksum: word(bytes, 24),
        })
    }

    /// Where the block behind this one begins. Saturates: the result is compared with the size of
    /// the file.
    pub(crate) const fn next_position(&self, position: u64) -> u64 {
        position.saturating_add(BLOCK_HEAD_BYTES as u64 + padded(self.bytes))
    }

    /// Where the content ends.
    pub(crate) const fn end_position(&self, position: u64) -> u64 {
        position.saturating_add(BLOCK_HEAD_BYTES as u64 + self.bytes as u64)
    }
}

/// A size with its padding.
pub(crate) const fn padded(bytes: u32) -> u64 {
    (bytes as u64).next_multiple_of(ALIGN_BYTES)
}

/// Can a block begin there?
pub(crate) const fn is_block_position(position: u64) -> bool {
    position >= HEADER_BYTES as u64 && position.is_multiple_of(ALIGN_BYTES)
}

/// A record as an index names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) time_ns: u64,
    pub(crate) position: u64,
}

/// The content of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// Position of the index before it; 0: there is none.
    pub(crate) previous: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Index {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.previous.to_le_bytes().to_vec();
        for entry in &self.entries {
            bytes.extend(entry.time_ns.to_le_bytes());
            bytes.extend(entry.position.to_le_bytes());
        }
        bytes
    }

    /// `None`: that is not the content of an index.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (fixed, entries) = bytes.split_at_checked(INDEX_FIXED_BYTES)?;
        let is_whole = entries.len().is_multiple_of(ENTRY_BYTES) && bytes.len() <= INDEX_BYTES_MAX;
        let entry = |bytes: &[u8]| Entry {
            time_ns: cell(bytes, 0),
            position: cell(bytes, 8),
        };
        is_whole.then(|| Self {
            previous: cell(fixed, 0),
            entries: entries.chunks_exact(ENTRY_BYTES).map(entry).collect(),
        })
    }
}

/// The content of the end block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Position of the last index; 0: there is none.
    pub(crate) last_index: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) dropped: u64,
    /// Where this block stands: the end of a recording inside a payload stands elsewhere.
    pub(crate) position: u64,
}

impl End {
    pub(crate) fn to_bytes(self) -> [u8; END_BYTES] {
        let mut bytes = [0; END_BYTES];
        let cells = [
            self.last_index,
            self.payload_bytes,
            self.dropped,
            self.position,
        ];
        for (place, cell) in bytes.chunks_exact_mut(8).zip(cells) {
            place.copy_from_slice(&cell.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; END_BYTES]) -> Self {
        Self {
            last_index: cell(bytes, 0),
            payload_bytes: cell(bytes, 8),
            dropped: cell(bytes, 16),
            position: cell(bytes, 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        kind: Kind::Record,
        bytes: 13,
        number: 7,
        time_ns: 1 << 40,
        checksum: 0xDEAD_BEEF,
    };

    #[test]
    fn heads_read_as_written_and_any_changed_byte_is_seen() {
        let bytes = HEAD.to_bytes();
        assert_eq!(Head::from_bytes(&bytes), Some(HEAD));
        for at in 0..BLOCK_HEAD_BYTES {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert_eq!(Head::from_bytes(&changed), None, "byte {at}");
        }
        assert_eq!(Head::from_bytes(&[0; BLOCK_HEAD_BYTES]), None);
    }

    #[test]
    fn positions_are_padded_and_saturate() {
        assert_eq!(HEAD.next_position(256), 256 + 32 + 16);
        assert_eq!(HEAD.end_position(256), 256 + 32 + 13);
        assert_eq!(HEAD.next_position(u64::MAX - 3), u64::MAX);
        assert!(is_block_position(256) && !is_block_position(248) && !is_block_position(257));
    }

    #[test]
    fn indexes_of_odd_sizes_are_none() {
        let index = Index {
            previous: 512,
            entries: vec![Entry {
                time_ns: 1,
                position: 256,
            }],
        };
        let bytes = index.to_bytes();
        assert_eq!(Index::from_bytes(&bytes), Some(index));
        assert_eq!(Index::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Index::from_bytes(&[0; 7]), None);
        assert_eq!(Index::from_bytes(&vec![0; INDEX_BYTES_MAX + 16]), None);
    }
}
