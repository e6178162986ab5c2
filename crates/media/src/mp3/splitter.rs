//! The state machine that walks through a stream, window by window.

use super::sync::{MIN_WINDOW_BYTES, Rest, Verdict, judge, judge_in_sync};
use super::{info, side_info, tags};
use crate::MediaError;
use hythe_rtp::mpeg_audio::{HEADER_BYTES, Header, Layer};

/// A stretch of the stream that the caller has in memory.
#[derive(Clone, Copy, Debug)]
pub struct Window<'w> {
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// The bytes. At least [`MIN_WINDOW_BYTES`] behind [`FrameSplitter::resume_at`], unless
    /// `is_last`; 64 KiB is a good size.
    pub bytes: &'w [u8],
    /// Whether the stream ends with the last byte of the window.
    pub is_last: bool,
}

impl Window<'_> {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// One frame, whole in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Offset of the header in the stream.
    pub offset: u64,
    /// Offset of the header in the window.
    pub start: usize,
    /// Length, header included.
    pub bytes: usize,
    /// The header.
    pub header: Header,
    /// Synchronisation was found anew with this frame: a decoder forgets what came before.
    pub reset: bool,
}

/// Bytes that belong to no frame: a tag, garbage, a truncated frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Offset of the first byte in the stream. The window has it unless the gap is an ID3v2 tag
    /// that starts before the window.
    pub offset: u64,
    /// Length; may reach beyond the window.
    pub bytes: u64,
    /// The gap is a tag, not damage.
    pub is_tag: bool,
}

impl Gap {
    /// Given this many bytes (or fewer), minimp3 finds no frame and forgets its state.
    pub const RESET_BYTES: usize = HEADER_BYTES;
}

/// What [`FrameSplitter::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame.
    Frame(Frame),
    /// Bytes to pass over.
    Gap(Gap),
    /// Nothing more can be told from this window: the next one has to start here, or before. Never
    /// goes back.
    ReadFrom(u64),
    /// The stream is finished.
    End,
}

/// What the splitter knows about the place where it stands.
#[derive(Clone, Copy, Debug)]
enum State {
    /// At the very start, or behind an ID3v2 tag there.
    Tags,
    /// Behind a frame with this header.
    InSync(Header),
    /// Looking for a frame since `from`.
    Searching { from: u64 },
    /// The stream is finished.
    Ended,
}

/// Finds the frames of an MP3 stream. See [the module](super) for the contract.
///
/// ```
/// use hythe_media::mp3::{FrameSplitter, Step, Window};
///
/// let stream = [&[0xff, 0xfb, 0x90, 0x64][..], &[0; 413]].concat().repeat(3);
/// let mut splitter = FrameSplitter::new();
/// let window = Window { offset: 0, bytes: &stream, is_last: true };
/// let mut frames = Vec::new();
/// loop {
///     match splitter.next(&window)? {
///         Step::Frame(frame) => frames.push((frame.start, frame.bytes)),
///         Step::Gap(_) => {}
///         Step::ReadFrom(_) => unreachable!("the window is the last one"),
///         Step::End => break,
///     }
/// }
/// assert_eq!(frames, [(0, 417), (417, 417), (834, 417)]);
/// # Ok::<(), hythe_media::MediaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FrameSplitter {
    position: u64,
    state: State,
    frames: u64,
    /// Layers I and II are taken, too, and tags between frames are known.
    is_for_sending: bool,
    leaves_out_info: bool,
    /// A whole frame that continued the stream, but nothing that continues it: where it ends. Only
    /// the last may be one.
    uncertain: Option<u64>,
    /// Where the window ended that left a question open, so that the same window is noticed.
    asked_beyond: Option<u64>,
}

