//! Packets built with their headers in slots of the wire region, or of the pool's own where
//! there can be none, ahead of their instant, and kept in case somebody asks for them again.

use std::collections::VecDeque;
use std::sync::Arc;

use hythe_node::{Lease, Node, NodeError, RegionIndex, SlotClass, TrustPeers, WireOptions};
use hythe_rtp::payload::Payload;

use crate::MediaError;
use crate::wire::layout::{Head, Layout};
use crate::wire::packets::Packets;
use crate::wire::run::PacketPlace;

use super::share::{Share, SlotShare};

/// Packets of a slot, at most: small ones (20 ms of telephone audio) do not fill it.
const PACKETS_PER_SLOT: usize = 1 << 11;
/// Slots with packets that have not left yet, at most: several megabytes, which is seconds of most
/// media.
const AHEAD_MAX: usize = 8;
/// The region that every pool has.
const OWN_REGION: RegionIndex = RegionIndex(0);
/// As much as a wire region's slots have, less what may be in front and behind.
const OWN_SLOT_BYTES: usize = (256 << 10) - 4096;
/// Slots below that hold too few packets to be worth a lease.
const OWN_SLOT_BYTES_LEAST: usize = 1 << 11;
/// Empty slots kept for the next packets.
const SPARE_MAX: usize = 2;

/// Packets of a slot, and what became of them.
#[derive(Debug)]
struct PrebuiltSlot {
    layout: Layout,
    /// When the last of them left, once all have.
    left_ns: u64,
    /// It was sent from by reference: its pages may still be on their way.
    was_lent: bool,
}

/// The slots of a stream, oldest first.
#[derive(Debug)]
pub(super) struct PrebuiltPackets {
    node: Node,
    region: RegionIndex,
    /// Bytes of a slot that are asked for; where slots are smaller, less.
    slot_bytes: usize,
    /// Why packets are not sent by reference, if they cannot be.
    copies_because: Option<NodeError>,
    trust: TrustPeers,
    slots: VecDeque<PrebuiltSlot>,
    /// How many slots were in front of those: slots are counted over the whole stream.
    recycled: u64,
    /// The next packet to leave: a slot of `slots`, and a packet of it.
    next: (usize, usize),
    spare: Vec<Layout>,
    /// How many slots there may be, if others share them.
    share: Option<Share>,
}

impl PrebuiltPackets {
    /// No slot is leased yet, but those that `share` reserves. A pool whose pages cannot be lent to
    /// the network stack has no wire region: its own slots are sent from by copying.
    pub(super) fn new(
        node: &Node,
        options: &WireOptions,
        share: Option<&Arc<SlotShare>>,
        trust: TrustPeers,
    ) -> Result<Self, MediaError> {
        let (region, copies_because) = match node.wire_region(options) {
            Ok(region) => (region, None),
            Err(error @ NodeError::Unsafe { .. }) => (OWN_REGION, Some(error)),
            Err(error) => return Err(error.into()),
        };
        let share = share.map(|share| share.join(slots_of(node, region)));
        let mut store = Self {
            region,
            slot_bytes: match copies_because {
                None => 1, // they are all of one size
                Some(_) => OWN_SLOT_BYTES,
            },
            copies_because,
            node: node.clone(),
            trust,
            slots: VecDeque::new(),
            recycled: 0,
            next: (0, 0),
            spare: Vec::with_capacity(SPARE_MAX),
            share,
        };
        for _ in 0..store.share.as_ref().map_or(0, Share::reserved) {
            let layout = Layout::new(store.lease()?, PACKETS_PER_SLOT, trust)?;
            store.spare.push(layout);
        }
        Ok(store)
    }

