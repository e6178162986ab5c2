//! A core as a server: requests go to an endpoint, and each reply comes back in its request's slot.
//!
//! A client has a target and a source; both lead to one port of the endpoint, so both share a
//! [`Call`]. A core that is found after the client was opened has a source first, which takes the
//! steps towards a session as it is polled; the target follows when there is one. When the core is
//! gone, what it had not answered is lost: target and source close, the client is told, and finds
//! the next core by itself. Never waits, except for a session when the client is opened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hythe_abi::RegionIndex;
use hythe_node::NodeError;
use hythe_node::hop::{
    HopPool as _, Message, Origin, Participant, PendingServer, Polled, Seeking, Sent, Source,
    SourceState, Target, TargetState,
};
use hythe_pool::{ChannelInfo, CoreBinding, CoreCounter, MemberIndex, PortIndex};

use super::NAP;
use super::attachment::{Attachment, attach, step, why_silent};
use crate::LinkTimeouts;

/// The calls of a node's clients, by their ports: how the two ends of a client find each other.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Vec<(PortIndex, Weak<Mutex<Call>>)>>);

impl Calls {
    /// The call of this port, if there is one.
    pub(super) fn of(&self, port: PortIndex) -> Option<Shared> {
        let mut calls = self.lock();
        calls.retain(|(_, call)| call.strong_count() > 0);
        let known = calls.iter().find(|(other, _)| *other == port);
        known.and_then(|(_, call)| call.upgrade()).map(Shared)
    }

