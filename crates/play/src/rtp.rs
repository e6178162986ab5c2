//! The movie as RTP, beside playing it: samples from the slots that the core wrote, access units
//! from the file.
//!
//! Each stream has a thread and a session of its own. What is due is what the player's clock says:
//! samples come when they are heard, access units are given out when they are shown. So both stand
//! where the clock stands, and their sender reports keep them in step at the receiver. A receiver
//! that is not there, or does not keep up, loses packets and holds nothing up.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hythe::media::address::StreamAddress;
use hythe::media::pace::Limit;
use hythe::media::send::session::{SendOptions, SendSession, Step};
use hythe::media::source::Source;
use hythe::media::source::channel::{Message, TimedMessage, TimedSource};
use hythe::media::source::mp4::movie::{AudioTrack, VideoTrack};
use hythe::media::source::mp4::{self, Mp4};
use hythe::media::source::raw::PcmFormat;
use hythe::media::wire::destinations::DestinationId;
use hythe::media::wire::endpoint::DestinationOptions;
use hythe::media::{MediaError, identity, sdp};
use hythe::rtp::HEADER_BYTES;
use hythe::rtp::format::{Encoding, StreamFormat};
use hythe::rtp::payload;
use hythe::rtp::sdp::StreamDescription;
use hythe::rtp::unit::Unit;
use hythe::{
    ClassPlan, Geometry, Node, NodeError, Pool, PoolOptions, Sample, TrustPeers, WireOptions,
    monotonic_ns,
};

use crate::error::PlayError;
use crate::report::RtpStream;
use crate::stage::{LOOK, Stage};

/// The picture's port is so far behind that of the sound: each has one for RTCP behind it.
const PORTS_APART: u16 = 2;
/// Blocks of samples that wait to be sent, at most: the core gets their slots back.
const BLOCKS_MAX: usize = 16;
/// Receivers read RTCP before RTP that came earlier (ffmpeg does, and ends at a BYE): the time they
/// have to empty their sockets.
const LINGER: Duration = Duration::from_millis(500);
/// Packets of samples leave each at its own instant.
const EACH: Limit = Limit {
    burst: 1,
    early_ns: 0,
};
/// Where pages cannot be lent to the network stack, packets are built in the pool's own slots:
/// eight ahead of their instant, and two spare ones.
const SLOTS: ClassPlan = ClassPlan {
    payload_bytes: (256 << 10) - 256,
    count: 10,
};

/// Where the movie is sent, too.
#[derive(Clone, Debug)]
pub struct RtpOptions {
    /// Address of the sound. The picture has the port two behind.
    pub to: StreamAddress,
    /// File for a session description that names both streams.
    pub sdp: Option<PathBuf>,
}

/// A stream that is ready to be sent.
pub(crate) struct RtpSender {
    session: SendSession,
    destination: DestinationId,
    description: StreamDescription,
}

/// Both streams.
#[derive(Default)]
pub(crate) struct RtpSenders {
    pub(crate) sound: Option<RtpSender>,
    pub(crate) picture: Option<RtpSender>,
    /// Where blocks of sound go.
    pub(crate) blocks: Option<SoundQueue>,
}

/// Blocks on their way to the sender.
pub(crate) struct SoundQueue {
    blocks: SyncSender<TimedMessage>,
    stage: Arc<Stage>,
    /// How long a sender that is behind is waited for.
    stall: Duration,
    dropped: u64,
}

/// Access units, each as soon as the clock is there.
struct Clocked {
    units: Mp4,
    times_ns: Vec<i64>,
    given: usize,
    stage: Arc<Stage>,
}

impl RtpOptions {
    /// The addresses of sound and picture.
    ///
    /// # Errors
    ///
    /// [`PlayError::Media`] for a name without address, and for a port that leaves the picture or
    /// RTCP none.
    pub(crate) fn addresses(&self) -> Result<[StreamAddress; 2], PlayError> {
        let picture = StreamAddress {
            port: self.to.port.checked_add(PORTS_APART).unwrap_or(0),
            ..self.to.clone()
        };
        self.to.resolve()?;
        picture.resolve()?;
        Ok([self.to.clone(), picture])
    }
}

impl RtpSenders {
    /// Opens the streams of a movie and writes their description.
    pub(crate) fn open(
        options: &RtpOptions,
        node: &Node,
        stage: &Arc<Stage>,
        stall: Duration,
        (path, audio, video): (&Path, Option<&AudioTrack>, Option<&VideoTrack>),
    ) -> Result<Self, PlayError> {
        let [sound_to, picture_to] = options.addresses()?;
        let mut senders = Self::default();
        if let Some(track) = audio {
            let (blocks, waiting) = sync_channel(BLOCKS_MAX);
            let source = samples(track, waiting)?;
            senders.blocks = Some(SoundQueue {
                blocks,
                stage: Arc::clone(stage),
                stall,
                dropped: 0,
            });
            senders.sound = Some(RtpSender::open(node, Box::new(source), EACH, &sound_to)?);
        }
        if let Some(track) = video {
            let source = Clocked {
                units: mp4::open(path)?,
                times_ns: track.units.iter().map(|unit| unit.time_ns).collect(),
                given: 0,
                stage: Arc::clone(stage),
            };
            // Nobody else has a part in what access units become.
            let node = own_node()?;
            senders.picture = Some(RtpSender::open(
                &node,
                Box::new(source),
                Limit::LIVE,
                &picture_to,
            )?);
        }
        if let Some(path) = &options.sdp {
            let both = [&senders.sound, &senders.picture].into_iter().flatten();
            let both: Vec<_> = both.map(|sender| sender.description.clone()).collect();
            sdp::write(path, &sdp::describe(&both, monotonic_ns()))?;
        }
        Ok(senders)
    }
}

