//! A core as a source: it fills the empty slots of its fill ring.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::link::Entry;
use hythe_abi::{Descriptor, DescriptorMark};
use hythe_node::NodeError;
use hythe_node::hop::{HopPool as _, Origin, Participant, Polled, Seeking, Source, SourceState};
use hythe_pool::{ChannelInfo, LedgerSlot, MemberIndex, Taken};

use super::NAP;
use super::attachment::{Attachment, attach, step};
use super::kept::{Kept, Taker};
use super::settle::published;
use super::supply::Supply;
use super::violation::ViolatedWord;
use crate::LinkTimeouts;

/// What a core misses between two looks comes to less: its count went back.
const MISSED_MAX: u32 = u32::MAX / 2;

/// The Linux end of an endpoint that gives payload.
#[derive(Debug)]
pub(super) struct CoreSource {
    participant: Arc<Participant>,
    channel: ChannelInfo,
    timeouts: LinkTimeouts,
    /// Of the endpoint that was there first.
    row: MemberIndex,
    attachment: Option<Attachment>,
    /// When no port of the endpoint was free: looked at again a little later.
    refused: Option<Instant>,
    /// Messages that the subscriber wants space for.
    depth: u32,
    /// Slots given to the core that nobody has given back, as far as it was looked.
    supplied: Vec<LedgerSlot>,
    /// Messages that the core has dropped for this port, as far as they are counted.
    dropped: u32,
    /// Where slots for the fill ring come from.
    supply: Supply,
    /// Messages of the core that the subscriber has.
    kept: Kept,
}

impl CoreSource {
    /// An endpoint with this row is behind the channel.
    pub(super) fn new(seeking: &Seeking<'_>, row: MemberIndex, timeouts: LinkTimeouts) -> Self {
        Self {
            participant: Arc::clone(seeking.participant()),
            channel: seeking.channel().clone(),
            timeouts,
            row,
            attachment: None,
            refused: None,
            depth: seeking.depth(),
            supplied: Vec::new(),
            dropped: 0,
            supply: Supply::default(),
            kept: Kept::default(),
        }
    }

    /// Attaches, waiting for the core's answer.
    pub(super) fn attach_now(&mut self) -> Result<(), NodeError> {
        let Self {
            participant,
            channel,
            attachment,
            depth,
            timeouts,
            ..
        } = self;
        attach(participant, channel, attachment, *depth, timeouts.attach)?;
        self.begin_filling()
    }

    /// The next reference, if there is one. While the core is down there is none.
    fn try_take(&mut self) -> Result<Polled, NodeError> {
        if !self.attachment.as_mut().is_some_and(Attachment::is_current) && !self.attach_again()? {
            return Ok(Polled::Nothing);
        }
        let missed = self.count_missed();
        if missed > 0 {
            return Ok(Polled::Missed(missed));
        }
        // As many as the queue can hold: a core that keeps giving back does not keep us here.
        for _ in 0..=self.capacity() {
            let Some(entry) = self.attachment.as_mut().and_then(Attachment::peek) else {
                break;
            };
            if !self.may_keep(&entry.descriptor) {
                break;
            }
            let accepted = self.accept(entry)?;
            if let Some(attachment) = &mut self.attachment {
                attachment.advance();
                if matches!(accepted, Accepted::Lie) {
                    attachment.note_entry(entry);
                }
            }
            match accepted {
                Accepted::Sample(taken) => {
                    if let Err(error) = self.fill() {
                        self.release(taken)?;
                        return Err(error);
                    }
                    // What it waits for may be the place in the window, not a slot.
                    self.ring();
                    return Ok(Polled::Taken(taken));
                }
                Accepted::Unused => {}
                Accepted::Lie => return Ok(Polled::Nonsense),
            }
        }
        if self.fill()? {
            self.ring();
        }
        Ok(Polled::Nothing)
    }

    /// May the subscriber occupy what waits next? What holds no message is no matter of that.
    fn may_keep(&mut self, descriptor: &Descriptor) -> bool {
        let taker = Taker {
            control: self.participant.pool().control(),
            member: self.participant.index(),
            channel: self.channel.index,
        };
        descriptor.mark().is_some() || self.kept.admits(descriptor, &taker)
    }

    fn ring(&self) {
        if let Some(attachment) = &self.attachment {
            attachment.ring_core();
        }
    }

    fn release(&self, taken: Taken) -> Result<(), NodeError> {
        let control = self.participant.pool().control();
        self.participant
            .act(|member| member.release(control, taken.slot, 1))?;
        Ok(())
    }

