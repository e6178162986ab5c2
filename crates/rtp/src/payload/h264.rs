//! H.264 in RTP: RFC 6184, packetization mode 1 (non-interleaved).
//!
//! Sent: NAL units alone, STAP-A for small ones of one access unit, FU-A for those that are too
//! long. Received: the same; what only the interleaved mode has is refused by name.

use super::Malformed;
use super::nal::{Joiner, Rules, Structure};
use crate::video::Codec;

const STAP_A: u8 = 24;
const FU_A: u8 = 28;
/// `forbidden_zero_bit` and `nal_ref_idc` (section 1.3).
const IMPORTANCE: u8 = 0xe0;
const TYPE: u8 = 0x1f;

/// Cuts access units of H.264.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packetizer;

/// Joins access units of H.264.
pub type Depacketizer = Joiner<Packetizer>;

impl Rules for Packetizer {
    const CODEC: Codec = Codec::H264;

    /// Section 5.7.1: as important as the most important that it holds.
    fn aggregation_header(nals: &[&[u8]]) -> [u8; 2] {
        let importance = nals.iter().map(|nal| nal[0] & IMPORTANCE).max();
        [importance.unwrap_or(0) | STAP_A, 0]
    }

    /// Section 5.8.
    fn fragment_header(nal: &[u8]) -> [u8; 3] {
        [nal[0] & IMPORTANCE | FU_A, nal[0] & TYPE, 0]
    }

    fn fragmented_header(payload: &[u8]) -> [u8; 2] {
        [payload[0] & IMPORTANCE | payload[1] & TYPE, 0]
    }

    /// Table 1 of section 5.2, and table 3 of section 5.4.
    fn structure(nal_type: u8) -> Result<Structure, Malformed> {
        match nal_type {
            1..=23 => Ok(Structure::Single),
            STAP_A => Ok(Structure::Aggregation),
            FU_A => Ok(Structure::Fragment),
            25 => Err(Malformed("STAP-B is of the interleaved mode")),
            26 | 27 => Err(Malformed("MTAP is of the interleaved mode")),
            29 => Err(Malformed("FU-B is of the interleaved mode")),
            _ => Err(Malformed("its type is reserved")),
        }
    }
}
