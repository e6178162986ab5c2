//! The demultiplexer stage: hands the frames of each buffer on to the core, as parts of its slot.
//!
//! It keeps the pace of the media: frame n goes to the core when its first sample is due, less a
//! [`LEAD`] that hides what decoding and scheduling take. So nothing queues up, and the times of
//! the hops are theirs and not the pace's.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use hythe::media::mp3::{FrameSplitter, Step, Window};
use hythe::{
    Node, PortPolicy, Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions,
    TrustPeers, monotonic_ns,
};
use serde::{Deserialize, Serialize};

use crate::channels::{Arrival, CHANNEL_FILE, CHANNEL_MP3, NEIGHBOUR_TIMEOUT};
use crate::error::DemoError;
use crate::storage::Placement;

/// How long before its time a frame goes to the core.
const LEAD: Duration = Duration::from_millis(200);
/// Buffers taken ahead of the one being worked on.
const AHEAD: usize = 2;
/// Bytes of a gap that tell a decoder to forget its state.
const GAP_BYTES: usize = hythe::media::mp3::Gap::RESET_BYTES;

/// What the stage reports when it is done.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct DemuxReport {
    /// When each buffer was waited for and taken.
    pub(super) arrivals: Vec<Arrival>,
    /// Sleeps of the taker.
    pub(super) wakes: u64,
    /// Payload forwarded to the core, in bytes.
    pub(super) bytes: u64,
    /// When each part was forwarded.
    pub(super) published_ns: Vec<u64>,
}

pub(super) fn run(node: &Node) -> Result<DemuxReport, DemoError> {
    let policy = PortPolicy::Block {
        timeout_ms: NEIGHBOUR_TIMEOUT.as_millis() as u32,
    };
    let options = SubscriberOptions::default().depth(2).policy(policy);
    let subscriber = node.subscriber(CHANNEL_FILE, &options)?;
    let mut handing_on = HandingOn {
        publisher: node.publisher(
            CHANNEL_MP3,
            &PublisherOptions::default().send_timeout(NEIGHBOUR_TIMEOUT),
        )?,
        splitter: FrameSplitter::new().without_info(),
        start_ns: None,
        due_ns: 0,
        published_ns: Vec::new(),
        bytes: 0,
    };
    let (buffers, ahead) = sync_channel(AHEAD);
    let taker = std::thread::spawn(move || take_buffers(subscriber, &buffers));
    let walked = handing_on.walk(&ahead);
    // The taker ends when nobody receives any more.
    drop(ahead);
    let taken = taker
        .join()
        .map_err(|_| DemoError::Stalled("the taking thread panicked".to_owned()))?;
    walked?;
    let (arrivals, wakes) = taken?;
    handing_on.publisher.flush(NEIGHBOUR_TIMEOUT)?;
    let HandingOn {
        bytes,
        published_ns,
        ..
    } = handing_on;
    Ok(DemuxReport {
        arrivals,
        wakes,
        bytes,
        published_ns,
    })
}

/// Takes buffers as they come, so that the time of the hop is not that of the work behind it.
fn take_buffers(
    mut subscriber: Subscriber,
    buffers: &SyncSender<(Placement, Sample)>,
) -> Result<(Vec<Arrival>, u64), DemoError> {
    let mut arrivals = Vec::new();
    loop {
        let waiting_ns = monotonic_ns();
        let Some(sample) = subscriber.take(NEIGHBOUR_TIMEOUT)? else {
            return Err(DemoError::Stalled(format!(
                "no buffer of the file for {NEIGHBOUR_TIMEOUT:?}"
            )));
        };
        arrivals.push(Arrival {
            waiting_ns,
            taken_ns: monotonic_ns(),
        });
        let mut beside = [0; Placement::BYTES];
        sample.read_headroom(0, &mut beside);
        let placement = Placement::from_bytes(beside);
        // The last, or nobody wants more: an error ends the other thread, which says why.
        if buffers.send((placement, sample)).is_err() || placement.is_last {
            return Ok((arrivals, subscriber.sleeps()));
        }
    }
}

struct HandingOn {
    publisher: Publisher,
    splitter: FrameSplitter,
    start_ns: Option<u64>,
    /// When the next frame is due, counted from the start.
    due_ns: u64,
    published_ns: Vec<u64>,
    bytes: u64,
}

impl HandingOn {
    fn walk(&mut self, buffers: &Receiver<(Placement, Sample)>) -> Result<(), DemoError> {
        while let Ok((placement, sample)) = buffers.recv() {
            if self.through(placement, &sample)? {
                return Ok(());
            }
        }
        Err(DemoError::Stalled(
            "the buffers of the file ended before the file".to_owned(),
        ))
    }

    /// Forwards the frames of one buffer. True: the last.
    fn through(&mut self, placement: Placement, sample: &Sample) -> Result<bool, DemoError> {
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        let window = Window {
            offset: placement.offset,
            bytes: sample.as_slice(trust),
            is_last: placement.is_last,
        };
        loop {
            match self.splitter.next(&window)? {
                Step::Frame(frame) => {
                    self.pace();
                    self.forward(sample.part(frame.start, frame.bytes)?)?;
                    let samples = u64::from(frame.header.samples());
                    self.due_ns +=
                        samples * 1_000_000_000 / u64::from(frame.header.samples_per_second());
                }
                Step::Gap(gap) if self.start_ns.is_some() => {
                    // The decoder has to know, or it would go on with the state of before.
                    let start = gap.offset.saturating_sub(placement.offset) as usize;
                    let start = start.min(sample.len());
                    let bytes = GAP_BYTES.min(sample.len() - start).min(gap.bytes as usize);
                    self.forward(sample.part(start, bytes)?)?;
                }
                Step::Gap(_) => {}
                Step::ReadFrom(_) => return Ok(false),
                Step::End => return Ok(true),
            }
        }
    }

    fn forward(&mut self, part: Sample) -> Result<(), DemoError> {
        self.bytes += part.len() as u64;
        self.published_ns.push(monotonic_ns());
        self.publisher.forward(part)?;
        Ok(())
    }

    fn pace(&mut self) {
        let now = monotonic_ns();
        let start = *self.start_ns.get_or_insert(now);
        let due = start + self.due_ns;
        let lead = LEAD.as_nanos() as u64;
        std::thread::sleep(Duration::from_nanos(due.saturating_sub(now + lead)));
    }
}
