//! What stands before and behind the frames of an MP3 file: ID3v2 in front, APEv2 and ID3v1 behind;
//! where files were joined, all of them between frames.

use memchr::memmem;

/// How much of the end of a file [`audio_end`] has to see: ID3v1, its extension, an APE footer.
pub const TAIL_BYTES: usize = ID3V1_BYTES + ID3V1_EXTENSION_BYTES + APE_BYTES;

/// Bytes of an ID3v2 header, and of its footer.
pub(super) const ID3V2_HEADER_BYTES: usize = 10;
const ID3V2_HAS_FOOTER: u8 = 0x10;
/// Flags without a meaning: a tag that has one is none.
const ID3V2_RESERVED: u8 = 0x0f;
const ID3V1_BYTES: usize = 128;
const ID3V1_EXTENSION_BYTES: usize = 227;
/// Of the header, and of the footer.
const APE_BYTES: usize = 32;
/// APEv1 has none.
const APE_HAS_HEADER: u32 = 1 << 31;
const APE_IS_HEADER: u32 = 1 << 29;
const APE_MARK: &[u8] = b"APETAGEX";
/// How far behind its first item the footer of an APE tag without a header is looked for.
const APE_SEARCH_BYTES: usize = 8 << 10;

/// The answer to "does a tag begin here?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A tag of this length begins here, bytes.
    Tag(u64),
    /// No tag begins here.
    Nothing,
    /// The window ends too early to tell.
    Undecided,
}

/// Judges what stands at the start of `rest`, where a frame would be expected. One that claims more
/// than a stream holds whose end is known (`is_last`) is not believed.
pub(super) fn judge(rest: &[u8], is_last: bool) -> Verdict {
    if rest.len() < APE_SEARCH_BYTES && !is_last {
        return Verdict::Undecided;
    }
    let bytes = id3v2_bytes(rest)
        .or_else(|| id3v1_bytes(rest))
        .or_else(|| ape_bytes_from_header(rest))
        .or_else(|| ape_bytes_to_footer(rest));
    match bytes {
        Some(bytes) if !is_last || bytes <= rest.len() as u64 => Verdict::Tag(bytes),
        _ => Verdict::Nothing,
    }
}

/// The length of the ID3v1 tag, or of its extension, at the start of `bytes`.
fn id3v1_bytes(bytes: &[u8]) -> Option<u64> {
    let behind = bytes.get(ID3V1_EXTENSION_BYTES..).unwrap_or(&[]);
    let is_extension = bytes.starts_with(b"TAG+") && behind.starts_with(b"TAG");
    let length = if is_extension {
        ID3V1_EXTENSION_BYTES
    } else {
        ID3V1_BYTES
    };
    bytes.starts_with(b"TAG").then_some(length as u64)
}

/// The length of the APE tag whose header `bytes` begin with.
fn ape_bytes_from_header(bytes: &[u8]) -> Option<u64> {
    let (size, flags) = ape_words(bytes)?;
    (flags & APE_IS_HEADER != 0).then_some(APE_BYTES as u64 + u64::from(size))
}

/// The length of the APE tag without a header that `bytes` begin with: its footer says so.
fn ape_bytes_to_footer(bytes: &[u8]) -> Option<u64> {
    let near = &bytes[..bytes.len().min(APE_SEARCH_BYTES)];
    let at = memmem::find(near, APE_MARK)?;
    let (size, flags) = ape_words(&bytes[at..])?;
    let end = at + APE_BYTES;
    (flags & APE_HAS_HEADER == 0 && size as usize == end).then_some(end as u64)
}

/// Size and flags of the header or footer of an APE tag at the start of `bytes`. The size counts
/// the items and the footer.
fn ape_words(bytes: &[u8]) -> Option<(u32, u32)> {
    // Behind the mark: the version, the size, the number of items, flags.
    let words = bytes.get(..APE_BYTES)?.strip_prefix(APE_MARK)?;
    let word = |at: usize| Some(u32::from_le_bytes(*words.get(at..)?.first_chunk()?));
    Some((word(4)?, word(12)?))
}

