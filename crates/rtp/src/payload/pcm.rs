//! Samples in RTP: L16 in network byte order, and G.711 (RFC 3551, sections 4.5.11 and 4.5.14).
//!
//! Payloads are cut between sample frames (one sample of each channel) and are nearly equal in
//! size. The clock runs at the sampling rate.

use super::talk::TalkSpurt;
use super::{Depacketize, EmitPayload, EmitUnit, Malformed, Packetize, Payload, Received};
use crate::unit::Unit;

/// Cuts blocks of samples.
#[derive(Clone, Copy, Debug)]
pub struct PcmPacketizer {
    frame_bytes: usize,
    talk: TalkSpurt,
}

impl PcmPacketizer {
    /// Of samples of which one frame has `frame_bytes`, at least 1.
    #[must_use]
    pub fn new(frame_bytes: usize) -> Self {
        Self {
            frame_bytes,
            talk: TalkSpurt::default(),
        }
    }
}

impl Packetize for PcmPacketizer {
    fn packetize(&mut self, unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>) {
        let mut frames_before = 0;
        for piece in unit.pieces {
            let frames = piece.len() / self.frame_bytes;
            let packets = frames.div_ceil((limit / self.frame_bytes).max(1)).max(1);
            for body in piece.chunks(frames.div_ceil(packets).max(1) * self.frame_bytes) {
                let (time, frames) = (unit.time + frames_before, body.len() / self.frame_bytes);
                emit(&Payload {
                    prefix: &[],
                    body: &[body],
                    marker: self.talk.begins(time, frames as u64),
                    time,
                    due: unit.due + frames_before,
                });
                frames_before += frames as u64;
            }
        }
    }
}

/// A unit per payload.
#[derive(Clone, Copy, Debug)]
pub struct PcmDepacketizer {
    frame_bytes: usize,
}

impl PcmDepacketizer {
    /// Of samples of which one frame has `frame_bytes`, at least 1.
    #[must_use]
    pub fn new(frame_bytes: usize) -> Self {
        Self { frame_bytes }
    }
}

impl Depacketize for PcmDepacketizer {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        let bytes = received.bytes;
        if bytes.is_empty() || !bytes.len().is_multiple_of(self.frame_bytes) {
            return Err(Malformed("not a whole number of sample frames"));
        }
        let frames = bytes.len() / self.frame_bytes;
        emit(
            &Unit {
                pieces: &[bytes],
                time: received.time,
                due: received.time,
                duration: u32::try_from(frames).unwrap_or(u32::MAX),
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

    fn cut(
        packetizer: &mut PcmPacketizer,
        bytes: &[u8],
        time: u64,
        limit: usize,
    ) -> Vec<(usize, u64, bool)> {
        let unit = Unit {
            pieces: &[bytes],
            time,
            due: time,
            duration: 0,
            is_start: true,
        };
        let mut cut = Vec::new();
        packetizer.packetize(&unit, limit, &mut |payload| {
            cut.push((payload.len(), payload.time, payload.marker));
        });
        cut
    }

    #[test]
    fn cuts_are_even_and_marked_behind_silence_only() {
        let mut packetizer = PcmPacketizer::new(4);
        let block = [0; 3840];
        let packets = [(1280, 0, false), (1280, 320, false), (1280, 640, false)];
        assert_eq!(cut(&mut packetizer, &block, 0, 1400), packets);
        assert_eq!(
            cut(&mut packetizer, &block[..8], 960, 1400),
            [(8, 960, false)]
        );
        assert_eq!(
            cut(&mut packetizer, &block[..8], 1000, 1400),
            [(8, 1000, true)]
        );
        assert_eq!(
            cut(&mut packetizer, &block[..8], 1002, 1400),
            [(8, 1002, false)]
        );
    }

    #[test]
    fn part_of_a_sample_is_refused() {
        for (bytes, taken) in [(0, false), (3, false), (4, true), (6, false), (8, true)] {
            let received = Received {
                bytes: &[0; 8][..bytes],
                marker: true,
                time: 0,
                after_gap: false,
            };
            let mut frames = 0;
            let result =
                PcmDepacketizer::new(4).take(&received, &mut |unit, _| frames += unit.duration);
            assert_eq!(result.is_ok(), taken);
            assert_eq!(frames as usize, if taken { bytes / 4 } else { 0 });
        }
    }
}
