//! The sender stage: takes decoded frames from the core and sends them as RTP L16, from the slots
//! the core wrote.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use hythe::media::identity;
use hythe::media::pace::Limit;
use hythe::media::send::session::{SendOptions, SendSession, Step};
use hythe::media::source::OpenOptions;
use hythe::media::source::channel::{self, Messages};
use hythe::media::source::raw::PcmFormat;
use hythe::media::wire::endpoint::DestinationOptions;
use hythe::rtp::HEADER_BYTES;
use hythe::rtp::format::Encoding;
use hythe::rtp::payload;
use hythe::{Node, PortPolicy, Sample, Subscriber, SubscriberOptions, TrustPeers, monotonic_ns};
use serde::{Deserialize, Serialize};

use crate::channels::{Arrival, CHANNEL_PCM, NEIGHBOUR_TIMEOUT};
use crate::error::DemoError;
use crate::program::StageOutput;
use crate::task::PlayTask;

/// What the stage writes when it has subscribed to the core's channel.
pub(super) const READY: &str = "ready";
/// Decoded frames taken ahead of the one being sent.
const AHEAD: usize = 16;
/// Frames that wait before the first is sent: they hide the jitter of an emulated core.
const HEAD_START: Duration = Duration::from_millis(100);
/// Of a sample in L16.
const SAMPLE_BYTES: u64 = 2;
/// Longer than any decoded frame: each is sent in packets of equal size.
const BLOCK_MS: u32 = 1000;
/// How long a packet waits for free capacity in a full socket buffer before it is dropped and
/// counted.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// What the stage reports when it is done.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct PlayReport {
    /// When each buffer was waited for and taken.
    pub(super) arrivals: Vec<Arrival>,
    /// Sleeps of the taker.
    pub(super) wakes: u64,
    /// Payload taken from the core, in bytes.
    pub(super) bytes: u64,
    /// RTP packets sent.
    pub(super) packets: u64,
    /// Payload in them.
    pub(super) packet_bytes: u64,
    /// Samples of each channel in them.
    pub(super) samples: u64,
    /// And in each buffer.
    pub(super) buffer_samples: Vec<u64>,
    /// Packets that the system refused or dropped.
    pub(super) unsent: u64,
    /// For each buffer: the time in calls that sent its packets.
    pub(super) send_ns: Vec<u64>,
    /// Times the stream stalled and the clock was moved.
    pub(super) stalls: u64,
}

pub(super) fn run(
    node: &Node,
    task: &PlayTask,
    output: &mut dyn StageOutput,
) -> Result<PlayReport, DemoError> {
    let mut options = SubscriberOptions::default().depth(32);
    if task.across {
        // The core's window holds up the core; across hosts only this can.
        options = options.policy(PortPolicy::Block {
            timeout_ms: NEIGHBOUR_TIMEOUT.as_millis() as u32,
        });
    }
    let subscriber = node.subscriber(CHANNEL_PCM, &options)?;
    // From now on no buffer is missed: the stages before this one may start.
    output.line(READY).map_err(DemoError::output)?;
    let (frames, ahead) = sync_channel(AHEAD);
    let taken_as = task.clone();
    let taker = std::thread::spawn(move || take_frames(subscriber, &taken_as, &frames));
    let sent = send(node, ahead, task, output);
    // The taker ends when nobody receives any more. What it says comes first: without frames there
    // is nothing to send.
    let taken = taker
        .join()
        .map_err(|_| DemoError::Stalled("the taking thread panicked".to_owned()))??;
    let (session, groups) = sent?;
    let statistics = session.statistics();
    let packet_bytes = statistics.bytes - statistics.packets * HEADER_BYTES as u64;
    let frame_bytes = SAMPLE_BYTES * u64::from(task.channels);
    let buffers = taken.frame_bytes.iter();
    Ok(PlayReport {
        arrivals: taken.arrivals,
        wakes: taken.wakes,
        bytes: taken.frame_bytes.iter().sum(),
        packets: statistics.packets,
        packet_bytes,
        samples: packet_bytes / frame_bytes,
        buffer_samples: buffers.map(|bytes| bytes / frame_bytes).collect(),
        unsent: statistics.lost,
        send_ns: by_frame(&taken.frame_bytes, &groups),
        stalls: session.spacing().moves,
    })
}

/// A group of packets that left: payload bytes of the stream up to its end, and the time that the
/// call took.
type Group = (u64, u64);

