//! All that one stream is sent to: from one destination to [`DESTINATIONS_MAX`].
//!
//! The thread that paces a stream owns this and calls [`Destinations::send`] with each group of
//! packets; between two groups it adds and removes. What holds between calls: destinations know
//! nothing of each other, and each call begins with another one, so that none is always last.
//!
//! One that is refused, out of reach or full costs the others nothing but the calls to find out.
//! Waiting for free capacity is bounded by the caller's send timeout, all destinations together,
//! and one that stayed full is not waited for again until it has taken a packet.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::departure::{Departures, margin_ns};
use super::destination::{Destination, DestinationStatistics};
use super::endpoint::DestinationOptions;
use super::health::Event;
use super::packets::Packets;
use super::scheduler::Timing;
use crate::MediaError;

/// Most destinations of one stream.
pub const DESTINATIONS_MAX: usize = 1000;

/// Destinations to which RTCP came that are named at once.
const READY_MAX: usize = 16;

/// Names a destination; never used for a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(u64);

/// What came of one group of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<'e> {
    /// Packets that the network took, all destinations together.
    pub packets: u64,
    /// Packets that were dropped.
    pub lost: u64,
    /// What changed, in the order it was noticed.
    pub events: &'e [Event],
}

#[derive(Debug)]
struct Member {
    id: DestinationId,
    destination: Destination,
    /// Packets of the group that are sent or lost.
    done: usize,
    /// The last wait for free capacity was in vain.
    stayed_full: bool,
}

/// The destinations of one stream.
#[derive(Debug, Default)]
pub struct Destinations {
    members: Vec<Member>,
    next_id: u64,
    first: usize,
    events: Vec<Event>,
    /// The RTCP sockets of all members, if anybody listens to them.
    rtcp: Option<OwnedFd>,
    /// How often members came, went, or had their ways looked at again.
    revision: u64,
}

/// What the ways of all destinations have in common as to departure times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommonDepartures {
    /// All heed them, if packets are handed over this long before.
    Kept { margin_ns: u64 },
    /// One at least does not.
    Ignored {
        /// Of those that do, the longest of those that drop packets without one.
        needed_margin_ns: Option<u64>,
    },
}