impl Default for FrameSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameSplitter {
    /// A splitter at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            position: 0,
            state: State::Tags,
            frames: 0,
            is_for_sending: false,
            leaves_out_info: false,
            uncertain: None,
            asked_beyond: None,
        }
    }

    /// The same, for those who do not decode: layers I and II are taken, too, and tags between
    /// frames, as joined files have them, are gaps of their own that cost no frame.
    #[must_use]
    pub fn for_all_layers() -> Self {
        Self {
            is_for_sending: true,
            ..Self::new()
        }
    }

    /// The same, for those who play: a first frame that only describes the others (Xing, Info,
    /// VBRI) is a gap.
    #[must_use]
    pub fn without_info(self) -> Self {
        Self {
            leaves_out_info: true,
            ..self
        }
    }

    /// At the end of the stream: where the last frame ends, if it was passed over because something
    /// that is no frame follows it. A stream that is cut off there has that frame.
    #[must_use]
    pub fn last_frame_end(&self) -> Option<u64> {
        self.uncertain
    }

    /// The offset in the stream from which the next bytes are needed.
    #[must_use]
    pub fn resume_at(&self) -> u64 {
        self.position
    }

    /// How many frames were found so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Finds the next frame or gap in `window`. Called again with the same window until it
    /// returns [`Step::ReadFrom`] or [`Step::End`].
    ///
    /// # Errors
    ///
    /// [`MediaError::FreeFormat`] and [`MediaError::UnsupportedLayer`] for streams that are not
    /// decoded here; [`MediaError::NoFrames`] at the end of a stream without a single frame;
    /// [`MediaError::WindowMissed`] if the window starts behind [`Self::resume_at`];
    /// [`MediaError::WindowTooSmall`] if it adds nothing to one that was too small.
    pub fn next(&mut self, window: &Window<'_>) -> Result<Step, MediaError> {
        if window.offset > self.position {
            return Err(MediaError::WindowMissed {
                offset: window.offset,
                expected: self.position,
            });
        }
        if self.position > window.end() && !window.is_last {
            return Ok(Step::ReadFrom(self.position));
        }
        if let Some(step) = self.between_frames(window)? {
            return Ok(step);
        }
        match self.state {
            State::Tags => self.at_tags(window),
            State::InSync(previous) => self.in_sync(window, previous),
            State::Searching { from } => self.search(window, from),
            State::Ended => Ok(Step::End),
        }
    }

    /// Skips an ID3v2 tag, or starts the search for the first frame.
    fn at_tags(&mut self, window: &Window<'_>) -> Result<Step, MediaError> {
        let rest = self.rest(window);
        if rest.len() < tags::ID3V2_HEADER_BYTES && !window.is_last {
            return self.need_more(window);
        }
        if let Some(bytes) = tags::id3v2_bytes(rest) {
            let offset = self.position;
            self.position += bytes;
            let is_tag = true;
            return Ok(Step::Gap(Gap {
                offset,
                bytes,
                is_tag,
            }));
        }
        let from = self.position;
        self.state = State::Searching { from };
        self.search(window, from)
    }

    /// Skips a tag where a frame would be expected: behind a frame, or behind another tag.
    fn between_frames(&mut self, window: &Window<'_>) -> Result<Option<Step>, MediaError> {
        let rest = self.rest(window);
        let is_expected = match self.state {
            State::InSync(previous) => previous.is_continued_by(rest).is_none(),
            State::Searching { from } => from == self.position && Header::parse(rest).is_none(),
            State::Tags | State::Ended => false,
        };
        // The first bytes of a stream are looked at by themselves.
        if !is_expected || !self.is_for_sending || self.frames == 0 {
            return Ok(None);
        }
        match tags::judge(rest, window.is_last) {
            tags::Verdict::Nothing => Ok(None),
            tags::Verdict::Undecided => self.need_more(window).map(Some),
            tags::Verdict::Tag(bytes) => {
                let offset = self.position;
                self.position += bytes;
                self.state = State::Searching {
                    from: self.position,
                };
                let is_tag = true;
                Ok(Some(Step::Gap(Gap {
                    offset,
                    bytes,
                    is_tag,
                })))
            }
        }
    }

    fn in_sync(&mut self, window: &Window<'_>, previous: Header) -> Result<Step, MediaError> {
        let rest = self.rest(window);
        match judge_in_sync(previous, self.judged(window)) {
            Verdict::Frame { header, bytes } => self.frame(window, (header, bytes), false),
            Verdict::Undecided => self.need_more(window),
            Verdict::Nothing | Verdict::FreeFormat => {
                let from = self.position;
                self.uncertain = whole_frame(previous, rest).map(|bytes| from + bytes);
                self.state = State::Searching { from };
                self.search(window, from)
            }
        }
    }

    /// Looks for the next candidate that is a frame; reports what lies before it as a gap first.
    fn search(&mut self, window: &Window<'_>, from: u64) -> Result<Step, MediaError> {
        let start = self.position;
        loop {
            let rest = self.rest(window);
            if rest.len() <= HEADER_BYTES {
                return self.search_ran_out(window, start);
            }
            let verdict = verdict_at(self.judged(window), self.position == from);
            if verdict == Verdict::Nothing {
                self.position += 1;
                continue;
            }
            if self.position > start {
                return Ok(self.gap_since(start));
            }
            return match verdict {
                Verdict::Frame { header, bytes } => self.frame(window, (header, bytes), true),
                Verdict::FreeFormat => Err(MediaError::FreeFormat {
                    offset: self.position,
                }),
                Verdict::Nothing | Verdict::Undecided => self.need_more(window),
            };
        }
    }

    /// Fewer bytes are left than a candidate has.
    fn search_ran_out(&mut self, window: &Window<'_>, start: u64) -> Result<Step, MediaError> {
        if window.is_last {
            self.position = self.position.max(window.end());
        }
        if self.position > start {
            return Ok(self.gap_since(start));
        }
        if window.is_last {
            self.end(window)
        } else {
            self.need_more(window)
        }
    }

    fn end(&mut self, window: &Window<'_>) -> Result<Step, MediaError> {
        if self.frames == 0 {
            return Err(MediaError::NoFrames {
                bytes: window.end(),
            });
        }
        self.state = State::Ended;
        Ok(Step::End)
    }

    fn frame(
        &mut self,
        window: &Window<'_>,
        (header, bytes): (Header, usize),
        reset: bool,
    ) -> Result<Step, MediaError> {
        let is_layer_three = header.layer() == Layer::Three;
        if !is_layer_three && !self.is_for_sending {
            return Err(MediaError::UnsupportedLayer {
                offset: self.position,
            });
        }
        if self.leaves_out_info && self.frames == 0 && is_layer_three {
            let whole = &self.rest(window)[..bytes];
            if info::is_info(header, whole) {
                self.leaves_out_info = false; // of a stream that begins behind it
                let offset = self.position;
                self.position += bytes as u64;
                let from = self.position;
                self.state = State::Searching { from };
                let (bytes, is_tag) = (bytes as u64, true);
                return Ok(Step::Gap(Gap {
                    offset,
                    bytes,
                    is_tag,
                }));
            }
        }
        self.uncertain = None;
        // Only layer III has side information.
        let is_sound = !is_layer_three || side_info::is_sound(header, &self.rest(window)[..bytes]);
        let start = (self.position - window.offset) as usize;
        let frame = Frame {
            offset: self.position,
            start,
            bytes,
            header,
            reset,
        };
        self.position += bytes as u64;
        self.frames += 1;
        self.state = if is_sound {
            State::InSync(header)
        } else {
            State::Searching {
                from: self.position,
            }
        };
        Ok(Step::Frame(frame))
    }

    fn gap_since(&self, start: u64) -> Step {
        Step::Gap(Gap {
            offset: start,
            bytes: self.position - start,
            is_tag: false,
        })
    }

    fn need_more(&mut self, window: &Window<'_>) -> Result<Step, MediaError> {
        if self.asked_beyond.is_some_and(|end| end >= window.end()) {
            return Err(MediaError::WindowTooSmall {
                bytes: self.rest(window).len(),
                needed: MIN_WINDOW_BYTES,
            });
        }
        self.asked_beyond = Some(window.end());
        Ok(Step::ReadFrom(self.position))
    }

    /// The bytes of the window from the current position on.
    fn rest<'w>(&self, window: &Window<'w>) -> &'w [u8] {
        let start = usize::try_from(self.position - window.offset).unwrap_or(usize::MAX);
        window.bytes.get(start..).unwrap_or(&[])
    }

    /// The window's bytes from here to its end, as input of the frame search.
    fn judged<'w>(&self, window: &Window<'w>) -> Rest<'w> {
        Rest {
            bytes: self.rest(window),
            is_last: window.is_last,
            has_tags: self.is_for_sending,
        }
    }
}

