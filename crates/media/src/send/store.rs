//! Where the packets of a stream are: built in slots of our own, or in the messages of a
//! channel.
//!
//! Packets wait for their instant here, and are kept in case somebody asks for them again. A packet
//! is known by the number of its slot (prebuilt) or its own (in messages), together with its
//! [`PacketPlace`].

use std::sync::Arc;

use hythe_node::{Node, TrustPeers, WireOptions};
use hythe_rtp::HEADER_BYTES;
use hythe_rtp::payload::Payload;

use crate::MediaError;
use crate::source::channel::Message;
use crate::wire::layout::Head;
use crate::wire::packets::Packets;
use crate::wire::run::PacketPlace;

use super::prebuilt::PrebuiltPackets;
use super::share::SlotShare;
use super::zero_copy_queue::{Budget, GroupVectors, ZeroCopyQueue};

/// The packets of a stream.
#[derive(Debug)]
pub(super) enum Store {
    /// Copied into slots of the wire region, header in front of payload.
    Prebuilt(PrebuiltPackets),
    /// Left where they were published.
    ZeroCopy(Box<ZeroCopyQueue>),
}

impl Store {
    /// Packets will be built beforehand: the pool gets a wire region if it has none.
    pub(super) fn prebuilt(
        node: &Node,
        options: &WireOptions,
        share: Option<&Arc<SlotShare>>,
        trust: TrustPeers,
    ) -> Result<Self, MediaError> {
        Ok(Self::Prebuilt(PrebuiltPackets::new(
            node, options, share, trust,
        )?))
    }

    /// Packets will lie in messages, of which so many are kept for those that were sent.
    pub(super) fn zero_copy(kept: Budget) -> Self {
        Self::ZeroCopy(Box::new(ZeroCopyQueue::new(kept)))
    }

    /// Adds a packet behind the others. Its body lies in the `messages`, if there are any.
    pub(super) fn push(
        &mut self,
        head: &Head,
        payload: &Payload<'_>,
        messages: &[Message],
    ) -> Result<(), MediaError> {
        match self {
            Self::Prebuilt(store) => store.push(head, payload),
            Self::ZeroCopy(store) => store.push(head, payload, messages),
        }
    }

    /// Are as many packets waiting as should be?
    pub(super) fn is_far_ahead(&self) -> bool {
        match self {
            Self::Prebuilt(store) => store.is_far_ahead(),
            Self::ZeroCopy(store) => store.is_far_ahead(),
        }
    }

    /// Packets that have not left, as far as they can leave together.
    pub(super) fn waiting(&self) -> &[PacketPlace] {
        match self {
            Self::Prebuilt(store) => store.waiting(),
            Self::ZeroCopy(store) => store.waiting(),
        }
    }

    /// The number that the packet is known by which is so many behind the first that is
    /// [`waiting`](Self::waiting).
    pub(super) fn number(&self, index: usize) -> u64 {
        match self {
            Self::Prebuilt(store) => store.slot(),
            Self::ZeroCopy(store) => store.number(index),
        }
    }

    /// The least number that is kept.
    pub(super) fn oldest(&self) -> u64 {
        match self {
            Self::Prebuilt(store) => store.oldest_slot(),
            Self::ZeroCopy(store) => store.oldest(),
        }
    }

    /// How many of those [`waiting`](Self::waiting) one group has capacity for.
    pub(super) fn fitting(&self) -> usize {
        match self {
            Self::Prebuilt(store) => store.waiting().len(),
            Self::ZeroCopy(store) => store.fitting(),
        }
    }

    /// The first `count` of those [`waiting`](Self::waiting), no more than [`fit`](Self::fitting).
    pub(super) fn packets<'s>(
        &'s self,
        count: usize,
        lend: bool,
        storage: &'s mut GroupVectors<'s>,
    ) -> Result<Packets<'s>, MediaError> {
        match self {
            Self::Prebuilt(store) => store.packets(count, lend),
            Self::ZeroCopy(store) => store.packets(count, storage),
        }
    }

    /// Shows a packet that is kept: its header, and what follows in pieces.
    pub(super) fn show<T>(
        &self,
        number: u64,
        place: &PacketPlace,
        see: impl FnOnce(&[u8; HEADER_BYTES], &[&[u8]]) -> T,
    ) -> Option<T> {
        match self {
            Self::Prebuilt(store) => {
                let packet = store.packet(number, place)?;
                let (header, body) = packet.split_first_chunk()?;
                Some(see(header, &[body]))
            }
            Self::ZeroCopy(store) => store.show(number, see),
        }
    }

    /// Shows the last packet that left, if it is kept.
    pub(super) fn show_last_left<T>(
        &self,
        see: impl FnOnce(&[u8; HEADER_BYTES], &[&[u8]]) -> T,
    ) -> Option<T> {
        match self {
            Self::Prebuilt(store) => {
                let (header, body) = store.last_left()?.split_first_chunk()?;
                Some(see(header, &[body]))
            }
            Self::ZeroCopy(store) => store.show(store.number(0).checked_sub(1)?, see),
        }
    }

    /// The first `count` of those [`waiting`](Self::waiting) left at `now_ns`, by reference if
    /// `lent`.
    pub(super) fn left(&mut self, count: usize, lent: bool, now_ns: u64) {
        match self {
            Self::Prebuilt(store) => store.left(count, lent, now_ns),
            Self::ZeroCopy(store) => store.left(count, now_ns),
        }
    }

    /// Lets go of packets that left before `before_ns`; how many others had to go for want of free
    /// capacity.
    pub(super) fn recycle(&mut self, before_ns: u64) -> Result<u64, MediaError> {
        match self {
            Self::Prebuilt(store) => store.recycle(before_ns).map(|()| 0),
            Self::ZeroCopy(store) => Ok(store.recycle(before_ns)),
        }
    }
}
