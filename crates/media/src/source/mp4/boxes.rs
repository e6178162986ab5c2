//! Boxes of ISO/IEC 14496-12: four bytes of length, four of kind, and what they hold.
//!
//! `mp4-atom` decodes the boxes with tables; which of them are looked at, and how long they may be,
//! is decided here, so that a box that nobody asked for can be as odd as it likes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use mp4_atom::Atom;

pub(super) type Kind = [u8; 4];

/// Length and kind; a length of 1 says that eight bytes of length follow.
const HEADER_BYTES: usize = 8;
const LONG_HEADER_BYTES: usize = 16;

/// Splits the header off: kind, bytes of the header, bytes of the body. A length of zero means up
/// to the end, which is `available`.
fn header(bytes: &[u8], available: u64) -> Option<(Kind, usize, u64)> {
    let (length, behind) = bytes.split_first_chunk()?;
    let kind = *behind.first_chunk()?;
    let (header, total) = match u32::from_be_bytes(*length) {
        0 => (HEADER_BYTES, available),
        1 => (
            LONG_HEADER_BYTES,
            u64::from_be_bytes(*bytes.get(HEADER_BYTES..)?.first_chunk()?),
        ),
        length => (HEADER_BYTES, u64::from(length)),
    };
    Some((kind, header, total.checked_sub(header as u64)?))
}

/// The boxes in `bytes`, up to the first that does not fit.
pub(super) fn children(bytes: &[u8]) -> impl Iterator<Item = (Kind, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (kind, skipped, length) = header(rest, rest.len() as u64)?;
        let (body, behind) = rest[skipped..].split_at_checked(usize::try_from(length).ok()?)?;
        rest = behind;
        Some((kind, body))
    })
}

/// The body of the first box on this way down.
pub(super) fn descend<'b>(bytes: &'b [u8], way: &[&Kind]) -> Option<&'b [u8]> {
    way.iter().try_fold(bytes, |within, kind| {
        children(within)
            .find(|(found, _)| found == *kind)
            .map(|(_, body)| body)
    })
}

/// Decodes the first box of that kind in `bytes`.
pub(super) fn decode<A: Atom>(bytes: &[u8], kind: &Kind) -> Option<A> {
    decode_body(descend(bytes, &[kind])?)
}

/// Decodes the body of a box. What is behind the part that is known does not matter.
pub(super) fn decode_body<A: Atom>(mut body: &[u8]) -> Option<A> {
    A::decode_body(&mut body).ok()
}

/// A box of the file itself.
pub(super) struct FileBox {
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) body: Range<u64>,
}

/// The box at `position`; `None` at the end, or where none fits in front of it.
pub(super) fn file_box(file: &File, position: u64, file_bytes: u64) -> io::Result<Option<FileBox>> {
    let available = file_bytes.saturating_sub(position);
    let mut bytes = [0; LONG_HEADER_BYTES];
    let count = available.min(LONG_HEADER_BYTES as u64) as usize;
    file.read_exact_at(&mut bytes[..count], position)?;
    let found = header(&bytes[..count], available);
    Ok(found.and_then(|(kind, skipped, length)| {
        let start = position + skipped as u64;
        let end = start.checked_add(length).filter(|end| *end <= file_bytes)?;
        Some(FileBox {
            kind,
            start: position,
            body: start..end,
        })
    }))
}

/// Reads the body of a box; `None` if it has more than `most` bytes.
pub(super) fn read_body(file: &File, found: &FileBox, most: u64) -> io::Result<Option<Vec<u8>>> {
    let length = found.body.end - found.body.start;
    if length > most {
        return Ok(None);
    }
    let mut body = vec![0; length as usize];
    file.read_exact_at(&mut body, found.body.start)?;
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_found_by_their_way() {
        let inner = *b"\0\0\0\x0aleaf\x07\x08";
        let mut bytes = b"\0\0\0\x08free\0\0\0\x12moov".to_vec();
        bytes.extend(inner);
        assert_eq!(descend(&bytes, &[b"moov", b"leaf"]), Some(&[7, 8][..]));
        assert_eq!(descend(&bytes, &[b"leaf"]), None);
        let long = b"\0\0\0\x01leaf\0\0\0\0\0\0\0\x11\x09";
        assert_eq!(descend(long, &[b"leaf"]), Some(&[9][..]));
        assert_eq!(
            descend(b"\0\0\0\0leaf\x09", &[b"leaf"]),
            Some(&[9][..]),
            "up to the end"
        );
    }

    #[test]
    fn lengths_that_do_not_fit_end_the_list() {
        for bytes in [
            &b"\0\0\0\x07leaf"[..],
            b"\0\0\0\x0aleaf\x01",
            b"\xff\xff\xff\xffleaf",
            b"\0\0\0\x01leaf\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\0\0\0\x01leaf\0\0\0\0\0\0\0\x0f",
            b"\0\0\0\x01leaf\0",
            b"\0\0\0",
        ] {
            assert_eq!(children(bytes).count(), 0, "{bytes:?}");
        }
    }
}
