//! What `hythe media recv` says of a stream that has ended: the document, and the same for people.

use std::path::Path;

use hythe::media::receive::statistics::Statistics;
use hythe::media::receive::stream::Stream;
use hythe::media::sink::Sink;
use hythe::rtp::format::StreamFormat;
use hythe::rtp::payload::Depacketize;
use hythe_command::units;
use serde::Serialize;

use super::published::Published;
use super::rtsp_session::ServerDocument;

/// Several streams.
#[derive(Serialize)]
pub(super) struct AllDocument {
    pub(super) streams: Vec<Document>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<ServerDocument>,
}

/// One stream.
#[derive(Serialize)]
pub(super) struct Document {
    /// Its place in the description, counted from 1.
    pub(super) stream: usize,
    /// The file that was written, unless it went to a channel.
    pub(super) out: Option<String>,
    payload: &'static str,
    from: String,
    pub(super) ended: &'static str,
    pub(super) packets: u64,
    bytes: u64,
    delay_ns: u64,
    /// On the way: what was repaired, and what is missing.
    lost: u64,
    requested: u64,
    recovered: u64,
    recovered_by_resending: u64,
    recovered_by_parity: u64,
    missing: u64,
    missing_packets: Vec<MissingDocument>,
    late: u64,
    reordered: u64,
    duplicates: u64,
    malformed: u64,
    foreign: u64,
    /// How often another source took the stream's place: an encoder that started again.
    source_changes: u64,
    /// Packets of another payload type, such as events of a telephone and comfort noise.
    other_payload: u64,
    kernel_drops: u32,
    largest_gap: u64,
    jitter_ns: u64,
    round_trip_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) channel: Option<Published>,
    /// Why the stream ended while its sender still sends, and the remedy.
    #[serde(skip)]
    pub(super) failure: Option<String>,
    /// Where one of RTSP was asked for a single stream; of several, it stands beside them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<ServerDocument>,
}

/// Packets that follow each other and are missing.
#[derive(Serialize)]
struct MissingDocument {
    /// Sequence number of the first, as in its RTP header.
    first: u16,
    packets: u64,
}

impl AllDocument {
    /// One below the other, each with its file.
    pub(super) fn text(&self) -> String {
        let one = |document: &Document| {
            let out = document.out.as_deref().unwrap_or_default();
            format!("stream {}: {out}\n{}", document.stream, document.text())
        };
        self.streams.iter().map(one).collect::<Vec<_>>().join("\n")
    }
}

impl Document {
    /// What came of `stream`, which was described in `from`; where it went is not in it yet.
    pub(super) fn of<D: Depacketize, S: Sink>(
        from: &Path,
        format: &StreamFormat,
        ended: &'static str,
        statistics: &Statistics,
        stream: &Stream<D, S>,
    ) -> Self {
        let hz = u64::from(format.clock_hz.max(1));
        let gaps = stream.gaps().iter().map(|gap| MissingDocument {
            first: gap.first as u16, // an extended number: these are the bits of the header
            packets: gap.packets,
        });
        Self {
            stream: 1,
            out: None,
            payload: format.encoding.name(),
            from: from.display().to_string(),
            ended,
            packets: statistics.packets,
            bytes: statistics.bytes,
            delay_ns: stream.settings().delay_ns,
            lost: statistics.lost + statistics.recovered,
            requested: statistics.requested,
            recovered: statistics.recovered,
            recovered_by_resending: statistics.recovered - statistics.recovered_by_parity,
            recovered_by_parity: statistics.recovered_by_parity,
            missing: statistics.lost,
            missing_packets: gaps.collect(),
            late: statistics.late,
            reordered: statistics.reordered,
            duplicates: statistics.duplicates,
            malformed: statistics.malformed + statistics.malformed_payloads,
            foreign: statistics.foreign,
            source_changes: statistics.source_changes,
            other_payload: statistics.other_payload_type,
            kernel_drops: statistics.kernel_drops,
            largest_gap: statistics.largest_gap,
            jitter_ns: u64::from(statistics.jitter_ticks) * 1_000_000_000 / hz,
            round_trip_ns: stream.round_trip_ns(),
            channel: None,
            failure: None,
            server: None,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let account = format!(
            "{} of {} with {}; ended: {}\n\
         lost {}: {} sent again ({} asked for), {} repaired by parity, {} missing, {} of them too late\n",
            units::counted(self.packets, "packet"),
            self.payload,
            units::counted(self.bytes, "byte"),
            self.ended,
            self.lost,
            self.recovered_by_resending,
            self.requested,
            self.recovered_by_parity,
            self.missing,
            self.late,
        );
        let others = format!(
            "overtaken {}, repeated {}, malformed {}, foreign {}, of another payload type {}, \
             changes of source {}\n\
         dropped by the kernel {}, largest gap {}, jitter {:.1} us\n",
            self.reordered,
            self.duplicates,
            self.malformed,
            self.foreign,
            self.other_payload,
            self.source_changes,
            self.kernel_drops,
            units::counted(self.largest_gap, "packet"),
            self.jitter_ns as f64 / 1e3,
        );
        let channel = self
            .channel
            .as_ref()
            .map_or_else(String::new, Published::text);
        account + &self.missing_text() + &others + &channel
    }

    /// What is missing, by number: the last gaps.
    fn missing_text(&self) -> String {
        if self.missing == 0 {
            return String::new();
        }
        let named: u64 = self.missing_packets.iter().map(|gap| gap.packets).sum();
        let earlier = if named < self.missing {
            "the last are "
        } else {
            ""
        };
        let gaps = self.missing_packets.iter().map(|gap| match gap.packets {
            1 => gap.first.to_string(),
            // Numbers wrap (RFC 3550, section 5.1).
            more => format!("{}-{}", gap.first, gap.first.wrapping_add(more as u16 - 1)),
        });
        let gaps: Vec<String> = gaps.collect();
        format!("missing: {earlier}{}\n", gaps.join(", "))
    }
}
