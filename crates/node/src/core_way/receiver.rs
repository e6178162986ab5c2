//! Taking from a core: it fills slots of the stock it was given.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::{Descriptor, DescriptorMark};
use hythe_pool::{ChannelInfo, MemberIndex, PoolError, PortStatistics, Taken};

use super::attachment::{Attachment, ECHO_BOUND, attach, step};
use super::settle::rows_to_core;
use crate::NodeError;
use crate::node::{Shared, lease_in};

/// How long a core may take to let go of its stock when we leave.
const DETACH_BOUND: Duration = Duration::from_millis(500);

/// The Linux end of an endpoint that gives payload.
#[derive(Debug)]
pub(crate) struct CoreReceiver {
    shared: Arc<Shared>,
    channel: ChannelInfo,
    attachment: Option<Attachment>,
    rows_to_core: Vec<MemberIndex>,
    /// Messages that the subscriber wants to have room for.
    depth: u32,
    /// Empty slots that the core shall have.
    level: u32,
    /// Empty slots that it has.
    stock: u32,
}

impl CoreReceiver {
    /// Attaches now.
    pub(crate) fn attach(
        shared: &Arc<Shared>,
        channel: &ChannelInfo,
        depth: u32,
    ) -> Result<Self, NodeError> {
        let mut receiver = Self::later(shared, channel, depth);
        attach(shared, channel, &mut receiver.attachment, ECHO_BOUND)?;
        receiver.begin_stock()?;
        Ok(receiver)
    }

    /// Attaches while taking.
    pub(crate) fn later(shared: &Arc<Shared>, channel: &ChannelInfo, depth: u32) -> Self {
        Self {
            shared: Arc::clone(shared),
            channel: channel.clone(),
            attachment: None,
            rows_to_core: Vec::new(),
            depth,
            level: 0,
            stock: 0,
        }
    }

    /// The next reference, if there is one. While the core is down there is none.
    pub(crate) fn try_take(
        &mut self,
        statistics: &mut PortStatistics,
    ) -> Result<Option<Taken>, NodeError> {
        if !self.attachment.as_mut().is_some_and(Attachment::is_current) && !self.attach_again()? {
            return Ok(None);
        }
        // As many as the queue can hold: a core that keeps pushing nonsense does not keep us here.
        let most = self.attachment.as_ref().map_or(0, Attachment::capacity);
        for _ in 0..=most {
            let Some(descriptor) = self.attachment.as_mut().and_then(Attachment::peek) else {
                break;
            };
            let accepted = self.accept(descriptor)?;
            if let Some(attachment) = &mut self.attachment {
                attachment.advance();
            }
            match accepted {
                Accepted::Sample(taken) => {
                    if let Err(error) = self.restock() {
                        let control = self.shared.pool().control();
                        self.shared
                            .act(|member| member.release(control, taken.slot, 1))?;
                        return Err(error);
                    }
                    return Ok(Some(taken));
                }
                Accepted::Unused => {}
                Accepted::Lie => statistics.violations += 1,
            }
        }
        self.restock()?;
        Ok(None)
    }

    fn attach_again(&mut self) -> Result<bool, NodeError> {
        match step(&self.shared, &self.channel, &mut self.attachment) {
            Ok(true) => self.begin_stock().map(|()| true),
            // It may still be starting, or be gone for now.
            Ok(false) | Err(NodeError::CoreSilent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn begin_stock(&mut self) -> Result<(), NodeError> {
        let Some(attachment) = &self.attachment else {
            return Ok(());
        };
        self.rows_to_core = rows_to_core(&self.shared, attachment.core);
        self.stock = 0;
        self.level = self.depth.clamp(1, attachment.capacity());
        if let Some(region) = self.shared.pool().region(attachment.core.region) {
            let room = attachment.max_bytes as usize;
            let fitting = region
                .classes
                .iter()
                .filter(|class| class.payload_bytes() >= room);
            let fitting: u32 = fitting.map(|class| class.count).sum();
            // Half of what is large enough stays with Linux: without it nobody could send to the core.
            self.level = self.level.min((fitting / 2).max(1));
        }
        self.restock()
    }

    /// Moves what the core gave into our row.
    fn accept(&mut self, descriptor: Descriptor) -> Result<Accepted, NodeError> {
        let Some(attachment) = &self.attachment else {
            return Ok(Accepted::Lie);
        };
        if descriptor.mark() == Some(DescriptorMark::Credit) {
            return Ok(Accepted::Lie);
        }
        let unused = descriptor.mark() == Some(DescriptorMark::Unused);
        let checked = if unused {
            Descriptor {
                length: 0,
                ..descriptor
            }
        } else {
            descriptor
        };
        if let Some(taken) = attachment.reclaim(attachment.core.row, checked)? {
            self.stock = self.stock.saturating_sub(1);
            if unused {
                self.shared
                    .act(|member| member.release(self.shared.pool().control(), taken.slot, 1))?;
                return Ok(Accepted::Unused);
            }
            return Ok(Accepted::Sample(taken));
        }
        if !unused {
            for &row in &self.rows_to_core {
                if let Some(taken) = attachment.reclaim(row, checked)? {
                    return Ok(Accepted::Sample(taken));
                }
            }
        }
        Ok(Accepted::Lie)
    }

    /// Gives the core empty slots up to its level; fewer while the region is full.
    fn restock(&mut self) -> Result<(), NodeError> {
        let Some(attachment) = &mut self.attachment else {
            return Ok(());
        };
        let before = self.stock;
        while self.stock < self.level {
            let room = attachment.max_bytes as usize;
            let lease = match lease_in(&self.shared, attachment.core.region, room) {
                Ok(lease) => lease,
                Err(NodeError::Pool(PoolError::PoolFull { .. })) => break,
                Err(error) => return Err(error),
            };
            // Fits: a slot's size is 32 bits.
            let bytes = lease.capacity() as u32;
            let mut reference = lease.into_reference(bytes);
            attachment.push(reference.slot(), reference.descriptor())?;
            reference.moved();
            self.stock += 1;
        }
        if self.stock > before {
            attachment.ring_core();
        }
        Ok(())
    }
}

enum Accepted {
    Sample(Taken),
    Unused,
    Lie,
}

impl Drop for CoreReceiver {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        let ended = self
            .attachment
            .as_mut()
            .map(|attached| attached.end_session(DETACH_BOUND));
        if let Some(Err(error)) = ended {
            tracing::warn!(%error, "left a core with empty slots");
        }
    }
}
