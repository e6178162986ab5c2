//! Where datagrams are received: in slots of a pool, to be published from there, or in memory of
//! our own.
//!
//! [`stream`](crate::receive::stream) asks for free capacity, says how much of it came, and holds
//! [`Span`]s of that. With [slots](Slots) the space is in one of them as long as there is one;
//! else, and without, in the [ring](ReceiveBuffer), from which the sink copies. Both go together:
//! spans of either may be held at once, and what waits for a missing packet is a handle in each
//! case.
//!
//! In a slot bytes may change under whoever reads them, if somebody with the right to write into
//! the pool does not keep to the rules: what is decided by is read once.

use std::ops::Range;
use std::sync::Arc;

use hythe_node::{NodeError, Sample};
use hythe_sys::udp_receive::BATCH_BYTES;

use super::buffer::{self, ReceiveBuffer};
use crate::slots::{Filling, Refusal, Slots};

/// What came with one call.
#[derive(Debug)]
pub enum Batch {
    /// In the ring, by number.
    Ring(u64),
    /// In a slot, from `start` on.
    Slot {
        /// The slot.
        whole: Arc<Sample>,
        /// Of the first byte.
        start: usize,
    },
}

/// Bytes of a batch, to be released exactly once.
#[derive(Debug)]
#[must_use = "its space is only free again when it is released"]
pub enum Span {
    /// In the ring.
    Ring(buffer::Span),
    /// In a slot.
    Slot {
        /// The slot.
        whole: Arc<Sample>,
        /// Where in it.
        range: Range<usize>,
    },
}

#[derive(Debug)]
struct InSlots {
    slots: Slots,
    filling: Option<Filling>,
}

/// The memory of one stream.
#[derive(Debug)]
pub struct Memory {
    ring: ReceiveBuffer,
    slots: Option<InSlots>,
    /// Why the space is not in a slot.
    refusal: Option<Refusal>,
}

impl Memory {
    /// A ring of `bytes`, and no slots.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            ring: ReceiveBuffer::new(bytes),
            slots: None,
            refusal: None,
        }
    }

    /// Slots come before the ring.
    pub fn prefer(&mut self, slots: Slots) {
        let filling = None;
        self.slots = Some(InSlots { slots, filling });
    }

    /// Decides where the next space is: in a slot, if there is one.
    pub fn choose(&mut self) {
        let Some(slots) = &mut self.slots else { return };
        let has_capacity = |filling: &Filling| filling.left() >= BATCH_BYTES;
        if slots.filling.as_ref().is_some_and(has_capacity) {
            self.refusal = None;
            return;
        }
        // Full: it may be back at once.
        slots.filling = None;
        match slots.slots.open(BATCH_BYTES) {
            Ok(filling) => (slots.filling, self.refusal) = (Some(filling), None),
            Err(refusal) => self.refusal = Some(refusal),
        }
    }

    /// The slot to receive into.
    fn chosen(&mut self) -> Option<&mut Filling> {
        let slots = self.slots.as_mut().filter(|_| self.refusal.is_none())?;
        slots.filling.as_mut()
    }

    /// Space for a batch of [`BATCH_BYTES`], where [`Self::choose`] said; `None` until spans of the
    /// ring are released.
    pub fn free_capacity(&mut self) -> Option<&mut [u8]> {
        if self.chosen().is_none() {
            return self.ring.free_capacity();
        }
        self.chosen()
            .map(|filling| &mut filling.free_capacity()[..BATCH_BYTES])
    }

    /// The first `bytes` (at least 1) of the free capacity given last are used. The batch stays
    /// until [`Self::done`].
    pub fn take(&mut self, bytes: usize) -> Batch {
        if let Some(filling) = self.chosen() {
            let start = filling.fill(bytes);
            let whole = Arc::clone(filling.whole());
            return Batch::Slot { whole, start };
        }
        if let (Some(slots), Some(refusal)) = (&self.slots, self.refusal) {
            slots.slots.count_refusal(refusal);
        }
        Batch::Ring(self.ring.take(bytes))
    }

    /// Holds a part of a batch; `range` counts from its beginning.
    pub fn hold(&mut self, batch: &Batch, range: Range<usize>) -> Span {
        match batch {
            Batch::Ring(number) => Span::Ring(self.ring.hold(*number, range)),
            Batch::Slot { whole, start } => Span::Slot {
                whole: Arc::clone(whole),
                range: start + range.start..start + range.end,
            },
        }
    }

    /// A part of a batch that is not done.
    #[must_use]
    pub fn part<'m>(&'m self, batch: &'m Batch, range: Range<usize>) -> &'m [u8] {
        match batch {
            Batch::Ring(number) => self.ring.part(*number, range),
            Batch::Slot { whole, start } => {
                self.in_slot(whole, start + range.start..start + range.end)
            }
        }
    }

    /// What is in a span.
    #[must_use]
    pub fn bytes<'m>(&'m self, span: &'m Span) -> &'m [u8] {
        match span {
            Span::Ring(span) => self.ring.bytes(span),
            Span::Slot { whole, range } => self.in_slot(whole, range.clone()),
        }
    }

    fn in_slot<'m>(&'m self, whole: &'m Sample, range: Range<usize>) -> &'m [u8] {
        // There are slots: else there were no such batch.
        let trust = self.slots.as_ref().map(|slots| slots.slots.trust());
        trust.map_or(&[], |trust| &whole.as_slice(trust)[range])
    }

    /// Gives a span back.
    pub fn release(&mut self, span: Span) {
        if let Span::Ring(span) = span {
            self.ring.release(span);
        }
    }

    /// No more spans will be held of this batch.
    pub fn done(&mut self, batch: Batch) {
        if let Batch::Ring(number) = batch {
            self.ring.done(number);
        }
    }

    /// Is the pool whole, as far as slots are used? Asked when the kernel could not write into the
    /// space.
    ///
    /// # Errors
    ///
    /// [`NodeError::PoolLost`].
    pub fn check_whole(&self) -> Result<(), NodeError> {
        let filling = self.slots.as_ref().and_then(|slots| slots.filling.as_ref());
        filling.map_or(Ok(()), Filling::check_whole)
    }
}