    /// Lays out a packet behind the others.
    pub(super) fn push(&mut self, head: &Head, payload: &Payload<'_>) -> Result<(), MediaError> {
        if let Some(last) = self.slots.back_mut()
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
        self.slots.push_back(PrebuiltSlot {
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
        let is_done = |slot: &PrebuiltSlot| index == slot.layout.packets().len();
        if slot + 1 < self.slots.len() && self.slots.get(slot).is_some_and(is_done) {
            self.next = (slot + 1, 0);
        }
    }

    fn empty_layout(&mut self) -> Result<Layout, MediaError> {
        if let Some(spare) = self.spare.pop() {
            return Ok(spare);
        }
        if self.slots.len() >= self.limit() {
            self.recycle_oldest()?;
            if let Some(spare) = self.spare.pop() {
                return Ok(spare);
            }
            // All are of packets that have not left: a unit needs more.
        }
        let refused = match self.lease() {
            Ok(lease) => return Ok(Layout::new(lease, PACKETS_PER_SLOT, self.trust)?),
            Err(refused) => refused,
        };
        // Packets that are to leave need the space more than those that did.
        self.recycle_oldest()?;
        self.spare.pop().ok_or(refused.into())
    }

    /// The largest slot that there is, of what is asked for.
    fn lease(&self) -> Result<Lease, NodeError> {
        let mut bytes = self.slot_bytes;
        loop {
            match self.node.try_lease_in(self.region, bytes) {
                Err(_) if bytes / 2 >= OWN_SLOT_BYTES_LEAST => bytes /= 2,
                leased => return leased,
            }
        }
    }

    /// Why packets are not sent by reference, if they cannot be.
    pub(super) fn copies_because(&self) -> Option<&NodeError> {
        self.copies_because.as_ref()
    }

    /// Are as many slots built ahead as should be?
    pub(super) fn is_far_ahead(&self) -> bool {
        let ahead_max = self.share.as_ref().map_or(AHEAD_MAX, Share::reserved);
        self.slots.len() >= self.next.0 + ahead_max
    }

    /// Slots that there may be, unless one unit needs more.
    fn limit(&self) -> usize {
        self.share.as_ref().map_or(usize::MAX, Share::limit)
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
        Some(self.slots.get(index)?.layout.packet(place))
    }

    /// Packets that have not left, as far as they lie in one slot, in order.
    pub(super) fn waiting(&self) -> &[PacketPlace] {
        let (slot, index) = self.next;
        let slot = self.slots.get(slot);
        slot.and_then(|slot| slot.layout.packets().get(index..))
            .unwrap_or_default()
    }

    /// The first `count` of those [`waiting`](Self::waiting), to be sent by reference if `lend`.
    pub(super) fn packets(&self, count: usize, lend: bool) -> Result<Packets<'_>, MediaError> {
        let places = self.waiting();
        let Some(slot) = self.slots.get(self.next.0) else {
            return Err(MediaError::Packet {
                what: "group of packets",
                reason: "none is built".to_owned(),
            });
        };
        let (memory, places) = (slot.layout.memory()?, &places[..count.min(places.len())]);
        if lend {
            Packets::lasting(memory, places)
        } else {
            Packets::passing(memory, places)
        }
    }

    /// The last packet that left, if it is kept.
    pub(super) fn last_left(&self) -> Option<&[u8]> {
        let (slot, index) = self.next;
        let built = self.slots.get(slot)?;
        let (built, index) = match index.checked_sub(1) {
            Some(index) => (built, index),
            None => {
                let before = self.slots.get(slot.checked_sub(1)?)?;
                (before, before.layout.packets().len().checked_sub(1)?)
            }
        };
        let place = built.layout.packets().get(index)?;
        Some(built.layout.packet(place))
    }

    /// The first `count` of those [`waiting`](Self::waiting) left at `now_ns`, by reference if
    /// `lent`.
    pub(super) fn left(&mut self, count: usize, lent: bool, now_ns: u64) {
        let (slot, index) = &mut self.next;
        let Some(built) = self.slots.get_mut(*slot) else {
            return;
        };
        built.was_lent |= lent;
        built.left_ns = now_ns;
        *index += count;
        self.step_over();
    }

    /// Takes back slots whose packets all left before `before_ns`.
    pub(super) fn recycle(&mut self, before_ns: u64) -> Result<(), MediaError> {
        while self.next.0 > 0
            && self
                .slots
                .front()
                .is_some_and(|oldest| oldest.left_ns < before_ns)
        {
            self.recycle_oldest()?;
        }
        // Others have come, with whom the slots are shared.
        while self.next.0 > 0 && self.slots.len() > self.limit() {
            self.recycle_oldest()?;
        }
        let spare_max = self.limit().saturating_sub(self.slots.len());
        self.spare.truncate(spare_max);
        Ok(())
    }

    /// Takes the oldest slot back if all its packets left.
    fn recycle_oldest(&mut self) -> Result<(), MediaError> {
        if self.next.0 == 0 {
            return Ok(());
        }
        let Some(oldest) = self.slots.pop_front() else {
            return Ok(());
        };
        self.next.0 -= 1;
        self.recycled += 1;
        let is_wanted = match &self.share {
            Some(share) => self.slots.len() + self.spare.len() < share.limit(),
            None => true,
        };
        if is_wanted && self.spare.len() < SPARE_MAX {
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

/// Slots of a region in which packets are built.
fn slots_of(node: &Node, region: RegionIndex) -> usize {
    let geometry = node.pool().region(region);
    let classes = geometry.map(|region| region.classes).unwrap_or_default();
    let is_large = |class: &&SlotClass| class.payload_bytes() >= OWN_SLOT_BYTES;
    let large = classes.iter().filter(is_large);
    large.map(|class| class.count as usize).sum()
}
