//! A core as a source: it fills slots of the stock it was given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::{Descriptor, DescriptorMark};
use hythe_node::NodeError;
use hythe_node::hop::{
    HopPool as _, Origin, Outgoing, Participant, Polled, Seeking, Source, SourceState,
};
use hythe_pool::{ChannelInfo, MemberIndex, PoolError, Taken};

use super::NAP;
use super::attachment::{Attachment, ECHO_BOUND, attach, step};
use super::settle::rows_to_core;

/// How long a core may take to let go of its stock when we leave.
const DETACH_BOUND: Duration = Duration::from_millis(500);

/// The Linux end of an endpoint that gives payload.
#[derive(Debug)]
pub(super) struct CoreSource {
    participant: Arc<Participant>,
    channel: ChannelInfo,
    /// Of the endpoint that was there first.
    row: MemberIndex,
    attachment: Option<Attachment>,
    /// When another participant was last found at the endpoint: looked at again a little later.
    refused: Option<Instant>,
    rows_to_core: Vec<MemberIndex>,
    /// Messages that the subscriber wants to have room for.
    depth: u32,
    /// Empty slots that the core shall have.
    level: u32,
    /// Empty slots that it has.
    stock: u32,
}

impl CoreSource {
    /// An endpoint with this row is behind the channel.
    pub(super) fn new(seeking: &Seeking<'_>, row: MemberIndex) -> Self {
        Self {
            participant: Arc::clone(seeking.participant()),
            channel: seeking.channel().clone(),
            row,
            attachment: None,
            refused: None,
            rows_to_core: Vec::new(),
            depth: seeking.depth(),
            level: 0,
            stock: 0,
        }
    }

    /// Attaches, waiting for the core's answer.
    pub(super) fn attach_now(&mut self) -> Result<(), NodeError> {
        let Self {
            participant,
            channel,
            attachment,
            ..
        } = self;
        attach(participant, channel, attachment, ECHO_BOUND)?;
        self.begin_stock()
    }

    /// The next reference, if there is one. While the core is down there is none.
    fn try_take(&mut self) -> Result<Polled, NodeError> {
        if !self.attachment.as_mut().is_some_and(Attachment::is_current) && !self.attach_again()? {
            return Ok(Polled::Nothing);
        }
        // As many as the queue can hold: a core that keeps giving back does not keep us here.
        for _ in 0..=self.capacity() {
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
                        self.release(taken)?;
                        return Err(error);
                    }
                    return Ok(Polled::Taken(taken));
                }
                Accepted::Unused => {}
                Accepted::Lie => return Ok(Polled::Nonsense),
            }
        }
        self.restock()?;
        Ok(Polled::Nothing)
    }

    fn release(&self, taken: Taken) -> Result<(), NodeError> {
        let control = self.participant.pool().control();
        self.participant
            .act(|member| member.release(control, taken.slot, 1))?;
        Ok(())
    }

    fn attach_again(&mut self) -> Result<bool, NodeError> {
        match step(&self.participant, &self.channel, &mut self.attachment) {
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
        self.rows_to_core = rows_to_core(&self.participant, attachment.core);
        self.stock = 0;
        self.level = self.depth.clamp(1, attachment.capacity());
        if let Some(region) = self.participant.pool().region(attachment.core.region) {
            let room = attachment.max_bytes as usize;
            let fitting = region
                .classes
                .iter()
                .filter(|class| class.payload_bytes() >= room);
            let fitting: u32 = fitting.map(|class| class.count).sum();
            // Half of what is large enough stays with Linux: without it nobody could send to the
            // core.
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
                self.release(taken)?;
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
            let region = attachment.core.region;
            let empty = match Outgoing::lease(&self.participant, region, room) {
                Ok(empty) => empty,
                Err(NodeError::Pool(PoolError::PoolFull { .. })) => break,
                Err(error) => return Err(error),
            };
            attachment.push(empty.slot(), empty.descriptor())?;
            empty.moved();
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

impl Source for CoreSource {
    fn poll(&mut self) -> Polled {
        if self.refused.is_some_and(|at| at.elapsed() < NAP) {
            return Polled::Nothing;
        }
        match self.try_take() {
            Ok(polled) => polled,
            Err(error) => {
                let is_taken = matches!(error, NodeError::EndpointTaken { .. });
                self.refused = is_taken.then(Instant::now);
                Polled::Refused(Box::new(error))
            }
        }
    }

    fn capacity(&self) -> u32 {
        self.attachment.as_ref().map_or(0, Attachment::capacity)
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
}

impl Drop for CoreSource {
    fn drop(&mut self) {
        if self.participant.is_a_copy() {
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
