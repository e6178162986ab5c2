//! One stream from a source to its destinations.
//!
//! Whoever owns a [`SendSession`] calls [`step`](SendSession::step) in a loop, waits as long as that says, and adds and removes
//! destinations in between. Media is read and laid out ahead while there is time to, in slots of the pool's wire region; a group of
//! packets is sent to all destinations from there, at its instant, by the fastest way that each allows. Nothing here waits, but for
//! sockets without room, and that not longer than [`SendOptions::patience`].

use std::time::Duration;

use hythe_node::{Node, TrustPeers, WireOptions};

use super::ahead::Ahead;
use super::reporting::Reporting;
use super::store::Store;
use crate::MediaError;
use crate::format::StreamFormat;
use crate::instant::now_ns;
use crate::pace::{Limit, Pace, Pacer, Spacing, group};
use crate::payload::Packetize;
use crate::rtp::{HEADER_BYTES, Identity, MAX_PAYLOAD_BYTES};
use crate::source::Source;
use crate::wire::destinations::Destinations;
use crate::wire::health::Event;
use crate::wire::packets::Packets;

/// From this number of destinations on, sending by reference is worth the fresh pages that it takes (ADR 0017).
const LENDING_PAYS_FROM: usize = 16;
/// Media is laid out ahead only if the next group is not due before that: long enough for the largest picture.
const SLACK_NS: u64 = 500_000;
/// How soon a live source is asked again.
const ASK_AGAIN_NS: u64 = 1_000_000;

/// How a stream is sent.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Source, first number and first timestamp.
    pub identity: Identity,
    /// What decides when packets leave.
    pub pace: Pace,
    /// How many leave at once.
    pub limit: Limit,
    /// Bytes of a payload, at most.
    pub payload_bytes_max: usize,
    /// How long a destination without room is waited for.
    pub patience: Duration,
    /// How long packets are kept behind their sending.
    pub keep: Duration,
    /// By reference (`sendfile`) or not, whatever the number of destinations; for measurement.
    pub lend: Option<bool>,
    /// Slots of the pool's wire region, if it has none yet.
    pub wire: WireOptions,
    /// The slots are read as they are: no other member of the pool writes what it does not hold.
    pub trust: TrustPeers,
}

