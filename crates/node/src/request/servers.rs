//! The sending ends of a client: one to each server of the channel, with the requests that it has not answered.
//!
//! Used by `Client`. A server is passed by while its queue is full, or while it has as many requests unanswered as fit the queue
//! of its replies: so an honest pair never loses a reply for want of room. It is passed by, too,
//! while it occupies as many slots as one receiver may ([`crate::quota`]).

use std::sync::Arc;

use hythe_pool::{
    ChannelInfo, ConnectionEnd, ConnectionInfo, PortIndex, PortInfo, PortKind, SendError, Side,
};
use hythe_queue::Producer;

use crate::buffer::Reference;
use crate::node::Shared;
use crate::publisher::{is_gone, leave_side, leave_unattended};
use crate::quota::{Outstanding, Quota};
use crate::wait::{ring, ring_port};
use crate::{NodeError, ServerLoss};

#[derive(Debug)]
pub(super) struct Servers {
    links: Vec<Link>,
    next: usize,
    quota: Quota,
    /// Most requests unanswered by one server.
    depth: u32,
}

#[derive(Debug)]
struct Link {
    end: ConnectionEnd<Producer>,
    server: PortInfo,
    /// Name and process: asked for when it may be gone.
    name: String,
    unanswered: Vec<u64>,
    outstanding: Outstanding,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Gone,
    /// Its counter is impossible.
    Lies,
}

/// A request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    ToOneThatStays,
    /// The server closed meanwhile.
    ToOneThatGoes,
}

/// What went with servers that are gone.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Number, server, what became of it.
    pub(super) requests: Vec<(u64, String, ServerLoss)>,
    pub(super) lies: u64,
}

impl Servers {
    pub(super) fn new(depth: u32) -> Self {
        Self {
            links: Vec::new(),
            next: 0,
            quota: Quota::default(),
            depth,
        }
    }

