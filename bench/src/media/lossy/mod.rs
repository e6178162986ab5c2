//! A stream over a way that loses 5 % in both directions and takes 20 ms: what repair leaves.
//!
//! This kernel has no netem, so a third process stands in a network of its own between sender and
//! receiver and is the way (`relay`). Sender and receiver are the product's sessions; what they
//! send is numbered and checked byte by byte (`numbered`). What a code should leave is computed
//! (`expected`).

mod expected;
mod numbered;
mod receiver;
mod relay;
mod row;
mod sender;
#[path = "../../../../crates/media/tests/it/repair/way.rs"]
mod way;

use std::fmt;
use std::time::Duration;

use hythe_rtp::loss::fec::{Protection, Shape};
use serde::{Deserialize, Serialize};

pub(super) use receiver::run as receive;
pub(super) use relay::Relay;
#[cfg(test)]
pub(super) use row::tests;
pub(super) use row::{LossyOutcome, LossyRow};
pub(super) use sender::run as send;

/// Of each datagram, in either direction.
const LOSS: f64 = 0.05;
/// Of each datagram, in either direction.
const DELAY: Duration = Duration::from_millis(20);
/// How long the receiver waits for what is missing.
const BUFFER: Duration = Duration::from_millis(200);
/// Whole packets, headers of RTP included: 8 Mbit/s with one every 1.4 ms.
const PACKET_BYTES: u16 = 1400;
const CLOCK_HZ: u32 = 90_000;
const PACKET_TICKS: u32 = 126;
/// Sent behind those that count: a loss shows by what comes after it.
const TAIL_PACKETS: u32 = 300;
/// RTP; RTCP one above, parity two and four above.
const PORT: u16 = 5004;
/// Of sender and receiver, which are told apart by it.
const IDENTITIES: [u64; 2] = [5, 6];

/// What is done about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Remedy {
    /// Nothing: what the way does.
    Nothing,
    /// Packets are asked for and sent again (RFC 4585, RFC 4588).
    Resend,
    /// Parity of columns (SMPTE ST 2022-1).
    Columns,
    /// Parity of columns and rows.
    Matrix,
}

impl Remedy {
    pub(super) const ALL: [Self; 4] = [Self::Nothing, Self::Resend, Self::Columns, Self::Matrix];

    /// Of those with parity, what is protected.
    const fn protection(self) -> Option<Protection> {
        match self {
            Self::Nothing | Self::Resend => None,
            Self::Columns => Some(Protection::Columns),
            Self::Matrix => Some(Protection::Both),
        }
    }
}

/// So small that a matrix and its parity fit into the buffer: 5 rows of 5.
const fn shape() -> Shape {
    match Shape::new(5, 5) {
        Ok(shape) => shape,
        Err(_) => panic!("it is a shape"),
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LossyCase {
    pub(super) remedy: Remedy,
    /// That count.
    pub(super) packets: u32,
    /// Decides which datagrams are lost.
    pub(super) seed: u64,
}

impl fmt::Display for LossyCase {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self.remedy {
            Remedy::Nothing => "hythe/lossy-unrepaired",
            Remedy::Resend => "hythe/lossy-resend",
            Remedy::Columns => "hythe/lossy-parity-columns",
            Remedy::Matrix => "hythe/lossy-parity-matrix",
        })
    }
}

/// What the sender did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Streamed {
    /// Of media, those behind the ones that count included.
    pub(super) packets: u64,
    /// Again.
    pub(super) resent: u64,
    pub(super) parity: u64,
    /// Requests that were not followed.
    pub(super) refused: u64,
    /// That the network did not take.
    pub(super) unsent: u64,
    pub(super) elapsed_ns: u64,
}

/// What the way did, in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Passed {
    /// Media, and what was sent again, that came to the way.
    pub(super) media: u64,
    pub(super) parity: u64,
    pub(super) lost_media: u64,
    pub(super) lost_parity: u64,
    /// Reports of the sender.
    pub(super) lost_reports: u64,
    /// Reports and requests of the receiver.
    pub(super) lost_back: u64,
    /// Not by chance, but because too many were on their way.
    pub(super) crowded: u64,
}

/// What came out, of the packets that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) right: u64,
    /// Twice, in another order, or not as it was sent.
    pub(super) wrong: u64,
    /// Never given out, or not in time.
    pub(super) missing: u64,
    /// Of all packets: that came when they had been given up.
    pub(super) late: u64,
    /// Of all packets: that were missing and came by repair.
    pub(super) repaired: u64,
    pub(super) repaired_by_parity: u64,
    /// Asked for, each time counted.
    pub(super) requested: u64,
    /// Dropped because the receive buffers of the receiver's own sockets were full.
    pub(super) dropped: u64,
}
