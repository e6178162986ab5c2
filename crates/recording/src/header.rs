//! The header of a recording: what was recorded, and when.

use crate::RecordingError;

/// Size of a header.
pub const HEADER_BYTES: usize = 256;
const MAGIC: [u8; 8] = *b"HYTHERC\x01";
const VERSION: u32 = 1;
const NAME_BYTES: usize = 64;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// What was recorded, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Name of the channel, 1 to 64 bytes.
    pub channel: String,
    /// Name of the type that it carries, at most 64 bytes; empty: raw bytes.
    pub type_name: String,
    /// Size of a value; 0: raw bytes.
    pub type_bytes: u32,
    /// Alignment of a value; 0: raw bytes.
    pub type_align: u32,
    /// Version of the type; 0: none was named.
    pub type_version: u32,
    /// When the recording was started, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
}

impl Header {
    /// Of a channel that carries raw bytes, with an unknown start.
    #[must_use]
    pub fn raw(channel: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn to_bytes(&self) -> Result<[u8; HEADER_BYTES], RecordingError> {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        let words = [
            VERSION,
            HEADER_BYTES as u32,
            self.type_bytes,
            self.type_align,
            self.type_version,
        ];
        for (place, word) in bytes[8..28].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[32..40].copy_from_slice(&self.started_unix_ns.to_le_bytes());
        put_name(&mut bytes[64..128], &self.channel, "channel", 1)?;
        put_name(&mut bytes[128..192], &self.type_name, "type", 0)?;
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }

    pub(crate) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, RecordingError> {
        let refuse = |why: String| Err(RecordingError::NotARecording(why));
        if bytes[0..8] != MAGIC {
            return refuse(format!("it begins with \"{}\"", bytes[0..8].escape_ascii()));
        }
        let found = word(bytes, 8);
        if found != VERSION {
            let known = VERSION;
            return Err(RecordingError::Version { found, known });
        }
        let (written, counted) = (
            word(bytes, CHECKSUM_AT),
            crc32c::crc32c(&bytes[..CHECKSUM_AT]),
        );
        if written != counted {
            return refuse(format!(
                "the checksum of its header is {counted:#010x}, not {written:#010x}"
            ));
        }
        if word(bytes, 12) != HEADER_BYTES as u32 {
            return refuse(format!("its header has {} bytes", word(bytes, 12)));
        }
        let (Some(channel), Some(type_name)) = (name(&bytes[64..128]), name(&bytes[128..192]))
        else {
            return refuse("a name in its header is no text".to_owned());
        };
        if channel.is_empty() {
            return refuse("its header names no channel".to_owned());
        }
        Ok(Self {
            channel,
            type_name,
            type_bytes: word(bytes, 16),
            type_align: word(bytes, 20),
            type_version: word(bytes, 24),
            started_unix_ns: cell(bytes, 32),
        })
    }
}

/// The 32 bits at `at`, which is inside.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The 64 bits at `at`, which is inside.
pub(crate) fn cell(bytes: &[u8], at: usize) -> u64 {
    let mut cell = [0; 8];
    cell.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(cell)
}

fn put_name(
    place: &mut [u8],
    name: &str,
    what: &'static str,
    least: usize,
) -> Result<(), RecordingError> {
    let bytes = name.len();
    if bytes < least || bytes > NAME_BYTES || name.contains('\0') {
        return Err(RecordingError::BadName {
            what,
            bytes,
            least,
            most: NAME_BYTES,
        });
    }
    place[..bytes].copy_from_slice(name.as_bytes());
    Ok(())
}

fn name(place: &[u8]) -> Option<String> {
    let end = place.iter().position(|byte| *byte == 0);
    let (name, padding) = place.split_at(end.unwrap_or(place.len()));
    let is_padded = padding.iter().all(|byte| *byte == 0);
    let name = std::str::from_utf8(name).ok().filter(|_| is_padded)?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed() -> Header {
        Header {
            channel: "frames".to_owned(),
            type_name: "Frame".to_owned(),
            type_bytes: 24,
            type_align: 8,
            type_version: 3,
            started_unix_ns: 1_700_000_000_123_456_789,
        }
    }

    #[test]
    fn header_reads_as_it_was_written() {
        for header in [typed(), Header::raw("x"), Header::raw(&"n".repeat(64))] {
            let bytes = header.to_bytes().expect("good names");
            assert_eq!(Header::from_bytes(&bytes).expect("whole"), header);
        }
    }

    #[test]
    fn any_changed_byte_is_refused() {
        let bytes = typed().to_bytes().expect("good names");
        for at in 0..HEADER_BYTES {
            let mut changed = bytes;
            changed[at] ^= 0x10;
            assert!(Header::from_bytes(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn bad_names_are_refused_by_name_and_length() {
        for (header, what, bytes) in [
            (Header::raw(""), "channel", 0),
            (Header::raw("a\0b"), "channel", 3),
            (Header::raw(&"n".repeat(65)), "channel", 65),
            (
                Header {
                    type_name: "t".repeat(65),
                    ..typed()
                },
                "type",
                65,
            ),
        ] {
            let refused = header.to_bytes().expect_err("a bad name").to_string();
            assert!(
                refused.contains(what) && refused.contains(&format!("{bytes} bytes")),
                "{refused}"
            );
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = typed().to_bytes().expect("good names");
        bytes[8] = 2;
        let refused = Header::from_bytes(&bytes).expect_err("version 2");
        assert!(matches!(
            refused,
            RecordingError::Version { found: 2, known: 1 }
        ));
    }
}
