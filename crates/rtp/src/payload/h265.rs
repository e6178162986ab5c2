//! H.265 in RTP: RFC 7798, one stream, without decoding order numbers (`sprop-max-don-diff=0`).
//!
//! Sent: NAL units alone, aggregation packets for small ones of one access unit, fragmentation
//! units for those that are too long. Received: the same; PACI packets are refused.

use super::Malformed;
use super::nal::{Joiner, Rules, Structure};
use crate::video::Codec;

const AGGREGATION: u8 = 48;
const FRAGMENTATION: u8 = 49;
const PACI: u8 = 50;
/// The forbidden bit and the high bit of the layer, which share a byte with the type.
const BESIDE_TYPE: u8 = 0x81;
const TYPE: u8 = 0x3f;
/// `TemporalId` plus 1, in the second byte; the rest of it is the layer's.
const TEMPORAL: u8 = 0x07;

/// Cuts access units of H.265.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packetizer;

/// Joins access units of H.265.
pub type Depacketizer = Joiner<Packetizer>;

impl Rules for Packetizer {
    const CODEC: Codec = Codec::H265;

    /// Section 4.4.2: the lowest layer and the lowest sub-layer that it holds.
    fn aggregation_header(nals: &[&[u8]]) -> [u8; 2] {
        let headers = nals.iter().map(|nal| u16::from_be_bytes([nal[0], nal[1]]));
        let layer = headers.clone().map(|header| header & 0x01f8).min();
        let temporal = headers.map(|header| header & u16::from(TEMPORAL)).min();
        let low = layer.unwrap_or(0) | temporal.unwrap_or(1);
        (u16::from(AGGREGATION) << 9 | low).to_be_bytes()
    }

    /// Section 4.4.3.
    fn fragment_header(nal: &[u8]) -> [u8; 3] {
        let nal_type = nal[0] >> 1 & TYPE;
        [nal[0] & BESIDE_TYPE | FRAGMENTATION << 1, nal[1], nal_type]
    }

    fn fragmented_header(payload: &[u8]) -> [u8; 2] {
        [
            payload[0] & BESIDE_TYPE | (payload[2] & TYPE) << 1,
            payload[1],
        ]
    }

    /// Section 4.4.
    fn structure(nal_type: u8) -> Result<Structure, Malformed> {
        match nal_type {
            0..AGGREGATION => Ok(Structure::Single),
            AGGREGATION => Ok(Structure::Aggregation),
            FRAGMENTATION => Ok(Structure::Fragment),
            PACI => Err(Malformed("PACI packets are not supported")),
            _ => Err(Malformed("its type is reserved")),
        }
    }
}
