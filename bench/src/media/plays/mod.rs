//! A stored transport stream as it plays, in real time: the shipped command `hythe media send`
//! beside ffmpeg, GStreamer and a plain C program that calls `sendto`.
//!
//! Each is started as a process with its defaults and sends the same file to 1, 100 and 1,000
//! destinations. Measured are the CPU time of the whole process, its start included, and at the
//! receiver how late packets arrive: the kernel's time stamps against the clock in the packets'
//! RTP headers, the least of each destination subtracted.

mod program;
mod receiver;
mod row;
mod series;
mod source;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(super) use program::{Programs, play};
pub(super) use receiver::watch;
pub(super) use row::{HYTHE_P99_NS_MAX, PlaysRow};
pub(super) use series::{PlaysRound, PlaysSeries};
pub(super) use source::{StreamFile, make};

/// The RTP header and seven transport packets.
pub(super) const PACKET_BYTES: u16 = 12 + 7 * 188;
/// The rate of the stream to up to [`MANY`] destinations, of usual television.
const RATE_BITS: u32 = 5_000_000;
/// To more of them less, so that one CPU can carry it with the most expensive of the systems.
const RATE_TO_MANY_BITS: u32 = 2_000_000;
const MANY: u16 = 100;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PlaysSystem {
    /// `hythe media send`.
    Hythe,
    Ffmpeg,
    Gstreamer,
    /// `bench/peers/plain_sender.c`.
    Plain,
}

impl PlaysSystem {
    /// In the order of a round.
    pub(super) const ALL: [Self; 4] = [Self::Hythe, Self::Ffmpeg, Self::Gstreamer, Self::Plain];
}

impl fmt::Display for PlaysSystem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Hythe => "hythe",
            Self::Ffmpeg => "ffmpeg",
            Self::Gstreamer => "gstreamer",
            Self::Plain => "plain",
        })
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlaysCase {
    pub(super) system: PlaysSystem,
    pub(super) destinations: u16,
    /// Of media.
    pub(super) seconds: u16,
}

impl fmt::Display for PlaysCase {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/plays", self.system)
    }
}

impl PlaysCase {
    /// Of the transport stream.
    pub(super) const fn bits_per_second(&self) -> u32 {
        match self.destinations {
            0..=MANY => RATE_BITS,
            _ => RATE_TO_MANY_BITS,
        }
    }

    /// Of the whole stream, to each destination, if none of it is left out.
    pub(super) const fn packets(&self) -> u32 {
        let payload_bits = (PACKET_BYTES as u32 - 12) * 8;
        self.bits_per_second() * self.seconds as u32 / payload_bits
    }
}

/// What the sender is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Play {
    pub(super) case: PlaysCase,
    /// The program that sends.
    pub(super) program: PathBuf,
    /// The file.
    pub(super) path: String,
}

/// What the sender did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Played {
    /// Of the whole process.
    pub(super) cpu_ns: u64,
    /// What it was told, destinations left out.
    pub(super) command: String,
    /// Packets of a handover, of the product.
    pub(super) packets_per_handover: Option<f64>,
    /// How packets were sent, of the product.
    pub(super) method: Option<String>,
}

/// What arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Watched {
    /// Packets, all destinations together.
    pub(super) delivered: u64,
    /// Numbers that never came between the first and the last of a destination.
    pub(super) missing: u64,
    /// Destinations at which nothing arrived.
    pub(super) silent: u64,
    /// Datagrams that are no RTP packet of this stream, came twice or out of order.
    pub(super) wrong: u64,
    /// A histogram, encoded.
    pub(super) lateness: String,
}
