//! Whether what a channel carries has changed: another publisher may send another format, and an
//! encoder other parameter sets.
//!
//! [`Watch`](super::watch::Watch) shows it each message when it arrives, long before its turn to be
//! sent. Only marks that are no accident count, at the beginning of a message: everything else may
//! be the middle of what was there before. Pure: it keeps copies of parameter sets, at most
//! [`SETS_MAX`] of [`SET_BYTES_MAX`].

use std::mem;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::mpeg_ts::{TS_BYTES, TS_SYNC};
use hythe_rtp::video::units::SETS_MAX;
use hythe_rtp::video::{Codec, Role, parameters};
use memchr::memmem;

use crate::mp3::Header;
use crate::source::open::Container;
use crate::source::{ogg_pages, wav};

/// `start_code_prefix_one_3bytes`.
const START_CODE: &[u8] = &[0, 0, 1];
/// Of a parameter set; larger ones are left out.
const SET_BYTES_MAX: usize = 1024;
/// Where the first parameter set of a byte stream is looked for: behind a delimiter, at most.
const FIRST_BYTES: usize = 64;
/// Transport packets and frames of MPEG audio in a row that are no accident.
const PACKETS_MIN: usize = 3;
const FRAMES_MIN: usize = 3;
/// `profile_idc` of the profiles of H.264 (Annex A).
const H264_PROFILES: [u8; 11] = [44, 66, 77, 88, 100, 110, 118, 122, 128, 144, 244];

/// What a message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Wav,
    /// The first page of a stream (RFC 3533, section 6), or another one.
    Ogg {
        is_first: bool,
    },
    TransportStream,
    MpegAudio,
    Movie,
    Video(Codec),
}

/// What a message changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// Other parameter sets: the format from now on.
    Sets(StreamFormat),
    /// Another format begins with this message.
    Format,
}

/// What is known of a channel.
#[derive(Debug, Default)]
pub(super) struct Inspector {
    container: Option<Container>,
    /// The last message was the first page of an Ogg stream: several may begin together.
    was_first_page: bool,
    codec: Option<Codec>,
    /// The parameter sets of the last picture that had some.
    sets: Vec<Vec<u8>>,
    /// Those since the last picture.
    gathered: Vec<Vec<u8>>,
    /// What may be a parameter set that the end of a message cut off.
    cut: Option<Vec<u8>>,
    /// Zeros at the end of the last message, which may begin a start code.
    zeros: usize,
}

impl Inspector {
    /// Takes the next message.
    pub(super) fn take(&mut self, message: &[u8]) -> Change {
        let mark = mark(message);
        let is_first_page = mark == Some(Mark::Ogg { is_first: true });
        let was_first_page = mem::replace(&mut self.was_first_page, is_first_page);
        match self.container {
            None => self.container = Container::of(message, true),
            Some(container) => {
                let is_other = mark.is_some_and(|mark| match (mark, container) {
                    (Mark::Ogg { is_first }, Container::Ogg) => is_first && !was_first_page,
                    (Mark::TransportStream, Container::TransportStream)
                    | (Mark::MpegAudio, Container::MpegAudio)
                    | (Mark::Movie, Container::Movie) => false,
                    (Mark::Video(codec), Container::ByteStream) => {
                        self.codec.is_some_and(|known| known != codec)
                    }
                    // A page in the middle says nothing that others could not.
                    (Mark::Ogg { is_first }, _) => is_first,
                    _ => true,
                });
                if is_other {
                    return Change::Format;
                }
            }
        }
        if self.container == Some(Container::ByteStream) {
            return self.take_video(message);
        }
        Change::Nothing
    }

    fn take_video(&mut self, message: &[u8]) -> Change {
        let mut change = Change::Nothing;
        // Where start codes begin, and what is behind them.
        let across = match (self.zeros, message) {
            (2.., [1, ..]) => Some((0, 1)),
            (1.., [0, 1, ..]) => Some((0, 2)),
            _ => None,
        };
        let within = memmem::find_iter(message, START_CODE);
        let within = within.map(|start| (start, start + START_CODE.len()));
        let mut starts = across.into_iter().chain(within).peekable();
        self.zeros = message.iter().rev().take_while(|byte| **byte == 0).count();
        let first = starts.peek().map(|(start, _)| *start);
        if let Some(mut cut) = self.cut.take() {
            let rest = &message[..first.unwrap_or(message.len())];
            cut.extend_from_slice(&rest[..rest.len().min(SET_BYTES_MAX)]);
            change = self.take_nal(&cut, first.is_some());
        }
        while let Some((_, begin)) = starts.next() {
            let end = starts.peek().map(|(start, _)| *start);
            let nal = &message[begin..end.unwrap_or(message.len())];
            match self.take_nal(nal, end.is_some()) {
                Change::Nothing => {}
                other => change = other,
            }
        }
        change
    }

