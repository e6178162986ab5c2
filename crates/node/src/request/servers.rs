//! The targets of a client: one for each server of the channel, with its unanswered requests.
//!
//! Used by `Client`. It skips a server whose queue is full, one that has as many unanswered
//! requests as its reply queue holds, and one that holds as many slots as one receiver may
//! ([`crate::quota`]). So between honest peers no reply meets a full queue.

use std::sync::Arc;

use hythe_abi::RegionIndex;
use hythe_pool::PortKind;

use crate::buffer::Reference;
use crate::participant::Participant;
use crate::port::Port;
use crate::quota::Quota;
use crate::transport::{Message, Origin, Sent as Delivery, StoredTarget, TargetState};
use crate::{NodeError, ServerLoss};

#[derive(Debug)]
pub(super) struct Servers {
    links: Vec<Link>,
    next: usize,
    quota: Quota,
    /// Most requests unanswered by one server.
    depth: u32,
    region: Option<RegionIndex>,
    reply_bytes: usize,
}

#[derive(Debug)]
struct Link {
    target: StoredTarget,
    /// Name and process: asked for when it may be gone.
    name: String,
    unanswered: Vec<u64>,
    /// As it was last seen: one that is not open is sent nothing, and left when its replies are
    /// taken.
    seen: TargetState,
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
            region: None,
            reply_bytes: 0,
        }
    }

    /// The region that requests must be in to reach a server that does not see all, if there is
    /// one, or was: it may come back.
    pub(super) const fn region(&self) -> Option<RegionIndex> {
        self.region
    }

    /// Space that a request needs for its reply.
    pub(super) const fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// There was no empty slot for a request.
    pub(super) fn note_no_slot(&self) {
        for link in &self.links {
            link.target.note_no_slot();
        }
    }

    fn note_wishes(&mut self) {
        for target in self.links.iter().map(|link| &link.target) {
            self.region = target.region().or(self.region);
            self.reply_bytes = self.reply_bytes.max(target.reply_bytes() as usize);
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
        self.links
            .iter()
            .any(|link| link.seen == TargetState::Broken)
    }

    /// The server that has this request.
    pub(super) fn asked(&self, number: u64) -> Option<&str> {
        let asked = |link: &&Link| link.unanswered.contains(&number);
        self.links.iter().find(asked).map(|link| link.name.as_str())
    }

    /// A reply came from there: which server has answered, if it had been asked.
    pub(super) fn answered(&mut self, origin: &Origin, number: u64) -> Option<&str> {
        let from = |link: &&mut Link| link.target.is_origin(origin);
        let link = self.links.iter_mut().find(from)?;
        let index = link.unanswered.iter().position(|&open| open == number)?;
        link.unanswered.swap_remove(index);
        Some(&link.name)
    }

    /// Sends to the next server whose queue is not full, if there is one.
    pub(super) fn send(
        &mut self,
        shared: &Arc<Participant>,
        channel: &str,
        reference: &Reference,
        number: u64,
    ) -> Result<Option<Sent>, NodeError> {
        let Self {
            links,
            next,
            quota,
            depth,
            ..
        } = self;
        let parcel = quota.parcel(shared, reference)?;
        let mut message = Message::new(shared, channel, reference, (quota, parcel));
        for step in 0..links.len() {
            let index = (*next + step) % links.len();
            let link = &mut links[index];
            if link.seen != TargetState::Open || link.unanswered.len() >= *depth as usize {
                continue;
            }
            if link.target.examine() == TargetState::Broken {
                link.seen = TargetState::Broken;
                continue;
            }
            match link.target.send(&mut message) {
                Delivery::Delivered => {}
                Delivery::Dropped | Delivery::Absent | Delivery::Full => continue,
                Delivery::Failed(error) => return Err(*error),
            }
            link.unanswered.push(number);
            *next = index + 1;
            hythe_memory::full_barrier();
            let stays = link.target.wake() == TargetState::Open;
            return Ok(Some(if stays {
                Sent::ToOneThatStays
            } else {
                Sent::ToOneThatGoes
            }));
        }
        Ok(None)
    }

    /// Marks servers that left, or closed their port, which they do before. Their replies are all
    /// in their queues by then.
    pub(super) fn find_gone(&mut self) {
        for link in &mut self.links {
            if link.seen == TargetState::Open {
                link.seen = link.target.state();
            }
        }
    }

    /// Leaves the servers that were found gone, or broken.
    pub(super) fn leave_gone(&mut self) -> Result<Lost, NodeError> {
        let (mut lost, mut outcome) = (Lost::default(), Ok(()));
        let gone = |link: &mut Link| link.seen != TargetState::Open;
        for link in self.links.extract_if(.., gone) {
            let is_broken = link.seen == TargetState::Broken;
            let reason = if is_broken {
                ServerLoss::BrokeItsQueue
            } else {
                ServerLoss::Went
            };
            lost.lies += u64::from(is_broken);
            let requests = link.unanswered.iter();
            lost.requests
                .extend(requests.map(|&number| (number, link.name.clone(), reason)));
            outcome = outcome.and(link.target.disconnect());
        }
        outcome.map(|()| lost)
    }

    /// Connects to servers that there is no connection to yet. One that cannot be connected to
    /// hides no other; the first such error is the result.
    pub(super) fn update(&mut self, port: &Port, is_opening: bool) -> Result<(), NodeError> {
        let known = self.links.iter().map(|link| &*link.target).collect();
        let found = port.find_targets(PortKind::Server, None, known, is_opening);
        if !found.targets.is_empty() {
            let depth = self.depth as usize;
            let links = found.targets.into_iter().map(|target| Link {
                name: target.name(),
                target,
                unanswered: Vec::with_capacity(depth),
                seen: TargetState::Open,
            });
            self.links.extend(links);
            self.note_wishes();
            self.quota = Quota::for_receivers(port.shared.pool(), self.links.len());
        }
        let failed = found.failed.into_iter().map(|(_, error)| Err(error));
        failed.fold(found.outcome, Result::and)
    }

    /// Leaves all of them; the first damage is the result.
    pub(super) fn disconnect_all(&mut self) -> Result<(), NodeError> {
        let links = std::mem::take(&mut self.links).into_iter();
        let left = links.map(|link| link.target.disconnect());
        left.fold(Ok(()), Result::and)
    }
}