/// Sends the frames from the slots that the core wrote, each when it is due.
fn send(
    node: &Node,
    frames: Receiver<Sample>,
    task: &PlayTask,
    output: &mut dyn StageOutput,
) -> Result<(SendSession, Vec<Group>), DemoError> {
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let samples = PcmFormat {
        encoding: Encoding::L16,
        samples_per_second: task.hz,
        channels: task.channels,
    };
    let options = OpenOptions {
        raw: Some(samples),
        block_ms: BLOCK_MS,
        ..OpenOptions::default()
    };
    // Waits for the first frame.
    let source = channel::open(CHANNEL_PCM, Messages::queued(node, frames, trust), &options)?;
    std::thread::sleep(HEAD_START);
    let packetizer = payload::packetizer(source.format())?;
    let options = SendOptions {
        // Each packet at its own instant: those that leave together count as one for who taps
        // loopback.
        limit: Limit {
            burst: 1,
            early_ns: 0,
        },
        send_timeout: SEND_TIMEOUT,
        ..SendOptions::new(identity::random()?, trust)
    };
    let mut session = SendSession::new(node, source, packetizer, options)?;
    let way = DestinationOptions::default();
    session.destinations().add(task.destination, &way)?;
    let mut groups = Vec::new();
    let mut packets = 0;
    loop {
        let start = monotonic_ns();
        match session.step(&mut |event| output.note(event))? {
            Step::Ended => return Ok((session, groups)),
            Step::Wait(until_ns) => {
                session.wait(until_ns, None)?;
            }
            Step::Again => {
                let sent = session.statistics();
                if sent.packets > packets {
                    packets = sent.packets;
                    let payload_bytes = sent.bytes - packets * HEADER_BYTES as u64;
                    groups.push((payload_bytes, monotonic_ns() - start));
                }
            }
        }
    }
}

/// The time spent on each frame: on the groups that end in it.
fn by_frame(frame_bytes: &[u64], groups: &[Group]) -> Vec<u64> {
    let mut groups = groups.iter().peekable();
    let mut end = 0;
    let spent = frame_bytes.iter().map(|bytes| {
        end += bytes;
        let mut spent_ns = 0;
        while let Some((_, ns)) = groups.next_if(|(sent, _)| *sent <= end) {
            spent_ns += ns;
        }
        spent_ns
    });
    spent.collect()
}

/// What came from the core.
#[derive(Default)]
struct Taken {
    arrivals: Vec<Arrival>,
    frame_bytes: Vec<u64>,
    wakes: u64,
}

fn take_frames(
    mut subscriber: Subscriber,
    task: &PlayTask,
    frames: &SyncSender<Sample>,
) -> Result<Taken, DemoError> {
    let mut taken = Taken::default();
    for number in 0..task.parts {
        let waiting_ns = monotonic_ns();
        let Some(sample) = subscriber.take(NEIGHBOUR_TIMEOUT)? else {
            let said = format!(
                "the core sent {number} of {} decoded frames, then none for {NEIGHBOUR_TIMEOUT:?}",
                task.parts
            );
            return Err(DemoError::Stalled(said));
        };
        taken.arrivals.push(Arrival {
            waiting_ns,
            taken_ns: monotonic_ns(),
        });
        if sample.is_empty() {
            continue;
        }
        if !task.across {
            check(&sample, task)?;
        }
        taken.frame_bytes.push(sample.len() as u64);
        if frames.send(sample).is_err() {
            break;
        }
    }
    taken.wakes = subscriber.sleeps();
    Ok(taken)
}

/// The words that the decoder leaves at the start of the slot must be those of this stream. Only
/// payload goes to other hosts.
fn check(sample: &Sample, task: &PlayTask) -> Result<(), DemoError> {
    let mut words = [0; 8];
    sample.read_headroom(0, &mut words);
    let hz = u32::from_le_bytes([words[0], words[1], words[2], words[3]]);
    let channels = u32::from_le_bytes([words[4], words[5], words[6], words[7]]);
    if (hz, channels) == (task.hz, task.channels.into()) {
        return Ok(());
    }
    Err(DemoError::Stalled(format!(
        "the core decoded {hz} Hz with {channels} channels where the file says {} Hz with {}",
        task.hz, task.channels
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_the_frame_in_which_a_group_ends() {
        let groups = [(50, 1), (100, 2), (130, 4), (300, 8)];
        assert_eq!(by_frame(&[100, 100, 100], &groups), [3, 4, 8]);
        assert_eq!(by_frame(&[100], &[]), [0]);
    }
}
