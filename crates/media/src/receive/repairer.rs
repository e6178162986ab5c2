//! Repairs a stream as its description says: packets sent again (RFC 4588), and parity (SMPTE ST
//! 2022-1, RFC 5109).
//!
//! [`stream`](crate::receive::stream) shows it each packet and takes what it repairs. What was sent
//! again counts for parity, too, so that both help each other. Nothing is allocated after it was
//! made, and nothing is believed: see [`loss`](hythe_rtp::loss).

use hythe_rtp::loss::fec::decoder::{DecoderLimits, FecCounts};
use hythe_rtp::loss::fec::parity::{BadParity, Parity};
use hythe_rtp::loss::fec::{Decoder, smpte2022, ulpfec};
use hythe_rtp::loss::rtx::{NotRestored, RtxReceiver};
use hythe_rtp::receive::reorder::Origin;
use hythe_rtp::sdp::{self, StreamDescription};

use super::stream::{Came, Repair};

/// A packet sent again that is longer is not taken: none of ours is.
const PACKET_BYTES_MAX: usize = 2048;

/// Repairs one stream.
#[derive(Debug)]
pub struct Repairer {
    resent: Option<RtxReceiver>,
    parity: Option<sdp::Parity>,
    decoder: Option<Decoder>,
    /// Where a packet that was sent again is turned into the original.
    restored: Box<[u8]>,
}

impl Repairer {
    /// For what a stream is described to have; `None`: neither. (Packets that are sent again as
    /// they were need no repairer.)
    #[must_use]
    pub fn new(stream: &StreamDescription) -> Option<Self> {
        if stream.retransmission.is_none() && stream.parity.is_none() {
            return None;
        }
        Some(Self {
            resent: stream.retransmission.map(|resent| RtxReceiver {
                original_ssrc: 0, // known when the stream begins
                original_payload_type: stream.format.payload_type,
                payload_type: resent.payload_type,
                ssrc: None,
            }),
            parity: stream.parity,
            decoder: stream
                .parity
                .map(|_| Decoder::new(DecoderLimits::default())),
            restored: vec![0; PACKET_BYTES_MAX].into(),
        })
    }

    /// What parity did.
    #[must_use]
    pub fn counts(&self) -> Option<FecCounts> {
        self.decoder.as_ref().map(Decoder::counts)
    }

    fn take_resent(
        &mut self,
        packet: &[u8],
        is_missing: &dyn Fn(u16) -> bool,
        emit: &mut dyn FnMut(&[u8], Origin),
    ) -> bool {
        let (Some(receiver), Some(storage)) = (self.resent, self.restored.get_mut(..packet.len()))
        else {
            return false;
        };
        storage.copy_from_slice(packet);
        let repaired = match receiver.restore(storage, is_missing) {
            Ok(repaired) => repaired,
            // Somebody else's request, or one too many of ours.
            Err(NotRestored::NotMissing(_) | NotRestored::Empty) => return true,
            Err(NotRestored::Malformed | NotRestored::Foreign) => return false,
        };
        emit(repaired.bytes, Origin::Resent);
        if let Some(decoder) = &mut self.decoder {
            decoder.take_media(repaired.bytes, &mut |found| {
                emit(found.bytes, Origin::Parity);
            });
        }
        true
    }

    fn take_parity(
        &mut self,
        parity: Result<Parity<'_>, BadParity>,
        emit: &mut dyn FnMut(&[u8], Origin),
    ) -> bool {
        let (Some(decoder), Ok(parity)) = (&mut self.decoder, parity) else {
            return false;
        };
        decoder.take_parity(&parity, &mut |found| emit(found.bytes, Origin::Parity));
        true
    }
}

impl Repair for Repairer {
    fn begin(&mut self, ssrc: u32) {
        if let Some(resent) = &mut self.resent {
            resent.original_ssrc = ssrc;
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.reset();
        }
    }

    fn take(
        &mut self,
        packet: &[u8],
        came: Came,
        is_missing: &dyn Fn(u16) -> bool,
        emit: &mut dyn FnMut(&[u8], Origin),
    ) -> bool {
        match (came, self.parity) {
            (Came::AsMedia, _) => {
                if let Some(decoder) = &mut self.decoder {
                    decoder.take_media(packet, &mut |found| emit(found.bytes, Origin::Parity));
                }
                true
            }
            (Came::BesideMedia, Some(sdp::Parity::Ulpfec { payload_type }))
                if packet
                    .get(1)
                    .is_some_and(|kind| kind & 0x7f == payload_type) =>
            {
                self.take_parity(ulpfec::parse(packet), emit)
            }
            (Came::BesideMedia, _) => self.take_resent(packet, is_missing, emit),
            (Came::OnParityPort, Some(sdp::Parity::Smpte2022(..))) => {
                self.take_parity(smpte2022::parse(packet), emit)
            }
            (Came::OnParityPort, _) => false,
        }
    }
}
