//! The slots of a stream: packets laid out ahead of their instant, and packets kept in case somebody asks for them again.

use std::collections::VecDeque;

use hythe_node::{Node, RegionIndex, TrustPeers, WireOptions};

use crate::MediaError;
use crate::payload::Payload;
use crate::wire::layout::{Head, Layout};
use crate::wire::run::PacketPlace;

/// Packets of a slot, at most: small ones (20 ms of telephone audio) do not fill it.
const PACKETS_PER_SLOT: usize = 1 << 11;
/// Slots with packets that have not left yet, at most: several megabytes, which is seconds of most media.
const AHEAD_MAX: usize = 8;
/// Empty slots kept for the next packets.
const SPARE_MAX: usize = 2;

/// Packets of a slot, and what became of them.
#[derive(Debug)]
struct Laid {
    layout: Layout,
    /// When the last of them left, once all have.
    left_ns: u64,
    /// It was sent from by reference: its pages may still be on their way.
    was_lent: bool,
}

/// The slots of a stream, oldest first.
#[derive(Debug)]
pub(super) struct Store {
    node: Node,
    region: RegionIndex,
    trust: TrustPeers,
    laid: VecDeque<Laid>,
    /// How many slots were in front of those: slots are counted over the whole stream.
    recycled: u64,
    /// The next packet to leave: a slot of `laid`, and a packet of it.
    next: (usize, usize),
    spare: Vec<Layout>,
}

impl Store {
    /// No slot is leased yet.
    pub(super) fn new(
        node: &Node,
        options: &WireOptions,
        trust: TrustPeers,
    ) -> Result<Self, MediaError> {
        Ok(Self {
            region: node.wire_region(options)?,
            node: node.clone(),
            trust,
            laid: VecDeque::new(),
            recycled: 0,
            next: (0, 0),
            spare: Vec::with_capacity(SPARE_MAX),
        })
    }

    /// Lays out a packet behind the others.
    pub(super) fn push(&mut self, head: &Head, payload: &Payload<'_>) -> Result<(), MediaError> {
        if let Some(last) = self.laid.back_mut()
            && last.layout.push(head, payload).is_ok()
        {
            return Ok(());
        }
        let mut layout = self.empty_layout()?;
        layout
            .push(head, payload)
            .map_err(|full| MediaError::Packet {
                what: "packet",
                reason: full.to_string(),
            })?;
        self.laid.push_back(Laid {
            layout,
            left_ns: 0,
            was_lent: false,
        });
        self.step_over();
        Ok(())
    }

    /// If all packets of a slot left, and another one is begun, that is next.
    fn step_over(&mut self) {
        let (slot, index) = self.next;
        let is_done = |laid: &Laid| index == laid.layout.packets().len();
        if slot + 1 < self.laid.len() && self.laid.get(slot).is_some_and(is_done) {
            self.next = (slot + 1, 0);
        }
    }

    fn empty_layout(&mut self) -> Result<Layout, MediaError> {
        if let Some(spare) = self.spare.pop() {
            return Ok(spare);
        }
        let refused = match self.node.lease_in(self.region, 1) {
            Ok(lease) => return Ok(Layout::new(lease, PACKETS_PER_SLOT, self.trust)?),
            Err(refused) => refused,
        };
        // Packets that are to leave need the room more than those that did.
        self.recycle_oldest()?;
        self.spare.pop().ok_or(refused.into())
    }

    /// Are as many slots laid out ahead as should be?
    pub(super) fn is_far_ahead(&self) -> bool {
        self.laid.len() >= self.next.0 + AHEAD_MAX
    }

    /// The slot that [`waiting`](Self::waiting) packets lie in.
    pub(super) fn slot(&self) -> u64 {
        self.recycled + self.next.0 as u64
    }

    /// The oldest slot that is kept.
    pub(super) fn oldest_slot(&self) -> u64 {
        self.recycled
    }

    /// A packet that lies in a slot, if that is still kept.
    pub(super) fn packet(&self, slot: u64, place: &PacketPlace) -> Option<&[u8]> {
        let index = usize::try_from(slot.checked_sub(self.recycled)?).ok()?;
        Some(self.laid.get(index)?.layout.packet(place))
    }

    /// Packets that have not left, as far as they lie in one slot, in order; and the slot.
    pub(super) fn waiting(&self) -> Option<(&Layout, &[PacketPlace])> {
        let (slot, index) = self.next;
        let layout = &self.laid.get(slot)?.layout;
        let packets = layout
            .packets()
            .get(index..)
            .filter(|left| !left.is_empty())?;
        Some((layout, packets))
    }

    /// The last packet that left, if it is kept.
    pub(super) fn last_left(&self) -> Option<&[u8]> {
        let (slot, index) = self.next;
        let laid = self.laid.get(slot)?;
        let (laid, index) = match index.checked_sub(1) {
            Some(index) => (laid, index),
            None => {
                let before = self.laid.get(slot.checked_sub(1)?)?;
                (before, before.layout.packets().len().checked_sub(1)?)
            }
        };
        let place = laid.layout.packets().get(index)?;
        Some(laid.layout.packet(place))
    }

    /// The first `count` of those [`waiting`](Self::waiting) left at `now_ns`, by reference if `lent`.
    pub(super) fn left(&mut self, count: usize, lent: bool, now_ns: u64) {
        let (slot, index) = &mut self.next;
        let Some(laid) = self.laid.get_mut(*slot) else {
            return;
        };
        laid.was_lent |= lent;
        laid.left_ns = now_ns;
        *index += count;
        self.step_over();
    }

    /// Takes back slots whose packets all left before `before_ns`.
    pub(super) fn recycle(&mut self, before_ns: u64) -> Result<(), MediaError> {
        while self.next.0 > 0
            && self
                .laid
                .front()
                .is_some_and(|oldest| oldest.left_ns < before_ns)
        {
            self.recycle_oldest()?;
        }
        Ok(())
    }

    /// Takes the oldest slot back if all its packets left.
    fn recycle_oldest(&mut self) -> Result<(), MediaError> {
        if self.next.0 == 0 {
            return Ok(());
        }
        let Some(oldest) = self.laid.pop_front() else {
            return Ok(());
        };
        self.next.0 -= 1;
        self.recycled += 1;
        if self.spare.len() < SPARE_MAX {
            let mut layout = oldest.layout;
            if oldest.was_lent {
                layout = layout.renew()?;
            } else {
                layout.clear();
            }
            self.spare.push(layout);
        }
        Ok(())
    }
}
