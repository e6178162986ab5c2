//! The demo's result: what ran, what each hop cost, and whether it adds up.

use serde::Serialize;

use crate::channels::Arrival;
use crate::demux::DemuxReport;
use crate::error::DemoError;
use crate::play::PlayReport;
use crate::storage::StorageReport;

/// What the demo found out.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// The board whose core decoded.
    pub board: String,
    /// The board is emulated: its times are no claim about hardware.
    pub emulated: bool,
    /// The file.
    pub input: String,
    /// Samples a second.
    pub hz: u32,
    /// Channels.
    pub channels: u8,
    /// Samples of each channel in the recording.
    pub samples: u64,
    /// SHA-256 of the samples that the receiver recorded, 16-bit little endian.
    pub pcm_sha256: String,
    /// The same of what minimp3 decodes on this host.
    pub reference_sha256: String,
    /// RTP packets, counted by the sender.
    pub packets_sent: u64,
    /// RTP packets, counted by somebody else.
    pub packets_received: u64,
    /// By whom.
    pub packets_received_by: String,
    /// Slots that somebody still holds when all is over.
    pub slots_leaked: u32,
    /// One entry for each boundary that the data crossed.
    pub hops: Vec<Hop>,
}

/// The way over one boundary.
#[derive(Debug, Serialize)]
pub struct Hop {
    /// `storage`, `process`, `core` or `media`; `core, host` where both are crossed.
    pub name: &'static str,
    /// Buffers that crossed.
    pub buffers: u64,
    /// Payload that crossed.
    pub bytes: u64,
    /// Payload bytes copied by a CPU for each payload byte.
    pub cpu_copies: u32,
    /// Sleeps of the taker that a bell ended.
    pub wakes: u64,
    /// Median time of one buffer.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

/// What the stages reported.
pub(super) struct StageReports {
    pub(super) storage: StorageReport,
    pub(super) demux: DemuxReport,
    pub(super) play: PlayReport,
}

/// The four hops.
///
/// Copies are those of the code that ran: storage reads with `pread` from the page cache into the
/// slot (one), a descriptor moves nothing (none, shown by the tests that change a byte behind the
/// receiver's back), `sendmsg` copies into the kernel (one). Time: storage, the read; process and
/// core, from the later of publishing and the taker's readiness to its having the buffer (over the
/// core that includes decoding); media, the calls that send one buffer's packets, without waiting
/// for their time. `host_copies`: the core's frames went to another host, and each byte was copied
/// so often on the way; the times of the two hops cannot be told apart.
pub(super) fn hops(reports: &StageReports, host_copies: Option<u32>) -> Vec<Hop> {
    let StageReports {
        storage,
        demux,
        play,
    } = reports;
    let process = crossing_times(&storage.published_ns, &demux.arrivals);
    let core = crossing_times(&demux.published_ns, &play.arrivals);
    let (name, copies) = match host_copies {
        None => ("core", 0),
        Some(copies) => ("core, host", copies),
    };
    let read: u64 = storage.bytes.iter().sum();
    vec![
        hop("storage", read, 1, 0, storage.read_ns.clone()),
        hop("process", read, 0, demux.wakes, process),
        hop(name, demux.bytes + play.bytes, copies, play.wakes, core),
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
    fn crossing_begins_when_the_taker_is_ready() {
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
