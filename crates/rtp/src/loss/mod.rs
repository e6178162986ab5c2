//! Repair of lost packets, on both sides, as pure protocol: bytes and the time in, decisions and
//! bytes out.
//!
//! A sender keeps what it sent in a [`history`], follows requests as far as [`nack`] allows, and
//! resends as [`rtx`] says; or it sends parity along ([`fec`]). A receiver asks for missing
//! packets, turns retransmissions back into originals ([`rtx`]) and parity into lost packets
//! ([`fec`]): each ends as a [`Repaired`], which goes where received packets go.
//!
//! Everything received here was written by somebody who may lie. So memory is set at the start, no
//! length is believed, no request makes us send more than a configured share of the stream, and
//! whatever is refused is counted by its reason.
//!
//! Nothing here calls the kernel, sleeps, reads a clock, or allocates after it was made (but for
//! reading RTCP, see [`nack`]).

pub mod budget;
pub mod fec;
pub mod history;
pub mod nack;
pub mod rtx;

/// Bytes of an RTP header without contributing sources and extension (RFC 3550, section 5.1).
pub(crate) const RTP_HEADER_BYTES: usize = 12;

/// A packet that did not arrive and is there all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired<'r> {
    /// Of its RTP header.
    pub sequence: u16,
    /// The whole packet, as it would have arrived.
    pub bytes: &'r [u8],
}

/// Takes repaired packets one at a time.
pub type EmitRepaired<'e> = dyn FnMut(Repaired<'_>) + 'e;

/// How far `sequence` is ahead of `other`, the shorter way round (RFC 1982); negative: behind.
pub(crate) fn ahead(sequence: u16, other: u16) -> i32 {
    i32::from(sequence.wrapping_sub(other) as i16)
}

/// Reads a big-endian number at `at`, which the caller has checked to be there.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// As [`be16`], of four bytes.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
