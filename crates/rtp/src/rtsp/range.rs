//! Ranges of normal play time (RFC 2326, sections 3.6 and 12.29): what PLAY asks for, and what its
//! answer says.
//!
//! Times are in nanoseconds from the beginning. SMPTE and absolute times are refused with 501, as
//! section 12.29 has it.

use super::catalogue::Presentation;
use super::status::{Refusal, Status};

const SECOND_NS: u64 = 1_000_000_000;
/// Longer than any media: keeps sums far from overflow.
const SECONDS_MAX: u64 = 1 << 32;

/// What to play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    /// `None`: where it stands, which is the beginning at first, and now for live media.
    pub(crate) from_ns: Option<u64>,
    /// `None`: to the end.
    pub(crate) until_ns: Option<u64>,
}

impl Range {
    /// Reads the value of a Range header.
    pub(crate) fn parse(value: &str) -> Result<Self, Refusal> {
        let malformed = || Refusal::new(Status::BadRequest, "Range: npt=BEGIN-[END] in seconds");
        if value.contains(';') {
            let why = "Range: playing at a time of day is not done here";
            return Err(Refusal::new(Status::NotImplemented, why));
        }
        let (unit, span) = value.split_once('=').ok_or_else(malformed)?;
        if !unit.trim().eq_ignore_ascii_case("npt") {
            let why = "Range: only npt is understood";
            return Err(Refusal::new(Status::NotImplemented, why));
        }
        let (from, until) = span.trim().split_once('-').ok_or_else(malformed)?;
        let time = |text: &str| match text.trim() {
            "" => Ok(None),
            text => parse_time(text).map(Some).ok_or_else(malformed),
        };
        let from_ns = match from.trim() {
            "now" => None,
            from => time(from)?,
        };
        let range = Self {
            from_ns,
            until_ns: time(until)?,
        };
        if from.trim().is_empty() && range.until_ns.is_none() {
            return Err(malformed());
        }
        Ok(range)
    }

    /// Does it make sense for `presentation`? An end beyond the end is moved to it.
    pub(crate) fn within(self, presentation: &Presentation) -> Result<Self, Refusal> {
        let invalid = |why: &'static str| Err(Refusal::new(Status::InvalidRange, why));
        if !presentation.can_seek {
            return match self {
                // Players ask for npt=0- whatever the description says.
                Self {
                    from_ns: None | Some(0),
                    until_ns: None,
                } => Ok(Self::default()),
                _ => invalid("this media is played from now on only"),
            };
        }
        let length_ns = presentation.duration_ns.unwrap_or(u64::MAX);
        let begins_ns = self.from_ns.unwrap_or(0);
        if begins_ns >= length_ns && begins_ns > 0 {
            return invalid("it begins behind the end");
        }
        if self.until_ns.is_some_and(|until_ns| until_ns <= begins_ns) {
            return invalid("it ends before it begins");
        }
        Ok(Self {
            from_ns: self.from_ns,
            until_ns: self.until_ns.map(|until_ns| until_ns.min(length_ns)),
        })
    }
}

/// `12`, `12.5`, `1:02:03.5`; `None` for anything else, and for centuries.
fn parse_time(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut seconds = 0_u64;
    for (place, part) in whole.split(':').enumerate() {
        let limit = if place == 0 { SECONDS_MAX } else { 60 };
        let part = digits(part).filter(|part| *part < limit)?;
        seconds = seconds.checked_mul(60)?.checked_add(part)?;
    }
    let places = whole.split(':').count();
    if seconds > SECONDS_MAX || !matches!(places, 1 | 3) {
        return None;
    }
    let mut nanoseconds = 0;
    let mut unit = SECOND_NS / 10;
    for digit in fraction.bytes() {
        nanoseconds += u64::from(char::from(digit).to_digit(10)?) * unit;
        unit /= 10; // 0 behind the ninth digit
    }
    Some(seconds * SECOND_NS + nanoseconds)
}

fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

/// The value of a Range header, in milliseconds. No beginning: live.
pub(crate) fn write(from_ns: Option<u64>, until_ns: Option<u64>) -> String {
    let seconds = |ns: u64| {
        let milliseconds = ns / 1_000_000;
        format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
    };
    let from = from_ns.map_or_else(|| "now".to_owned(), seconds);
    format!("npt={from}-{}", until_ns.map(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from_ns: Option<u64>, until_ns: Option<u64>) -> Range {
        Range { from_ns, until_ns }
    }

    #[test]
    fn ranges_of_players_are_understood() {
        let half = SECOND_NS / 2;
        for (text, expected) in [
            ("npt=0.000-", range(Some(0), None)),
            ("npt=0-", range(Some(0), None)),
            ("npt=now-", range(None, None)),
            (
                "npt=12.5-20",
                range(Some(12 * SECOND_NS + half), Some(20 * SECOND_NS)),
            ),
            (
                "NPT = 1:02:03.5 - ",
                range(Some(3723 * SECOND_NS + half), None),
            ),
            ("npt=-7", range(None, Some(7 * SECOND_NS))),
            ("npt=0.1234567891234-", range(Some(123_456_789), None)),
        ] {
            assert_eq!(Range::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "npt",
            "npt=",
            "npt=-",
            "npt=5",
            "npt=x-",
            "npt=1:2-",
            "npt=1:60:00-",
            "npt=+1-",
            "npt=1.x-",
            "npt=99999999999999999999-",
            "npt=4294967296:00:00-",
            "npt=1--2",
            "npt=now-now",
            "npt=1:2:3:4-",
            "npt=:-",
        ] {
            let refusal = Range::parse(text).unwrap_err();
            assert_eq!(refusal.status, Status::BadRequest, "{text}");
        }
        for text in [
            "smpte=0:10:20-",
            "clock=19961108T142300Z-",
            "npt=1-;time=19970123T143720Z",
        ] {
            let refusal = Range::parse(text).unwrap_err();
            assert_eq!(refusal.status, Status::NotImplemented, "{text}");
        }
    }

    #[test]
    fn range_has_to_lie_within_the_media() {
        let mut presentation = Presentation {
            streams: Vec::new(),
            duration_ns: Some(100),
            can_seek: true,
            can_pause: true,
        };
        let judge =
            |from, until, presentation: &Presentation| range(from, until).within(presentation).ok();
        assert_eq!(
            judge(Some(99), Some(900), &presentation),
            Some(range(Some(99), Some(100)))
        );
        for (from, until) in [
            (Some(100), None),
            (Some(5), Some(5)),
            (Some(5), Some(4)),
            (None, Some(0)),
        ] {
            assert_eq!(
                judge(from, until, &presentation),
                None,
                "{from:?} {until:?}"
            );
        }
        presentation.duration_ns = None;
        assert!(judge(Some(u64::MAX / 2), None, &presentation).is_some());
        presentation.can_seek = false;
        assert_eq!(judge(Some(0), None, &presentation), Some(Range::default()));
        assert_eq!(judge(Some(1), None, &presentation), None);
        assert_eq!(judge(None, Some(1), &presentation), None);
    }

    #[test]
    fn ranges_are_written_in_milliseconds() {
        assert_eq!(
            write(Some(1_999_999_999), Some(60 * SECOND_NS)),
            "npt=1.999-60.000"
        );
        assert_eq!(write(Some(0), None), "npt=0.000-");
        assert_eq!(write(None, None), "npt=now-");
    }
}