    /// Takes a NAL unit, or the beginning of one.
    fn take_nal(&mut self, nal: &[u8], is_whole: bool) -> Change {
        let is_short = nal.len() < Codec::H265.header_bytes();
        let codec = self.codec.or_else(|| codec_of(nal));
        self.codec = codec;
        match codec.map_or(Role::Other, |codec| codec.role(nal)) {
            Role::VideoSet | Role::SequenceSet | Role::PictureSet if is_whole => self.gather(nal),
            Role::VideoSet | Role::SequenceSet | Role::PictureSet if nal.len() <= SET_BYTES_MAX => {
                self.cut = Some(nal.to_vec());
            }
            _ if is_short && !is_whole => self.cut = Some(nal.to_vec()),
            Role::Slice => return self.picture().map_or(Change::Nothing, Change::Sets),
            _ => {}
        }
        Change::Nothing
    }

    /// Keeps a parameter set, without the zeros of the next start code.
    fn gather(&mut self, set: &[u8]) {
        let bytes = set.iter().rposition(|byte| *byte != 0);
        let set = &set[..bytes.map_or(0, |last| last + 1)];
        let is_known = self.gathered.iter().any(|known| known == set);
        if !is_known && self.gathered.len() < SETS_MAX && set.len() <= SET_BYTES_MAX {
            self.gathered.push(set.to_vec());
        }
    }

    /// A picture begins; the format, if its parameter sets are others than those before.
    fn picture(&mut self) -> Option<StreamFormat> {
        let codec = self.codec?;
        let is_sequence = |set: &Vec<u8>| codec.role(set) == Role::SequenceSet;
        if !self.gathered.iter().any(is_sequence) {
            self.gathered.clear();
            return None;
        }
        let sets = mem::take(&mut self.gathered);
        let before = mem::replace(&mut self.sets, sets);
        let has_changed = !before.is_empty() && before != self.sets;
        has_changed.then(|| parameters::format(codec, &self.sets))
    }
}

fn mark(message: &[u8]) -> Option<Mark> {
    if wav::is_wav(message) {
        Some(Mark::Wav)
    } else if message.starts_with(ogg_pages::CAPTURE) {
        let is_first = message.get(5).is_some_and(|kind| kind & 2 != 0);
        Some(Mark::Ogg { is_first })
    } else if message.starts_with(b"ID3") || begins_frames(message) {
        Some(Mark::MpegAudio)
    } else if message.get(4..8) == Some(b"ftyp") {
        Some(Mark::Movie)
    } else if begins_packets(message) {
        Some(Mark::TransportStream)
    } else {
        first_codec(message).map(Mark::Video)
    }
}

fn begins_packets(message: &[u8]) -> bool {
    let packets = message.chunks_exact(TS_BYTES);
    // The two bits that say what follows the header are not both zero (ISO/IEC 13818-1, 2.4.3.3).
    packets.len() >= PACKETS_MIN
        && packets
            .take(8)
            .all(|packet| packet[0] == TS_SYNC && packet[3] & 0x30 != 0)
}

fn begins_frames(message: &[u8]) -> bool {
    let mut rest = message;
    for _ in 1..FRAMES_MIN {
        let header = Header::parse(rest);
        let bytes = header.and_then(Header::frame_bytes);
        let Some((header, bytes)) = header.zip(bytes).filter(|(_, bytes)| *bytes < rest.len())
        else {
            return false;
        };
        if header.is_continued_by(&rest[bytes..]).is_none() {
            return false;
        }
        rest = &rest[bytes..];
    }
    true
}