/// The length of a frame at the start of `rest` that continues the stream, if it is all there.
fn whole_frame(previous: Header, rest: &[u8]) -> Option<u64> {
    let bytes = previous.is_continued_by(rest)?.frame_bytes()?;
    (bytes <= rest.len()).then_some(bytes as u64)
}

/// What stands at the start of `rest` when nothing is in sync.
fn verdict_at(rest: Rest<'_>, is_first: bool) -> Verdict {
    match Header::parse(rest.bytes) {
        Some(header) if rest.bytes.len() > HEADER_BYTES => judge(header, rest, is_first),
        Some(_) if !rest.is_last => Verdict::Undecided,
        _ => Verdict::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A silent frame of 417 bytes.
    fn silent() -> Vec<u8> {
        [&[0xff, 0xfb, 0x90, 0x64][..], &[0; 413]].concat()
    }

    /// Offsets of the frames in a stream, and where its last one ends if it was passed over.
    fn frames_of(mut splitter: FrameSplitter, stream: &[u8]) -> (Vec<u64>, Option<u64>) {
        let mut frames = Vec::new();
        let window = Window {
            offset: 0,
            bytes: stream,
            is_last: true,
        };
        loop {
            match splitter.next(&window).unwrap() {
                Step::Frame(frame) => frames.push(frame.offset),
                Step::Gap(_) => {}
                Step::ReadFrom(_) => panic!("the window is the last one"),
                Step::End => return (frames, splitter.last_frame_end()),
            }
        }
    }

    #[test]
    fn last_frame_with_something_behind_it_is_known() {
        // To begin with, ten have to follow one another.
        let whole = silent().repeat(20);
        let all: Vec<u64> = (0..20).map(|frame| frame * 417).collect();
        let new = FrameSplitter::new;
        assert_eq!(frames_of(new(), &whole), (all.clone(), None));
        for garbage in [&b"x"[..], b"xyz", b"garbage", &[0x55; 3000], &[0xff; 100]] {
            let stream = [&whole[..], garbage].concat();
            let (frames, end) = frames_of(new(), &stream);
            assert_eq!((&frames[..], end), (&all[..19], Some(8340)), "{garbage:?}");
            let cut = &stream[..8340];
            assert_eq!(frames_of(new(), cut), (all.clone(), None));
        }
        // Not the one in front of garbage in the middle, nor one that is cut short.
        let middle = [&whole[..], &[0x55; 300], &whole[..]].concat();
        assert_eq!(frames_of(new(), &middle).1, None);
        assert_eq!(frames_of(new(), &whole[..8000]).1, None);
    }

    #[test]
    fn first_frame_that_describes_the_others_is_left_out() {
        let mut info = silent();
        info[36..40].copy_from_slice(b"Info");
        let stream = [&info[..], &silent().repeat(3), &info].concat();
        let (frames, _) = frames_of(FrameSplitter::new(), &stream);
        assert_eq!(frames.len(), 5);
        // Only the first: what looks so later has sound.
        let (frames, _) = frames_of(FrameSplitter::new().without_info(), &stream);
        assert_eq!(frames, [417, 834, 1251, 1668]);
        let (frames, _) = frames_of(FrameSplitter::new().without_info(), &stream[417..]);
        assert_eq!(frames.len(), 4);
    }

    const HEADER: [u8; 4] = [0xff, 0xfb, 0x90, 0x64];

    fn silence(frames: usize) -> Vec<u8> {
        [&HEADER[..], &[0; 413]].concat().repeat(frames)
    }

    fn steps(stream: &[u8]) -> Result<Vec<Step>, MediaError> {
        let window = Window {
            offset: 0,
            bytes: stream,
            is_last: true,
        };
        let mut splitter = FrameSplitter::new();
        let mut steps = Vec::new();
        loop {
            match splitter.next(&window)? {
                Step::End => return Ok(steps),
                step => steps.push(step),
            }
        }
    }

    fn frame_offsets(stream: &[u8]) -> Vec<u64> {
        let steps = steps(stream).unwrap();
        let frames = steps.iter().filter_map(|step| match step {
            Step::Frame(frame) => Some(frame.offset),
            _ => None,
        });
        frames.collect()
    }

    fn tag(body: u8, footer: bool) -> Vec<u8> {
        let flags = if footer { 0x10 } else { 0 };
        let mut tag = vec![b'I', b'D', b'3', 4, 0, flags, 0, 0, 0, body];
        tag.resize(10 + usize::from(body) + if footer { 10 } else { 0 }, 0x55);
        tag
    }

    #[test]
    fn tag_in_front_is_one_gap() {
        for footer in [false, true] {
            let tag = tag(50, footer);
            let stream = [&tag[..], &silence(3)].concat();
            let found = steps(&stream).unwrap();
            assert_eq!(
                found[0],
                Step::Gap(Gap {
                    offset: 0,
                    bytes: tag.len() as u64,
                    is_tag: true,
                })
            );
            assert!(matches!(found[1], Step::Frame(frame) if frame.start == tag.len()));
            assert_eq!(found.len(), 4);
        }
    }

    #[test]
    fn tag_longer_than_the_stream_leaves_no_frames() {
        let mut stream = [tag(50, false), silence(12)].concat();
        stream[7] = 0x7f;
        assert!(matches!(steps(&stream), Err(MediaError::NoFrames { .. })));
    }

    #[test]
    fn garbage_is_a_gap_and_the_frame_behind_it_resets() {
        let stream = [silence(12), vec![0x55; 100], silence(12)].concat();
        let found = steps(&stream).unwrap();
        // The frame before the garbage has no successor and is lost with it, as in minimp3.
        let gap = Gap {
            offset: 11 * 417,
            bytes: 417 + 100,
            is_tag: false,
        };
        assert_eq!(found[11], Step::Gap(gap));
        assert!(matches!(found[12], Step::Frame(frame) if frame.reset));
        assert!(matches!(found[13], Step::Frame(frame) if !frame.reset));
    }

    #[test]
    fn truncated_last_frame_is_dropped() {
        let mut stream = silence(3);
        stream.truncate(3 * 417 - 1);
        let found = steps(&stream).unwrap();
        assert_eq!(frame_offsets(&stream), [0, 417]);
        assert_eq!(
            found[2],
            Step::Gap(Gap {
                offset: 834,
                bytes: 416,
                is_tag: false,
            })
        );
    }

    #[test]
    fn tag_behind_costs_the_last_frame_unless_it_is_cut_off() {
        let mut tag = b"TAG".to_vec();
        tag.resize(128, 0);
        let stream = [silence(15), tag].concat();
        assert_eq!(frame_offsets(&stream).len(), 14);
        let end = crate::mp3::audio_end(&stream, stream.len() as u64) as usize;
        assert_eq!(frame_offsets(&stream[..end]).len(), 15);
    }

    #[test]
    fn what_is_not_decoded_is_refused() {
        for nothing in [
            &[][..],
            &[0xff; 3000],
            b"ID3\x04\0\0\0\0\0\x7f",
            &[0x55; 70_000],
        ] {
            assert!(matches!(steps(nothing), Err(MediaError::NoFrames { .. })));
        }
        let layer_two = [&[0xff, 0xfd, 0x80, 0x64][..], &[0; 413]]
            .concat()
            .repeat(4);
        assert!(matches!(
            steps(&layer_two),
            Err(MediaError::UnsupportedLayer { offset: 0 })
        ));
        let free = [&[0xff, 0xfb, 0x00, 0x64][..], &[0; 396]]
            .concat()
            .repeat(12);
        assert!(matches!(
            steps(&free),
            Err(MediaError::FreeFormat { offset: 0 })
        ));
    }

    #[test]
    fn caller_that_makes_no_progress_is_told() {
        let stream = silence(20);
        let mut splitter = FrameSplitter::new();
        let small = Window {
            offset: 0,
            bytes: &stream[..100],
            is_last: false,
        };
        assert_eq!(splitter.next(&small).unwrap(), Step::ReadFrom(0));
        let error = splitter.next(&small).unwrap_err();
        assert!(matches!(
            error,
            MediaError::WindowTooSmall { bytes: 100, .. }
        ));
        let late = Window {
            offset: 5,
            bytes: &stream[5..],
            is_last: true,
        };
        let error = splitter.next(&late).unwrap_err();
        assert!(matches!(
            error,
            MediaError::WindowMissed {
                offset: 5,
                expected: 0
            }
        ));
    }
}