    fn attach_again(&mut self) -> Result<bool, NodeError> {
        if self
            .attachment
            .as_ref()
            .is_some_and(Attachment::is_quarantined)
        {
            // A core that breaks each session gets another one now and then.
            self.refused = Some(Instant::now());
        }
        let attachment = &mut self.attachment;
        match step(&self.participant, &self.channel, attachment, self.depth) {
            Ok(true) => self.begin_filling().map(|()| true),
            // It may still be starting, or be gone for now.
            Ok(false) | Err(NodeError::CoreSilent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn begin_filling(&mut self) -> Result<(), NodeError> {
        self.supplied.clear();
        if let Some(attachment) = &self.attachment {
            self.dropped = attachment.link.dropped(attachment.flow());
            self.supply.begin(attachment);
            let index = attachment.core.region;
            let region = self.participant.pool().region(index);
            self.kept.begin(index, region.as_ref());
        }
        if self.fill()? {
            self.ring();
        }
        Ok(())
    }

    /// Messages that the core has dropped for this port since the last look.
    fn count_missed(&mut self) -> u32 {
        let Some(attachment) = &self.attachment else {
            return 0;
        };
        let dropped = attachment.link.dropped(attachment.flow());
        let missed = dropped.wrapping_sub(std::mem::replace(&mut self.dropped, dropped));
        if missed > MISSED_MAX {
            attachment.note(ViolatedWord::Dropped, dropped);
            return 0;
        }
        missed
    }

    /// Moves what the core gave into our row.
    fn accept(&mut self, entry: Entry) -> Result<Accepted, NodeError> {
        let Some(attachment) = &mut self.attachment else {
            return Ok(Accepted::Lie);
        };
        let descriptor = entry.descriptor;
        if descriptor.mark() == Some(DescriptorMark::Credit) {
            return Ok(Accepted::Lie);
        }
        let unused = descriptor.mark() == Some(DescriptorMark::Unused);
        let checked = if unused {
            let descriptor = Descriptor {
                length: 0,
                ..descriptor
            };
            Entry {
                descriptor,
                ..entry
            }
        } else {
            entry
        };
        let (row, reclaimed) = (attachment.row(), attachment.reclaim(checked)?);
        if let Some(taken) = &reclaimed {
            self.forget_supplied(row, taken.slot);
        }
        match reclaimed {
            None => Ok(Accepted::Lie),
            Some(taken) if unused => {
                self.release(taken)?;
                Ok(Accepted::Unused)
            }
            Some(taken) => Ok(Accepted::Sample(taken)),
        }
    }

    /// A reference to a slot has left our row: without any there, the slot is not with the core.
    fn forget_supplied(&mut self, row: MemberIndex, slot: LedgerSlot) {
        let ledger = self.participant.pool().control().ledger();
        if ledger.held_by(row, slot) == 0 {
            self.supplied.retain(|&supplied| supplied != slot);
        }
    }

    /// Fills the core's ring of empty slots up to the window; less while the region is full, or
    /// while the core keeps too many of ours. True: some were pushed; the caller rings.
    fn fill(&mut self) -> Result<bool, NodeError> {
        let Some(attachment) = &mut self.attachment else {
            return Ok(false);
        };
        let wanted = attachment.window();
        let Some(before) = attachment.untaken() else {
            // Its session is over: the next look attaches anew.
            return Ok(false);
        };
        let mut untaken = before;
        while untaken < wanted {
            // One window in the ring, and one that the core fills or others have yet to take.
            let has_share = self.supplied.len() < 2 * wanted as usize || self.may_supply_more();
            let Some(attachment) = &mut self.attachment else {
                break;
            };
            if !has_share {
                self.supply.note_short(attachment);
                break;
            }
            let Some(empty) = self.supply.lease(&self.participant, attachment)? else {
                break;
            };
            attachment.push(empty.slot(), empty.descriptor())?;
            self.supplied.push(empty.slot());
            empty.moved();
            untaken += 1;
        }
        Ok(untaken > before)
    }

    /// Forgets what came back, and looks whether what did not is the fault of others: messages that
    /// wait for ports that do not take them hold our slots, and must not keep the core from
    /// getting others.
    fn may_supply_more(&mut self) -> bool {
        let Some(attachment) = &self.attachment else {
            return false;
        };
        let (row, pool) = (attachment.row(), self.participant.pool());
        let ledger = pool.control().ledger();
        self.supplied.retain(|&slot| ledger.held_by(row, slot) > 0);
        let waiting = published(&attachment.link, row).len();
        self.supplied.len().saturating_sub(waiting) < 2 * attachment.window() as usize
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
            .map(|attached| attached.end_session(self.timeouts.detach));
        if let Some(Err(error)) = ended {
            tracing::warn!(%error, "left a core with empty slots");
        }
    }
}
