//! One stream from a source to its destinations.
//!
//! Whoever owns a [`SendSession`] calls [`step`](SendSession::step) in a loop, waits as long as that says, and adds and removes
//! destinations in between. Media is read and laid out ahead while there is time to, in slots of the pool's wire region; a group of
//! packets is sent to all destinations from there, at its instant, by the fastest way that each allows. Nothing here waits, but for
//! sockets without room, and that not longer than [`SendOptions::patience`].

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hythe_node::{Node, TrustPeers, WireOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use super::ahead::Ahead;
use super::feedback::{Feedback, Received};
use super::parity::ParitySender;
use super::repair::Repair;
use super::reporting::Reporting;
use super::spacer::{SpacedBy, Spacer, Way};
use super::store::Store;
use crate::MediaError;
use crate::format::StreamFormat;
use crate::instant::now_ns;
use crate::loss::nack::ResendCounts;
use crate::pace::{Group, Limit, Pace, Pacer, Spacing, group};
use crate::payload::Packetize;
use crate::rtp::{HEADER_BYTES, Identity, MAX_PAYLOAD_BYTES};
use crate::sdp::StreamDescription;
use crate::source::Source;
use crate::wire::destinations::{DestinationId, Destinations};
use crate::wire::health::Event;
use crate::wire::packets::Packets;

/// From this number of destinations on, sending by reference is worth the fresh pages that it takes (ADR 0017).
const LENDING_PAYS_FROM: usize = 16;
/// Media is laid out ahead only if the next group is not due before that: long enough for the largest picture.
const SLACK_NS: u64 = 500_000;
/// How soon a live source is asked again.
const ASK_AGAIN_NS: u64 = 1_000_000;
/// How often it is looked whether receivers said anything, if nobody waits for that.
const LISTEN_EVERY_NS: u64 = 1_000_000;
/// How far the last parity packets of a stream are apart.
const LAST_PARITY_GAP_NS: u64 = 1_000_000;

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
    /// Packets are given departure times, so that the kernel keeps them apart, if the ways to all destinations heed them; those are to be
    /// opened with [`departures`](crate::wire::endpoint::DestinationOptions::departures).
    pub departures: bool,
    /// What is done about packets that get lost on their way.
    pub repair: Repair,
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
            departures: false,
            repair: Repair::default(),
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
    /// Of those: what schedulers dropped because its departure time had passed.
    pub missed: u64,
    /// Times that packets were handed over: once for each group, or for many that the kernel keeps apart.
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
    /// Damaged places of the input that were passed over.
    pub damaged: u64,
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
    statistics: SendStatistics,
    options: SendOptions,
}

