//! Files of MPEG audio, layers I to III: the frames that [`mp3`](crate::mp3) finds, with their
//! times at 90 kHz.
//!
//! A unit is as many neighbouring frames as fit one packet, at least one. Tags (ID3, APE) are
//! passed over; so is what is damaged.

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::mpeg_audio::{MPEG_AUDIO_CLOCK_HZ, MPEG_AUDIO_HEADER_BYTES};
use hythe_rtp::unit::Unit;

use super::{Input, Source, pieces::Pieces};
use crate::MediaError;
use crate::mp3::{Frame, FrameSplitter, Gap, Header, Step, TAIL_BYTES, Window, audio_end};

/// The payload type of RFC 3551, table 4.
const PAYLOAD_TYPE: u8 = 14;

/// What every stream of MPEG audio is in RTP.
pub(super) fn stream_format(channels: u8) -> StreamFormat {
    StreamFormat {
        encoding: Encoding::MpegAudio,
        payload_type: PAYLOAD_TYPE,
        clock_hz: MPEG_AUDIO_CLOCK_HZ,
        channels,
        parameters: String::new(),
    }
}

/// Neighbouring frames of one rate.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Offset of the first in the stream.
    offset: u64,
    bytes: usize,
    frames: u64,
    header: Header,
}

impl Group {
    fn of(frame: Frame) -> Self {
        Self {
            offset: frame.offset,
            bytes: frame.bytes,
            frames: 1,
            header: frame.header,
        }
    }

    /// This and `frame`, if it follows, is of the same rate, and there is free capacity for it.
    fn with(self, frame: Frame, most_bytes: usize) -> Option<Self> {
        let follows = self.offset + self.bytes as u64 == frame.offset;
        let is_same = self.header.samples_per_second() == frame.header.samples_per_second()
            && self.header.samples() == frame.header.samples();
        let bytes = self.bytes + frame.bytes;
        (follows && is_same && bytes <= most_bytes).then_some(Self {
            bytes,
            frames: self.frames + 1,
            ..self
        })
    }
}

/// A file of MPEG audio.
#[derive(Debug)]
pub struct MpegAudioSource {
    input: Input,
    splitter: FrameSplitter,
    format: StreamFormat,
    group_bytes: usize,
    pieces: Pieces,
    /// Read, but it did not fit into the group before.
    pending: Option<Frame>,
    damaged: u64,
    /// Where the last damaged place ends.
    damaged_until: u64,
    /// Bytes in front of the first frame that are no tag.
    skipped_at_start: u64,
    /// The end was found.
    has_ended: bool,
    /// Samples of this rate since `base_ticks`.
    samples: u64,
    samples_per_second: u32,
    base_ticks: u64,
}

impl MpegAudioSource {
    /// Reads `input`. `payload_limit` is that of the packets that the units are for, in bytes.
    ///
    /// # Errors
    ///
    /// [`MediaError::NoFrames`], [`MediaError::FreeFormat`] or [`MediaError::File`].
    pub fn new(input: Input, payload_limit: usize) -> Result<Self, MediaError> {
        let mut source = Self {
            input,
            splitter: FrameSplitter::for_all_layers(),
            format: stream_format(1),
            group_bytes: payload_limit.saturating_sub(MPEG_AUDIO_HEADER_BYTES),
            pieces: Pieces::default(),
            pending: None,
            damaged: 0,
            damaged_until: 0,
            skipped_at_start: 0,
            has_ended: false,
            samples: 0,
            samples_per_second: 1,
            base_ticks: 0,
        };
        source.pending = source.first_frame()?;
        if let Some(frame) = source.pending {
            source.format.channels = frame.header.channels();
        }
        Ok(source)
    }

    /// The next frame or gap, or the end. Bytes from `keep` on stay in the window.
    fn step(&mut self, keep: u64) -> Result<Step, MediaError> {
        loop {
            let window = self.input.window();
            let (offset, is_last) = (self.input.position(), self.input.is_ended());
            // Tags at the end are no audio. Whether bytes are part of one is not known before the
            // end is.
            let bytes = if is_last {
                let end = audio_end(window, offset + window.len() as u64);
                end.saturating_sub(offset) as usize
            } else {
                window.len().saturating_sub(TAIL_BYTES)
            };
            let window = Window {
                offset,
                bytes: &window[..bytes],
                is_last,
            };
            match self.splitter.next(&window)? {
                Step::ReadFrom(offset) => self.read_from(offset.min(keep))?,
                Step::End => {
                    // The last tag claims more than there is: sound may have been part of it.
                    let is_cut = self.splitter.resume_at() > window.offset + bytes as u64;
                    self.damaged +=
                        u64::from(is_cut && !std::mem::replace(&mut self.has_ended, true));
                    return Ok(Step::End);
                }
                step => return Ok(step),
            }
        }
    }