    pub(super) const fn count(&self) -> usize {
        self.links.len()
    }

    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
        names.join(", ")
    }

    pub(super) fn has_liars(&self) -> bool {
        self.links.iter().any(|link| link.fate == Fate::Lies)
    }

    /// The server that has this request.
    pub(super) fn asked(&self, number: u64) -> Option<&str> {
        let asked = |link: &&Link| link.unanswered.contains(&number);
        self.links.iter().find(asked).map(|link| link.name.as_str())
    }

    /// A reply came over this connection: which server has answered, if it had been asked.
    pub(super) fn answered(&mut self, way: &ConnectionInfo, number: u64) -> Option<&str> {
        let (port, member) = (way.producer_port, way.producer);
        let from = |link: &&mut Link| link.server.index == port && link.server.member == member;
        let link = self.links.iter_mut().find(from)?;
        let index = link.unanswered.iter().position(|&open| open == number)?;
        link.unanswered.swap_remove(index);
        Some(&link.name)
    }

    /// Sends to the next server that has room, if there is one.
    pub(super) fn send(
        &mut self,
        shared: &Arc<Shared>,
        reference: &Reference,
        number: u64,
    ) -> Result<Option<Sent>, NodeError> {
        let control = shared.pool().control();
        let parcel = self.quota.parcel(shared, reference)?;
        for step in 0..self.links.len() {
            let index = (self.next + step) % self.links.len();
            let (quota, link) = (&self.quota, &mut self.links[index]);
            if link.fate != Fate::Stays || link.unanswered.len() >= self.depth as usize {
                continue;
            }
            match control.room(&mut link.end) {
                Ok(0) => continue,
                Ok(_) => {}
                Err(_) => {
                    link.fate = Fate::Lies;
                    continue;
                }
            }
            if !link
                .outstanding
                .admits(quota, control, &link.end.info, &parcel)
            {
                continue;
            }
            let (end, slot, descriptor) = (&mut link.end, reference.slot(), reference.descriptor());
            let position = end.queue.tail();
            match shared.act(|member| member.send(control, end, slot, descriptor)) {
                Ok(()) => link.outstanding.note(&parcel, position),
                Err(SendError::Full) => continue,
                Err(error) => return Err(error.into()),
            }
            link.unanswered.push(number);
            ring_port(control, link.server.member, link.server.index);
            self.next = index + 1;
            let gone = is_gone(shared, &link.end.info, &link.server);
            return Ok(Some(if gone {
                Sent::ToOneThatGoes
            } else {
                Sent::ToOneThatStays
            }));
        }
        Ok(None)
    }

    /// Marks servers that left, or closed their port, which they do before. Their replies are all in their queues by then.
    pub(super) fn find_gone(&mut self, shared: &Arc<Shared>) {
        for link in &mut self.links {
            if link.fate == Fate::Stays && is_gone(shared, &link.end.info, &link.server) {
                link.fate = Fate::Gone;
            }
        }
    }

    /// Leaves the servers that were found gone, or lying.
    pub(super) fn leave_gone(&mut self, shared: &Arc<Shared>) -> Result<Lost, NodeError> {
        let (mut lost, mut outcome) = (Lost::default(), Ok(()));
        for link in self.links.extract_if(.., |link| link.fate != Fate::Stays) {
            let reason = match link.fate {
                Fate::Lies => ServerLoss::BrokeItsQueue,
                Fate::Gone | Fate::Stays => ServerLoss::Went,
            };
            lost.lies += u64::from(link.fate == Fate::Lies);
            let requests = link.unanswered.iter();
            lost.requests
                .extend(requests.map(|&number| (number, link.name.clone(), reason)));
            outcome = outcome.and(leave(shared, &link));
        }
        outcome.map(|()| lost)
    }

    /// Connects to servers that there is no connection to yet. One that cannot be connected to hides no other; the first such
    /// error is the result.
    pub(super) fn update(
        &mut self,
        shared: &Arc<Shared>,
        channel: &ChannelInfo,
        port: PortIndex,
    ) -> Result<(), NodeError> {
        let control = shared.pool().control();
        let servers = control
            .ports()
            .filter(|other| other.kind == PortKind::Server && other.channel == channel.index);
        let mut outcome = Ok(());
        let known = self.links.len();
        for server in servers {
            if self
                .links
                .iter()
                .any(|link| link.server.index == server.index)
            {
                continue;
            }
            match connect(shared, port, server, self.depth) {
                Ok(link) => self.links.extend(link),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        if self.links.len() != known {
            self.quota = Quota::for_receivers(shared.pool(), self.links.len());
        }
        outcome
    }

    /// Leaves all of them; the first damage is the result.
    pub(super) fn leave_all(&mut self, shared: &Arc<Shared>) -> Result<(), NodeError> {
        let links = std::mem::take(&mut self.links);
        let left = links.iter().map(|link| leave(shared, link));
        left.fold(Ok(()), Result::and)
    }
}

/// `None`: the server closed meanwhile.
fn connect(
    shared: &Arc<Shared>,
    port: PortIndex,
    server: PortInfo,
    unanswered: u32,
) -> Result<Option<Link>, NodeError> {
    let control = shared.pool().control();
    let (consumer, to, depth) = (server.member, server.index, server.depth);
    let info = shared.act(|member| member.connect(control, port, consumer, to, depth))?;
    hythe_memory::full_barrier();
    if !control.is_still_open(&server) {
        // It closed while we connected, and may have looked before there was something to see.
        leave_unattended(shared, &info)?;
        return Ok(None);
    }
    ring(control, server.member);
    Ok(Some(Link {
        end: control.producer_end(info),
        name: control.named(server.member),
        server,
        unanswered: Vec::with_capacity(unanswered as usize),
        outstanding: Outstanding::for_quota(&Quota::default()),
        fate: Fate::Stays,
    }))
}

fn leave(shared: &Arc<Shared>, link: &Link) -> Result<(), NodeError> {
    leave_side(shared, link.end.info, Side::Producer)?;
    ring(shared.pool().control(), link.server.member);
    Ok(())
}