impl SendSession {
    /// A session without destinations. The node's pool gets a wire region if it has none.
    ///
    /// # Errors
    ///
    /// [`MediaError::Pool`]; [`MediaError::Packet`] for parity of a shape that its format does not have.
    pub fn new(
        node: &Node,
        source: Box<dyn Source + Send>,
        packetizer: Box<dyn Packetize + Send>,
        options: SendOptions,
    ) -> Result<Self, MediaError> {
        let plan = (options.pace, options.limit);
        let store = Store::new(node, &options.wire, options.trust)?;
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
            pacer: Pacer::new(),
            spacer: Spacer::new(options.departures),
            destinations: Destinations::listening()?,
            reporting: Reporting::new(identity)?,
            feedback: Feedback::new(identity, repair.resend.as_ref()),
            parity,
            last_ns: 0,
            listen_ns: 0,
            has_precise_timers: false,
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

    /// Who keeps packets apart, as of the last step.
    #[must_use]
    pub fn spaced_by(&self) -> &SpacedBy {
        self.spacer.spacing()
    }

    /// Does what is due. What happens to destinations is given to `tell`.
    ///
    /// # Errors
    ///
    /// What the source says; [`MediaError::Pool`] if the pool has no slot left, or is lost.
    pub fn step(&mut self, tell: &mut dyn FnMut(&Event)) -> Result<Step, MediaError> {
        self.listen(tell);
        let waiting = self.store.waiting();
        let due_ns = match waiting.map(|(_, packets)| (packets.len(), packets[0].due_ns)) {
            Some((count, due_ns)) if self.is_whole(count) => due_ns,
            _ if self.ahead.lay_out(&mut self.store)? => return Ok(Step::Again),
            Some((_, due_ns)) => due_ns,
            None if self.ahead.has_ended() => return Ok(self.finish()),
            None => return Ok(Step::Wait(now_ns() + ASK_AGAIN_NS)),
        };
        let now = now_ns();
        let ready_ns = self.ready_ns(due_ns, now);
        if now < ready_ns {
            return self.use_time(now, ready_ns);
        }
        self.spacer.look(&mut self.destinations);
        // It may have changed what is ready.
        if now < self.ready_ns(due_ns, now) {
            return Ok(Step::Again);
        }
        self.send_groups(now, tell)
    }

    /// Waits until `until_ns` of the monotonic clock, or a receiver says something, or `stop` is readable or hung up: `true` means
    /// that it is. Lets the calling thread's timers be precise to the nanosecond.
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
            // The default slack of 50 us is as much as the rest of the way; failing to lower it only costs precision.
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

    /// Goes on sending again what receivers ask for until `until_ns`, or `stop` is readable or hung up. For the end of a stream:
    /// what of its last packets got lost can be repaired for as long as receivers wait for it.
    ///
    /// # Errors
    ///
    /// As [`Self::step`] and [`Self::wait`].
    pub fn linger(
        &mut self,
        until_ns: u64,
        stop: Option<BorrowedFd<'_>>,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), MediaError> {
        while now_ns() < until_ns {
            let step = self.step(tell)?;
            let next_ns = match step {
                Step::Again => continue,
                Step::Wait(next_ns) => next_ns.min(until_ns),
                Step::Ended => until_ns,
            };
            if self.wait(next_ns, stop)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads what became of packets that the kernel kept for their departure times; they are counted from then on. For the end of a
    /// stream, when the last has left.
    pub fn settle(&mut self, tell: &mut dyn FnMut(&Event)) {
        self.destinations.settle().iter().for_each(tell);
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

    /// Reads what receivers said, if it is time to.
    fn listen(&mut self, tell: &mut dyn FnMut(&Event)) {
        let now = now_ns();
        if now < self.listen_ns {
            return;
        }
        let (destinations, store) = (&mut self.destinations, &self.store);
        let has_more = self.feedback.read(destinations, store, now, tell);
        self.listen_ns = now + if has_more { 0 } else { LISTEN_EVERY_NS };
    }

    /// Nothing is left to lay out or to hand over.
    fn finish(&mut self) -> Step {
        // What the kernel has still has to leave.
        let last_ns = self.spacer.lead.last_ns();
        match self.finish_parity() {
            Step::Ended if now_ns() < last_ns => Step::Wait(last_ns),
            step => step,
        }
    }

    /// When the group that is due at `due_ns` is handed over.
    fn ready_ns(&mut self, due_ns: u64, now: u64) -> u64 {
        match self.spacer.way() {
            Way::AtOnce | Way::Stamped { .. } => self.pacer.instant(due_ns, now),
            Way::Ahead { lead_ns } => {
                let planned_ns = self.pacer.instant(due_ns, now + lead_ns);
                self.spacer.lead.ready_ns(planned_ns)
            }
        }
    }

    /// The parity of the last matrix, spread as the packets were.
    fn finish_parity(&mut self) -> Step {
        let Some(parity) = &mut self.parity else {
            return Step::Ended;
        };
        if parity.waiting() == 0 && !parity.flush() {
            return Step::Ended;
        }
        let now = now_ns();
        let instant_ns = self.last_ns.saturating_add(LAST_PARITY_GAP_NS);
        if now < instant_ns {
            return Step::Wait(instant_ns);
        }
        parity.send_one(&mut self.destinations);
        self.last_ns = now;
        Step::Again
    }

    /// When the next parity packet leaves, for those that wait to be spread over the time until the next group.
    fn parity_ns(&self, instant_ns: u64) -> Option<u64> {
        let waiting = self.parity.as_ref()?.waiting() as u64;
        let left_ns = instant_ns.saturating_sub(self.last_ns);
        (waiting > 0).then(|| self.last_ns + left_ns / (waiting + 1))
    }

    /// Between two groups: lays out more, or sends a report or parity, or waits.
    fn use_time(&mut self, now: u64, instant_ns: u64) -> Result<Step, MediaError> {
        let parity_ns = self.parity_ns(instant_ns);
        if let Some(parity) = &mut self.parity
            && parity_ns.is_some_and(|parity_ns| now >= parity_ns)
        {
            parity.send_one(&mut self.destinations);
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

    /// Sends the group that is next, or hands over those that the kernel is to send next.
    fn send_groups(&mut self, now: u64, tell: &mut dyn FnMut(&Event)) -> Result<Step, MediaError> {
        let count = self.plan(now);
        if count == 0 {
            // A large group waits until there is room for all of it.
            return Ok(Step::Wait(self.spacer.lead.room_ns(now)));
        }
        let Some((layout, waiting)) = self.store.waiting() else {
            return Ok(Step::Again);
        };
        let (memory, places) = (layout.memory()?, &waiting[..count]);
        let has_departures = !self.spacer.departures_ns.is_empty();
        let lending_pays = self.destinations.len() >= LENDING_PAYS_FROM;
        // By reference, packets have no departure times.
        let lend = self.options.lend.unwrap_or(lending_pays) && !has_departures;
        let mut packets = if lend {
            Packets::lasting(memory, places)?
        } else {
            Packets::passing(memory, places)?
        };
        if has_departures {
            packets = packets.with_departures(&self.spacer.departures_ns)?;
        }
        let outcome = self.destinations.send(&packets, self.options.patience);
        outcome.events.iter().for_each(tell);
        self.statistics.delivered += outcome.packets;
        self.statistics.lost += outcome.lost;
        self.statistics.handovers += 1;
        self.statistics.packets += count as u64;
        let bytes: u64 = places.iter().map(|place| u64::from(place.bytes)).sum();
        self.statistics.bytes += bytes;
        self.statistics.lent_groups += u64::from(lend);
        let payload_bytes = bytes - (count * HEADER_BYTES) as u64;
        let left_ns = self.spacer.departures_ns.first().copied().unwrap_or(now);
        self.reporting
            .sent(layout.packet(&places[0]), left_ns, count, payload_bytes);
        self.feedback.sent(self.store.slot(), places, now);
        if let Some(parity) = &mut self.parity {
            for place in places {
                parity.push(layout.packet(place), &mut self.destinations);
            }
        }
        self.last_ns = now;
        self.store.left(count, lend, now);
        let kept = self.options.repair.resend.as_ref();
        let keep_ns = kept.map_or(0, |resend| resend.keep.as_nanos());
        let keep_ns = u64::try_from(keep_ns).unwrap_or(u64::MAX);
        self.store.recycle(now.saturating_sub(keep_ns))?;
        self.feedback.forget(self.store.oldest_slot(), now);
        Ok(Step::Again)
    }

    /// How many of the waiting packets are handed over now, with their departures in the spacer, if they have any.
    fn plan(&mut self, now: u64) -> usize {
        let Self {
            store,
            spacer,
            pacer,
            ahead,
            options,
            ..
        } = self;
        spacer.departures_ns.clear();
        let Some((_, waiting)) = store.waiting() else {
            return 0;
        };
        let way = spacer.way();
        let mut count = 0;
        loop {
            let rest = &waiting[count..];
            let is_whole = rest.len() > options.limit.burst || ahead.has_ended();
            let packets = group(rest, options.limit);
            if packets == 0 || count > 0 && !is_whole {
                return count;
            }
            let due_ns = rest[0].due_ns;
            let departure_ns = match way {
                Way::AtOnce => {
                    pacer.sent(due_ns, now);
                    return packets;
                }
                Way::Stamped { margin_ns } => {
                    pacer.sent(due_ns, now);
                    spacer.departures_ns.resize(packets, now + margin_ns);
                    return packets;
                }
                Way::Ahead { lead_ns } => {
                    let planned_ns = pacer.instant(due_ns, now + lead_ns);
                    spacer.lead.departure_ns(planned_ns, now)
                }
            };
            let sizes = rest[..packets].iter().map(|place| u64::from(place.bytes));
            let group = Group {
                departure_ns,
                packets,
                bytes: sizes.sum(),
            };
            if !spacer.lead.take(group, now) {
                return count;
            }
            pacer.sent(due_ns, departure_ns);
            count += packets;
            spacer.departures_ns.resize(count, departure_ns);
        }
    }
}