    /// Passes over what is in front of `offset` and reads more.
    fn read_from(&mut self, offset: u64) -> Result<(), MediaError> {
        let passed = offset.saturating_sub(self.input.position());
        self.input.skip(passed)?;
        // At least one byte more for the splitter.
        let wanted = self.input.window().len().max(TAIL_BYTES) + 1;
        self.input.fill(wanted)?;
        Ok(())
    }

    /// The next frame, however far it is; `None` at the end.
    fn first_frame(&mut self) -> Result<Option<Frame>, MediaError> {
        loop {
            match self.step(u64::MAX)? {
                Step::Frame(frame) => return Ok(Some(frame)),
                Step::Gap(gap) => self.passed_over(gap),
                Step::ReadFrom(_) | Step::End => return Ok(None),
            }
        }
    }

    /// The next frames that go together. All of them are in the window.
    fn group(&mut self) -> Result<Option<Group>, MediaError> {
        let first = match self.pending.take() {
            Some(frame) => Some(frame),
            None => self.first_frame()?,
        };
        let Some(mut group) = first.map(Group::of) else {
            return Ok(None);
        };
        loop {
            match self.step(group.offset)? {
                Step::Frame(frame) => match group.with(frame, self.group_bytes) {
                    Some(larger) => group = larger,
                    None => {
                        self.pending = Some(frame);
                        return Ok(Some(group));
                    }
                },
                Step::Gap(gap) => {
                    self.passed_over(gap);
                    return Ok(Some(group));
                }
                Step::ReadFrom(_) | Step::End => return Ok(Some(group)),
            }
        }
    }

    /// Counts what is damaged: neither tags, wherever they are, nor what is in front of the first
    /// frame.
    fn passed_over(&mut self, gap: Gap) {
        match self.splitter.frames() {
            _ if gap.is_tag => {}
            0 => self.skipped_at_start += gap.bytes,
            _ => {
                // The search stops within a place where more bytes are needed to judge it.
                self.damaged += u64::from(gap.offset != self.damaged_until);
                self.damaged_until = gap.offset + gap.bytes;
            }
        }
    }

    /// Ticks since the start, at the end of the samples counted.
    fn now(&self) -> u64 {
        let clock = u64::from(MPEG_AUDIO_CLOCK_HZ);
        self.base_ticks + self.samples * clock / u64::from(self.samples_per_second)
    }
}

