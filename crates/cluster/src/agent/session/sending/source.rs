//! What the sources of streams have in common: messages, requests, and what became of requests.

use hythe_node::hop::Origin;
use hythe_node::{NodeError, Sample};

use super::SendingStream;
use crate::agent::session::requests::Answered;
use crate::frame::FrameKind;

/// Where the frames of a stream come from: a port of this pool, as the participant of the host.
pub(super) trait Source {
    /// The next thing to do, if there is one and the credit for it. Never waits.
    fn look(&mut self, stream: &SendingStream) -> Result<Option<Step>, NodeError>;

    /// What was dropped here for the other host since this was last asked.
    fn take_dropped(&mut self) -> u64 {
        0
    }

    /// Nothing more is sent: closes the port, and says how many messages waited there or were
    /// dropped.
    fn discard(&mut self) -> u64 {
        0
    }

    /// The frame with this number fits no slot there: what is sent in its place.
    fn too_long(&mut self, _number: u64) -> Option<Frame> {
        None
    }

    /// The stream ends, and it is not known whether the frame with this number has arrived.
    fn unconfirmed(&mut self, _number: u64) {}
}

/// What is to be done next.
pub(super) enum Step {
    Send(Sample, Origin),
    Frame(Frame),
    /// The publisher with this number has closed its port.
    Closed(u32),
    End,
}

/// A frame that has no sequence number yet.
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) publisher: u32,
    /// Of a request.
    pub(super) number: u64,
    pub(super) sample: Option<Sample>,
}

impl Frame {
    pub(super) const fn without_payload(kind: FrameKind, publisher: u32) -> Self {
        Self {
            kind,
            publisher,
            number: 0,
            sample: None,
        }
    }

    /// A request, or its end.
    pub(super) fn of_request(answered: Answered) -> Self {
        Self {
            kind: answered.kind,
            publisher: 0,
            number: answered.number,
            sample: answered.reply,
        }
    }
}
