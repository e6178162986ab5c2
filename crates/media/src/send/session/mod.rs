//! One stream from a source to its destinations.
//!
//! Whoever owns a [`SendSession`] calls [`step`](SendSession::step) in a loop, waits as long as
//! that says, and adds and removes destinations in between. Media is read and built ahead while
//! there is time to, in slots of the pool's wire region; media of a channel stays where it was
//! published, and only headers are made. A group of packets is sent to all destinations from there,
//! at its instant, by the fastest way that each allows. Nothing here waits, but for sockets without
//! space, and that not longer than [`SendOptions::send_timeout`].

mod ending;
mod groups;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use hythe_node::{Node, NodeError, TrustPeers, WireOptions};
use hythe_rtp::format::StreamFormat;
use hythe_rtp::loss::nack::ResendCounts;
use hythe_rtp::payload::Packetize;
use hythe_rtp::sdp::StreamDescription;
use hythe_rtp::{HEADER_BYTES, Identity, MAX_PAYLOAD_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::MediaError;
use crate::instant::now_ns;
use crate::pace::{CATCH_UP, FLOW_PACKETS_MAX, Limit, Pace, Pacer, Spacing};
use crate::send::ahead::Ahead;
use crate::send::feedback::{Feedback, Received};
use crate::send::parity::{ParitySender, packets_beside};
use crate::send::repair::Repair;
use crate::send::reporting::{Reference, Reporting};
use crate::send::share::SlotShare;
use crate::send::spacer::{SpacedBy, Spacer, Way};
use crate::send::store::Store;
use crate::source::Source;
use crate::wire::destinations::{DestinationId, Destinations};
use crate::wire::health::Event;

/// Media is built ahead only if the next group is not due before that: long enough for the
/// largest picture.
const SLACK_NS: u64 = 500_000;
/// How soon a live source is asked again.
const ASK_AGAIN_NS: u64 = 1_000_000;
/// Between two questions, no more than this counts as time that a source kept us waiting: what is
/// more is time that this machine kept us from asking.
const ASKED_AFTER_NS_MAX: u64 = 20_000_000;
/// How often it is looked whether receivers said anything, if nobody waits for that.
const LISTEN_EVERY_NS: u64 = 1_000_000;

/// How a stream is sent.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Source, first number and first timestamp.
    pub identity: Identity,
    /// What decides when packets leave.
    pub pace: Pace,
    /// How many leave at once.
    pub limit: Limit,
    /// How many times as fast as the media packets leave that are late, at least 1.
    pub catch_up: u32,
    /// Bytes of a payload, at most.
    pub payload_bytes_max: usize,
    /// How long a destination without free capacity is waited for.
    pub send_timeout: Duration,
    /// Packets are given departure times, so that the kernel keeps them apart, if the ways to all
    /// destinations heed them; those are to be opened with
    /// [`departures`](crate::wire::endpoint::DestinationOptions::departures).
    pub departures: bool,
    /// What is done about packets that get lost on their way.
    pub repair: Repair,
    /// By reference (`sendfile`) or not, whatever the number of destinations; for measurement.
    pub lend: Option<bool>,
    /// Slots of the pool's wire region, if it has none yet.
    pub wire: WireOptions,
    /// With whom those are shared: some are then leased at once, and a session without them is
    /// refused. `None`: as many as needed.
    pub share: Option<Arc<SlotShare>>,
    /// The slots are read as they are: no other member of the pool writes what it does not hold.
    pub trust: TrustPeers,
}

