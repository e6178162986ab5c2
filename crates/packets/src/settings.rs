//! What both ends of a flow agree on before its first packet, and the bounds of a flow.

use crate::fault::Fault;
use crate::header::HEADER_BYTES;

/// Least MTU: that of IPv6 (RFC 8200, section 5).
pub const MTU_BYTES_MIN: u16 = 1_280;
/// Largest MTU: that of jumbo frames on common cards.
pub const MTU_BYTES_MAX: u16 = 9_000;
/// Messages that may be sent and not accepted: 1,024 messages of 64 bytes last 100 us at ten
/// million a second, a round trip of a local network. 8 bytes each at the sender, 12 at the
/// receiver.
pub const MESSAGES_MAX: u32 = 1_024;
/// Packets between the oldest that is in flight and the newest: 4,096 of the least size are 5 MB,
/// which is 10 Gbit/s at a round trip of 4 ms. 32 bytes each.
pub const PACKETS_MAX: u64 = 4_096;
/// Pieces of messages with a gap behind them that a receiver holds, and pieces that a sender has to
/// repeat: two for each message, so that a sender always finds two of one message to merge. 16
/// bytes each.
pub const SPANS_MAX: usize = 2 * MESSAGES_MAX as usize;

/// What the kernel reckons for a datagram that waits beside its bytes, at most: `struct sk_buff`,
/// `struct skb_shared_info` and what is lost to the sizes of its allocator.
pub(crate) const BUFFER_OVERHEAD_BYTES: u64 = 896;

/// Headers of IPv6 and UDP. With IPv4, 20 bytes of the MTU stay unused.
const NETWORK_BYTES: u16 = 40 + 8;
/// RFC 9002, section 7.2: 10 packets, but not more than 14,720 bytes or 2 packets.
const INITIAL_WINDOW_BYTES: u64 = 14_720;
/// One `sendmsg` with segments takes less than 64 KiB.
const BURST_BYTES_MAX: u32 = 1 << 16;

/// Credit of a receiver: what may be sent and not yet accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Messages, 1 to [`MESSAGES_MAX`].
    pub messages: u32,
    /// Bytes of payload; at least the longest message.
    pub bytes: u32,
}

/// What both ends agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Secret of the session, random: packets without it are dropped.
    pub session: u64,
    /// Number of the flow in the session.
    pub flow: u32,
    /// Largest IP packet of the path, [`MTU_BYTES_MIN`] to [`MTU_BYTES_MAX`].
    pub mtu_bytes: u16,
    /// Credit at the start.
    pub window: Window,
    /// Longest message.
    pub message_bytes_max: u32,
    /// After this long without an answer the peer is unreachable.
    pub unreachable_ns: u64,
    /// Round trip until one is measured. 333 ms where nothing is known (RFC 9002, section 6.2.2);
    /// the TLS connection beside the flow knows better.
    pub initial_rtt_ns: u64,
    /// Bytes that leave at once, at most 65,536. Not less than the initial window is used (RFC
    /// 9002, section 7.7); more, so that segmentation pays, where the path takes it.
    pub burst_bytes: u32,
    /// What the receiver's socket keeps until it is read, as the kernel reckons it (`SO_RCVBUF`, as
    /// `getsockopt` says it): more is never in flight. `u32::MAX`: as much as it takes.
    pub buffer_bytes: u32,
}

impl Settings {
    /// Compares each value with its bounds.
    ///
    /// # Errors
    ///
    /// [`Fault::Settings`] names a value out of its bounds.
    pub fn check(&self) -> Result<(), Fault> {
        let window = self.window;
        let bounds = [
            ("mtu_bytes", is_mtu(self.mtu_bytes)),
            (
                "window.messages",
                (1..=MESSAGES_MAX).contains(&window.messages),
            ),
            ("window.bytes", window.bytes >= self.message_bytes_max),
            ("unreachable_ns", self.unreachable_ns > 0),
            // A minute: products of times and windows stay within 64 bits.
            (
                "initial_rtt_ns",
                (1..=60_000_000_000).contains(&self.initial_rtt_ns),
            ),
            ("burst_bytes", self.burst_bytes <= BURST_BYTES_MAX),
        ];
        match bounds.into_iter().find(|(_, holds)| !holds) {
            Some((field, _)) => Err(Fault::Settings { field }),
            None => Ok(()),
        }
    }
}

pub(crate) fn is_mtu(mtu_bytes: u16) -> bool {
    (MTU_BYTES_MIN..=MTU_BYTES_MAX).contains(&mtu_bytes)
}

/// Header and payload of the largest packet.
pub(crate) fn datagram_bytes(mtu_bytes: u16) -> u16 {
    mtu_bytes - NETWORK_BYTES
}

/// Payload of the largest packet.
pub(crate) fn payload_bytes(mtu_bytes: u16) -> u16 {
    datagram_bytes(mtu_bytes) - HEADER_BYTES as u16
}

pub(crate) fn initial_window(datagram_bytes: u64) -> u64 {
    (10 * datagram_bytes).min(INITIAL_WINDOW_BYTES.max(2 * datagram_bytes))
}
