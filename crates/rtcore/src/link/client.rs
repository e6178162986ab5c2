//! A core as a client: its requests come in the empty slots that a server has given it, and each
//! reply goes back over the same flow (`spec/link.md`, "A core that asks").
//!
//! Source and target of a server share one [`Service`]. It lasts as long as the server's port, and
//! attaches anew when the core does: what the old session left unanswered has ended there, so its
//! replies go nowhere. Never waits, except for a session when the port is opened or goes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hythe_abi::link::Entry;
use hythe_abi::request::{Header, MessageKind};
use hythe_abi::{Descriptor, DescriptorMark, RegionIndex};
use hythe_node::NodeError;
use hythe_node::hop::{
    HopPool as _, Message, Origin, Participant, Polled, Seeking, Sent, Source, SourceState, Target,
    TargetState, WaitPlan,
};
use hythe_pool::{ChannelInfo, CoreBinding, LedgerSlot, MemberIndex, PortIndex, Taken};

use super::NAP;
use super::attachment::{Attachment, EmptySlots, attach, step};
use super::supply::Supply;
use crate::LinkTimeouts;

/// One server's use of a core that asks.
#[derive(Debug)]
struct Service {
    participant: Arc<Participant>,
    channel: ChannelInfo,
    timeouts: LinkTimeouts,
    /// Empty slots that the server wants to give.
    gives: EmptySlots,
    attachment: Option<Attachment>,
    /// When no port of the endpoint was free, or the core broke its session: looked at again a
    /// little later.
    refused: Option<Instant>,
    /// Of the core that was there last.
    region: RegionIndex,
    /// Slots that the core has: empty ones, requests in the queue, replies.
    at_core: u32,
    /// Those of them that have replies which did not come back yet.
    replies: Vec<LedgerSlot>,
    /// Numbers of the requests that were taken and not answered. At most as many as the window.
    unanswered: Vec<u64>,
    /// Where empty slots for the core come from.
    supply: Supply,
}

/// What became of an entry of the core.
enum Accepted {
    Request(Taken),
    Returned,
    Lie,
}

impl Service {
    fn is_current(&mut self) -> bool {
        self.attachment.as_mut().is_some_and(Attachment::is_current)
    }

