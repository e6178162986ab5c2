//! A core as a target: buffers go to an endpoint that takes payload, and come back when it has read
//! them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::{Descriptor, DescriptorMark, RegionIndex};
use hythe_node::NodeError;
use hythe_node::hop::{
    HopPool as _, Message, Participant, Seeking, Sent, Target, TargetState, WaitPlan,
};
use hythe_pool::{ChannelInfo, CoreCounter};

use super::NAP;
use super::attachment::{Attachment, attach, silent, step};
use crate::LinkTimeouts;

const INTERRUPTED: &str = "it was stopped or started anew meanwhile";

/// The Linux end of an endpoint that takes payload.
#[derive(Debug)]
pub(super) struct CoreTarget {
    participant: Arc<Participant>,
    channel: ChannelInfo,
    timeouts: LinkTimeouts,
    /// How the publisher waits.
    plan: WaitPlan,
    attachment: Option<Attachment>,
    /// Of the core that was there last.
    region: RegionIndex,
    /// Buffers at the core.
    outstanding: u32,
    /// Something was pushed since the core was last rung for.
    is_unrung: bool,
    /// It was waited for in vain, and has given nothing back since.
    is_stalled: bool,
    /// It has given something back in this session.
    gives_back: bool,
}

/// Why a message does not go to the core.
enum Refusal {
    /// Nothing is behind the channel at the moment.
    Away(NodeError),
    /// The message does not fit, or another participant is attached.
    Unfit(NodeError),
}

impl CoreTarget {
    /// A core of this region is behind the channel.
    pub(super) fn new(seeking: &Seeking<'_>, region: RegionIndex, timeouts: LinkTimeouts) -> Self {
        Self {
            participant: Arc::clone(seeking.participant()),
            channel: seeking.channel().clone(),
            timeouts,
            plan: seeking.wait_plan().at_most(NAP),
            attachment: None,
            region,
            outstanding: 0,
            is_unrung: false,
            is_stalled: false,
            gives_back: false,
        }
    }

    /// Attaches, waiting for the core's answer.
    pub(super) fn attach_now(&mut self) -> Result<(), NodeError> {
        if self.is_current() {
            return Ok(());
        }
        self.forget_session();
        let Self {
            participant,
            channel,
            attachment,
            timeouts,
            ..
        } = self;
        // What a core gives back is not limited by a window.
        attach(participant, channel, attachment, 1, timeouts.attach)
    }

    /// Goes on with attaching, without waiting. False: not yet.
    fn attach_meanwhile(&mut self) -> Result<bool, NodeError> {
        if self.is_current() {
            return Ok(true);
        }
        self.forget_session();
        step(&self.participant, &self.channel, &mut self.attachment, 1)
    }

    /// Whatever was at the core is taken back with the next session.
    const fn forget_session(&mut self) {
        self.outstanding = 0;
        self.is_stalled = false;
        self.gives_back = false;
    }

    fn is_current(&mut self) -> bool {
        self.attachment.as_mut().is_some_and(Attachment::is_current)
    }

    /// Makes ready for a message: attached, and the message fits. Waits for the core if it is the
    /// only target: then somebody is told why it does not get the message.
    fn prepare(&mut self, message: &Message<'_>) -> Result<(), Refusal> {
        let attached = if message.has_one_target() {
            self.attach_now().map(|()| true)
        } else {
            self.attach_meanwhile()
        };
        match attached {
            Ok(true) => self.check(message.descriptor()).map_err(Refusal::Unfit),
            Ok(false) => Err(Refusal::Unfit(self.interrupted())),
            Err(error @ NodeError::CoreSilent { .. }) => Err(Refusal::Away(error)),
            Err(error) => Err(Refusal::Unfit(error)),
        }
    }

    /// What a refusal means for the sender: an error if nobody else can get the message.
    fn refused(message: &mut Message<'_>, refusal: Refusal) -> Sent {
        match refusal {
            Refusal::Away(error) | Refusal::Unfit(error) if message.has_one_target() => {
                Sent::Failed(Box::new(error))
            }
            Refusal::Away(_) => Sent::Absent,
            Refusal::Unfit(_) => Sent::Dropped,
        }
    }

    fn check(&mut self, descriptor: Descriptor) -> Result<(), NodeError> {
        let Some(attachment) = &self.attachment else {
            return Err(self.interrupted());
        };
        let (channel, wanted) = (&self.channel.name, attachment.core.region);
        self.region = wanted;
        if descriptor.place.region != wanted {
            let region = descriptor.place.region;
            return Err(NodeError::RegionNotVisible {
                channel: channel.clone(),
                region,
                wanted,
            });
        }
        let largest = attachment.max_bytes;
        if descriptor.length > largest {
            let bytes = descriptor.length;
            return Err(NodeError::TooLargeForCore {
                channel: channel.clone(),
                bytes,
                largest,
            });
        }
        Ok(())
    }

    /// Has the window a place for the message? Beside other targets the core occupies no more slots
    /// than a receiver may: they would find none.
    fn has_place(&self, message: &Message<'_>) -> bool {
        let Some(attachment) = &self.attachment else {
            return false;
        };
        self.outstanding < attachment.capacity()
            && (message.has_one_target()
                || message.is_within_quota(attachment.row(), self.gives_back))
    }

    fn push(&mut self, message: &Message<'_>) -> Result<(), NodeError> {
        let Some(attachment) = &mut self.attachment else {
            return Err(self.interrupted());
        };
        attachment.push(message.slot(), message.descriptor())?;
        self.outstanding += 1;
        self.is_unrung = true;
        Ok(())
    }

