//! All that one stream is sent to: from one destination to [`DESTINATIONS_MAX`].
//!
//! The thread that paces a stream owns this and calls [`Destinations::send`] with each group of packets; between two groups it adds
//! and removes. What holds between calls: destinations know nothing of each other, and each call begins with another one, so that
//! none is always last.
//!
//! One that is refused, out of reach or full costs the others nothing but the calls to find out. Waiting for room is bounded by the
//! caller's patience, all destinations together, and one that stayed full is not waited for again until it has taken a packet.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::destination::{Destination, DestinationStatistics};
use super::endpoint::DestinationOptions;
use super::health::Event;
use super::packets::Packets;
use crate::MediaError;

/// Most destinations of one stream.
pub const DESTINATIONS_MAX: usize = 1000;

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
    /// The last wait for room was in vain.
    stayed_full: bool,
}

/// The destinations of one stream.
#[derive(Debug, Default)]
pub struct Destinations {
    members: Vec<Member>,
    next_id: u64,
    first: usize,
    events: Vec<Event>,
}

impl Destinations {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
        let destination = open_with_room(address, options)?;
        let id = DestinationId(self.next_id);
        self.next_id += 1;
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
        let mut members = self.members.iter_mut();
        let member = members.find(|member| member.id == id)?;
        Some(&mut member.destination)
    }

    /// Does something to each.
    pub fn for_each(&mut self, act: impl FnMut(&mut Destination)) {
        let members = self.members.iter_mut();
        members.map(|member| &mut member.destination).for_each(act);
    }

    /// Sends a group of packets to each. Waits for those without room, `patience` at most; what they have not taken by then is lost.
    pub fn send(&mut self, packets: &Packets<'_>, patience: Duration) -> Outcome<'_> {
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
        while self.wait_for_room(packets, patience.saturating_sub(begun.elapsed())) {
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

    /// Waits until one of those that have packets left has room; whether one has.
    fn wait_for_room(&self, packets: &Packets<'_>, patience: Duration) -> bool {
        let waiting = self
            .members
            .iter()
            .filter(|member| member.may_wait(packets));
        // Allocated only when there is nothing to do but sleep.
        let mut sockets: Vec<PollFd<'_>> = waiting
            .map(|member| PollFd::new(member.destination.rtp_socket(), PollFlags::OUT))
            .collect();
        if sockets.is_empty() || patience.is_zero() {
            return false;
        }
        let timeout = Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: patience.subsec_nanos().into(),
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

/// Opens a destination. Where the process has no descriptor left, its limit is raised as far as it may be.
fn open_with_room(
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
