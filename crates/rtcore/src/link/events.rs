//! Events to and from a core: sets of bits in the words of a flow (`spec/link.md`, "Events").
//!
//! A notifier raises at a core as at a listener; a listener takes what a core raised beside what
//! processes did. Neither waits, except for the agreement on a session while its port is opened.

use std::sync::Arc;
use std::time::Duration;

use hythe_node::NodeError;
use hythe_node::hop::{EventSource, EventTarget, Participant, Raised, Seeking};
use hythe_pool::ChannelInfo;

use super::NAP;
use super::attachment::{Attachment, attach, step};
use crate::LinkTimeouts;

/// Being attached to an event endpoint, again after each change of the core.
#[derive(Debug)]
struct EventPort {
    participant: Arc<Participant>,
    channel: ChannelInfo,
    attachment: Option<Attachment>,
}

impl EventPort {
    /// Attaches, waiting for the core's answer only while the port is being opened.
    fn open(seeking: &Seeking<'_>, timeouts: LinkTimeouts) -> Self {
        let mut port = Self {
            participant: Arc::clone(seeking.participant()),
            channel: seeking.channel().clone(),
            attachment: None,
        };
        if seeking.is_opening() {
            let (participant, channel) = (&port.participant, &port.channel);
            // A core that does not answer now is met later, as one that starts later is.
            if let Err(error) = attach(
                participant,
                channel,
                &mut port.attachment,
                1,
                timeouts.attach,
            ) {
                tracing::debug!(%error, "an event port has not met its core yet");
            }
        }
        port
    }

    /// The attachment, if both sides agree on one now.
    fn current(&mut self) -> Result<Option<&mut Attachment>, NodeError> {
        if !self.attachment.as_mut().is_some_and(Attachment::is_current) {
            let attachment = &mut self.attachment;
            match step(&self.participant, &self.channel, attachment, 1) {
                Ok(true) => {}
                Ok(false) | Err(NodeError::CoreSilent { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(self.attachment.as_mut())
    }
}

impl Drop for EventPort {
    fn drop(&mut self) {
        if self.participant.is_a_copy() {
            return;
        }
        if let Some(attachment) = self
            .attachment
            .as_mut()
            .filter(|attached| attached.is_met())
        {
            attachment.withdraw();
        }
    }
}

/// A core that takes events.
#[derive(Debug)]
pub(super) struct CoreEventTarget(EventPort);

impl CoreEventTarget {
    pub(super) fn open(seeking: &Seeking<'_>, timeouts: LinkTimeouts) -> Self {
        Self(EventPort::open(seeking, timeouts))
    }
}

impl EventTarget for CoreEventTarget {
    fn raise(&mut self, events: u64) -> Raised {
        match self.0.current() {
            Ok(Some(attachment)) => {
                attachment.raise(events);
                Raised::Accepted
            }
            Ok(None) => Raised::Absent,
            Err(error) => {
                tracing::debug!(%error, "a core gets no events");
                Raised::Absent
            }
        }
    }

    /// The core may come back, and another may come.
    fn stays(&self) -> bool {
        true
    }
}

/// A core that raises events.
#[derive(Debug)]
pub(super) struct CoreEventSource(EventPort);

impl CoreEventSource {
    pub(super) fn open(seeking: &Seeking<'_>, timeouts: LinkTimeouts) -> Self {
        Self(EventPort::open(seeking, timeouts))
    }
}

impl EventSource for CoreEventSource {
    fn take(&mut self) -> Result<u64, NodeError> {
        let attachment = self.0.current()?;
        Ok(attachment.map_or(0, |attachment| attachment.take_events()))
    }

    fn nap(&self) -> Duration {
        NAP
    }
}