/// The whole length of the ID3v2 tag at the start of `bytes`, header and footer included; `None`
/// if there is no sound tag header.
pub(super) fn id3v2_bytes(bytes: &[u8]) -> Option<u64> {
    let header = bytes.first_chunk::<ID3V2_HEADER_BYTES>()?;
    let size = &header[6..];
    let is_sound = header.starts_with(b"ID3")
        && header[5] & ID3V2_RESERVED == 0
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

/// Where the audio of a file of `file_bytes` bytes ends: before the tags at its end.
///
/// `tail` is the end of the file, [`TAIL_BYTES`] of it or all. Recognised is what minimp3's own
/// loader (`mp3dec_load`) recognises: ID3v1 with or without its extension, and before it APE with
/// its footer, with or without a header. An APE tag that claims more than the file holds is not
/// believed.
#[must_use]
pub fn audio_end(tail: &[u8], file_bytes: u64) -> u64 {
    let mut rest = tail;
    for (bytes, mark) in [(ID3V1_BYTES, &b"TAG"[..]), (ID3V1_EXTENSION_BYTES, b"TAG+")] {
        match rest
            .len()
            .checked_sub(bytes)
            .and_then(|at| rest.split_at_checked(at))
        {
            Some((before, tag)) if tag.starts_with(mark) => rest = before,
            _ => break, // the extension stands only before a tag
        }
    }
    let end = file_bytes.saturating_sub((tail.len() - rest.len()) as u64);
    end - ape_bytes(rest).filter(|bytes| *bytes <= end).unwrap_or(0)
}

/// The whole length of the APE tag whose footer ends `tail`.
fn ape_bytes(tail: &[u8]) -> Option<u64> {
    let (size, flags) = ape_words(tail.last_chunk::<APE_BYTES>()?)?;
    let header_bytes = if flags & APE_HAS_HEADER != 0 {
        APE_BYTES as u64
    } else {
        0
    };
    Some(u64::from(size) + header_bytes)
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
        assert_eq!(id3v2_bytes(b"ID3\x04\0\x01\0\0\x02\x01rest"), None);
        assert_eq!(id3v2_bytes(b"\xff\xfb\x90\x64\0\0\0\0\0\0"), None);
    }

    fn ape(size: u32) -> Vec<u8> {
        ape_of(2000, size, APE_HAS_HEADER)
    }

    fn ape_of(version: u32, size: u32, flags: u32) -> Vec<u8> {
        let mut footer = b"APETAGEX".to_vec();
        for word in [version, size, 1, flags, 0, 0] {
            footer.extend_from_slice(&u32::to_le_bytes(word));
        }
        footer
    }

    fn id3v1(mark: &[u8], bytes: usize) -> Vec<u8> {
        let mut tag = mark.to_vec();
        tag.resize(bytes, b' ');
        tag
    }

    #[test]
    fn tails_are_cut_off_in_every_combination() {
        let (tag, extension) = (id3v1(b"TAG", 128), id3v1(b"TAG+", 227));
        assert_eq!(audio_end(&[0; TAIL_BYTES], 10_000), 10_000);
        assert_eq!(audio_end(&tag, 10_000), 9_872);
        assert_eq!(audio_end(&extension, 10_000), 10_000);
        assert_eq!(audio_end(&[&extension[..], &tag].concat(), 10_000), 9_645);
        assert_eq!(audio_end(&ape(100), 10_000), 9_868);
        assert_eq!(audio_end(&[&ape(100)[..], &tag].concat(), 10_000), 9_740);
        let all = [&ape(100)[..], &extension, &tag].concat();
        assert_eq!(all.len(), TAIL_BYTES);
        assert_eq!(audio_end(&all, 10_000), 9_513);
        assert_eq!(audio_end(&[], 0), 0);
    }

    #[test]
    fn ape_tag_without_header_keeps_previous_frame() {
        assert_eq!(audio_end(&ape_of(1000, 100, 0), 10_000), 9_900);
        assert_eq!(audio_end(&ape_of(2000, 100, 0), 10_000), 9_900);
    }

    #[test]
    fn tag_longer_than_the_file_is_not_believed() {
        assert_eq!(audio_end(&ape(20_000), 10_000), 10_000);
    }

    #[test]
    fn tags_are_known_by_their_beginning() {
        let header = ape_of(2000, 100, APE_HAS_HEADER | APE_IS_HEADER);
        let footer = [&b"items"[..], &ape_of(1000, 37, 0)].concat();
        let id3v2 = b"ID3\x04\0\0\0\0\x02\x01".to_vec();
        for (start, bytes) in [
            (id3v2, 267),
            (id3v1(b"TAG", 128), 128),
            ([id3v1(b"TAG+", 227), id3v1(b"TAG", 128)].concat(), 227),
            (id3v1(b"TAG+ is a title", 128), 128),
            (header, 132),
            (footer, 37),
        ] {
            let followed = [&start[..], &[0x55; 300]].concat();
            assert_eq!(judge(&followed, true), Verdict::Tag(bytes), "{start:?}");
            assert_eq!(judge(&followed, false), Verdict::Undecided);
            // One that claims more than there is; in front of an extension that is a title.
            let cut = &followed[..(bytes as usize).min(128) - 1];
            assert_eq!(judge(cut, true), Verdict::Nothing, "{start:?}");
        }
        for other in [
            &b"TA"[..],
            b"APETAGEX",
            b"",
            &ape_of(2000, 100, APE_HAS_HEADER),
        ] {
            assert_eq!(judge(other, true), Verdict::Nothing, "{other:?}");
        }
    }
}
