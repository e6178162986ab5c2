//! Looking at blocks in a file whose every byte is a claim: one head, one index, all of a file that
//! has no end.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use crate::block::{
    BLOCK_HEAD_BYTES, END_BLOCK_BYTES, END_BYTES, End, Head, INDEX_BYTES_MAX, Index, Kind,
    MISSED_BYTES, is_block_position,
};
use crate::header::HEADER_BYTES;
use crate::{RecordingError, checksum};

/// Bytes of content that are checked at a time.
const PIECE_BYTES: usize = 64 << 10;

/// What a file holds, found out when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Behind the last block that belongs to the recording; the end block stands there, if there is
    /// one.
    pub(crate) end: u64,
    pub(crate) records: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) last_time_ns: u64,
    /// Position of the last index; 0: none.
    pub(crate) last_index: u64,
    /// From the end block.
    pub(crate) dropped: Option<u64>,
    /// Behind `end`, and not an end block.
    pub(crate) dropped_bytes: u64,
}

/// Reads exactly there. False: the file ends before.
pub(crate) fn read_at(
    from: &mut (impl Read + Seek),
    position: u64,
    into: &mut [u8],
) -> Result<bool, RecordingError> {
    from.seek(SeekFrom::Start(position))?;
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The head of the block at `position`, if there is one whose content ends at `limit` at the
/// latest.
pub(crate) fn head_at(
    from: &mut (impl Read + Seek),
    position: u64,
    limit: u64,
) -> Result<Option<Head>, RecordingError> {
    if !is_block_position(position) || position >= limit {
        return Ok(None);
    }
    let mut bytes = [0; BLOCK_HEAD_BYTES];
    if !read_at(from, position, &mut bytes)? {
        return Ok(None);
    }
    Ok(Head::from_bytes(&bytes).filter(|head| head.end_position(position) <= limit))
}

/// The checksum of `bytes` bytes at `position`. `None`: the file ends before.
pub(crate) fn checksum_at(
    from: &mut (impl Read + Seek),
    position: u64,
    bytes: u32,
) -> Result<Option<u32>, RecordingError> {
    let mut piece = vec![0; PIECE_BYTES.min(bytes as usize)];
    let (mut sum, mut done) = (0, 0);
    while done < bytes as usize {
        let next = piece.len().min(bytes as usize - done);
        if !read_at(from, position + done as u64, &mut piece[..next])? {
            return Ok(None);
        }
        sum = checksum(sum, &piece[..next]);
        done += next;
    }
    Ok(Some(sum))
}

/// The index at `position`, if it is whole and ends before `limit`.
pub(crate) fn index_at(
    from: &mut (impl Read + Seek),
    position: u64,
    limit: u64,
) -> Result<Option<(Head, Index)>, RecordingError> {
    let head = head_at(from, position, limit)?.filter(|head| head.kind == Kind::Index);
    let Some(head) = head.filter(|head| head.bytes as usize <= INDEX_BYTES_MAX) else {
        return Ok(None);
    };
    let mut content = vec![0; head.bytes as usize];
    let is_whole = read_at(from, position + BLOCK_HEAD_BYTES as u64, &mut content)?
        && checksum(0, &content) == head.checksum;
    let index = Index::from_bytes(&content).filter(|_| is_whole);
    Ok(index.map(|index| (head, index)))
}

/// What a block at `position` counts, if it is one that counts missed messages, and whole.
pub(crate) fn missed_at(
    from: &mut (impl Read + Seek),
    position: u64,
    head: &Head,
) -> Result<Option<u64>, RecordingError> {
    let mut content = [0; MISSED_BYTES];
    if head.bytes as usize != MISSED_BYTES {
        return Ok(None);
    }
    let is_whole = read_at(from, position + BLOCK_HEAD_BYTES as u64, &mut content)?
        && checksum(0, &content) == head.checksum;
    Ok(is_whole.then(|| u64::from_le_bytes(content)))
}

/// What the end block says, if the file has a whole one.
pub(crate) fn by_end_block(
    from: &mut (impl Read + Seek),
    file_bytes: u64,
) -> Result<Option<Extent>, RecordingError> {
    let Some(end) = file_bytes.checked_sub(END_BLOCK_BYTES) else {
        return Ok(None);
    };
    let head = head_at(from, end, file_bytes)?;
    let Some(head) = head.filter(|head| head.kind == Kind::End && head.bytes as usize == END_BYTES)
    else {
        return Ok(None);
    };
    let mut content = [0; END_BYTES];
    let is_whole = read_at(from, end + BLOCK_HEAD_BYTES as u64, &mut content)?
        && checksum(0, &content) == head.checksum;
    let said = End::from_bytes(&content);
    // More records than heads would fit are a lie, and so is an index behind the end.
    let is_possible = said.position == end
        && head.number <= end / BLOCK_HEAD_BYTES as u64
        && said.payload_bytes <= end
        && said.last_index < end;
    Ok((is_whole && is_possible).then_some(Extent {
        end,
        records: head.number,
        payload_bytes: said.payload_bytes,
        last_time_ns: head.time_ns,
        last_index: said.last_index,
        dropped: Some(said.dropped),
        dropped_bytes: 0,
    }))
}

/// Walks all blocks of a file without an end, and checks each, up to the first that is not whole.
pub(crate) fn by_walking(
    from: &mut (impl Read + Seek),
    file_bytes: u64,
) -> Result<Extent, RecordingError> {
    let mut found = Extent {
        end: HEADER_BYTES as u64,
        ..Extent::default()
    };
    while let Some(head) = head_at(from, found.end, file_bytes)? {
        let content = found.end + BLOCK_HEAD_BYTES as u64;
        let is_next = head.number == found.records && head.kind != Kind::End;
        if !is_next || checksum_at(from, content, head.bytes)? != Some(head.checksum) {
            break;
        }
        match head.kind {
            Kind::Record => {
                found.records += 1;
                found.payload_bytes += u64::from(head.bytes);
                found.last_time_ns = head.time_ns;
            }
            Kind::Index => found.last_index = found.end,
            Kind::Missed | Kind::End => {}
        }
        // The last record's padding may be missing.
        found.end = head.next_position(found.end).min(file_bytes);
    }
    found.dropped_bytes = file_bytes - found.end;
    Ok(found)
}
