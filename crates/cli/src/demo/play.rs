//! The sender stage: takes decoded frames from the core and sends them as RTP L16, from the slots the core wrote.

use std::net::SocketAddr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use hythe::media::rtp::{Identity, L16};
use hythe::media::send::RtpSender;
use hythe::{Node, Sample, Subscriber, SubscriberOptions, TrustPeers, monotonic_ns};
use serde::{Deserialize, Serialize};

use super::{Arrival, CHANNEL_PCM, DemoError, PATIENCE};

/// Decoded frames taken ahead of the one being sent.
const AHEAD: usize = 16;
/// Frames that wait before the first is sent: they hide the jitter of an emulated core.
const HEAD_START: Duration = Duration::from_millis(100);

/// What the stage is to do.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct PlayArgs {
    /// Where to send.
    #[arg(long)]
    destination: SocketAddr,
    /// Samples a second.
    #[arg(long)]
    hz: u32,
    /// Channels.
    #[arg(long)]
    channels: u8,
    /// Buffers that will come from the core.
    #[arg(long)]
    parts: u64,
}

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
    /// Packets that the system refused or dropped.
    pub(super) unsent: u64,
    /// From taking a buffer to its last packet having left, less the time that its packets waited for the media clock.
    pub(super) send_ns: Vec<u64>,
    /// Times the stream stalled and the clock was moved.
    pub(super) stalls: u64,
}

pub(super) fn run(node: &Node, args: &PlayArgs) -> Result<PlayReport, DemoError> {
    let format = L16::new(args.hz, args.channels)?;
    let subscriber = node.subscriber(CHANNEL_PCM, &SubscriberOptions::default().depth(32))?;
    // Says to whoever started this stage that nothing will be missed from now on.
    println!("ready");
    let (frames, ahead) = sync_channel(AHEAD);
    let expected = args.parts;
    let taker = std::thread::spawn(move || take_frames(subscriber, expected, &frames));
    let mut sender = RtpSender::connect(args.destination, format, Identity::random()?)?;
    let mut report = PlayReport::default();
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let mut is_first = true;
    let mut failed = None;
    while let Ok(sample) = ahead.recv() {
        if sample.is_empty() {
            continue;
        }
        if std::mem::take(&mut is_first) {
            std::thread::sleep(HEAD_START);
        }
        report.bytes += sample.len() as u64;
        let waited = sender.statistics().waited_ns;
        let start = monotonic_ns();
        if let Err(error) =
            check(&sample, args).and_then(|()| Ok(sender.send(sample.as_slice(trust))?))
        {
            failed = Some(error);
            break;
        }
        let waited = sender.statistics().waited_ns - waited;
        report
            .send_ns
            .push((monotonic_ns() - start).saturating_sub(waited));
    }
    // The taker ends when nobody receives any more.
    drop(ahead);
    let taken = taker
        .join()
        .map_err(|_| DemoError::Stalled("the taking thread panicked".to_owned()))?;
    if let Some(error) = failed {
        return Err(error);
    }
    (report.arrivals, report.wakes) = taken?;
    let sent = sender.statistics();
    report.packets = sent.packets;
    report.packet_bytes = sent.payload_bytes;
    report.samples = sent.samples;
    report.unsent = sent.refused + sent.unreachable + sent.overflows;
    report.stalls = sent.stalls;
    Ok(report)
}

fn take_frames(
    mut subscriber: Subscriber,
    expected: u64,
    frames: &SyncSender<Sample>,
) -> Result<(Vec<Arrival>, u64), DemoError> {
    let mut arrivals = Vec::new();
    for number in 0..expected {
        let waiting_ns = monotonic_ns();
        let Some(sample) = subscriber.take(PATIENCE)? else {
            let said = format!(
                "the core sent {number} of {expected} decoded frames, then none for {PATIENCE:?}"
            );
            return Err(DemoError::Stalled(said));
        };
        arrivals.push(Arrival {
            waiting_ns,
            taken_ns: monotonic_ns(),
        });
        if frames.send(sample).is_err() {
            break;
        }
    }
    Ok((arrivals, subscriber.sleeps()))
}

/// The words that the decoder leaves at the start of the slot must be those of this stream.
fn check(sample: &Sample, args: &PlayArgs) -> Result<(), DemoError> {
    let mut words = [0; 8];
    sample.read_headroom(0, &mut words);
    let hz = u32::from_le_bytes([words[0], words[1], words[2], words[3]]);
    let channels = u32::from_le_bytes([words[4], words[5], words[6], words[7]]);
    if (hz, channels) == (args.hz, args.channels.into()) {
        return Ok(());
    }
    Err(DemoError::Stalled(format!(
        "the core decoded {hz} Hz with {channels} channels where the file says {} Hz with {}",
        args.hz, args.channels
    )))
}