    /// Makes the call of a port that is being opened, waiting for the core's answer.
    pub(super) fn open(
        &self,
        seeking: &Seeking<'_>,
        timeouts: LinkTimeouts,
    ) -> Result<Option<Shared>, NodeError> {
        let (participant, channel) = (seeking.participant(), seeking.channel());
        let mut attachment = None;
        match attach(participant, channel, &mut attachment, 1, timeouts.attach) {
            Ok(()) => {}
            // It is met later, as one that starts later is.
            Err(NodeError::CoreSilent { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(attachment.map(|attachment| {
            let call = Call::new(participant, channel, attachment);
            self.add(seeking.port(), call)
        }))
    }

    fn add(&self, port: PortIndex, call: Call) -> Shared {
        let call = Arc::new(Mutex::new(call));
        self.lock().push((port, Arc::downgrade(&call)));
        Shared(call)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PortIndex, Weak<Mutex<Call>>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client's use of one life of a core.
#[derive(Debug)]
struct Call {
    participant: Arc<Participant>,
    channel: ChannelInfo,
    attachment: Attachment,
    row: MemberIndex,
    region: RegionIndex,
    largest: u32,
    outstanding: u32,
    /// It was found full, and has taken nothing since.
    was_full: bool,
    /// The session is over: what is outstanding will not be answered.
    is_over: bool,
}

/// A [`Call`], as its two ends have it.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Call>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Call> {
        // What is in there is whole after each statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn new(participant: &Arc<Participant>, channel: &ChannelInfo, attachment: Attachment) -> Self {
        Self {
            participant: Arc::clone(participant),
            channel: channel.clone(),
            row: attachment.core.row,
            region: attachment.core.region,
            largest: attachment.max_bytes,
            attachment,
            outstanding: 0,
            was_full: false,
            is_over: false,
        }
    }

    fn look(&mut self) -> bool {
        self.is_over |= !self.attachment.is_current();
        self.is_over
    }

    fn check(&self, message: &Message<'_>) -> Result<(), NodeError> {
        let (descriptor, channel) = (message.descriptor(), self.channel.name.clone());
        let (region, wanted) = (descriptor.place.region, self.region);
        if region != wanted {
            return Err(NodeError::RegionNotVisible {
                channel,
                region,
                wanted,
            });
        }
        let (bytes, largest) = (descriptor.length, self.largest);
        if bytes > largest {
            return Err(NodeError::TooLargeForCore {
                channel,
                bytes,
                largest,
            });
        }
        Ok(())
    }

    fn send(&mut self, message: &Message<'_>) -> Result<Sent, NodeError> {
        if self.look() {
            return Ok(Sent::Absent);
        }
        self.check(message)?;
        if self.outstanding >= self.attachment.capacity() {
            // The client asks again and again meanwhile: counted once.
            if !std::mem::replace(&mut self.was_full, true) {
                self.attachment.count(CoreCounter::Full);
            }
            return Ok(Sent::Full);
        }
        self.attachment
            .push_request(message.slot(), message.descriptor())?;
        self.was_full = false;
        self.outstanding += 1;
        Ok(Sent::Delivered)
    }

    fn take(&mut self) -> Result<Polled, NodeError> {
        let Some(entry) = self.attachment.peek() else {
            return Ok(if self.look() {
                Polled::Changed
            } else {
                Polled::Nothing
            });
        };
        let reclaimed = match entry.descriptor.mark() {
            None => self.attachment.reclaim(entry)?,
            Some(_) => None,
        };
        self.attachment.advance();
        if reclaimed.is_none() {
            self.attachment.note_entry(entry);
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        Ok(reclaimed.map_or(Polled::Nonsense, Polled::Taken))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.participant.is_a_copy() && !self.look() {
            // What is outstanding comes back to the port, for whoever is there next.
            self.attachment.withdraw();
        }
    }
}

/// The end that requests leave by.
#[derive(Debug)]
pub(super) struct CoreServer(pub(super) Shared);

impl Target for CoreServer {
    fn send(&mut self, message: &mut Message<'_>) -> Sent {
        let sent = self.0.lock().send(message);
        sent.unwrap_or_else(|error| Sent::Failed(Box::new(error)))
    }

    /// A request is not waited for here: the client looks for another server meanwhile.
    fn send_waiting(&mut self, _message: &mut Message<'_>) -> Result<bool, Box<NodeError>> {
        Ok(false)
    }

    fn wake(&mut self) -> TargetState {
        self.0.lock().attachment.ring_core();
        self.state()
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        // Dropping does it.
        Ok(())
    }

    fn state(&self) -> TargetState {
        if self.0.lock().look() {
            TargetState::Closed
        } else {
            TargetState::Open
        }
    }

    fn name(&self) -> String {
        format!("the core behind `{}`", self.0.lock().channel.name)
    }

    fn region(&self) -> Option<RegionIndex> {
        Some(self.0.lock().region)
    }

    fn note_no_slot(&self) {
        self.0.lock().attachment.count(CoreCounter::NoSlot);
    }

    /// The reply is written where the request was.
    fn reply_bytes(&self) -> u32 {
        self.0.lock().largest
    }

    fn is_origin(&self, origin: &Origin) -> bool {
        origin.member == self.0.lock().row && origin.port.is_none()
    }
}

/// A client's way to a call: the steps towards a session with a core that came later than it.
#[derive(Debug)]
pub(super) struct Approach {
    participant: Arc<Participant>,
    channel: ChannelInfo,
    port: PortIndex,
    calls: Arc<Calls>,
    /// As it was found.
    core: CoreBinding,
    attachment: Option<Attachment>,
}

impl Approach {
    /// Goes on, without waiting. `None`: there is no session yet.
    fn step(&mut self) -> Result<Option<Shared>, NodeError> {
        match step(&self.participant, &self.channel, &mut self.attachment, 1) {
            Ok(true) => {}
            // It may still be starting, or be gone for now.
            Ok(false) | Err(NodeError::CoreSilent { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let attachment = self.attachment.take();
        Ok(attachment.map(|attachment| {
            let call = Call::new(&self.participant, &self.channel, attachment);
            self.calls.add(self.port, call)
        }))
    }

    /// Is it still the core that was found?
    fn is_there(&self) -> bool {
        let tables = self.participant.pool().control().tables();
        let now = tables.channel(self.channel.index);
        now.and_then(|now| now.core) == Some(self.core)
    }

    fn pending(&self) -> PendingServer {
        let attachment = self.attachment.as_ref();
        PendingServer {
            why: why_silent(&self.participant, &self.channel, attachment),
            region: self.core.region,
            reply_bytes: attachment.map_or(0, |attachment| attachment.max_bytes),
        }
    }
}

/// The end that replies come in by.
#[derive(Debug)]
pub(super) enum CoreReplies {
    /// Nothing can come yet.
    Pending(Box<Approach>),
    Open(Shared),
}

impl CoreReplies {
    /// Of the core behind the channel of a client that has no call yet.
    pub(super) fn pending(seeking: &Seeking<'_>, core: CoreBinding, calls: &Arc<Calls>) -> Self {
        Self::Pending(Box::new(Approach {
            participant: Arc::clone(seeking.participant()),
            channel: seeking.channel().clone(),
            port: seeking.port(),
            calls: Arc::clone(calls),
            core,
            attachment: None,
        }))
    }

    fn try_poll(&mut self) -> Result<Polled, NodeError> {
        match self {
            Self::Open(call) => call.lock().take(),
            Self::Pending(approach) => Ok(match approach.step()? {
                Some(call) => {
                    *self = Self::Open(call);
                    Polled::Changed
                }
                None => Polled::Nothing,
            }),
        }
    }
}

impl Source for CoreReplies {
    fn poll(&mut self) -> Polled {
        self.try_poll()
            .unwrap_or_else(|error| Polled::Refused(Box::new(error)))
    }

    fn capacity(&self) -> u32 {
        match self {
            Self::Open(call) => call.lock().attachment.capacity(),
            // So that it is polled.
            Self::Pending(_) => 1,
        }
    }

    fn state(&mut self) -> SourceState {
        let is_over = match self {
            Self::Open(call) => call.lock().look(),
            Self::Pending(approach) => !approach.is_there(),
        };
        if is_over {
            SourceState::Ended
        } else {
            SourceState::Open
        }
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        Ok(())
    }

    fn origin(&self) -> Origin {
        let row = match self {
            Self::Open(call) => call.lock().row,
            Self::Pending(approach) => approach.core.row,
        };
        Origin {
            member: row,
            port: None,
            number: 0,
        }
    }

    fn nap(&self) -> Duration {
        NAP
    }

    fn pending(&self) -> Option<PendingServer> {
        match self {
            Self::Open(_) => None,
            Self::Pending(approach) => Some(approach.pending()),
        }
    }
}
