//! What is measured: who sends, how, how many packets to how many destinations.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Who sends, by which calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub(crate) enum System {
    /// One `sendto` for each packet and destination: what the paper improves on.
    Sendto,
    /// Batches of packets in one call.
    Sendmmsg,
    /// Many packets as one datagram of memory that the kernel cuts (`UDP_SEGMENT`).
    Gso,
    /// The same, sent from a file in memory without a copy.
    SendfileGso,
    /// The product, which chooses.
    Hythe,
    /// `ffmpeg -c copy -f rtp_mpegts`.
    Ffmpeg,
    /// `gst-launch-1.0 … rtpmp2tpay ! udpsink`.
    Gstreamer,
}

impl System {
    /// In the order of a round.
    pub(super) const ALL: [Self; 7] = [
        Self::Sendto,
        Self::Sendmmsg,
        Self::Gso,
        Self::SendfileGso,
        Self::Hythe,
        Self::Ffmpeg,
        Self::Gstreamer,
    ];

    /// A program of somebody else's, started for each sending.
    pub(super) const fn is_peer(self) -> bool {
        matches!(self, Self::Ffmpeg | Self::Gstreamer)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Sendto => "sendto",
            Self::Sendmmsg => "sendmmsg",
            Self::Gso => "gso",
            Self::SendfileGso => "sendfile-gso",
            Self::Hythe => "hythe",
            Self::Ffmpeg => "ffmpeg",
            Self::Gstreamer => "gstreamer",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// What lies ready before the time begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Mode {
    /// Whole packets in memory.
    Prepared,
    /// Nothing: reading and building packets are measured, too.
    FirstSend,
    /// The media in memory, without headers: those are made while sending, each destination has its
    /// own.
    Headers,
}

impl fmt::Display for Mode {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Prepared => "prepared",
            Self::FirstSend => "first_send",
            Self::Headers => "headers",
        })
    }
}

/// What the media is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Content {
    /// Bytes that mean nothing, as many per packet as are asked for.
    Noise,
    /// An MPEG transport stream, seven of its packets in each of ours, as the peers send it.
    TransportStream,
    /// The first part of the same: what the peers take for it is mostly their start.
    TransportStreamHead,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) system: System,
    pub(super) mode: Mode,
    pub(super) content: Content,
    /// To each destination.
    pub(super) packets: u32,
    pub(super) destinations: u16,
    /// Of each packet, the RTP header included.
    pub(super) packet_bytes: u16,
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.system, self.mode)
    }
}

impl Case {
    /// To all destinations together.
    pub(super) fn deliveries(&self) -> u64 {
        u64::from(self.packets) * u64::from(self.destinations)
    }

    /// Is it the same work, done by another?
    pub(super) fn compares_with(&self, other: &Self) -> bool {
        let work = |case: &Self| {
            (
                case.content,
                case.packets,
                case.destinations,
                case.packet_bytes,
            )
        };
        work(self) == work(other)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const PLAIN: Case = Case {
        system: System::Sendto,
        mode: Mode::FirstSend,
        content: Content::Noise,
        packets: 10_000,
        destinations: 1,
        packet_bytes: 1400,
    };

    #[test]
    fn names_are_those_of_the_result_document() {
        assert_eq!(PLAIN.to_string(), "sendto/first_send");
        let other = Case {
            system: System::SendfileGso,
            mode: Mode::Prepared,
            ..PLAIN
        };
        assert_eq!(other.to_string(), "sendfile-gso/prepared");
        for system in System::ALL {
            let said = system.to_possible_value().expect("a value");
            assert_eq!(said.get_name(), system.name());
        }
    }

    #[test]
    fn only_equal_work_is_compared() {
        let hythe = Case {
            system: System::Hythe,
            ..PLAIN
        };
        assert!(PLAIN.compares_with(&hythe));
        assert!(!PLAIN.compares_with(&Case {
            packets: 30_000,
            ..hythe
        }));
        assert!(!PLAIN.compares_with(&Case {
            destinations: 16,
            ..hythe
        }));
    }
}