    /// Goes on with attaching, without waiting. False: not yet.
    fn attach_meanwhile(&mut self) -> Result<bool, NodeError> {
        let attachment = &mut self.attachment;
        if attachment.as_ref().is_some_and(Attachment::is_quarantined) {
            // A core that breaks each session gets another one now and then.
            self.refused = Some(Instant::now());
        }
        match step(&self.participant, &self.channel, attachment, self.gives) {
            Ok(true) => self.begin().map(|()| true),
            // It may still be starting, or be gone for now.
            Ok(false) | Err(NodeError::CoreSilent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn attach_now(&mut self) -> Result<(), NodeError> {
        let Self {
            participant,
            channel,
            attachment,
            gives,
            timeouts,
            ..
        } = self;
        attach(participant, channel, attachment, *gives, timeouts.attach)?;
        self.begin()
    }

    fn begin(&mut self) -> Result<(), NodeError> {
        self.forget_session();
        if let Some(attachment) = &self.attachment {
            self.region = attachment.core.region;
            self.supply.begin(attachment);
        }
        self.fill()
    }

    /// Whatever was at the core is taken back with the next session.
    fn forget_session(&mut self) {
        self.at_core = 0;
        self.replies.clear();
        self.unanswered.clear();
    }

    /// The next request, if there is one. While the core is down there is none.
    fn try_take(&mut self) -> Result<Polled, NodeError> {
        if !self.is_current() && !self.attach_meanwhile()? {
            return Ok(Polled::Nothing);
        }
        let taken = self.take_entries()?;
        if let Err(error) = self.fill() {
            if let Polled::Taken(taken) = taken {
                self.release(taken)?;
            }
            return Err(error);
        }
        Ok(taken)
    }

    /// Takes what the core gave back, up to the next request or lie: no more than the queue can
    /// hold.
    fn take_entries(&mut self) -> Result<Polled, NodeError> {
        let most = self.attachment.as_ref().map_or(0, Attachment::capacity);
        for _ in 0..=most {
            let Some(entry) = self.attachment.as_mut().and_then(Attachment::peek) else {
                break;
            };
            let accepted = self.accept(entry)?;
            if let Some(attachment) = &mut self.attachment {
                attachment.advance();
                if matches!(accepted, Accepted::Lie) {
                    attachment.note_entry(entry);
                }
            }
            match accepted {
                Accepted::Request(taken) => return Ok(Polled::Taken(taken)),
                Accepted::Returned => {}
                Accepted::Lie => return Ok(Polled::Nonsense),
            }
        }
        Ok(Polled::Nothing)
    }

    /// Moves what the core gave into our row; what is no request is released.
    fn accept(&mut self, entry: Entry) -> Result<Accepted, NodeError> {
        let Some(attachment) = &mut self.attachment else {
            return Ok(Accepted::Lie);
        };
        let (descriptor, mark) = (entry.descriptor, entry.descriptor.mark());
        let is_own = entry.account == u32::from(attachment.row().0) && entry.references == 1;
        if !is_own || mark == Some(DescriptorMark::Credit) {
            return Ok(Accepted::Lie);
        }
        let is_unused = mark == Some(DescriptorMark::Unused);
        let length = if is_unused { 0 } else { descriptor.length };
        let descriptor = Descriptor {
            length,
            ..descriptor
        };
        let largest = attachment.max_bytes;
        let reclaimed = attachment.reclaim(Entry {
            descriptor,
            ..entry
        })?;
        let Some(taken) = reclaimed else {
            return Ok(Accepted::Lie);
        };
        self.at_core = self.at_core.saturating_sub(1);
        // A core may ask again in the slot of a reply.
        self.replies.retain(|slot| *slot != taken.slot);
        if is_unused {
            return self.release(taken).map(|()| Accepted::Returned);
        }
        if entry.tag == 0 || length > largest || self.unanswered.contains(&entry.tag) {
            return self.release(taken).map(|()| Accepted::Lie);
        }
        self.unanswered.push(entry.tag);
        Ok(Accepted::Request(taken))
    }

    fn release(&self, taken: Taken) -> Result<(), NodeError> {
        let control = self.participant.pool().control();
        self.participant
            .act(|member| member.release(control, taken.slot, 1))?;
        Ok(())
    }

    /// Gives the core empty slots up to the window: as many requests as the server has not
    /// answered. Less while the region is full.
    fn fill(&mut self) -> Result<(), NodeError> {
        let mut is_filled = false;
        while let Some(attachment) = &mut self.attachment {
            let out = self.at_core + self.unanswered.len() as u32;
            // Each reply finds free capacity: an empty slot takes an entry now, and one more when
            // it has become a reply.
            let Some(untaken) = attachment.untaken() else {
                break;
            };
            let fits = untaken + out + 2 <= attachment.capacity();
            if out >= attachment.window() || !fits {
                break;
            }
            let Some(empty) = self.supply.lease(&self.participant, attachment)? else {
                break;
            };
            attachment.push_request(empty.slot(), empty.descriptor())?;
            empty.moved();
            self.at_core += 1;
            is_filled = true;
        }
        if is_filled && let Some(attachment) = &self.attachment {
            attachment.ring_core();
        }
        Ok(())
    }

    fn send_reply(&mut self, message: &Message<'_>, header: Header) -> Result<Sent, NodeError> {
        let is_asked = self.is_current() && self.unanswered.contains(&header.number);
        let (true, Some(attachment)) = (is_asked, &mut self.attachment) else {
            return Ok(Sent::Absent);
        };
        let (descriptor, channel) = (message.descriptor(), &self.channel.name);
        let (region, wanted) = (descriptor.place.region, attachment.core.region);
        if region != wanted {
            return Err(NodeError::RegionNotVisible {
                channel: channel.clone(),
                region,
                wanted,
            });
        }
        let (bytes, largest) = (descriptor.length, attachment.max_bytes);
        if bytes > largest && header.kind == MessageKind::Reply {
            return Err(NodeError::TooLargeForCore {
                channel: channel.clone(),
                bytes,
                largest,
            });
        }
        let is_reply = header.kind == MessageKind::Reply;
        let length = if is_reply { bytes } else { 0 };
        let descriptor = Descriptor {
            length,
            ..descriptor
        };
        attachment.push_reply(message.slot(), descriptor, header.number)?;
        self.abandon(header.number);
        self.at_core += 1;
        self.replies.push(message.slot());
        Ok(Sent::Delivered)
    }

    fn abandon(&mut self, number: u64) {
        self.unanswered.retain(|&unanswered| unanswered != number);
    }

    /// Waits until the core has read the replies: with the session they would be gone.
    fn await_replies(&mut self) -> Result<(), NodeError> {
        if self.replies.is_empty() || !self.is_current() {
            return Ok(());
        }
        let participant = Arc::clone(&self.participant);
        let plan = WaitPlan::for_processes().at_most(NAP);
        participant.wait_for(plan, self.timeouts.flush, || {
            if let Polled::Taken(request) = self.take_entries()? {
                // Nobody answers it any more; the end of the session says so.
                self.release(request)?;
            }
            let is_over = self.replies.is_empty() || !self.is_current();
            Ok(is_over.then_some(()))
        })?;
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.participant.is_a_copy() {
            return;
        }
        let answered = self.await_replies();
        let ended = self.attachment.as_mut().map_or(Ok(()), |attached| {
            attached.end_session(self.timeouts.detach)
        });
        if let Err(error) = answered.and(ended) {
            tracing::warn!(%error, "left a core with empty slots");
        }
    }
}

/// A [`Service`], as its two ends have it.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Service>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Service> {
        // What is in there is whole after each statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that requests come in by.
#[derive(Debug)]
pub(super) struct CoreRequests {
    service: Shared,
    /// Of the endpoint that was there first.
    row: MemberIndex,
}

impl CoreRequests {
    /// This core is behind the channel.
    pub(super) fn new(seeking: &Seeking<'_>, core: CoreBinding, timeouts: LinkTimeouts) -> Self {
        let service = Service {
            participant: Arc::clone(seeking.participant()),
            channel: seeking.channel().clone(),
            timeouts,
            gives: EmptySlots {
                count: seeking.depth(),
                bytes: seeking.request_bytes(),
            },
            attachment: None,
            refused: None,
            region: core.region,
            at_core: 0,
            replies: Vec::new(),
            unanswered: Vec::new(),
            supply: Supply::default(),
        };
        Self {
            service: Shared(Arc::new(Mutex::new(service))),
            row: core.row,
        }
    }

    /// Attaches, waiting for the core's answer.
    pub(super) fn attach_now(&self) -> Result<(), NodeError> {
        self.service.lock().attach_now()
    }
}

impl Source for CoreRequests {
    fn poll(&mut self) -> Polled {
        let mut service = self.service.lock();
        if service.refused.is_some_and(|at| at.elapsed() < NAP) {
            return Polled::Nothing;
        }
        service.try_take().unwrap_or_else(|error| {
            let is_taken = matches!(error, NodeError::EndpointTaken { .. });
            service.refused = is_taken.then(Instant::now);
            Polled::Refused(Box::new(error))
        })
    }

    fn capacity(&self) -> u32 {
        let service = self.service.lock();
        service.attachment.as_ref().map_or(0, Attachment::capacity)
    }

    /// It stays open while the core is away: that may come back.
    fn state(&mut self) -> SourceState {
        SourceState::Open
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        // Dropping does it.
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin {
            member: self.row,
            port: None,
            number: 0,
        }
    }

    fn nap(&self) -> Duration {
        NAP
    }

    fn connect_back(&self, _from: PortIndex) -> Result<Option<Box<dyn Target>>, NodeError> {
        Ok(Some(Box::new(CoreClient(self.service.clone()))))
    }
}

/// The end that replies leave by.
#[derive(Debug)]
struct CoreClient(Shared);

impl Target for CoreClient {
    /// Only replies go there.
    fn send(&mut self, _message: &mut Message<'_>) -> Sent {
        Sent::Dropped
    }

    fn send_reply(&mut self, message: &mut Message<'_>, header: Header) -> Sent {
        let sent = self.0.lock().send_reply(message, header);
        sent.unwrap_or_else(|error| Sent::Failed(Box::new(error)))
    }

    fn abandon_reply(&mut self, number: u64) {
        self.0.lock().abandon(number);
    }

    /// A reply always finds free capacity, or the client is gone.
    fn send_waiting(&mut self, _message: &mut Message<'_>) -> Result<bool, Box<NodeError>> {
        Ok(false)
    }

    fn wake(&mut self) -> TargetState {
        if let Some(attachment) = &self.0.lock().attachment {
            attachment.ring_core();
        }
        TargetState::Open
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        Ok(())
    }

    /// It stays open while the core is away: that may come back.
    fn state(&self) -> TargetState {
        TargetState::Open
    }

    fn name(&self) -> String {
        format!("the core behind `{}`", self.0.lock().channel.name)
    }

    fn region(&self) -> Option<RegionIndex> {
        Some(self.0.lock().region)
    }
}
