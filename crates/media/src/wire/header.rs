//! RTP headers of one stream (RFC 3550, section 5.1), one packet after the other.

use rtp_types::RtpPacketBuilder;

use hythe_rtp::{HEADER_BYTES, Identity};

/// Writes the headers of a stream: source, numbers and times count on from what its [`Identity`]
/// drew.
#[derive(Clone, Debug)]
pub struct Headers {
    payload_type: u8,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

impl Headers {
    /// At the start of a stream of that payload type (at most 127).
    #[must_use]
    pub fn new(payload_type: u8, identity: &Identity) -> Self {
        Self {
            payload_type: payload_type & 0x7f,
            ssrc: identity.ssrc,
            sequence: identity.sequence,
            timestamp: identity.timestamp,
        }
    }

    /// The header of the next packet, whose media is at `time`: ticks since the start of the
    /// stream.
    pub fn next(&mut self, marker: bool, time: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(self.payload_type)
            .marker_bit(marker)
            .sequence_number(self.sequence)
            .timestamp(self.timestamp_at(time))
            .ssrc(self.ssrc)
            .write_into_unchecked(&mut header);
        self.sequence = self.sequence.wrapping_add(1);
        header
    }

    /// The sequence number that the next packet will have.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        self.sequence
    }

    /// The synchronisation source.
    #[must_use]
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The RTP timestamp of the media at `time`; it wraps by design.
    #[must_use]
    pub fn timestamp_at(&self, time: u64) -> u32 {
        self.timestamp.wrapping_add(time as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtp_types::RtpPacket;

    #[test]
    fn headers_read_back_and_wrap() {
        let mut identity = Identity::seeded(3);
        (identity.sequence, identity.timestamp) = (0xffff, 0xffff_fff0);
        let mut headers = Headers::new(33, &identity);
        for (marker, time, sequence, timestamp) in [
            (true, 0, 0xffff, 0xffff_fff0),
            (false, 0x20, 0, 0x10),
            (false, 0x1_0000_0020, 1, 0x10),
        ] {
            let bytes = headers.next(marker, time);
            let read = RtpPacket::parse(&bytes).unwrap();
            assert_eq!((read.payload_type(), read.ssrc()), (33, identity.ssrc));
            assert_eq!(
                (read.marker_bit(), read.sequence_number()),
                (marker, sequence)
            );
            assert_eq!(read.timestamp(), timestamp);
        }
        assert_eq!(headers.sequence(), 2);
    }
}