impl Destinations {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// None yet, and what comes to their RTCP sockets is listened to.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`].
    pub fn listening() -> Result<Self, MediaError> {
        let rtcp =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| MediaError::System {
                what: "wait for RTCP",
                source: error.into(),
            })?;
        Ok(Self {
            rtcp: Some(rtcp),
            ..Self::default()
        })
    }

    /// Readable when there is RTCP of any; for [`Self::listening`] ones.
    #[must_use]
    pub fn rtcp(&self) -> Option<BorrowedFd<'_>> {
        self.rtcp.as_ref().map(AsFd::as_fd)
    }

    /// Some of the destinations to which RTCP came. Each has its turn before any has it again.
    pub(crate) fn with_rtcp(&self) -> impl Iterator<Item = DestinationId> + use<> {
        let mut ready = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; READY_MAX];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let count = match &self.rtcp {
            // Interrupted is as good as none.
            Some(rtcp) => epoll::wait(rtcp, &mut ready[..], Some(&at_once)).unwrap_or(0),
            None => 0,
        };
        ready
            .into_iter()
            .take(count)
            .map(|event| DestinationId(event.data.u64()))
    }

    /// Adds one, which gets the next group.
    ///
    /// # Errors
    ///
    /// As [`Destination::open`]; also [`MediaError::Socket`] beyond [`DESTINATIONS_MAX`].
    pub fn add(
        &mut self,
        address: SocketAddr,
        options: &DestinationOptions,
    ) -> Result<DestinationId, MediaError> {
        if self.members.len() == DESTINATIONS_MAX {
            return Err(MediaError::Socket {
                what: "add a destination beyond 1,000",
                destination: address,
                source: std::io::ErrorKind::QuotaExceeded.into(),
            });
        }
        let destination = open_with_send_buffer(address, options)?;
        let id = DestinationId(self.next_id);
        if let Some(rtcp) = &self.rtcp {
            // It leaves with its socket.
            let data = epoll::EventData::new_u64(id.0);
            epoll::add(rtcp, destination.rtcp_socket(), data, epoll::EventFlags::IN)
                .map_err(std::io::Error::from)
                .and_then(|()| destination.hear_members())
                .map_err(|source| MediaError::Socket {
                    what: "listen to RTCP",
                    destination: address,
                    source,
                })?;
        }
        self.next_id += 1;
        self.revision += 1;
        self.members.push(Member {
            id,
            destination,
            done: 0,
            stayed_full: false,
        });
        Ok(id)
    }

    /// Ends sending to one; what was sent to it, if there is one of that name.
    pub fn remove(&mut self, id: DestinationId) -> Option<DestinationStatistics> {
        let index = self.members.iter().position(|member| member.id == id)?;
        self.revision += 1;
        Some(self.members.remove(index).destination.statistics())
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// None at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// All, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = (DestinationId, &Destination)> {
        self.members
            .iter()
            .map(|member| (member.id, &member.destination))
    }

    /// One, to send it packets with headers of its own, or a report.
    pub fn by_id(&mut self, id: DestinationId) -> Option<&mut Destination> {
        // They were added in the order of their names.
        let index = self.members.binary_search_by_key(&id, |member| member.id);
        Some(&mut self.members[index.ok()?].destination)
    }

    /// Does something to each.
    pub fn for_each(&mut self, act: impl FnMut(&mut Destination)) {
        let members = self.members.iter_mut();
        members.map(|member| &mut member.destination).for_each(act);
    }

    /// Changes when [`Self::departures`] may have.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Finds out again who heeds departure times.
    pub(crate) fn find_schedulers(&mut self) {
        self.revision += 1;
        self.for_each(Destination::find_scheduler);
    }

    /// Can packets to all be given departure times?
    pub(crate) fn departures(&self) -> CommonDepartures {
        let mut all_keep = !self.is_empty();
        let (mut margin, mut needed_margin_ns) = (0, None);
        for (_, destination) in self.iter() {
            let Departures::Kept(scheduler) = destination.departures() else {
                all_keep = false;
                continue;
            };
            let margin_ns = margin_ns(scheduler.timing);
            margin = margin_ns.max(margin);
            if matches!(scheduler.timing, Timing::Etf { .. }) {
                needed_margin_ns = needed_margin_ns.max(Some(margin_ns));
            }
        }
        match all_keep {
            true => CommonDepartures::Kept { margin_ns: margin },
            false => CommonDepartures::Ignored { needed_margin_ns },
        }
    }

    /// Packets that schedulers dropped so far, all destinations together; and of those, the ones
    /// that counted as sent until then.
    pub(crate) fn missed_packets(&self) -> (u64, u64) {
        self.iter().fold((0, 0), |(all, later), (_, destination)| {
            let (more, more_later) = destination.missed_packets();
            (all + more, later + more_later)
        })
    }

    /// Has this host packets to any of them that have not left it?
    pub(crate) fn are_holding(&self) -> bool {
        self.iter().any(|(_, destination)| destination.is_holding())
    }

    /// Reads what schedulers have said, at the end of a stream.
    pub(crate) fn settle(&mut self) -> &[Event] {
        self.events.clear();
        for member in &mut self.members {
            member.destination.settle(Instant::now(), &mut self.events);
        }
        &self.events
    }

    /// Sends a group of packets to each. Waits for those without free capacity, `send_timeout` at
    /// most; what they have not taken by then is lost.
    pub fn send(&mut self, packets: &Packets<'_>, send_timeout: Duration) -> Outcome<'_> {
        let begun = Instant::now();
        self.events.clear();
        let before = self.totals();
        let count = self.members.len();
        self.first = (self.first + 1) % count.max(1);
        let (behind, ahead) = self.members.split_at_mut(self.first.min(count));
        for member in ahead.iter_mut().chain(behind) {
            member.done = 0;
            member.send(packets, begun, &mut self.events);
        }
        while self.wait_for_capacity(packets, send_timeout.saturating_sub(begun.elapsed())) {
            let now = Instant::now();
            for member in self
                .members
                .iter_mut()
                .filter(|member| member.may_wait(packets))
            {
                member.send(packets, now, &mut self.events);
            }
        }
        let now = Instant::now();
        for member in &mut self.members {
            let left = packets.len() - member.done;
            if left > 0 {
                member.stayed_full = true;
                member.destination.give_up(left, now, &mut self.events);
            }
        }
        let after = self.totals();
        Outcome {
            packets: after.0 - before.0,
            lost: after.1 - before.1,
            events: &self.events,
        }
    }

    /// Waits until one of those that have packets left has free capacity; whether one has.
    fn wait_for_capacity(&self, packets: &Packets<'_>, send_timeout: Duration) -> bool {
        let waiting = self
            .members
            .iter()
            .filter(|member| member.may_wait(packets));
        // Allocated only when there is nothing to do but sleep.
        let mut sockets: Vec<PollFd<'_>> = waiting
            .map(|member| PollFd::new(member.destination.rtp_socket(), PollFlags::OUT))
            .collect();
        if sockets.is_empty() || send_timeout.is_zero() {
            return false;
        }
        let timeout = Timespec {
            tv_sec: send_timeout.as_secs() as i64,
            tv_nsec: send_timeout.subsec_nanos().into(),
        };
        matches!(
            poll(&mut sockets, Some(&timeout)),
            Ok(1..) | Err(Errno::INTR)
        )
    }

    /// Packets sent and lost so far.
    fn totals(&self) -> (u64, u64) {
        self.iter()
            .fold((0, 0), |(packets, lost), (_, destination)| {
                let (more, more_lost) = destination.totals();
                (packets + more, lost + more_lost)
            })
    }
}

impl Member {
    /// Sends what of the group it has not had.
    fn send(&mut self, packets: &Packets<'_>, now: Instant, events: &mut Vec<Event>) {
        let count = self
            .destination
            .send(&packets.after(self.done), now, events);
        self.done += count;
        self.stayed_full &= count == 0;
    }

    /// Has it packets left, and is it worth waiting for?
    fn may_wait(&self, packets: &Packets<'_>) -> bool {
        self.done < packets.len() && !self.stayed_full
    }
}

/// Opens a destination. Where the process has no descriptor left, its limit is raised as far as it
/// may be.
fn open_with_send_buffer(
    address: SocketAddr,
    options: &DestinationOptions,
) -> Result<Destination, MediaError> {
    match Destination::open(address, options) {
        Err(MediaError::Socket { source, .. })
            if Errno::from_io_error(&source) == Some(Errno::MFILE) && raise_descriptor_limit() =>
        {
            Destination::open(address, options)
        }
        result => result,
    }
}

/// Lets this process open as many descriptors as it may; whether those are more than before.
fn raise_descriptor_limit() -> bool {
    let limit = getrlimit(Resource::Nofile);
    let is_lower = match (limit.current, limit.maximum) {
        (Some(current), Some(maximum)) => current < maximum,
        (current, None) => current.is_some(),
        (None, Some(_)) => false,
    };
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    is_lower && setrlimit(Resource::Nofile, raised).is_ok()
}
