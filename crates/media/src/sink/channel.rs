//! Received media onto a Hythe channel: one message for each unit.
//!
//! A unit that lies in one of the stream's [slots](Slots) is published there, as a part of the
//! slot. Any other is copied into a slot of its own, once; where the pool has none left for that,
//! it is dropped and counted, and the stream goes on. Who reads has the same messages in both
//! cases, but that the first kind may begin at any byte.

use hythe_node::{Lease, NodeError, PoolError, Publisher};
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::unit::Unit;
use hythe_rtp::video::START_CODE;

use super::Sink;
use crate::MediaError;
use crate::slots::Slots;

/// Publishes units. Pieces of video get start codes, so that a message is a part of a byte stream.
pub struct ChannelSink {
    publisher: Publisher,
    slots: Slots,
    code: &'static [u8],
}

impl ChannelSink {
    /// Publishes units of `format` with `publisher`, whose policy says what happens to subscribers
    /// that are slow. `slots` are those that the stream is received into, or its units are put
    /// together in.
    #[must_use]
    pub fn new(publisher: Publisher, slots: &Slots, format: &StreamFormat) -> Self {
        Self {
            publisher,
            slots: slots.clone(),
            code: match format.encoding {
                Encoding::H264 | Encoding::H265 => &START_CODE,
                _ => &[],
            },
        }
    }

    fn copy(&mut self, unit: &Unit<'_>) -> Result<(), MediaError> {
        let bytes = unit.len() + unit.pieces.len() * self.code.len();
        let Some(mut lease) = self.lease(bytes)? else {
            return Ok(());
        };
        let mut at = 0;
        for part in unit.pieces.iter().flat_map(|piece| [self.code, piece]) {
            lease.write(at, part);
            at += part.len();
        }
        self.publisher.publish(lease, bytes)?;
        self.slots.count(|counts| counts.copied += 1);
        Ok(())
    }

    /// A slot; `None`, and counted: there is none at this moment, or never one of that size.
    /// Neither a slow reader nor a sender of large units is to end the stream.
    fn lease(&self, bytes: usize) -> Result<Option<Lease>, MediaError> {
        match self.publisher.lease(bytes) {
            Ok(lease) => return Ok(Some(lease)),
            Err(NodeError::Exhausted(_) | NodeError::Pool(PoolError::PoolFull { .. })) => {
                self.slots.count(|counts| counts.dropped += 1);
            }
            Err(NodeError::Pool(PoolError::TooLarge { .. })) => {
                self.slots.count(|counts| counts.too_large += 1);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    }
}

impl Sink for ChannelSink {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        match self.slots.part(unit.pieces, self.code) {
            Some(part) => {
                self.publisher.forward(part)?;
                Ok(())
            }
            None => self.copy(unit),
        }
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}
