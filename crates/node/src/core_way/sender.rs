//! Publishing to a core.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::{Descriptor, DescriptorMark};
use hythe_pool::ChannelInfo;

use super::attachment::{Attachment, ECHO_BOUND, attach, silent};
use crate::NodeError;
use crate::buffer::Reference;
use crate::node::Shared;
use crate::wait::{WaitPlan, wait_for};

/// How long a core may keep its window full before publishing gives up.
const WINDOW_BOUND: Duration = Duration::from_secs(10);
/// How long a publisher that goes waits for what the core still has.
const FAREWELL_BOUND: Duration = Duration::from_secs(2);

const INTERRUPTED: &str = "it was stopped or started anew meanwhile";

/// The Linux end of an endpoint that takes payload.
#[derive(Debug)]
pub(crate) struct CoreSender {
    shared: Arc<Shared>,
    channel: ChannelInfo,
    attachment: Option<Attachment>,
    /// Buffers at the core.
    outstanding: u32,
}

impl CoreSender {
    pub(crate) fn attach(shared: &Arc<Shared>, channel: &ChannelInfo) -> Result<Self, NodeError> {
        let mut sender = Self {
            shared: Arc::clone(shared),
            channel: channel.clone(),
            attachment: None,
            outstanding: 0,
        };
        sender.attached()?;
        Ok(sender)
    }

    /// Moves a buffer to the core, waiting for a place in its window. On error the buffer is released.
    pub(crate) fn send(
        &mut self,
        reference: &mut Reference,
        plan: WaitPlan,
    ) -> Result<(), NodeError> {
        let capacity = self.attached()?.capacity();
        self.check(reference.descriptor())?;
        let bound = WINDOW_BOUND;
        if !self.wait_for_returns(plan, bound, |outstanding| outstanding < capacity)? {
            let reason = format!("all {capacity} places of its window are in use for {bound:?}");
            return Err(silent(&self.channel, &reason));
        }
        let Some(attachment) = &mut self.attachment else {
            return Err(self.interrupted());
        };
        attachment.push(reference.slot(), reference.descriptor())?;
        reference.moved();
        attachment.ring_core();
        self.outstanding += 1;
        Ok(())
    }

    /// Waits until the core has given everything back.
    pub(crate) fn flush(&mut self, plan: WaitPlan, timeout: Duration) -> Result<(), NodeError> {
        if self.outstanding == 0
            || self.wait_for_returns(plan, timeout, |outstanding| outstanding == 0)?
        {
            return Ok(());
        }
        let reason = format!("it kept {} buffers for {timeout:?}", self.outstanding);
        Err(silent(&self.channel, &reason))
    }

    /// The attachment, made anew if the core was.
    fn attached(&mut self) -> Result<&mut Attachment, NodeError> {
        if !self.is_current() {
            self.outstanding = 0;
            attach(
                &self.shared,
                &self.channel,
                &mut self.attachment,
                ECHO_BOUND,
            )?;
        }
        match &mut self.attachment {
            Some(attachment) => Ok(attachment),
            None => Err(silent(&self.channel, INTERRUPTED)),
        }
    }

    fn is_current(&mut self) -> bool {
        self.attachment.as_mut().is_some_and(Attachment::is_current)
    }

    fn wait_for_returns(
        &mut self,
        plan: WaitPlan,
        timeout: Duration,
        enough: impl Fn(u32) -> bool,
    ) -> Result<bool, NodeError> {
        let shared = Arc::clone(&self.shared);
        let plan = plan.gated(shared.spin_gate());
        let done = wait_for(
            shared.pool().control(),
            shared.index(),
            plan,
            timeout,
            || {
                self.take_returns()?;
                if !self.is_current() {
                    // Let go at once: the core's rows are not recovered before.
                    self.attachment = None;
                    return Err(self.interrupted());
                }
                Ok(enough(self.outstanding).then_some(()))
            },
        )?;
        Ok(done.is_some())
    }

    fn take_returns(&mut self) -> Result<(), NodeError> {
        let Some(attachment) = &mut self.attachment else {
            return Ok(());
        };
        while let Some(descriptor) = attachment.peek() {
            let returned = if descriptor.mark() == Some(DescriptorMark::Credit) {
                true
            } else {
                // What the core never had cannot come back: a lie is dropped.
                let reclaimed = attachment.reclaim(attachment.core.row, descriptor)?;
                if let Some(taken) = reclaimed {
                    let control = self.shared.pool().control();
                    self.shared
                        .act(|member| member.release(control, taken.slot, 1))?;
                }
                reclaimed.is_some()
            };
            attachment.advance();
            self.outstanding = self.outstanding.saturating_sub(returned.into());
        }
        Ok(())
    }

    fn check(&self, descriptor: Descriptor) -> Result<(), NodeError> {
        let Some(attachment) = &self.attachment else {
            return Err(self.interrupted());
        };
        let channel = &self.channel.name;
        let wanted = attachment.core.region;
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

    fn interrupted(&self) -> NodeError {
        silent(&self.channel, INTERRUPTED)
    }
}

impl Drop for CoreSender {
    fn drop(&mut self) {
        if self.shared.is_a_copy() || !self.is_current() {
            return;
        }
        match self.flush(WaitPlan::for_core(), FAREWELL_BOUND) {
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
