//! The demo's result: the document of `command.md` for machines, the table of hops for people.

use std::fmt::Write as _;

use serde::Serialize;

use super::demux::DemuxReport;
use super::play::PlayReport;
use super::storage::StorageReport;
use super::{Arrival, DemoError};
use crate::output::table;

/// What the demo found out.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    /// The board whose core decoded.
    pub(super) board: String,
    /// The board is emulated: its times are no claim about hardware.
    pub(super) emulated: bool,
    /// The file.
    pub(super) input: String,
    /// Samples a second.
    pub(super) hz: u32,
    /// Channels.
    pub(super) channels: u8,
    /// Samples of each channel in the recording.
    pub(super) samples: u64,
    /// SHA-256 of the samples that the receiver recorded, 16-bit little endian.
    pub(super) pcm_sha256: String,
    /// The same of what minimp3 decodes on this host.
    pub(super) reference_sha256: String,
    /// RTP packets, counted by the sender.
    pub(super) packets_sent: u64,
    /// RTP packets, counted by somebody else.
    pub(super) packets_received: u64,
    /// By whom.
    pub(super) packets_received_by: String,
    /// Slots that somebody still holds when all is over.
    pub(super) slots_leaked: u32,
    /// One entry for each boundary that the data crossed.
    pub(super) hops: Vec<Hop>,
}

/// The way over one boundary.
#[derive(Debug, Serialize)]
pub(crate) struct Hop {
    /// `storage`, `process`, `core` or `media`.
    name: &'static str,
    /// Buffers that crossed.
    buffers: u64,
    /// Payload that crossed.
    bytes: u64,
    /// Payload bytes copied by a CPU for each payload byte.
    cpu_copies: u32,
    /// Sleeps of the taker that a bell ended.
    wakes: u64,
    /// Median time of one buffer.
    p50_ns: u64,
    /// 99th percentile.
    p99_ns: u64,
}

/// What the stages reported.
pub(super) struct StageReports {
    pub(super) storage: StorageReport,
    pub(super) demux: DemuxReport,
    pub(super) play: PlayReport,
}

/// The four hops.
///
/// Copies are those of the code that ran: storage reads with `pread` from the page cache into the slot (one), a descriptor moves
/// nothing (none, shown by the tests that change a byte behind the receiver's back), `sendmsg` copies into the kernel (one).
/// Time: storage, the read; process and core, from the later of publishing and the taker's readiness to its having the buffer
/// (over the core that includes decoding); media, the calls that send one buffer's packets, without waiting for their time.
pub(super) fn hops(reports: &StageReports) -> Vec<Hop> {
    let StageReports {
        storage,
        demux,
        play,
    } = reports;
    let process = crossing_times(&storage.published_ns, &demux.arrivals);
    let core = crossing_times(&demux.published_ns, &play.arrivals);
    let read: u64 = storage.bytes.iter().sum();
    vec![
        hop("storage", read, 1, 0, storage.read_ns.clone()),
        hop("process", read, 0, demux.wakes, process),
        hop("core", demux.bytes + play.bytes, 0, play.wakes, core),
        hop("media", play.packet_bytes, 1, 0, play.send_ns.clone()),
    ]
}

fn hop(name: &'static str, bytes: u64, cpu_copies: u32, wakes: u64, mut times: Vec<u64>) -> Hop {
    times.sort_unstable();
    Hop {
        name,
        buffers: times.len() as u64,
        bytes,
        cpu_copies,
        wakes,
        p50_ns: percentile(&times, 50),
        p99_ns: percentile(&times, 99),
    }
}

fn crossing_times(published_ns: &[u64], arrivals: &[Arrival]) -> Vec<u64> {
    let pairs = published_ns.iter().zip(arrivals);
    pairs
        .map(|(&published, arrival)| {
            arrival
                .taken_ns
                .saturating_sub(published.max(arrival.waiting_ns))
        })
        .collect()
}

/// The nearest-rank percentile of sorted values; 0 if there are none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

impl Verdict {
    /// Does everything add up?
    ///
    /// # Errors
    /// [`DemoError::NotExact`] naming what does not.
    pub(super) fn check(&self, unsent: u64) -> Result<(), DemoError> {
        let mut wrong = Vec::new();
        if self.pcm_sha256 != self.reference_sha256 {
            wrong.push(format!(
                "the recorded samples differ from the reference (SHA-256 {} instead of {})",
                self.pcm_sha256, self.reference_sha256
            ));
        }
        if unsent > 0 {
            wrong.push(format!("{unsent} packets could not be sent"));
        }
        if self.packets_received != self.packets_sent {
            wrong.push(format!(
                "{} packets were sent and {} received",
                self.packets_sent, self.packets_received
            ));
        }
        if self.slots_leaked > 0 {
            wrong.push(format!("{} slots were not given back", self.slots_leaked));
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(DemoError::NotExact(wrong.join("; ")))
        }
    }
}

/// The result for people.
pub(crate) fn render(verdict: &Verdict) -> String {
    let rows: Vec<Vec<String>> = verdict
        .hops
        .iter()
        .map(|hop| {
            vec![
                hop.name.to_owned(),
                hop.buffers.to_string(),
                hop.bytes.to_string(),
                hop.cpu_copies.to_string(),
                hop.wakes.to_string(),
                microseconds(hop.p50_ns),
                microseconds(hop.p99_ns),
            ]
        })
        .collect();
    let headings = [
        ">HOP",
        ">BUFFERS",
        ">BYTES",
        ">CPU COPIES",
        ">WAKES",
        ">P50",
        ">P99",
    ];
    let mut text = table(&headings, &rows);
    let seconds = verdict.samples as f64 / f64::from(verdict.hz.max(1));
    let emulated = if verdict.emulated {
        " (emulated: its times say nothing about hardware)"
    } else {
        ""
    };
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\n{}: {seconds:.1} s of {} Hz, {} channels, decoded by board {}{emulated}\n\
         packets: {} sent, {} received ({}); slots leaked: {}\n\
         recorded by ffmpeg, sample for sample what minimp3 decodes on this host: SHA-256 {}\n",
        verdict.input,
        verdict.hz,
        verdict.channels,
        verdict.board,
        verdict.packets_sent,
        verdict.packets_received,
        verdict.packets_received_by,
        verdict.slots_leaked,
        verdict.pcm_sha256,
    );
    text
}

fn microseconds(ns: u64) -> String {
    format!("{}.{} us", ns / 1000, ns % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&values, 50), 100);
        assert_eq!(percentile(&values, 99), 198);
        assert_eq!(percentile(&[7], 99), 7);
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn a_crossing_begins_when_the_taker_is_ready() {
        let arrivals = [
            Arrival {
                waiting_ns: 10,
                taken_ns: 50,
            },
            Arrival {
                waiting_ns: 70,
                taken_ns: 75,
            },
        ];
        assert_eq!(crossing_times(&[20, 30], &arrivals), [30, 5]);
    }
}