    /// Pushes, if there is a place. False: there is none.
    fn try_push(&mut self, message: &Message<'_>) -> Result<bool, NodeError> {
        self.take_returns()?;
        if !self.has_place(message) {
            return Ok(false);
        }
        self.push(message).map(|()| true)
    }

    fn wait_for_returns(
        &mut self,
        timeout: Duration,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<bool, NodeError> {
        let participant = Arc::clone(&self.participant);
        let done = participant.wait_for(self.plan, timeout, || {
            self.take_returns()?;
            if !self.is_current() {
                // Let go at once: the core's rows are not recovered before.
                self.attachment = None;
                return Err(self.interrupted());
            }
            let is_over = enough(self).then_some(true);
            Ok(is_over.or_else(|| participant.is_interrupted().then_some(false)))
        })?;
        Ok(done == Some(true))
    }

    fn take_returns(&mut self) -> Result<(), NodeError> {
        let Some(attachment) = &mut self.attachment else {
            return Ok(());
        };
        // As many as the queue can hold: a core that keeps giving back does not keep us here.
        for _ in 0..=attachment.capacity() {
            let Some(entry) = attachment.peek() else {
                break;
            };
            let returned = if entry.descriptor.mark() == Some(DescriptorMark::Credit) {
                true
            } else {
                // What the core never had cannot come back: a lie is dropped.
                let reclaimed = attachment.reclaim(entry)?;
                if let Some(taken) = reclaimed {
                    let control = self.participant.pool().control();
                    self.participant
                        .act(|member| member.release(control, taken.slot, 1))?;
                }
                reclaimed.is_some()
            };
            attachment.advance();
            if !returned {
                attachment.note_entry(entry);
            }
            self.outstanding = self.outstanding.saturating_sub(returned.into());
            self.is_stalled &= !returned;
            self.gives_back |= returned;
        }
        Ok(())
    }

    fn ring(&mut self) {
        if std::mem::take(&mut self.is_unrung)
            && let Some(attachment) = &self.attachment
        {
            attachment.ring_core();
        }
    }

    /// The queue was full for so long.
    fn full(&self, waited: Duration) -> NodeError {
        if let Some(attachment) = &self.attachment {
            attachment.count(CoreCounter::Full);
        }
        if let Some(blocked) = self.blocked() {
            return blocked;
        }
        NodeError::CoreFull {
            channel: self.channel.name.clone(),
            places: self.attachment.as_ref().map_or(0, Attachment::capacity),
            waited_ms: waited.as_millis() as u64,
        }
    }

    fn blocked(&self) -> Option<NodeError> {
        self.attachment.as_ref().and_then(Attachment::blocked_by)
    }

    fn interrupted(&self) -> NodeError {
        silent(&self.channel, INTERRUPTED)
    }
}

impl Target for CoreTarget {
    fn send(&mut self, message: &mut Message<'_>) -> Sent {
        if let Err(refusal) = self.prepare(message) {
            return Self::refused(message, refusal);
        }
        match self.try_push(message) {
            Ok(true) => Sent::Delivered,
            Ok(false) => Sent::Full,
            Err(error) => Self::refused(message, Refusal::Unfit(error)),
        }
    }

    fn send_waiting(&mut self, message: &mut Message<'_>) -> Result<bool, Box<NodeError>> {
        let (start, is_alone) = (Instant::now(), message.has_one_target());
        let bound = match (is_alone, self.is_stalled) {
            (true, _) => self.timeouts.window,
            (false, true) => Duration::ZERO,
            (false, false) => message.send_timeout(),
        };
        let waited = self.wait_for_returns(bound, |target| target.has_place(message));
        message.spend(start.elapsed());
        let pushed = match waited {
            Ok(true) => self.push(message).map(|()| true),
            Ok(false) => {
                self.is_stalled = true;
                Err(self.full(bound))
            }
            Err(error) => Err(error),
        };
        match pushed {
            Err(error) if is_alone => Err(Box::new(error)),
            pushed => Ok(pushed.unwrap_or(false)),
        }
    }

    fn wake(&mut self) -> TargetState {
        self.ring();
        TargetState::Open
    }

    /// Waits until the core has given everything back.
    fn flush(&mut self, timeout: Duration) -> Result<(), NodeError> {
        self.ring();
        let start = Instant::now();
        let is_empty = |target: &Self| target.outstanding == 0;
        if is_empty(self) || self.wait_for_returns(timeout, is_empty)? {
            return Ok(());
        }
        if let Some(blocked) = self.blocked() {
            return Err(blocked);
        }
        let (kept, seconds) = (self.outstanding, start.elapsed().as_secs_f64());
        let buffers = if kept == 1 { "buffer" } else { "buffers" };
        let reason = format!("it kept {kept} {buffers} for {seconds:.1} s");
        Err(silent(&self.channel, &reason))
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        // Dropping does it.
        Ok(())
    }

    /// It stays open while the core is away: that may come back.
    fn state(&self) -> TargetState {
        TargetState::Open
    }

    fn name(&self) -> String {
        format!("the core behind `{}`", self.channel.name)
    }

    fn region(&self) -> Option<RegionIndex> {
        Some(self.region)
    }

    fn note_no_slot(&self) {
        if let Some(attachment) = &self.attachment {
            attachment.count(CoreCounter::NoSlot);
        }
    }
}

impl Drop for CoreTarget {
    fn drop(&mut self) {
        if self.participant.is_a_copy() || !self.is_current() {
            return;
        }
        match self.flush(self.timeouts.flush) {
            Ok(()) => {
                // The core has nothing of ours: its echo need not be awaited.
                if let Some(attachment) = &mut self.attachment {
                    attachment.withdraw();
                }
            }
            // It stays in the endpoint's row, for the next session or the agent to take back.
            Err(error) => tracing::warn!(%error, "left a core with buffers"),
        }
    }
}
