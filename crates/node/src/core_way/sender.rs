//! Publishing to a core.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::{Descriptor, DescriptorMark};
use hythe_pool::{ChannelInfo, CoreBinding};

use super::attachment::Attachment;
use crate::NodeError;
use crate::buffer::Reference;
use crate::node::Shared;
use crate::wait::{WaitPlan, wait_for};

/// How long a core may keep its window full before publishing gives up.
const WINDOW_BOUND: Duration = Duration::from_secs(10);
/// How long a publisher that goes waits for what the core still has.
const FAREWELL_BOUND: Duration = Duration::from_secs(2);

/// The Linux end of an endpoint that takes payload.
#[derive(Debug)]
pub(crate) struct CoreSender {
    attachment: Attachment,
    /// Buffers at the core.
    outstanding: u32,
}

impl CoreSender {
    pub(crate) fn attach(
        shared: &Arc<Shared>,
        channel: &ChannelInfo,
        core: CoreBinding,
    ) -> Result<Self, NodeError> {
        Ok(Self { attachment: Attachment::new(shared, channel, core)?, outstanding: 0 })
    }

    /// Moves a buffer to the core, waiting for a place in its window.
    pub(crate) fn send(&mut self, reference: Reference, plan: WaitPlan) -> Result<(), NodeError> {
        self.attach_again_if_needed()?;
        self.check(reference.descriptor())?;
        let capacity = self.attachment.capacity();
        let bound = WINDOW_BOUND;
        if !self.wait_for_returns(plan, bound, |outstanding| outstanding < capacity)? {
            return Err(self.silent(format!("all {capacity} places of its window are in use for {bound:?}")));
        }
        self.attachment.push(reference.slot(), reference.descriptor())?;
        self.outstanding += 1;
        reference.moved();
        self.attachment.ring_core();
        Ok(())
    }

    /// Waits until the core has given everything back.
    pub(crate) fn flush(&mut self, plan: WaitPlan, timeout: Duration) -> Result<(), NodeError> {
        if self.wait_for_returns(plan, timeout, |outstanding| outstanding == 0)? {
            return Ok(());
        }
        Err(self.silent(format!("it kept {} buffers for {timeout:?}", self.outstanding)))
    }

    fn wait_for_returns(
        &mut self,
        plan: WaitPlan,
        timeout: Duration,
        enough: impl Fn(u32) -> bool,
    ) -> Result<bool, NodeError> {
        let shared = Arc::clone(&self.attachment.shared);
        let done = wait_for(shared.pool().control(), shared.index(), plan, timeout, || {
            self.take_returns()?;
            if !self.attachment.is_current() {
                return Err(self.silent("it was stopped or started anew meanwhile".to_owned()));
            }
            Ok(enough(self.outstanding).then_some(()))
        })?;
        Ok(done.is_some())
    }

    fn take_returns(&mut self) -> Result<(), NodeError> {
        while let Some(descriptor) = self.attachment.pull() {
            if descriptor.mark() == Some(DescriptorMark::Credit) {
                self.outstanding = self.outstanding.saturating_sub(1);
                continue;
            }
            // What the core never had cannot come back: a lie is dropped.
            if let Some(slot) = self.attachment.reclaim(self.attachment.core.row, descriptor)? {
                self.outstanding = self.outstanding.saturating_sub(1);
                let shared = &self.attachment.shared;
                shared.act(|member| member.release(shared.pool().control(), slot, 1))?;
            }
        }
        Ok(())
    }

    fn attach_again_if_needed(&mut self) -> Result<(), NodeError> {
        if !self.attachment.is_current() {
            self.attachment = self.attachment.again()?;
            self.outstanding = 0;
        }
        Ok(())
    }

    fn check(&self, descriptor: Descriptor) -> Result<(), NodeError> {
        let channel = &self.attachment.channel.name;
        let wanted = self.attachment.core.region;
        if descriptor.place.region != wanted {
            let region = descriptor.place.region;
            return Err(NodeError::RegionNotVisible { channel: channel.clone(), region, wanted });
        }
        let largest = self.attachment.max_bytes;
        if descriptor.length > largest {
            let bytes = descriptor.length;
            return Err(NodeError::TooLargeForCore { channel: channel.clone(), bytes, largest });
        }
        Ok(())
    }

    fn silent(&self, reason: String) -> NodeError {
        NodeError::CoreSilent { channel: self.attachment.channel.name.clone(), reason }
    }
}

impl Drop for CoreSender {
    fn drop(&mut self) {
        // What the core has not worked off by then stays in the endpoint's row, for the next session to take back.
        if self.attachment.is_current() && self.outstanding > 0 {
            let kept = self.flush(WaitPlan::for_core(), FAREWELL_BOUND);
            if let Err(error) = kept {
                tracing::warn!(%error, "left a core with buffers");
            }
        }
    }
}
