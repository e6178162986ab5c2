//! What a stream shows its packets to, so that lost ones come back.
//!
//! The stream calls it; it keeps what it needs itself. Never here: how a repair works.

use hythe_rtp::receive::reorder::Origin;

/// As what a packet came that is shown to a [`Repair`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It is one of the stream itself.
    AsMedia,
    /// On the port of the media, with another payload type.
    BesideMedia,
    /// On a port for parity.
    OnParityPort,
}

/// Repairs what is lost, by packets sent again (RFC 4588) or parity (SMPTE 2022-1, RFC 5109).
pub trait Repair: Send {
    /// A stream begins, whose source is `ssrc`: what was before means nothing for it.
    fn begin(&mut self, ssrc: u32);

    /// Takes a packet, whole. Is it one of the stream, or of the repair? `is_missing` says whether
    /// a number is waited for, or may be one that nothing behind it has shown to be missing yet; it
    /// is asked once for each packet that was sent again. What could be repaired is emitted as
    /// whole packets of the stream.
    fn take(
        &mut self,
        packet: &[u8],
        came: Came,
        is_missing: &dyn Fn(u16) -> bool,
        emit: &mut dyn FnMut(&[u8], Origin),
    ) -> bool;
}
