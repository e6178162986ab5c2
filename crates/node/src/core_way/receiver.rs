//! Taking from a core: it fills slots of the stock it was given.

use std::sync::Arc;

use hythe_abi::{Descriptor, DescriptorMark};
use hythe_pool::{ChannelInfo, CoreBinding, LedgerSlot, MemberIndex, PoolError, PortStatistics, Taken};

use super::attachment::Attachment;
use crate::NodeError;
use crate::buffer::Sample;
use crate::node::{Shared, lease_in};
use crate::subscriber::sample_of;

/// The Linux end of an endpoint that gives payload.
#[derive(Debug)]
pub(crate) struct CoreReceiver {
    attachment: Attachment,
    rows_to_core: Vec<MemberIndex>,
    /// Empty slots that the core shall have.
    level: u32,
    /// Empty slots that it has.
    stock: u32,
}

impl CoreReceiver {
    pub(crate) fn attach(
        shared: &Arc<Shared>,
        channel: &ChannelInfo,
        core: CoreBinding,
        depth: u32,
    ) -> Result<Self, NodeError> {
        let mut receiver = Self::over(Attachment::new(shared, channel, core)?, depth);
        receiver.restock()?;
        Ok(receiver)
    }

    fn over(attachment: Attachment, depth: u32) -> Self {
        let level = depth.clamp(1, attachment.capacity());
        let rows_to_core = attachment.rows_to_core();
        Self { attachment, rows_to_core, level, stock: 0 }
    }

    /// The next sample, if there is one. While the core is down there is none.
    pub(crate) fn try_take(
        &mut self,
        statistics: &mut PortStatistics,
    ) -> Result<Option<Sample>, NodeError> {
        if !self.attachment.is_current() {
            if self.attachment.binding().is_none() {
                return Ok(None);
            }
            match self.attachment.again() {
                Ok(attachment) => *self = Self::over(attachment, self.level),
                // It may still be starting.
                Err(NodeError::CoreSilent { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        while let Some(descriptor) = self.attachment.pull() {
            match self.accept(descriptor)? {
                Accepted::Sample(slot) => {
                    let taken = Taken { descriptor, slot };
                    let sample = sample_of(&self.attachment.shared, taken)?;
                    self.restock()?;
                    return Ok(Some(sample));
                }
                Accepted::Unused => {}
                Accepted::Lie => statistics.violations += 1,
            }
        }
        self.restock()?;
        Ok(None)
    }

    fn accept(&mut self, descriptor: Descriptor) -> Result<Accepted, NodeError> {
        if descriptor.mark() == Some(DescriptorMark::Credit) {
            return Ok(Accepted::Lie);
        }
        let unused = descriptor.mark() == Some(DescriptorMark::Unused);
        let checked = if unused { Descriptor { length: 0, ..descriptor } } else { descriptor };
        if let Some(slot) = self.attachment.reclaim(self.attachment.core.row, checked)? {
            self.stock = self.stock.saturating_sub(1);
            if unused {
                let shared = &self.attachment.shared;
                shared.act(|member| member.release(shared.pool().control(), slot, 1))?;
                return Ok(Accepted::Unused);
            }
            return Ok(Accepted::Sample(slot));
        }
        if !unused {
            for &row in &self.rows_to_core {
                if let Some(slot) = self.attachment.reclaim(row, checked)? {
                    return Ok(Accepted::Sample(slot));
                }
            }
        }
        Ok(Accepted::Lie)
    }

    /// Gives the core empty slots up to its level; fewer while the region is full.
    fn restock(&mut self) -> Result<(), NodeError> {
        let before = self.stock;
        while self.stock < self.level {
            let region = self.attachment.core.region;
            let room = self.attachment.max_bytes as usize;
            let lease = match lease_in(&self.attachment.shared, region, room) {
                Ok(lease) => lease,
                Err(NodeError::Pool(PoolError::PoolFull { .. })) => break,
                Err(error) => return Err(error),
            };
            // Fits: a slot's size is 32 bits.
            let bytes = lease.capacity() as u32;
            let reference = lease.into_reference(bytes);
            self.attachment.push(reference.slot(), reference.descriptor())?;
            reference.moved();
            self.stock += 1;
        }
        if self.stock > before {
            self.attachment.ring_core();
        }
        Ok(())
    }
}

enum Accepted {
    Sample(LedgerSlot),
    Unused,
    Lie,
}

impl Drop for CoreReceiver {
    fn drop(&mut self) {
        if self.attachment.is_current()
            && let Err(error) = self.attachment.end_session()
        {
            tracing::warn!(%error, "left a core with empty slots");
        }
    }
}
