//! What a receiver answers: packets that came, messages that were accepted, credit.

use crate::fault::{DropReason, Fault};
use crate::header::{Address, Checksum, HEADER_BYTES, Header, Kind, array, seal};
use crate::numbers::{RANGES_MAX, Range};
use crate::settings::Window;

const RANGE_BYTES: usize = 8;
/// Bytes of an acknowledgement: a header, and each range but the first.
pub const ACKNOWLEDGEMENT_BYTES_MAX: usize = HEADER_BYTES + (RANGES_MAX - 1) * RANGE_BYTES;

/// What an acknowledgement says beside its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// How long after the largest packet it was written, up to 65 ms.
    pub(crate) delay_ns: u64,
    /// Messages below were taken over.
    pub(crate) accepted: u64,
    /// Credit beyond them.
    pub(crate) credit: Window,
}

/// Writes it with as many of `ranges` (rising, at least one) as `bytes_max` allows, newest first.
/// Returns its length.
pub(crate) fn write(
    address: &Address,
    acknowledgement: &Acknowledgement,
    ranges: &[Range],
    bytes_max: u64,
    out: &mut [u8; ACKNOWLEDGEMENT_BYTES_MAX],
) -> usize {
    let newest = ranges[ranges.len() - 1];
    let (mut first, mut bytes) = (newest.first, HEADER_BYTES);
    for range in ranges.iter().rev().skip(1) {
        let gap = u32::try_from(first - range.last - 1);
        let count = u32::try_from(range.last - range.first + 1);
        let (Ok(gap), Ok(count)) = (gap, count) else {
            break;
        };
        if (bytes + RANGE_BYTES) as u64 > bytes_max {
            break;
        }
        out[bytes..bytes + 4].copy_from_slice(&gap.to_le_bytes());
        out[bytes + 4..bytes + 8].copy_from_slice(&count.to_le_bytes());
        (first, bytes) = (range.first, bytes + RANGE_BYTES);
    }
    // Of a longer first range, its newest: the older have been acknowledged long ago.
    let count = (newest.last - newest.first + 1).min(u64::from(u16::MAX));
    let is_cut = count < newest.last - newest.first + 1;
    let bytes = if is_cut { HEADER_BYTES } else { bytes };
    let delay_us = (acknowledgement.delay_ns / 1_000).min(u64::from(u16::MAX));
    let mut header = address.write(&Header {
        number: newest.last,
        kind: Kind::Acknowledgement,
        tag: 0,
        bytes: (bytes - HEADER_BYTES) as u16,
        offset: count as u32 | (delay_us as u32) << 16,
        message: acknowledgement.accepted,
        length: acknowledgement.credit.messages,
        waiting: acknowledgement.credit.bytes,
    });
    seal(&mut header, Checksum::of(&out[HEADER_BYTES..bytes]));
    out[..HEADER_BYTES].copy_from_slice(&header);
    bytes
}

/// An acknowledgement that was read: its ranges are checked while they are walked through.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    pub(crate) largest: u64,
    pub(crate) acknowledgement: Acknowledgement,
    first_count: u64,
    ranges: &'a [u8],
}

pub(crate) fn read<'a>(address: &Address, datagram: &'a [u8]) -> Result<Read<'a>, DropReason> {
    let (header, ranges) = datagram
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or(DropReason::Length)?;
    let header = address.read(header, Checksum::of(ranges))?;
    if header.kind != Kind::Acknowledgement {
        return Err(DropReason::Kind);
    }
    Ok(Read {
        largest: header.number,
        acknowledgement: Acknowledgement {
            delay_ns: u64::from(header.offset >> 16) * 1_000,
            accepted: header.message,
            credit: Window {
                messages: header.length,
                bytes: header.waiting,
            },
        },
        first_count: u64::from(header.offset & 0xffff),
        ranges,
    })
}

impl Read<'_> {
    /// Hands each range to `each`, falling. Those of a malformed rest are not.
    pub(crate) fn each_range(&self, mut each: impl FnMut(Range)) -> Result<(), Fault> {
        let malformed = Fault::Malformed {
            number: self.largest,
        };
        let whole = self.ranges.len() <= (RANGES_MAX - 1) * RANGE_BYTES
            && self.ranges.len().is_multiple_of(RANGE_BYTES);
        if !whole || self.first_count == 0 {
            return Err(malformed);
        }
        let mut last = self.largest;
        let mut first = last.checked_sub(self.first_count - 1).ok_or(malformed)?;
        each(Range { first, last });
        for range in self.ranges.chunks_exact(RANGE_BYTES) {
            let gap = u64::from(u32::from_le_bytes(array(range, 0)));
            let count = u64::from(u32::from_le_bytes(array(range, 4)));
            if gap == 0 || count == 0 {
                return Err(malformed);
            }
            last = first.checked_sub(gap + 1).ok_or(malformed)?;
            first = last.checked_sub(count - 1).ok_or(malformed)?;
            each(Range { first, last });
        }
        Ok(())
    }
}