impl Source for MpegAudioSource {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        let Some(group) = self.group()? else {
            return Ok(None);
        };
        let time = self.now();
        if self.samples_per_second != group.header.samples_per_second() {
            (self.base_ticks, self.samples) = (time, 0);
            self.samples_per_second = group.header.samples_per_second();
        }
        self.samples += u64::from(group.header.samples()) * group.frames;
        let duration = (self.now() - time) as u32;
        let start = (group.offset - self.input.position()) as usize;
        let bytes = &self.input.window()[start..start + group.bytes];
        Ok(Some(Unit {
            pieces: self.pieces.list(&[bytes]),
            time,
            due: time,
            duration,
            is_start: true,
        }))
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }

    fn skipped_at_start(&self) -> u64 {
        self.skipped_at_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(header: [u8; 4], bytes: usize, count: usize) -> Vec<u8> {
        let mut frame = header.to_vec();
        frame.resize(bytes, 0);
        frame.repeat(count)
    }

    fn units(stream: Vec<u8>, limit: usize) -> (Vec<(usize, u64, u32)>, u64) {
        let mut source =
            MpegAudioSource::new(Input::new("test", std::io::Cursor::new(stream)), limit).unwrap();
        let mut units = Vec::new();
        while let Some(unit) = source.next().unwrap() {
            units.push((unit.len(), unit.time, unit.duration));
        }
        (units, source.damaged())
    }

    #[test]
    fn frames_are_grouped_up_to_the_limit() {
        // 417 bytes, 1152 samples at 44.1 kHz: 2351.02 ticks.
        let stream = frames([0xff, 0xfb, 0x90, 0x64], 417, 5);
        let (found, damaged) = units(stream.clone(), 1400);
        assert_eq!(found, [(1251, 0, 7053), (834, 7053, 4702)]);
        assert_eq!(damaged, 0);
        assert_eq!(units(stream, 100).0.len(), 5);
    }

    #[test]
    fn all_layers_are_taken_and_time_goes_on_at_another_rate() {
        // Layer II, 32 kbit/s mono at 48 kHz, 96 bytes; then layer I, 32 kbit/s at 32 kHz, 48
        // bytes.
        let two = frames([0xff, 0xfd, 0x14, 0xc0], 96, 12);
        let one = frames([0xff, 0xff, 0x18, 0xc0], 48, 12);
        let (found, damaged) = units([two, one].concat(), 964);
        // The last frame of layer II has no successor and is lost with the change, as every frame
        // before garbage is.
        assert_eq!(
            found,
            [(960, 0, 21_600), (96, 21_600, 2_160), (576, 23_760, 12_960)]
        );
        assert_eq!(damaged, 1);
    }

    #[test]
    fn tags_in_front_and_behind_are_passed_over() {
        let mut front = b"ID3\x04\0\0\0\0\x02\x00".to_vec();
        front.resize(10 + 256, 0xaa);
        let mut behind = b"TAG".to_vec();
        behind.resize(128, 0);
        let audio = frames([0xff, 0xfb, 0x90, 0x64], 417, 400);
        let (found, damaged) = units([front, audio.clone(), behind].concat(), 421);
        assert_eq!((found.len(), damaged), (400, 0));
        assert!(units(audio, 421).0 == found);
    }

    #[test]
    fn stream_that_begins_within_a_frame_is_not_damaged() {
        let stream = frames([0xff, 0xfb, 0x90, 0x64], 417, 20).split_off(100);
        let mut source =
            MpegAudioSource::new(Input::new("test", std::io::Cursor::new(stream)), 421).unwrap();
        let mut count = 0;
        while source.next().unwrap().is_some() {
            count += 1;
        }
        let passed_over = (source.skipped_at_start(), source.damaged());
        assert_eq!((count, passed_over), (19, (317, 0)));
    }

    #[test]
    fn tags_between_joined_files_are_no_damage() {
        let id3v2 = [&b"ID3\x04\0\0\0\0\x02\x00"[..], &[0xaa; 256]].concat();
        let id3v1 = [&b"TAG"[..], &[b' '; 125]].concat();
        let extension = [&b"TAG+"[..], &[b' '; 223]].concat();
        let ape = |size: u32, flags: u32| {
            let words = [2000, size, 1, flags, 0, 0].map(u32::to_le_bytes);
            [&b"APETAGEX"[..], words.as_flattened()].concat()
        };
        let with_header = [ape(50, 5 << 29), vec![b'i'; 18], ape(50, 1 << 31)].concat();
        let without_header = [vec![b'i'; 18], ape(50, 0)].concat();
        let song = |count| frames([0xff, 0xfb, 0x90, 0x64], 417, count);
        let large = [&b"ID3\x03\0\0\0\x0c\0\0"[..], &[0x55; 12 << 14]].concat();
        for (count, between) in [
            (15, id3v2.clone()),
            (15, id3v1.clone()),
            (15, [&extension[..], &id3v1, &id3v2].concat()),
            (15, [&with_header[..], &id3v1].concat()),
            (15, [&without_header[..], &id3v2, &id3v2].concat()),
            (15, large),
            // Songs shorter than a search for sync.
            (2, [&id3v1[..], &id3v2].concat()),
            (1, [&id3v1[..], &id3v2].concat()),
        ] {
            let joined = [song(count), between].concat().repeat(3);
            let stream = [&id3v2[..], &joined, &song(15)].concat();
            let (found, damaged) = units(stream, 421);
            assert_eq!((found.len(), damaged), (3 * count + 15, 0), "{count}");
            let times: Vec<u64> = found.iter().map(|(_, time, _)| *time).collect();
            assert!(times.is_sorted());
        }
        // Other bytes there are damage, as are frames cut short, and tags that claim too much.
        for between in [&[0x55; 100][..], b"TA", b"ID3\x04\0\0\0\x7f\x7f\x7f"] {
            let (_, damaged) = units([song(15), between.to_vec(), song(15)].concat(), 421);
            assert_eq!(damaged, 1, "{between:?}");
        }
        let cut = [&song(15)[..6000], &id3v1, &song(15)].concat();
        assert_eq!(units(cut, 421).1, 1);
    }

    #[test]
    fn damaged_place_that_is_looked_at_twice_is_one() {
        // A header without a bit rate in the middle of it: only more bytes than are there at first
        // tell that no frames in free format follow.
        let song = frames([0xff, 0xfb, 0x90, 0x64], 417, 25);
        let between = [&[0xff, 0xfb, 0, 1][..], &[0x55; 2000]].concat();
        let stream = [&song[..], &between, &song].concat();
        let (found, damaged) = units(stream, 421);
        assert_eq!((found.len(), damaged), (49, 1));
        // Two places are two.
        let stream = [&song[..], &between, &song, &between, &song].concat();
        assert_eq!(units(stream, 421).1, 2);
    }

    #[test]
    fn what_holds_no_frame_is_refused() {
        for stream in [&b""[..], b"ID3", &[0; 100_000]] {
            let input = Input::new("test", std::io::Cursor::new(stream.to_vec()));
            let refused = MpegAudioSource::new(input, 1400);
            assert!(matches!(refused, Err(MediaError::NoFrames { .. })));
        }
    }
}