impl SendOptions {
    /// At the pace of the media, at most eight packets at once, one at most 2 ms early.
    #[must_use]
    pub fn new(identity: Identity, trust: TrustPeers) -> Self {
        Self {
            identity,
            pace: Pace::Media,
            limit: Limit {
                burst: 8,
                early_ns: 2_000_000,
            },
            payload_bytes_max: MAX_PAYLOAD_BYTES,
            patience: Duration::from_millis(5),
            keep: Duration::ZERO,
            lend: None,
            wire: WireOptions::default(),
            trust,
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call again at once: there is more to do.
    Again,
    /// Call again at this instant of the monotonic clock, in nanoseconds.
    Wait(u64),
    /// The source has ended and its last packet left.
    Ended,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendStatistics {
    /// Packets of the stream that left, each counted once however many destinations there are.
    pub packets: u64,
    /// Their bytes, RTP headers included.
    pub bytes: u64,
    /// Packets that the network took, all destinations together.
    pub delivered: u64,
    /// Packets that it did not.
    pub lost: u64,
    /// Groups that left by reference.
    pub lent_groups: u64,
    /// Damaged places of the input that were passed over.
    pub damaged: u64,
}

/// Sends one stream.
#[derive(Debug)]
pub struct SendSession {
    ahead: Ahead,
    store: Store,
    pacer: Pacer,
    destinations: Destinations,
    reporting: Reporting,
    statistics: SendStatistics,
    options: SendOptions,
}

impl SendSession {
    /// A session without destinations. The node's pool gets a wire region if it has none.
    ///
    /// # Errors
    ///
    /// [`MediaError::Pool`].
    pub fn new(
        node: &Node,
        source: Box<dyn Source + Send>,
        packetizer: Box<dyn Packetize + Send>,
        options: SendOptions,
    ) -> Result<Self, MediaError> {
        let plan = (options.pace, options.limit);
        let store = Store::new(node, &options.wire, options.trust)?;
        let identity = &options.identity;
        Ok(Self {
            ahead: Ahead::new(
                source,
                packetizer,
                identity,
                plan,
                options.payload_bytes_max,
            ),
            store,
            pacer: Pacer::new(),
            destinations: Destinations::new(),
            reporting: Reporting::new(identity)?,
            statistics: SendStatistics::default(),
            options,
        })
    }

    /// What the stream carries.
    #[must_use]
    pub fn format(&self) -> &StreamFormat {
        self.ahead.format()
    }

    /// Sequence number and timestamp of the packet that leaves next.
    #[must_use]
    pub fn position(&self) -> (u16, u32) {
        let headers = self.ahead.headers();
        let next = self.store.waiting().and_then(|(layout, packets)| {
            let first = packets.first()?;
            let timestamp = layout.packet(first).get(4..)?.first_chunk()?;
            Some((first.sequence, u32::from_be_bytes(*timestamp)))
        });
        next.unwrap_or_else(|| (headers.sequence(), headers.timestamp_at(0)))
    }

    /// Where it goes; add and remove between two steps.
    pub fn destinations(&mut self) -> &mut Destinations {
        &mut self.destinations
    }

    /// What was done so far.
    #[must_use]
    pub fn statistics(&self) -> SendStatistics {
        SendStatistics {
            damaged: self.ahead.damaged(),
            ..self.statistics
        }
    }

    /// How well the pace was kept.
    #[must_use]
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// How well the pace was kept, in short.
    #[must_use]
    pub fn spacing(&self) -> Spacing {
        self.pacer.spacing()
    }

    /// Does what is due. What happens to destinations is given to `tell`.
    ///
    /// # Errors
    ///
    /// What the source says; [`MediaError::Pool`] if the pool has no slot left, or is lost.
    pub fn step(&mut self, tell: &mut dyn FnMut(&Event)) -> Result<Step, MediaError> {
        let waiting = self.store.waiting();
        let due_ns = match waiting.map(|(_, packets)| (packets.len(), packets[0].due_ns)) {
            Some((count, due_ns)) if self.is_whole(count) => due_ns,
            _ if self.ahead.lay_out(&mut self.store)? => return Ok(Step::Again),
            Some((_, due_ns)) => due_ns,
            None if self.ahead.has_ended() => return Ok(Step::Ended),
            None => return Ok(Step::Wait(now_ns() + ASK_AGAIN_NS)),
        };
        let now = now_ns();
        let instant_ns = self.pacer.instant(due_ns, now);
        if now < instant_ns {
            return self.use_time(now, instant_ns);
        }
        self.send_group(due_ns, now, tell)?;
        Ok(Step::Again)
    }

    /// Says goodbye to all destinations. For the end of a stream, when its last packet has been played.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if the packet cannot be written.
    pub fn say_goodbye(&mut self) -> Result<(), MediaError> {
        self.reporting.goodbye(
            now_ns(),
            self.ahead.format().clock_hz,
            &mut self.destinations,
        )
    }

    /// Does the next group certainly not get longer by what is laid out next?
    fn is_whole(&self, packets: usize) -> bool {
        packets > self.options.limit.burst || self.ahead.has_ended() || self.store.is_far_ahead()
    }

    /// Between two groups: lays out more, or sends a report, or waits.
    fn use_time(&mut self, now: u64, instant_ns: u64) -> Result<Step, MediaError> {
        if instant_ns - now > SLACK_NS {
            let hz = self.ahead.format().clock_hz;
            if self.reporting.report_one(now, hz, &mut self.destinations)? {
                return Ok(Step::Again);
            }
            if !self.store.is_far_ahead() && self.ahead.lay_out(&mut self.store)? {
                return Ok(Step::Again);
            }
        }
        Ok(Step::Wait(instant_ns))
    }

    fn send_group(
        &mut self,
        due_ns: u64,
        now: u64,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), MediaError> {
        let Some((layout, waiting)) = self.store.waiting() else {
            return Ok(());
        };
        let lend = self
            .options
            .lend
            .unwrap_or(self.destinations.len() >= LENDING_PAYS_FROM);
        let count = group(waiting, self.options.limit);
        let (memory, places) = (layout.memory()?, &waiting[..count]);
        let packets = if lend {
            Packets::lasting(memory, places)?
        } else {
            Packets::passing(memory, places)?
        };
        let outcome = self.destinations.send(&packets, self.options.patience);
        outcome.events.iter().for_each(tell);
        self.statistics.delivered += outcome.packets;
        self.statistics.lost += outcome.lost;
        self.statistics.packets += count as u64;
        let bytes: u64 = places.iter().map(|place| u64::from(place.bytes)).sum();
        self.statistics.bytes += bytes;
        self.statistics.lent_groups += u64::from(lend);
        let payload_bytes = bytes - (count * HEADER_BYTES) as u64;
        self.reporting
            .sent(layout.packet(&places[0]), now, count, payload_bytes);
        self.pacer.sent(due_ns, now);
        self.store.left(count, lend, now);
        let keep_ns = u64::try_from(self.options.keep.as_nanos()).unwrap_or(u64::MAX);
        self.store.recycle(now.saturating_sub(keep_ns))
    }
}
