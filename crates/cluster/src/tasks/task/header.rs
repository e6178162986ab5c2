//! What stands in front of each piece of a message (`spec/tasks.md`).

use crate::tasks::id::TaskId;

/// Size of a header; the payload behind it is aligned as well as the slot.
pub(super) const HEADER_BYTES: usize = 32;
/// Begins each header, and says its version.
const MAGIC: u32 = 0x314b_5448;

/// Who sends what to whom: a message of a task, or of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) source: TaskId,
    /// 0: a message of a task; else of the group with this number.
    pub(super) context: u32,
    pub(super) tag: u32,
    /// Of the whole message.
    pub(super) total: u64,
    /// Of this piece in it.
    pub(super) offset: u64,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.source.number().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.context.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.tag.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.total.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// `None`: it is none.
    pub(super) fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        (word(0) == MAGIC).then_some(())?;
        Some(Self {
            source: TaskId::from_number(word(4))?,
            context: word(8),
            tag: word(12),
            total: long(16),
            offset: long(24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_comes_back_as_it_was() {
        let header = Header {
            source: "3.7".parse().expect("in range"),
            context: 0x0102_0304,
            tag: u32::MAX,
            total: u64::MAX - 1,
            offset: 1 << 40,
        };
        let bytes = header.to_bytes();
        assert_eq!(&bytes[..8], b"HTK1\x07\x06\0\0");
        assert_eq!(Header::from_bytes(bytes), Some(header));
        let mut other = bytes;
        other[0] ^= 1;
        assert_eq!(Header::from_bytes(other), None);
        let mut nobody = bytes;
        nobody[4..8].fill(0);
        assert_eq!(Header::from_bytes(nobody), None);
    }
}