/// The codec of a message that begins with a start code and soon has a parameter set.
fn first_codec(message: &[u8]) -> Option<Codec> {
    let front = &message[..message.len().min(FIRST_BYTES)];
    let zeros = front.iter().take_while(|byte| **byte == 0).count();
    if zeros < 2 || front.get(zeros) != Some(&1) {
        return None;
    }
    let mut starts = memmem::find_iter(front, START_CODE);
    starts.find_map(|start| codec_of(&message[start + START_CODE.len()..]))
}

/// The codec of a sequence parameter set of H.264, or a video parameter set of H.265: either has no
/// meaning for the other.
fn codec_of(nal: &[u8]) -> Option<Codec> {
    match nal {
        [0x40, 1, ..] => Some(Codec::H265),
        [header, profile, ..] if header & 0x9f == 7 && H264_PROFILES.contains(profile) => {
            Some(Codec::H264)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: &[u8] = &[0, 0, 1, 0x65, 0x88, 0x84];

    /// A picture of H.264 with its parameter sets, of that level.
    fn picture(level: u8) -> Vec<u8> {
        let sets = [
            0, 0, 0, 1, 0x67, 66, 0xc0, level, 9, 0, 0, 0, 1, 0x68, 0xce, 0x0f, 0,
        ];
        [&sets[..], SLICE].concat()
    }

    fn packets() -> Vec<u8> {
        let mut packet = vec![TS_SYNC, 1, 0, 0x10];
        packet.resize(TS_BYTES, 0xff);
        packet.repeat(7)
    }

    fn frames() -> Vec<u8> {
        let mut frame = vec![0xff, 0xfb, 0x90, 0x64];
        frame.resize(417, 0);
        frame.repeat(4)
    }

    #[test]
    fn another_format_is_noticed_from_each_to_each() {
        let ogg = |kind: u8| [&b"OggS\0"[..], &[kind], &[0; 100]].concat();
        let wav = b"RIFF\x10\0\0\0WAVEfmt ".to_vec();
        let h265 = b"\0\0\0\x01\x46\x01\x50\0\0\0\x01\x40\x01\x0c\x01\xff\0\0\x01\x26\x01".to_vec();
        let kinds = [packets(), picture(10), h265, wav.clone(), ogg(2), frames()];
        for (before, first) in kinds.iter().enumerate() {
            for (behind, second) in kinds.iter().enumerate() {
                let mut inspector = Inspector::default();
                assert_eq!(inspector.take(first), Change::Nothing);
                // In the middle of anything.
                assert_eq!(inspector.take(&[0x11; 1316]), Change::Nothing);
                let change = inspector.take(second);
                let is_begun_anew = [&wav, &ogg(2)].contains(&second);
                let expected = before != behind || is_begun_anew;
                assert_eq!(change == Change::Format, expected, "{before} to {behind}");
            }
        }
        let mut inspector = Inspector::default();
        for kind in [2, 2, 0, 4] {
            assert_eq!(inspector.take(&ogg(kind)), Change::Nothing);
        }
    }

    #[test]
    fn what_looks_like_another_format_by_accident_is_none() {
        let mut inspector = Inspector::default();
        inspector.take(&picture(10));
        for message in [
            &[TS_SYNC; 1316][..],
            &packets()[..2 * TS_BYTES],
            &frames()[..500],
            b"OggS\0\0",
            &[0, 0, 1, 0x40],
            &[],
        ] {
            assert_eq!(inspector.take(message), Change::Nothing, "{message:?}");
        }
    }

    #[test]
    fn other_parameter_sets_change_the_format_once() {
        let (first, second) = (picture(10), picture(30));
        for cut in 0..second.len() {
            let mut inspector = Inspector::default();
            for message in [&first[..], SLICE, &first, SLICE] {
                assert_eq!(inspector.take(message), Change::Nothing);
            }
            // Cut in two anywhere, as by a publisher that counts bytes.
            let halves = [&second[..cut], &second[cut..]];
            let mut changes: Vec<Change> = halves.map(|half| inspector.take(half)).into();
            changes.retain(|change| *change != Change::Nothing);
            let [Change::Sets(format)] = &changes[..] else {
                panic!("cut at {cut}: {changes:?}");
            };
            assert!(format.parameters.contains("profile-level-id=42c01e"));
            assert_eq!(inspector.take(&second), Change::Nothing);
        }
    }
}
