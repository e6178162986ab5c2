//! Opus in RTP: one Opus packet per payload, at 48 kHz whatever was encoded (RFC 7587, section 4).

use super::talk::TalkSpurt;
use super::{Depacketize, EmitPayload, EmitUnit, Malformed, Packetize, Payload, Received};
use crate::unit::Unit;

/// The clock of Opus timestamps, in RTP and in Ogg.
pub const OPUS_CLOCK_HZ: u32 = 48_000;
/// No packet lasts longer: 120 ms (RFC 6716, section 3.4, requirement 5).
const LONGEST_TICKS: u32 = 5760;

/// How long `packet` lasts, in ticks of 48 kHz, by its first two bytes (RFC 6716, section 3.1);
/// `None` if it is no Opus packet.
#[must_use]
pub fn duration(packet: &[u8]) -> Option<u32> {
    let frame = frame_ticks(*packet.first()?);
    let frames = match packet[0] & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    let ticks = frame * frames;
    (ticks > 0 && ticks <= LONGEST_TICKS).then_some(ticks)
}

/// How long a frame lasts in a packet that begins with `toc`.
#[must_use]
pub fn frame_ticks(toc: u8) -> u32 {
    match toc >> 3 {
        config @ 0..12 => [480, 960, 1920, 2880][usize::from(config % 4)],
        config @ 12..16 => [480, 960][usize::from(config % 2)],
        config => 120 << (config % 4),
    }
}

/// Does a packet that begins with `toc` hold two channels?
#[must_use]
pub fn is_stereo(toc: u8) -> bool {
    toc & 4 != 0
}

/// Sends each unit, an Opus packet, as it is. One that is longer than the limit is not emitted: RFC
/// 7587 has no fragments, so the encoder's bit rate has to fit the way.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpusPacketizer {
    talk: TalkSpurt,
}

impl Packetize for OpusPacketizer {
    fn packetize(&mut self, unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>) {
        let marker = self.talk.begins(unit.time, u64::from(unit.duration));
        if unit.len() <= limit && !unit.is_empty() {
            emit(&Payload {
                prefix: &[],
                body: unit.pieces,
                marker,
                time: unit.time,
                due: unit.due,
            });
        }
    }
}

/// A unit per payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpusDepacketizer;

impl Depacketize for OpusDepacketizer {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        let duration = duration(received.bytes).ok_or(Malformed("no Opus packet"))?;
        emit(
            &Unit {
                pieces: &[received.bytes],
                time: received.time,
                due: received.time,
                duration,
                is_start: true,
            },
            received.after_gap,
        );
        Ok(())
    }

    fn finish(&mut self, _emit: &mut EmitUnit<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_follow_the_table_of_rfc_6716() {
        for (config, tenths_of_ms) in [
            (0, 100),
            (3, 600),
            (9, 200),
            (12, 100),
            (15, 200),
            (16, 25),
            (23, 200),
            (31, 200),
        ] {
            let toc = config << 3;
            let ticks = tenths_of_ms * 48 / 10;
            assert_eq!(duration(&[toc]), Some(ticks), "configuration {config}");
            assert_eq!(
                duration(&[toc | 1, 0, 0]),
                (ticks <= 2880).then_some(2 * ticks)
            );
            assert_eq!(duration(&[toc | 3, 1]), Some(ticks));
        }
        assert_eq!(duration(&[3 << 3 | 3, 2]), Some(5760));
    }

    #[test]
    fn what_is_no_packet_has_no_duration() {
        // Nothing; a count that is missing; no frame; more than 120 ms.
        for packet in [&[][..], &[3], &[3, 0x40], &[3 << 3 | 3, 3], &[0xff, 0x3f]] {
            assert_eq!(duration(packet), None, "{packet:?}");
        }
    }

    #[test]
    fn packet_that_does_not_fit_is_not_emitted() {
        let packet = [0xfc; 100];
        let unit = Unit {
            pieces: &[&packet],
            time: 0,
            due: 0,
            duration: 960,
            is_start: true,
        };
        for (limit, expected) in [(99, 0), (100, 1)] {
            let mut payloads = 0;
            OpusPacketizer::default().packetize(&unit, limit, &mut |_| payloads += 1);
            assert_eq!(payloads, expected);
        }
    }
}
