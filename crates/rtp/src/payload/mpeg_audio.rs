//! MPEG audio in RTP: four bytes of header, then whole frames or a part of one (RFC 2250, section
//! 3.5).
//!
//! The clock runs at 90 kHz whatever the sampling rate. Frames of a unit share packets as far as
//! they fit; one that is longer than a packet goes in fragments, each naming its offset in the
//! frame.

use super::talk::TalkSpurt;
use super::{Depacketize, EmitPayload, EmitUnit, Malformed, Packetize, Payload, Received};
use crate::mpeg_audio::Header;
use crate::unit::{Unit, UnitMemory};

/// Of the timestamps (RFC 3551, section 4.5.13).
pub const MPEG_AUDIO_CLOCK_HZ: u32 = 90_000;
/// In front of the frames: 16 bits that must be zero, 16 bits of fragment offset.
pub const MPEG_AUDIO_HEADER_BYTES: usize = 4;

/// How long the samples of a frame last, in ticks, rounded down.
fn ticks(header: Header, frames: u64) -> u64 {
    let samples = u64::from(header.samples()) * frames;
    samples * u64::from(MPEG_AUDIO_CLOCK_HZ) / u64::from(header.samples_per_second())
}

/// The length of the frame at the start of `bytes`, or all of `bytes` where no header says one that
/// is inside.
fn frame_bytes(bytes: &[u8]) -> usize {
    Header::parse(bytes)
        .and_then(Header::frame_bytes)
        .map_or(bytes.len(), |length| length.min(bytes.len()))
}

/// Packs and cuts frames. A unit holds whole frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct MpegAudioPacketizer {
    talk: TalkSpurt,
}

impl MpegAudioPacketizer {
    /// Emits `frames`, whole ones that fit together, or the fragments of a single one that does
    /// not.
    fn emit(
        &mut self,
        unit: &Unit<'_>,
        (shift, duration): (u64, u64),
        frames: &[u8],
        limit: usize,
        emit: &mut EmitPayload<'_>,
    ) {
        // With four bytes of media at least, whatever limit is asked for; and no frame is as long
        // as 64 KiB.
        let most = limit.saturating_sub(MPEG_AUDIO_HEADER_BYTES).max(4);
        let mut marker = self.talk.begins(unit.time + shift, duration);
        for (index, part) in frames.chunks(most).enumerate() {
            let [high, low] = ((index * most) as u16).to_be_bytes();
            emit(&Payload {
                prefix: &[0, 0, high, low],
                body: &[part],
                marker,
                time: unit.time + shift,
                due: unit.due + shift,
            });
            marker = false;
        }
    }
}

impl Packetize for MpegAudioPacketizer {
    fn packetize(&mut self, unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>) {
        let most = limit.saturating_sub(MPEG_AUDIO_HEADER_BYTES);
        let all = unit
            .pieces
            .iter()
            .map(|piece| frame_count(piece))
            .sum::<u64>()
            .max(1);
        let shift = |frames: u64| u64::from(unit.duration) * frames / all;
        let mut before = 0;
        for piece in unit.pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (mut bytes, mut count) = (frame_bytes(rest), 1);
                while bytes < rest.len() && bytes + frame_bytes(&rest[bytes..]) <= most {
                    bytes += frame_bytes(&rest[bytes..]);
                    count += 1;
                }
                let (frames, behind) = rest.split_at(bytes);
                let (from, to) = (shift(before), shift(before + count));
                self.emit(unit, (from, to - from), frames, limit, emit);
                before += count;
                rest = behind;
            }
        }
    }
}

fn frame_count(mut frames: &[u8]) -> u64 {
    let mut count = 0;
    while !frames.is_empty() {
        frames = &frames[frame_bytes(frames)..];
        count += 1;
    }
    count
}

/// Joins fragments and takes packets apart: a unit per frame.
#[derive(Clone, Debug)]
pub struct MpegAudioDepacketizer<M = Vec<u8>> {
    /// The frame whose fragments arrive; empty: none.
    partial: M,
    partial_time: u64,
    /// Something that was not emitted is missing in front of the next unit.
    is_missing: bool,
}

