//! What a sender does about packets that get lost on their way: what can be asked of a
//! [session](super::session).

use std::time::Duration;

use hythe_rtp::Identity;
use hythe_rtp::loss::fec::encoder::Format;
use hythe_rtp::loss::fec::{Protection, Shape};
use hythe_rtp::loss::nack::Limits;
use hythe_rtp::loss::rtx::{Method, RtxStream};
use hythe_rtp::sdp;

use super::zero_copy_queue::Budget;

/// What is done about lost packets; nothing, by default.
#[derive(Clone, Debug, Default)]
pub struct Repair {
    /// Packets that receivers ask for (RFC 4585, generic NACK) are sent again.
    pub resend: Option<Resend>,
    /// Parity is sent along.
    pub parity: Option<Parity>,
}

/// How packets are sent again.
#[derive(Clone, Debug)]
pub struct Resend {
    /// Payload type of packets sent again (RFC 4588). None: the same packet once more, for
    /// receivers that know nothing of it.
    pub payload_type: Option<u8>,
    /// How long packets are kept for it; less where the pool has no slots left.
    pub keep: Duration,
    /// How long receivers are told to wait for a packet that is sent again. None: as long as
    /// packets are kept.
    pub wait: Option<Duration>,
    /// How many are kept, at most. Each destination that asks takes 24 bytes for each of them.
    pub packets_max: usize,
    /// How many slots of a channel are kept for it, at most, where packets are sent from where they
    /// were published: the publisher needs the others.
    pub messages_max: usize,
    /// How many bytes those have, at most.
    pub message_bytes_max: usize,
    /// How far requests are followed.
    pub limits: Limits,
}

impl Default for Resend {
    /// As payload type 98, from the last second or 4,096 packets, of a channel 256 messages of 4
    /// MiB: a fifth of the small slots of a pool of 64 MiB, and less than it has of the largest.
    fn default() -> Self {
        Self {
            payload_type: Some(98),
            keep: Duration::from_secs(1),
            wait: None,
            packets_max: 4096,
            messages_max: 256,
            message_bytes_max: 4 << 20,
            limits: Limits::default(),
        }
    }
}

/// Which parity is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity {
    /// The matrix that packets are put into.
    pub shape: Shape,
    /// What of it gets parity.
    pub protection: Protection,
    /// Payload type of parity beside the media on its port (RFC 5109). None: SMPTE ST 2022-1, on
    /// the ports two (columns) and four (rows) above; it is made for MPEG-TS.
    pub payload_type: Option<u8>,
}

impl Repair {
    /// What is kept of a channel's messages after they have been sent.
    pub(super) fn kept(&self) -> Budget {
        let resend = self.resend.as_ref();
        Budget {
            messages: resend.map_or(0, |resend| resend.messages_max),
            bytes: resend.map_or(0, |resend| resend.message_bytes_max),
        }
    }
}

impl Resend {
    /// What a stream of `identity` is sent again as.
    pub(super) fn method(&self, identity: &Identity) -> Method {
        match self.payload_type {
            None => Method::Plain,
            Some(payload_type) => Method::Rtx {
                stream: RtxStream {
                    // As random as the stream's own, and another.
                    ssrc: identity.ssrc.wrapping_add(1),
                    payload_type,
                },
                sequence: identity.sequence,
            },
        }
    }

    /// How long receivers may wait for a packet.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait.unwrap_or(self.keep)
    }

    /// As what a receiver gets packets again; `None`: as they were.
    #[must_use]
    pub fn description(&self) -> Option<sdp::Retransmission> {
        let time_ms = u32::try_from(self.wait().as_millis()).ok();
        self.payload_type.map(|payload_type| sdp::Retransmission {
            payload_type,
            time_ms,
        })
    }
}

impl Parity {
    pub(super) fn format(&self, identity: &Identity) -> Format {
        match self.payload_type {
            None => Format::Smpte2022,
            Some(payload_type) => Format::Ulpfec {
                payload_type,
                ssrc: identity.ssrc.wrapping_add(2),
            },
        }
    }

    pub(super) fn description(&self) -> sdp::Parity {
        match self.payload_type {
            None => sdp::Parity::Smpte2022(self.shape, self.protection),
            Some(payload_type) => sdp::Parity::Ulpfec { payload_type },
        }
    }
}
