//! Memory in which a unit is put together from several packets: the slot that it is published from.

use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::{Depacketize, depacketizer_within};
use hythe_rtp::unit::UnitMemory;

use super::{Filling, Refusal, Slots};
use crate::MediaError;

/// A depacketizer for streams of `format` that go on a channel: what it puts together it puts
/// together in `slots`, as the [sink](crate::sink::channel) publishes it.
///
/// # Errors
///
/// [`MediaError::Rtp`] as [`hythe_rtp::payload::depacketizer`].
pub fn depacketizer_for_channel(
    format: &StreamFormat,
    slots: &Slots,
) -> Result<Box<dyn Depacketize + Send>, MediaError> {
    Ok(depacketizer_within(format, SlotMemory::new(slots))?)
}

/// Slots in which units lie one behind the other. One that does not fit any more is moved on to the
/// next slot; one for which there is no slot is put together in memory of our own, and copied from
/// there when it is published.
#[derive(Debug)]
pub struct SlotMemory {
    slots: Slots,
    filling: Option<Filling>,
    /// Of the unit.
    bytes: usize,
    own: Vec<u8>,
    /// Why the unit is in `own`.
    refusal: Option<Refusal>,
}

impl SlotMemory {
    /// None is taken yet.
    #[must_use]
    pub fn new(slots: &Slots) -> Self {
        Self {
            slots: slots.clone(),
            filling: None,
            bytes: 0,
            own: Vec::new(),
            refusal: None,
        }
    }

    fn has_capacity(&self, bytes: usize) -> bool {
        let filling = self.filling.as_ref();
        filling.is_some_and(|filling| filling.left() >= bytes)
    }

    /// Moves what there is of the unit on to where `more` fit behind it.
    fn move_on(&mut self, more: usize) {
        let needed = self.bytes + more;
        // One that has grown out of a slot is likely to grow on.
        let liked = (needed + self.bytes).min(self.slots.largest_bytes());
        let wanted = needed.max(liked);
        let begun = self.filling.as_ref();
        let begun = begun.map_or(&[][..], |filling| filling.begun(self.bytes));
        match self.slots.open(wanted) {
            Ok(mut next) => {
                next.free_capacity()[..begun.len()].copy_from_slice(begun);
                let moved = begun.len() as u64;
                self.slots.count(|counts| counts.moved_bytes += moved);
                self.filling = Some(next);
            }
            Err(refusal) => {
                self.own.extend_from_slice(begun);
                self.slots.count_refusal(refusal);
                self.refusal = Some(refusal);
                // It may be back by the next unit.
                self.filling = None;
            }
        }
    }
}

impl UnitMemory for SlotMemory {
    fn bytes(&self) -> &[u8] {
        match &self.filling {
            Some(filling) if self.refusal.is_none() => filling.begun(self.bytes),
            _ => &self.own,
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.refusal.is_none() && !self.has_capacity(self.bytes + bytes.len()) {
            self.move_on(bytes.len());
        }
        match &mut self.filling {
            Some(filling) if self.refusal.is_none() => {
                filling.free_capacity()[self.bytes..][..bytes.len()].copy_from_slice(bytes);
            }
            _ => self.own.extend_from_slice(bytes),
        }
        self.bytes += bytes.len();
    }

    fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
        self.own.truncate(bytes);
    }

    fn clear(&mut self) {
        if let (Some(filling), None) = (&mut self.filling, self.refusal) {
            filling.fill(self.bytes);
        }
        self.bytes = 0;
        self.own.clear();
        self.refusal = None;
    }
}