impl Default for MpegAudioDepacketizer {
    fn default() -> Self {
        Self::within(Vec::new())
    }
}

impl<M: UnitMemory> Depacketize for MpegAudioDepacketizer<M> {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        if received.after_gap {
            self.drop_partial();
            self.is_missing = true;
        }
        let taken = self.join(received, emit);
        if taken.is_err() {
            self.drop_partial();
            self.is_missing = true;
        }
        taken
    }

    fn finish(&mut self, _emit: &mut EmitUnit<'_>) {
        self.drop_partial();
    }
}

impl<M: UnitMemory> MpegAudioDepacketizer<M> {
    /// One that puts the fragments of a frame together in `memory`.
    #[must_use]
    pub fn within(memory: M) -> Self {
        Self {
            partial: memory,
            partial_time: 0,
            is_missing: false,
        }
    }

    fn drop_partial(&mut self) {
        self.is_missing |= !self.partial.bytes().is_empty();
        self.partial.clear();
    }

    fn join(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        let (header, media) = received
            .bytes
            .split_first_chunk::<MPEG_AUDIO_HEADER_BYTES>()
            .ok_or(Malformed("shorter than its header"))?;
        if media.is_empty() {
            return Err(Malformed("no audio behind the header"));
        }
        match usize::from(u16::from_be_bytes([header[2], header[3]])) {
            0 => self.whole_frames(media, received.time, emit),
            offset => self.fragment(media, offset, emit),
        }
    }

    /// Whole frames, or the first fragment of one.
    fn whole_frames(
        &mut self,
        media: &[u8],
        time: u64,
        emit: &mut EmitUnit<'_>,
    ) -> Result<(), Malformed> {
        self.drop_partial();
        let (mut rest, mut frames) = (media, 0);
        while !rest.is_empty() {
            let header = Header::parse(rest).ok_or(Malformed("no frame of MPEG audio"))?;
            let bytes = header
                .frame_bytes()
                .ok_or(Malformed("a frame without a bit rate"))?;
            let time = time + ticks(header, frames);
            if bytes > rest.len() {
                if frames > 0 {
                    return Err(Malformed("a frame is cut short"));
                }
                self.partial.extend(rest);
                self.partial_time = time;
                return Ok(());
            }
            let (frame, behind) = rest.split_at(bytes);
            let missing = std::mem::take(&mut self.is_missing);
            emit_frame((header, frame), time, missing, emit);
            frames += 1;
            rest = behind;
        }
        Ok(())
    }

    fn fragment(
        &mut self,
        media: &[u8],
        offset: usize,
        emit: &mut EmitUnit<'_>,
    ) -> Result<(), Malformed> {
        let begun = self.partial.bytes();
        if begun.is_empty() {
            // Its frame began in a packet that is missing, or was dropped: nothing new is wrong.
            self.is_missing = true;
            return Ok(());
        }
        if offset != begun.len() {
            return Err(Malformed("a fragment that does not continue its frame"));
        }
        // The header was parsed with the first fragment, so the length is known, and at most
        // `Header::LONGEST_BYTES`.
        let (header, bytes) = Header::parse(begun)
            .and_then(|header| Some((header, header.frame_bytes()?)))
            .ok_or(Malformed("a frame without a bit rate"))?;
        if offset + media.len() > bytes {
            return Err(Malformed("a fragment that leaves its frame"));
        }
        self.partial.extend(media);
        if offset + media.len() == bytes {
            let missing = std::mem::take(&mut self.is_missing);
            let frame = (header, self.partial.bytes());
            emit_frame(frame, self.partial_time, missing, emit);
            self.partial.clear();
        }
        Ok(())
    }
}

