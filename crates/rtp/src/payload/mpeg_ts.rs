//! MPEG-2 transport streams in RTP: a whole number of packets of 188 bytes, nothing else (RFC 2250,
//! section 2).
//!
//! The marker bit says that the timestamp jumps; sources here keep their time continuous, so it is
//! never set.

use super::{Depacketize, EmitPayload, EmitUnit, Malformed, Packetize, Payload, Received};
use crate::unit::Unit;

/// Bytes of a transport packet (ISO/IEC 13818-1, 2.4.3).
pub const TS_BYTES: usize = 188;
/// What each begins with.
pub const TS_SYNC: u8 = 0x47;

/// Cuts a unit between its transport packets. One of them needs 188 bytes: at a lower limit nothing
/// is emitted, since RFC 2250 has no fragments.
#[derive(Clone, Copy, Debug, Default)]
pub struct TsPacketizer;

impl Packetize for TsPacketizer {
    fn packetize(&mut self, unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>) {
        let packets = (unit.len() / TS_BYTES).max(1) as u64;
        let mut before = 0;
        for piece in unit.pieces {
            for body in piece.chunks((limit - limit % TS_BYTES).max(TS_BYTES)) {
                let shift = u64::from(unit.duration) * before / packets;
                before += (body.len() / TS_BYTES) as u64;
                if body.len() <= limit {
                    emit(&Payload {
                        prefix: &[],
                        body: &[body],
                        marker: false,
                        time: unit.time + shift,
                        due: unit.due + shift,
                    });
                }
            }
        }
    }
}

/// A unit per payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct TsDepacketizer;

impl Depacketize for TsDepacketizer {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        let bytes = received.bytes;
        if bytes.is_empty() || !bytes.len().is_multiple_of(TS_BYTES) {
            return Err(Malformed("not a whole number of transport packets"));
        }
        if !bytes.iter().step_by(TS_BYTES).all(|byte| *byte == TS_SYNC) {
            return Err(Malformed("a transport packet without its sync byte"));
        }
        emit(
            &Unit {
                pieces: &[bytes],
                time: received.time,
                due: received.time,
                duration: 0,
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
    fn packets_are_never_cut_and_times_are_spread() {
        let bytes: Vec<u8> = (0..7u8)
            .flat_map(|count| [[TS_SYNC, count]; 94].concat())
            .collect();
        let unit = Unit {
            pieces: &[&bytes],
            time: 1000,
            due: 1000,
            duration: 700,
            is_start: true,
        };
        for (limit, times) in [
            (1500, vec![1000]),
            (1316, vec![1000]),
            (1315, vec![1000, 1600]),
            (400, vec![1000, 1200, 1400, 1600]),
            (187, vec![]),
        ] {
            let mut joined = Vec::new();
            let mut seen = Vec::new();
            TsPacketizer.packetize(&unit, limit, &mut |payload| {
                assert!(payload.len() <= limit && payload.len() % TS_BYTES == 0);
                assert!(!payload.marker && payload.due == payload.time);
                joined.extend(payload.body.concat());
                seen.push(payload.time);
            });
            assert_eq!(seen, times, "limit {limit}");
            assert_eq!(joined == bytes, limit >= TS_BYTES);
        }
    }

    #[test]
    fn what_is_no_transport_stream_is_refused() {
        let mut good = [[TS_SYNC; TS_BYTES]; 2].concat();
        let take = |bytes: &[u8]| {
            let received = Received {
                bytes,
                marker: false,
                time: 5,
                after_gap: true,
            };
            let mut units = 0;
            let taken = TsDepacketizer.take(&received, &mut |unit, missing| {
                assert!(missing && unit.time == 5 && unit.pieces == [bytes]);
                units += 1;
            });
            taken.map(|()| units)
        };
        assert_eq!(take(&good), Ok(1));
        assert!(take(&[]).is_err());
        assert!(take(&good[1..]).is_err());
        good[TS_BYTES] = 0;
        assert!(take(&good).is_err());
    }
}