impl SendOptions {
    /// At the pace of the media, with the bursts of live media.
    #[must_use]
    pub fn new(identity: Identity, trust: TrustPeers) -> Self {
        Self {
            identity,
            pace: Pace::Media,
            limit: Limit::LIVE,
            catch_up: CATCH_UP,
            payload_bytes_max: MAX_PAYLOAD_BYTES,
            send_timeout: Duration::from_millis(5),
            departures: false,
            repair: Repair::default(),
            lend: None,
            wire: WireOptions::default(),
            share: None,
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
    /// Of those: what schedulers dropped because its departure time had passed.
    pub missed: u64,
    /// Times that packets were handed over: once for each group, or for many that the kernel keeps
    /// apart.
    pub handovers: u64,
    /// Groups that left by reference.
    pub lent_groups: u64,
    /// Packets sent again that the network took, all destinations together.
    pub resent: u64,
    /// Packets that were asked for and not sent again, and requests that were not followed.
    pub requests_refused: u64,
    /// Parity packets, each counted once however many destinations there are.
    pub parity: u64,
    /// Datagrams of RTCP that are not understood.
    pub malformed_feedback: u64,
    /// Packets that were kept for resending for less long than they should be, because the channel
    /// they come from needs its slots.
    pub kept_short: u64,
    /// Bytes of a channel's media that were copied because the end of a message cut them in two.
    pub joined_bytes: u64,
    /// Damaged places of the input that were passed over.
    pub damaged: u64,
    /// Bytes in front of the first whole packet or frame of an input that begins within one.
    pub skipped_at_start: u64,
}

impl SendStatistics {
    /// The mean of packets that were handed over together, whether it was to one destination or to
    /// many; 0 if none were.
    #[must_use]
    pub fn packets_per_handover(&self) -> f64 {
        match self.handovers {
            0 => 0.0,
            handovers => self.packets as f64 / handovers as f64,
        }
    }
}

/// A source that has nothing.
#[derive(Clone, Copy, Debug)]
struct Starved {
    /// When it was asked last.
    asked_ns: u64,
    /// How long it has been waited for by then.
    waited_ns: u64,
}

/// Sends one stream.
#[derive(Debug)]
pub struct SendSession {
    ahead: Ahead,
    store: Store,
    pacer: Pacer,
    spacer: Spacer,
    destinations: Destinations,
    reporting: Reporting,
    feedback: Feedback,
    parity: Option<ParitySender>,
    /// When a group or a parity packet last left.
    last_ns: u64,
    /// When it is looked again whether receivers said anything.
    listen_ns: u64,
    has_precise_timers: bool,
    /// Nothing more of the source leaves.
    is_ending: bool,
    /// The source has had nothing since it was asked first, with nothing left to send.
    starved: Option<Starved>,
    statistics: SendStatistics,
    options: SendOptions,
}

impl SendSession {
    /// A session without destinations. The node's pool gets a wire region if it has none and can
    /// have one, unless the source's units are sent from where they [lie](Source::is_in_place).
    ///
    /// # Errors
    ///
    /// [`MediaError::Pool`]; [`MediaError::Packet`] for parity of a shape that its format does not
    /// have.
    pub fn new(
        node: &Node,
        source: Box<dyn Source + Send>,
        packetizer: Box<dyn Packetize + Send>,
        options: SendOptions,
    ) -> Result<Self, MediaError> {
        let plan = (options.pace, options.limit);
        let store = if source.is_in_place() {
            Store::zero_copy(options.repair.kept())
        } else {
            Store::prebuilt(node, &options.wire, options.share.as_ref(), options.trust)?
        };
        let identity = &options.identity;
        let repair = &options.repair;
        let parity = repair
            .parity
            .map(|parity| ParitySender::new(&parity, identity, options.payload_bytes_max))
            .transpose()?;
        Ok(Self {
            ahead: Ahead::new(
                source,
                packetizer,
                identity,
                plan,
                options.payload_bytes_max,
            ),
            store,
            pacer: Pacer::new(options.limit, options.catch_up),
            spacer: Spacer::new(
                options.departures,
                packets_beside(repair.parity.as_ref(), FLOW_PACKETS_MAX),
            ),
            destinations: Destinations::listening()?,
            reporting: Reporting::new(identity)?,
            feedback: Feedback::new(identity, repair.resend.as_ref()),
            parity,
            last_ns: 0,
            listen_ns: 0,
            has_precise_timers: false,
            is_ending: false,
            starved: None,
            statistics: SendStatistics::default(),
            options,
        })
    }

    /// Why packets are copied when they are sent, however many destinations there are: the pool
    /// lies where its pages cannot be lent to the network stack. `None`: they can.
    #[must_use]
    pub fn copies_because(&self) -> Option<&NodeError> {
        match &self.store {
            Store::Prebuilt(store) => store.copies_because(),
            Store::ZeroCopy(_) => None,
        }
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
        let next = self.store.waiting().first().and_then(|first| {
            let number = self.store.number(0);
            let timestamp =
                |header: &[u8; HEADER_BYTES]| [header[4], header[5], header[6], header[7]];
            let timestamp = self
                .store
                .show(number, first, |header, _| timestamp(header))?;
            Some((first.sequence, u32::from_be_bytes(timestamp)))
        });
        next.unwrap_or_else(|| (headers.sequence(), headers.timestamp_at(0)))
    }

    /// Sends a report to destinations that were added and have got nothing yet; without this they
    /// have it right in front of their first packet. For those that begin to listen only when they
    /// are told that it comes, as in RTSP.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if the report cannot be written.
    pub fn greet(&mut self) -> Result<(), MediaError> {
        let now = now_ns();
        self.greet_newcomers(now, now)
    }

    /// Of a packet that leaves next, at `leaves_ns`.
    fn greet_newcomers(&mut self, now: u64, leaves_ns: u64) -> Result<(), MediaError> {
        if !self.reporting.has_newcomers(&self.destinations) {
            return Ok(());
        }
        let next = Reference {
            timestamp: self.position().1,
            sent_ns: leaves_ns,
        };
        let hz = self.ahead.format().clock_hz;
        self.reporting.greet(next, now, hz, &mut self.destinations)
    }

    /// Where it goes; add and remove between two steps.
    pub fn destinations(&mut self) -> &mut Destinations {
        &mut self.destinations
    }

    /// What a receiver at `destination` has to know of the stream.
    #[must_use]
    pub fn describe(&self, destination: SocketAddr) -> StreamDescription {
        let Repair { resend, parity } = &self.options.repair;
        StreamDescription {
            takes_nack: resend.is_some(),
            retransmission: resend.as_ref().and_then(|resend| resend.description()),
            parity: parity.map(|parity| parity.description()),
            ..StreamDescription::new(self.format().clone(), destination)
        }
    }

    /// How a destination receives, as it last said.
    #[must_use]
    pub fn received(&self, id: DestinationId) -> Option<Received> {
        self.feedback.received(id)
    }

    /// How many valid datagrams of RTCP came from a destination, goodbyes left out: as long as
    /// there are more, it is there.
    #[must_use]
    pub fn heard(&self, id: DestinationId) -> u64 {
        self.feedback.heard(id)
    }

    /// What was sent again to a destination that asked, and what was not.
    #[must_use]
    pub fn resends(&self, id: DestinationId) -> Option<ResendCounts> {
        self.feedback.resends(id)
    }

    /// What was done so far.
    #[must_use]
    pub fn statistics(&self) -> SendStatistics {
        let feedback = self.feedback.counts();
        // Of those that are still there; what others missed counts as delivered.
        let (missed, later) = self.destinations.missed_packets();
        let later = later.min(self.statistics.delivered);
        SendStatistics {
            delivered: self.statistics.delivered - later,
            lost: self.statistics.lost + later,
            missed,
            resent: feedback.resent,
            requests_refused: feedback.refused,
            malformed_feedback: feedback.malformed,
            parity: self.parity.as_ref().map_or(0, ParitySender::sent),
            damaged: self.ahead.damaged(),
            skipped_at_start: self.ahead.skipped_at_start(),
            joined_bytes: self.ahead.joined_bytes(),
            ..self.statistics
        }
    }

    /// The next part of the input that could not be sent and was passed over, such as an entry of a
    /// playlist: why, once all that is in front of it has been sent.
    pub fn skipped(&mut self) -> Option<MediaError> {
        self.ahead.take_skipped(self.statistics.packets)
    }

    /// How well the pace was kept.
    #[must_use]
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// How well the pace was kept, in short. Without a pace nothing is late.
    #[must_use]
    pub fn spacing(&self) -> Spacing {
        let spacing = self.pacer.spacing();
        match self.options.pace {
            Pace::Unpaced => Spacing {
                late_ns: 0,
                late_max_ns: 0,
                ..spacing
            },
            Pace::Media | Pace::BitsPerSecond(_) => spacing,
        }
    }

    /// How much later than planned the last group left; 0 without a pace.
    #[must_use]
    pub fn late_ns(&self) -> u64 {
        match self.options.pace {
            Pace::Unpaced => 0,
            Pace::Media | Pace::BitsPerSecond(_) => self.pacer.late_ns(),
        }
    }

    /// Who keeps packets apart, as of the last step.
    #[must_use]
    pub fn spaced_by(&self) -> &SpacedBy {
        self.spacer.spacing()
    }

    /// Does what is due. What happens to destinations is given to `tell`.
    ///
    /// # Errors
    ///
    /// What the source says, when all that is in front of it has been sent; [`MediaError::Pool`] at
    /// once if the pool has no slot left, or is lost.
    pub fn step(&mut self, tell: &mut dyn FnMut(&Event)) -> Result<Step, MediaError> {
        self.listen(tell);
        if self.is_ending {
            return Ok(self.drain());
        }
        let waiting = self.store.waiting();
        let due_ns = match waiting.first().map(|first| (waiting.len(), first.due_ns)) {
            Some((count, due_ns)) if self.is_whole(count) => due_ns,
            _ if self.ahead.lay_out(&mut self.store)? => return Ok(Step::Again),
            Some((_, due_ns)) => due_ns,
            None if self.ahead.has_ended() => return self.end(),
            None => {
                let now = now_ns();
                self.starve(now);
                // A channel that falls silent gets its last slots back, too.
                self.let_go(now)?;
                return Ok(Step::Wait(now + ASK_AGAIN_NS));
            }
        };
        let now = now_ns();
        // Without a pace all is due at once, and no source is late.
        let starved = self.starved.take();
        if let Some(starved) = starved.filter(|_| self.options.pace != Pace::Unpaced) {
            self.pacer.waited(due_ns, starved.waited_ns, now);
        }
        let ready_ns = self.ready_ns(now);
        if now < ready_ns {
            return self.use_time(now, ready_ns);
        }
        self.spacer.look(&mut self.destinations);
        // It may have changed what is ready.
        if now < self.ready_ns(now) {
            return Ok(Step::Again);
        }
        self.send_groups(now, tell)
    }

    /// After a pause, in which this was not [stepped](Self::step): what is next leaves at once.
    /// Without this it counts as late, and is caught up with.
    pub fn resume(&mut self) {
        self.pacer.resume();
    }

    /// The source has nothing, and nothing waits to be sent.
    fn starve(&mut self, now: u64) {
        let before = self.starved.unwrap_or(Starved {
            asked_ns: now,
            waited_ns: 0,
        });
        let since_ns = now.saturating_sub(before.asked_ns);
        self.starved = Some(Starved {
            asked_ns: now,
            waited_ns: before.waited_ns + since_ns.min(ASKED_AFTER_NS_MAX),
        });
    }

    /// Waits until `until_ns` of the monotonic clock, or a receiver says something, or `stop` is
    /// readable or hung up: `true` means that it is. Lets the calling thread's timers be precise to
    /// the nanosecond.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`].
    pub fn wait(
        &mut self,
        until_ns: u64,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<bool, MediaError> {
        if !self.has_precise_timers {
            // The default slack of 50 us is as much as the rest of the way; failing to lower it
            // only costs precision.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
            self.has_precise_timers = true;
        }
        let wait_ns = until_ns.saturating_sub(now_ns());
        let timeout = Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        let Some(rtcp) = self.destinations.rtcp() else {
            return Err(MediaError::System {
                what: "wait for RTCP of destinations that nobody listens to",
                source: std::io::ErrorKind::NotConnected.into(),
            });
        };
        // Without a stop descriptor: one more look at the same.
        let mut waited = [stop.unwrap_or(rtcp), rtcp]
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return Err(MediaError::System {
                    what: "wait for the next packet",
                    source: error.into(),
                });
            }
        }
        let [stopped, spoken] = waited.map(|waited| !waited.revents().is_empty());
        if spoken {
            self.listen_ns = 0;
        }
        Ok(stopped && stop.is_some())
    }

    /// Does the next group certainly not get longer by what is built next?
    fn is_whole(&self, packets: usize) -> bool {
        packets > self.options.limit.burst || self.ahead.has_ended() || self.store.is_far_ahead()
    }

    /// Reads what receivers said, if it is time to. A [step](Self::step) does it, too.
    pub fn listen(&mut self, tell: &mut dyn FnMut(&Event)) {
        let now = now_ns();
        if now < self.listen_ns {
            return;
        }
        let (destinations, store) = (&mut self.destinations, &self.store);
        let has_more = self.feedback.read(destinations, store, now, tell);
        self.listen_ns = now + if has_more { 0 } else { LISTEN_EVERY_NS };
    }

    /// When the next parity packet leaves, for those that wait to be spread over the time until the
    /// next group.
    fn parity_ns(&self, instant_ns: u64) -> Option<u64> {
        let waiting = self.parity.as_ref()?.waiting() as u64;
        let left_ns = instant_ns.saturating_sub(self.last_ns);
        (waiting > 0).then(|| self.last_ns + left_ns / (waiting + 1))
    }

    /// Between two groups: builds more, or sends a report or parity, or waits.
    fn use_time(&mut self, now: u64, instant_ns: u64) -> Result<Step, MediaError> {
        let parity_ns = self.parity_ns(instant_ns);
        if let Some(parity) = &mut self.parity
            && parity_ns.is_some_and(|parity_ns| now >= parity_ns)
        {
            // Where packets are stamped to leave a little later, their parity is, too.
            let departure_ns = match self.spacer.way() {
                Way::Stamped { margin_ns } => Some(now + margin_ns),
                Way::AtOnce | Way::Ahead { .. } => None,
            };
            parity.send_one(&mut self.destinations, departure_ns);
            self.last_ns = now;
            return Ok(Step::Again);
        }
        let instant_ns = parity_ns.unwrap_or(instant_ns);
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
}