fn emit_frame((header, frame): (Header, &[u8]), time: u64, missing: bool, emit: &mut EmitUnit<'_>) {
    let unit = Unit {
        pieces: &[frame],
        time,
        due: time,
        duration: ticks(header, 1) as u32,
        is_start: true,
    };
    emit(&unit, missing);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 417 bytes, 128 kbit/s at 44.1 kHz.
    fn frame(fill: u8) -> Vec<u8> {
        let mut frame = vec![0xff, 0xfb, 0x90, 0x64];
        frame.resize(417, fill);
        frame
    }

    fn packets(bytes: &[u8], limit: usize) -> Vec<(Vec<u8>, u64)> {
        let unit = Unit {
            pieces: &[bytes],
            time: 0,
            due: 0,
            duration: 7053,
            is_start: true,
        };
        let mut packets = Vec::new();
        MpegAudioPacketizer::default().packetize(&unit, limit, &mut |payload| {
            assert!(payload.len() <= limit && !payload.marker);
            let body = payload.body.concat();
            packets.push(([payload.prefix, &body].concat(), payload.time));
        });
        packets
    }

    fn join(packets: &[(Vec<u8>, u64)], missing: Option<usize>) -> Vec<(Vec<u8>, u64, bool)> {
        let mut depacketizer = MpegAudioDepacketizer::default();
        let mut frames = Vec::new();
        for (index, (bytes, time)) in packets.iter().enumerate() {
            if Some(index) == missing {
                continue;
            }
            let received = Received {
                bytes,
                marker: false,
                time: *time,
                after_gap: index > 0 && missing == Some(index - 1),
            };
            depacketizer
                .take(&received, &mut |unit, missing| {
                    frames.push((unit.pieces.concat(), unit.time, missing));
                })
                .unwrap();
        }
        frames
    }

    #[test]
    fn frames_share_packets_or_are_cut_and_come_back() {
        let frames = [frame(1), frame(2), frame(3)];
        for (limit, count) in [(1500, 1), (1254, 2), (838, 2), (421, 3), (420, 6), (64, 21)] {
            let packets = packets(&frames.concat(), limit);
            assert_eq!(packets.len(), count, "limit {limit}");
            let joined = join(&packets, None);
            assert_eq!(joined.len(), 3);
            for ((joined, time, missing), (index, sent)) in joined.iter().zip((0..).zip(&frames)) {
                assert!(joined == sent && !missing);
                assert!(time.abs_diff(index * 2351) <= 1, "{time}");
            }
        }
    }

    #[test]
    fn lost_packet_costs_its_own_frames_and_is_reported() {
        let frames = [frame(1), frame(2), frame(3)];
        let packets = packets(&frames.concat(), 200);
        assert_eq!(packets.len(), 9);
        for lost in 0..9 {
            let joined = join(&packets, Some(lost));
            assert_eq!(joined.len(), 2, "without packet {lost}");
            let reported = joined.iter().position(|(_, _, missing)| *missing);
            let expected = (lost < 6).then_some(lost / 3);
            assert_eq!(reported, expected, "without packet {lost}");
        }
    }

    #[test]
    fn malformed_payloads_are_refused_and_the_next_frame_is_taken() {
        let good = [&[0; 4][..], &frame(1)].concat();
        let cut = [&good[..], &frame(2)[..100]].concat();
        let first = good[..200].to_vec();
        let leaves = [&[0, 0, 0, 196][..], &[0; 300]].concat();
        let elsewhere = [&[0, 0, 0, 100][..], &[0; 50]].concat();
        let free = vec![0, 0, 0, 0, 0xff, 0xfb, 0x00, 0x64, 0, 0];
        for (sequence, malformed) in [
            (vec![vec![0; 3]], 1),
            (vec![vec![0; 4]], 1),
            (vec![vec![0; 40]], 1),
            (vec![cut], 1),
            (vec![free], 1),
            (vec![first.clone(), leaves.clone()], 1),
            (vec![first.clone(), elsewhere.clone()], 1),
            (vec![elsewhere], 0),
        ] {
            let mut depacketizer = MpegAudioDepacketizer::default();
            let mut take = |bytes: &[u8], units: &mut Vec<bool>| {
                let received = Received {
                    bytes,
                    marker: false,
                    time: 0,
                    after_gap: false,
                };
                depacketizer.take(&received, &mut |_, missing| units.push(missing))
            };
            let mut units = Vec::new();
            let refused = sequence
                .iter()
                .filter(|bytes| take(bytes, &mut units).is_err())
                .count();
            assert_eq!(refused, malformed, "{sequence:?}");
            units.clear();
            take(&good, &mut units).unwrap();
            assert_eq!(units, [true], "behind {sequence:?}");
        }
    }
}
