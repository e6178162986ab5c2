//! Whether a frame starts here: the rules of minimp3's `mp3d_find_frame` and `mp3d_match_frame`,
//! with a third answer, "more bytes are needed", where the window ends before the stream does.

use super::tags;
use hythe_rtp::mpeg_audio::{HEADER_BYTES, Header};

/// How many consistent headers have to follow a candidate while synchronisation is sought (fewer,
/// but at least one, where the stream ends).
const CONSISTENT_HEADERS: usize = 10;

/// Free-format frames are at most this long.
const FREE_FORMAT_BYTES: usize = 2304;

/// A window of this size decides any candidate at its start: ten frames of the longest kind and
/// the header behind them, rounded up to the next multiple of 4 KiB.
pub const MIN_WINDOW_BYTES: usize =
    (CONSISTENT_HEADERS * Header::LONGEST_BYTES + HEADER_BYTES).next_multiple_of(4096);

/// The answer to "does a frame start here?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Yes: its header, and its length in bytes.
    Frame { header: Header, bytes: usize },
    /// Yes, in free format.
    FreeFormat,
    /// No.
    Nothing,
    /// The window ends too early to tell.
    Undecided,
}

/// A stream from a place on where a frame may start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest<'r> {
    pub(super) bytes: &'r [u8],
    /// It reaches the end of the stream.
    pub(super) is_last: bool,
    /// A tag ends a run of frames as the end of the stream does.
    pub(super) has_tags: bool,
}

impl Rest<'_> {
    /// Is there a tag at that place, where no frame is? `None`: the window ends too early to tell.
    fn has_tag_at(&self, at: usize) -> Option<bool> {
        if !self.has_tags {
            return Some(false);
        }
        match tags::judge(self.bytes.get(at..).unwrap_or(&[]), self.is_last) {
            tags::Verdict::Tag(_) => Some(true),
            tags::Verdict::Nothing => Some(false),
            tags::Verdict::Undecided => None,
        }
    }
}

/// Judges the candidate `header` at the start of `rest`, where nothing is in sync yet.
///
/// `is_first`: the search starts exactly here; a single frame that fills the rest of the stream, or
/// the rest in front of a tag, is then accepted without a successor.
pub(super) fn judge(header: Header, rest: Rest<'_>, is_first: bool) -> Verdict {
    let Some(bytes) = header.frame_bytes() else {
        return judge_free_format(header, rest);
    };
    if is_first && rest.is_last && bytes == rest.bytes.len() {
        return Verdict::Frame { header, bytes };
    }
    match run_follows(header, rest, is_first, |next| next.frame_bytes()) {
        Some(true) if bytes <= rest.bytes.len() => Verdict::Frame { header, bytes },
        Some(_) => Verdict::Nothing,
        None => Verdict::Undecided,
    }
}

/// Judges the frame at the start of `rest` when the frame before it was in sync.
pub(super) fn judge_in_sync(previous: Header, rest: Rest<'_>) -> Verdict {
    let Rest {
        bytes: all,
        is_last,
        ..
    } = rest;
    if all.len() <= HEADER_BYTES {
        return if is_last {
            Verdict::Nothing
        } else {
            Verdict::Undecided
        };
    }
    let Some(header) = previous.is_continued_by(all) else {
        return Verdict::Nothing;
    };
    // In sync is never in free format, so the header says how long the frame is.
    let Some(bytes) = header.frame_bytes() else {
        return Verdict::Nothing;
    };
    if is_last && bytes == all.len() {
        return Verdict::Frame { header, bytes };
    }
    match all.get(bytes..) {
        Some(next) if next.len() >= HEADER_BYTES => {
            let is_continued = header.is_continued_by(next).is_some();
            match is_continued
                .then_some(true)
                .or_else(|| rest.has_tag_at(bytes))
            {
                Some(true) => Verdict::Frame { header, bytes },
                Some(false) => Verdict::Nothing,
                None => Verdict::Undecided,
            }
        }
        _ if is_last => Verdict::Nothing,
        _ => Verdict::Undecided,
    }
}

/// Whether enough consistent headers follow `header` at the start of `rest`; `None` if the window
/// ends first. In front of a tag one is enough, or none where the search starts here (`is_first`).
fn run_follows(
    header: Header,
    rest: Rest<'_>,
    is_first: bool,
    frame_bytes: impl Fn(Header) -> Option<usize>,
) -> Option<bool> {
    let (mut current, mut at) = (header, 0);
    for matches in 0..CONSISTENT_HEADERS {
        at += frame_bytes(current).unwrap_or(0);
        let next = rest.bytes.get(at..).unwrap_or(&[]);
        if next.len() < HEADER_BYTES {
            return rest.is_last.then_some(matches > 0);
        }
        match header.is_continued_by(next) {
            Some(found) => current = found,
            None => return Some(rest.has_tag_at(at)? && (matches > 0 || is_first)),
        }
    }
    Some(true)
}

/// Free format: the length of a frame is the distance to the next header of the same kind, if a
/// third one stands where that predicts.
fn judge_free_format(header: Header, rest: Rest<'_>) -> Verdict {
    let Rest {
        bytes: all,
        is_last,
        ..
    } = rest;
    if !is_last && all.len() < MIN_WINDOW_BYTES {
        return Verdict::Undecided;
    }
    let furthest = FREE_FORMAT_BYTES.min(all.len().saturating_sub(HEADER_BYTES).div_ceil(2));
    for distance in HEADER_BYTES..furthest {
        let Some(second) = header.is_continued_by(&all[distance..]) else {
            continue;
        };
        let Some(bytes) = distance
            .checked_sub(header.padding_bytes())
            .filter(|bytes| *bytes > 0)
        else {
            continue;
        };
        let third = distance + bytes + second.padding_bytes();
        if header
            .is_continued_by(all.get(third..).unwrap_or(&[]))
            .is_none()
        {
            continue;
        }
        let length = |next: Header| Some(bytes + next.padding_bytes());
        return match run_follows(header, rest, false, length) {
            Some(true) => Verdict::FreeFormat,
            Some(false) => Verdict::Nothing,
            None => Verdict::Undecided,
        };
    }
    Verdict::Nothing
}