impl RtpSender {
    fn open(
        node: &Node,
        source: Box<dyn Source + Send>,
        limit: Limit,
        to: &StreamAddress,
    ) -> Result<Self, PlayError> {
        let packetizer = payload::packetizer(source.format())?;
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        let mut options = SendOptions::new(identity::random()?, trust);
        options.limit = limit;
        options.wire = WireOptions {
            slots: SLOTS.count,
            ..WireOptions::default()
        };
        let mut session = SendSession::new(node, source, packetizer, options)?;
        let mut way = DestinationOptions::default();
        way.multicast_hops = to.ttl.unwrap_or(way.multicast_hops);
        way.multicast_interface.clone_from(&to.interface);
        let address = to.resolve()?;
        let destination = session.destinations().add(address, &way)?;
        let mut description = session.describe(address);
        description.ttl = to.ttl.unwrap_or(description.ttl);
        Ok(Self {
            session,
            destination,
            description,
        })
    }

    /// Sends to the end of the stream.
    pub(crate) fn run(mut self, stage: &Stage) -> Result<RtpStream, PlayError> {
        // What becomes of the destination is in the result.
        let tell = &mut |_: &_| {};
        loop {
            if let Err(ended) = stage.go_on() {
                self.session.say_goodbye()?;
                return Err(ended);
            }
            match self.session.step(tell)? {
                Step::Again => {}
                Step::Wait(until_ns) => {
                    let look_ns = monotonic_ns() + LOOK.as_nanos() as u64;
                    self.session.wait(until_ns.min(look_ns), None)?;
                }
                Step::Ended => break,
            }
        }
        self.session.finish(LINGER, None, tell)?;
        Ok(self.report())
    }

    fn report(mut self) -> RtpStream {
        let (statistics, spacing) = (self.session.statistics(), self.session.spacing());
        let payload = self.session.format().encoding.name();
        let destination = self.session.destinations().by_id(self.destination);
        let (address, state, refused) = destination.map_or_else(Default::default, |destination| {
            let counts = destination.statistics();
            let (address, state) = (destination.address(), counts.state);
            (address.to_string(), state.to_string(), counts.refused)
        });
        RtpStream {
            payload,
            destination: address,
            packets: statistics.packets,
            bytes: statistics.bytes - statistics.packets * HEADER_BYTES as u64,
            lost: statistics.lost,
            refused,
            dropped: 0,
            moves: spacing.moves,
            state,
        }
    }
}

impl SoundQueue {
    /// Sends the bytes of a block that are heard, from `time` samples on.
    pub(crate) fn push(
        &mut self,
        block: Sample,
        heard: Range<usize>,
        time: u64,
    ) -> Result<(), PlayError> {
        if heard.is_empty() {
            return Ok(());
        }
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        let message = Message::new(block, trust);
        let message = message.part(heard);
        let mut timed = TimedMessage { message, time };
        let begun = Instant::now();
        loop {
            // It waits for no receiver, so it is behind only on a busy machine.
            timed = match self.blocks.try_send(timed) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(refused)) if begun.elapsed() < self.stall => refused,
                Err(_) => {
                    self.dropped += 1;
                    return Ok(());
                }
            };
            self.stage.go_on()?;
            std::thread::sleep(LOOK / 10);
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Source for Clocked {
    fn format(&self) -> &StreamFormat {
        self.units.format()
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        self.given += 1;
        self.units.next()
    }

    fn is_ready(&mut self) -> Result<bool, MediaError> {
        let Some(time_ns) = self.times_ns.get(self.given) else {
            return Ok(true);
        };
        Ok(self.stage.at().is_some_and(|at| at >= *time_ns))
    }

    fn damaged(&self) -> u64 {
        self.units.damaged()
    }
}

fn samples(track: &AudioTrack, blocks: Receiver<TimedMessage>) -> Result<TimedSource, MediaError> {
    let format = PcmFormat {
        encoding: Encoding::L16,
        samples_per_second: track.header.samples_per_second(),
        channels: track.header.channels(),
    };
    TimedSource::new(format, blocks)
}

/// Takes part in a pool that goes with this process.
fn own_node() -> Result<Node, PlayError> {
    let geometry = Geometry::with_classes(Geometry::small_limits(), &[SLOTS]);
    let geometry = geometry.map_err(NodeError::from)?;
    let options = PoolOptions::new("play-rtp").geometry(geometry);
    Ok(Node::join(&Pool::create_private(&options)?, "hythe play")?)
}
