//! Received media onto a Hythe channel: one message for each unit.

use hythe_node::{Node, Publisher};

use super::Sink;
use crate::MediaError;
use crate::format::{Encoding, StreamFormat};
use crate::unit::Unit;

/// In front of each NAL unit (H.264 and H.265, annex B).
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Publishes units. Pieces of video get start codes, so that a message is a part of a byte stream.
pub struct ChannelSink {
    node: Node,
    publisher: Publisher,
    code: &'static [u8],
}

impl ChannelSink {
    /// Publishes units of `format` with `publisher`, whose policy says what happens to subscribers that are slow.
    #[must_use]
    pub fn new(node: &Node, publisher: Publisher, format: &StreamFormat) -> Self {
        Self {
            node: node.clone(),
            publisher,
            code: match format.encoding {
                Encoding::H264 | Encoding::H265 => &START_CODE,
                _ => &[],
            },
        }
    }
}

impl Sink for ChannelSink {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        let bytes = unit.len() + unit.pieces.len() * self.code.len();
        let mut lease = self.node.lease(bytes)?;
        let mut at = 0;
        for part in unit.pieces.iter().flat_map(|piece| [self.code, piece]) {
            lease.write(at, part);
            at += part.len();
        }
        self.publisher.publish(lease, bytes)?;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}
