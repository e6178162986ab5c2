//! What stands before and behind the frames of an MP3 file: ID3v2 in front, APEv2 and ID3v1 behind.

/// Bytes of an ID3v2 header, and of its footer.
pub(super) const ID3V2_HEADER_BYTES: usize = 10;
const ID3V1_BYTES: usize = 128;
const APE_FOOTER_BYTES: usize = 32;
const ID3V2_HAS_FOOTER: u8 = 0x10;
const APE_HAS_HEADER: u32 = 1 << 31;

/// The whole length of the ID3v2 tag at the start of `bytes`, header and footer included; `None`
/// if there is no sound tag header.
pub(super) fn id3v2_bytes(bytes: &[u8]) -> Option<u64> {
    let header = bytes.first_chunk::<ID3V2_HEADER_BYTES>()?;
    let size = &header[6..];
    let is_sound = header.starts_with(b"ID3")
        && header[3] != 0xff
        && header[4] != 0xff
        && size.iter().all(|byte| byte & 0x80 == 0);
    if !is_sound {
        return None;
    }
    let body = size.iter().fold(0, |sum, byte| sum << 7 | u64::from(*byte));
    let footer = if header[5] & ID3V2_HAS_FOOTER != 0 {
        ID3V2_HEADER_BYTES as u64
    } else {
        0
    };
    Some(ID3V2_HEADER_BYTES as u64 + body + footer)
}

/// Where the audio of a file of `file_bytes` bytes ends: before the APEv2 and ID3v1 tags at its end.
///
/// `tail` is the end of the file, 160 bytes of it or all. A caller who wants the last frame of a
/// tagged file, which minimp3 drops (see [the module](super)), gives the splitter only what lies
/// before this offset. A tag that claims more than the file holds is not believed.
#[must_use]
pub fn audio_end(tail: &[u8], file_bytes: u64) -> u64 {
    let mut rest = tail;
    let mut end = file_bytes;
    if let Some(at) = rest.len().checked_sub(ID3V1_BYTES)
        && rest[at..].starts_with(b"TAG")
    {
        rest = &rest[..at];
        end -= ID3V1_BYTES as u64;
    }
    end - ape_bytes(rest).filter(|bytes| *bytes <= end).unwrap_or(0)
}

/// The whole length of the APEv2 tag whose footer ends `tail`.
fn ape_bytes(tail: &[u8]) -> Option<u64> {
    let footer = tail.last_chunk::<APE_FOOTER_BYTES>()?;
    let word = |at: usize| {
        u32::from_le_bytes([footer[at], footer[at + 1], footer[at + 2], footer[at + 3]])
    };
    if !footer.starts_with(b"APETAGEX") {
        return None;
    }
    // The declared size counts the footer, not the header.
    let header = if word(20) & APE_HAS_HEADER != 0 {
        APE_FOOTER_BYTES as u64
    } else {
        0
    };
    Some(u64::from(word(12)) + header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id3v2_sizes_are_seven_bits_a_byte_and_count_the_footer() {
        assert_eq!(id3v2_bytes(b"ID3\x04\0\0\0\0\x02\x01rest"), Some(10 + 257));
        assert_eq!(
            id3v2_bytes(b"ID3\x04\0\x10\0\0\x02\x01rest"),
            Some(10 + 257 + 10)
        );
        assert_eq!(id3v2_bytes(b"ID3\x04\0\0\0\0\x80\x01rest"), None);
        assert_eq!(id3v2_bytes(b"ID3\x04\0\0\0\0\x02"), None);
        assert_eq!(id3v2_bytes(b"\xff\xfb\x90\x64\0\0\0\0\0\0"), None);
    }

    fn ape(size: u32, flags: u32) -> Vec<u8> {
        let mut footer = b"APETAGEX".to_vec();
        for word in [2000, size, 1, flags, 0, 0] {
            footer.extend_from_slice(&u32::to_le_bytes(word));
        }
        footer
    }

    fn id3v1() -> Vec<u8> {
        let mut tag = b"TAG".to_vec();
        tag.resize(128, b' ');
        tag
    }

    #[test]
    fn tails_are_cut_off_in_either_combination() {
        assert_eq!(audio_end(&[0; 160], 10_000), 10_000);
        assert_eq!(audio_end(&id3v1(), 10_000), 9_872);
        assert_eq!(audio_end(&ape(100, 0), 10_000), 9_900);
        assert_eq!(audio_end(&ape(100, 1 << 31), 10_000), 9_868);
        let both = [ape(100, 1 << 31), id3v1()].concat();
        assert_eq!(audio_end(&both, 10_000), 9_740);
        assert_eq!(audio_end(&[], 0), 0);
    }

    #[test]
    fn a_tag_longer_than_the_file_is_not_believed() {
        assert_eq!(audio_end(&ape(20_000, 0), 10_000), 10_000);
    }
}
