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
        let lease = self.node.lease_in(self.region, 1)?;
        Ok(Layout::new(lease, PACKETS_PER_SLOT, self.trust)?)
    }

    /// Are as many slots laid out ahead as should be?
    pub(super) fn is_far_ahead(&self) -> bool {
        self.laid.len() >= self.next.0 + AHEAD_MAX
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
            let Some(oldest) = self.laid.pop_front() else {
                break;
            };
            self.next.0 -= 1;
            if self.spare.len() < SPARE_MAX {
                let mut layout = oldest.layout;
                if oldest.was_lent {
                    layout = layout.renew()?;
                } else {
                    layout.clear();
                }
                self.spare.push(layout);
            }
        }
        Ok(())
    }
}
