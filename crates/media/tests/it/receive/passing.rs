//! A depacketizer that hands payloads on as they are, a sink that keeps them, and packets to feed
//! both with.

use hythe_media::MediaError;
use hythe_media::receive::stream::{Settings, Stream};
use hythe_media::sink::Sink;
use hythe_rtp::Identity;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{Depacketize, EmitUnit, Malformed, Received};
use hythe_rtp::unit::Unit;
use rtp_types::RtpPacketBuilder;

pub(crate) const PAYLOAD_TYPE: u8 = 96;
pub(crate) const CLOCK_HZ: u32 = 8000;

/// Every payload is a unit; an empty one never comes.
pub(crate) struct Passing;

impl Depacketize for Passing {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        if received.bytes.first() == Some(&0xEE) {
            return Err(Malformed("it begins with EE"));
        }
        assert!(!received.bytes.is_empty());
        let unit = Unit {
            pieces: &[received.bytes],
            time: received.time,
            due: received.time,
            duration: 0,
            is_start: received.marker,
        };
        emit(&unit, received.after_gap);
        Ok(())
    }

    fn finish(&mut self, _emit: &mut EmitUnit<'_>) {}
}

/// What came.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    /// Time, and whether something was missing in front.
    pub(crate) units: Vec<(u64, bool)>,
    pub(crate) is_finished: bool,
    /// Refuse from so many units on.
    pub(crate) full_at: Option<usize>,
}

impl Sink for Kept {
    fn take(&mut self, unit: &Unit<'_>, missing: bool) -> Result<(), MediaError> {
        if self.full_at == Some(self.units.len()) {
            return Err(MediaError::File {
                what: "write",
                path: "full".into(),
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        for piece in unit.pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.units.push((unit.time, missing));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        self.is_finished = true;
        Ok(())
    }
}

pub(crate) fn format(payload_type: u8, clock_hz: u32) -> StreamFormat {
    StreamFormat {
        encoding: Encoding::L16,
        payload_type,
        clock_hz,
        channels: 1,
        parameters: String::new(),
    }
}

pub(crate) fn stream(settings: Settings, now_ns: u64) -> Stream<Passing, Kept> {
    let format = format(PAYLOAD_TYPE, CLOCK_HZ);
    let identity = Identity::seeded(42);
    Stream::new(
        settings,
        &format,
        &identity,
        Passing,
        Kept::default(),
        now_ns,
    )
}

/// A packet of stream `ssrc`; timestamps advance by 160 with each number.
pub(crate) fn packet(ssrc: u32, sequence: u16, payload: &[u8]) -> Vec<u8> {
    packet_of(PAYLOAD_TYPE, ssrc, sequence, payload)
}

/// The same of that payload type.
pub(crate) fn packet_of(payload_type: u8, ssrc: u32, sequence: u16, payload: &[u8]) -> Vec<u8> {
    let builder = RtpPacketBuilder::<&[u8], &[u8]>::new()
        .payload_type(payload_type)
        .ssrc(ssrc)
        .sequence_number(sequence)
        .timestamp(u32::from(sequence) * 160)
        .payload(payload);
    let mut bytes = vec![0; builder.calculate_size().unwrap()];
    builder.write_into(&mut bytes).unwrap();
    bytes
}
