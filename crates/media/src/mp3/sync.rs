//! Whether a frame starts here: the rules of minimp3's `mp3d_find_frame` and `mp3d_match_frame`,
//! with a third answer, "more bytes are needed", where the window ends before the stream does.

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

/// Judges the candidate `header` at the start of `rest`, where nothing is in sync yet.
///
/// `is_last`: `rest` reaches the end of the stream. `is_first`: the search starts exactly here; a
/// single frame that fills the rest of the stream is then accepted without a successor.
pub(super) fn judge(header: Header, rest: &[u8], is_last: bool, is_first: bool) -> Verdict {
    let Some(bytes) = header.frame_bytes() else {
        return judge_free_format(header, rest, is_last);
    };
    if is_first && is_last && bytes == rest.len() {
        return Verdict::Frame { header, bytes };
    }
    match run_follows(header, rest, is_last, |next| next.frame_bytes()) {
        Some(true) if bytes <= rest.len() => Verdict::Frame { header, bytes },
        Some(_) => Verdict::Nothing,
        None => Verdict::Undecided,
    }
}

/// Judges the frame at the start of `rest` when the frame before it was in sync.
pub(super) fn judge_in_sync(previous: Header, rest: &[u8], is_last: bool) -> Verdict {
    if rest.len() <= HEADER_BYTES {
        return if is_last {
            Verdict::Nothing
        } else {
            Verdict::Undecided
        };
    }
    let Some(header) = previous.is_continued_by(rest) else {
        return Verdict::Nothing;
    };
    // In sync is never in free format, so the header says how long the frame is.
    let Some(bytes) = header.frame_bytes() else {
        return Verdict::Nothing;
    };
    if is_last && bytes == rest.len() {
        return Verdict::Frame { header, bytes };
    }
    match rest.get(bytes..) {
        Some(next) if next.len() >= HEADER_BYTES => match header.is_continued_by(next) {
            Some(_) => Verdict::Frame { header, bytes },
            None => Verdict::Nothing,
        },
        _ if is_last => Verdict::Nothing,
        _ => Verdict::Undecided,
    }
}

/// Whether enough consistent headers follow `header` at the start of `rest`; `None` if the window
/// ends first.
fn run_follows(
    header: Header,
    rest: &[u8],
    is_last: bool,
    frame_bytes: impl Fn(Header) -> Option<usize>,
) -> Option<bool> {
    let (mut current, mut at) = (header, 0);
    for matches in 0..CONSISTENT_HEADERS {
        at += frame_bytes(current).unwrap_or(0);
        let next = rest.get(at..).unwrap_or(&[]);
        if next.len() < HEADER_BYTES {
            return is_last.then_some(matches > 0);
        }
        match header.is_continued_by(next) {
            Some(found) => current = found,
            None => return Some(false),
        }
    }
    Some(true)
}

/// Free format: the length of a frame is the distance to the next header of the same kind, if a
/// third one stands where that predicts.
fn judge_free_format(header: Header, rest: &[u8], is_last: bool) -> Verdict {
    if !is_last && rest.len() < MIN_WINDOW_BYTES {
        return Verdict::Undecided;
    }
    let furthest = FREE_FORMAT_BYTES.min(rest.len().saturating_sub(HEADER_BYTES).div_ceil(2));
    for distance in HEADER_BYTES..furthest {
        let Some(second) = header.is_continued_by(&rest[distance..]) else {
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
            .is_continued_by(rest.get(third..).unwrap_or(&[]))
            .is_none()
        {
            continue;
        }
        let length = |next: Header| Some(bytes + next.padding_bytes());
        return match run_follows(header, rest, is_last, length) {
            Some(true) => Verdict::FreeFormat,
            Some(false) => Verdict::Nothing,
            None => Verdict::Undecided,
        };
    }
    Verdict::Nothing
}
