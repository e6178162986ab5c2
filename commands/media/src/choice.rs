//! Which streams of a description are received.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hythe::rtp::format::Encoding;
use hythe::rtp::sdp::{Listed, StreamDescription};
use hythe_command::error::CliError;
use hythe_terminal::escaped;

/// Streams that a message names, at most.
const NAMED_MAX: usize = 20;

/// What `--stream` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The stream at this place, counted from 1.
    Number(usize),
    /// The one of this kind.
    Audio,
    Video,
    /// Every one that is understood.
    All,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = || text.parse().ok().filter(|number| *number > 0);
        match text {
            "audio" => Ok(Self::Audio),
            "video" => Ok(Self::Video),
            "all" => Ok(Self::All),
            _ => number().map(Self::Number).ok_or_else(|| {
                format!(
                    "{} is not a number from 1 on, audio, video or all",
                    escaped(text)
                )
            }),
        }
    }
}

/// A stream that is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Its place in the description, counted from 1.
    pub(super) number: usize,
    pub(super) stream: StreamDescription,
}

/// What `choice` means for the streams of `description`; without one, the only one that is
/// understood. What is left out then is given to `tell`.
pub(super) fn choose(
    choice: Option<Choice>,
    description: &Path,
    listed: Vec<Listed>,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<Chosen>, CliError> {
    let shown = escaped(&description);
    let all = listing(&listed);
    let refuse = |why: String| Err(CliError::Failed(format!("{shown} {why}{all}")));
    if let Some(Choice::Number(number)) = choice {
        let found = listed.into_iter().find(|one| one.number == number);
        return match found.map(|one| one.stream) {
            Some(Ok(stream)) => Ok(vec![Chosen { number, stream }]),
            Some(Err(reason)) => refuse(format!(
                "has a stream {number} that is not understood ({reason})"
            )),
            None => refuse(format!("has no stream {number}")),
        };
    }
    let kind = match choice {
        Some(Choice::Audio) => Some("audio"),
        Some(Choice::Video) => Some("video"),
        _ => None,
    };
    let is_wanted = |one: &Listed| kind.is_none_or(|kind| one.media == kind);
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for one in listed.into_iter().filter(is_wanted) {
        match one {
            Listed {
                number,
                stream: Ok(stream),
                ..
            } => chosen.push(Chosen { number, stream }),
            other => left_out.push(other.to_string()),
        }
    }
    let kind = kind.map_or(String::new(), |kind| format!("{kind} "));
    if chosen.is_empty() {
        return refuse(format!("has no {kind}stream that is understood"));
    }
    if chosen.len() > 1 && choice != Some(Choice::All) {
        let count = chosen.len();
        return refuse(format!(
            "has {count} {kind}streams: say which with --stream, by its number, as audio or video, or all"
        ));
    }
    for one in left_out {
        tell(format!("{shown}: left out stream {one}"));
    }
    Ok(chosen)
}

/// The streams, a line each.
fn listing(listed: &[Listed]) -> String {
    let mut text = String::new();
    for one in listed.iter().take(NAMED_MAX) {
        // A String takes everything.
        let _ = write!(text, "\n  stream {one}");
    }
    if listed.len() > NAMED_MAX {
        let _ = write!(text, "\n  and {} more", listed.len() - NAMED_MAX);
    }
    text
}

/// The file of one stream of several: `out` with the stream's number, and the ending of what is in
/// it.
pub(super) fn file_of(out: &Path, chosen: &Chosen) -> PathBuf {
    let ending = match chosen.stream.format.encoding {
        Encoding::MpegTs => "ts",
        Encoding::L16 | Encoding::Pcmu | Encoding::Pcma => "wav",
        Encoding::MpegAudio => "mpa",
        Encoding::Opus => "opus",
        Encoding::H264 => "h264",
        Encoding::H265 => "h265",
    };
    let stem = out.file_stem().unwrap_or(out.as_os_str());
    let mut name = stem.to_owned();
    name.push(format!("-{}.{ending}", chosen.number));
    out.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe::rtp::sdp;

    const HEAD: &str = "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n";
    const VIDEO: &str = "m=video 6000 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n";
    const AUDIO: &str = "m=audio 6002 RTP/AVP 0\r\n";
    const AAC: &str = "m=audio 6004 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/44100/2\r\n";

    /// Numbers of the streams that are chosen, and what was said of others.
    fn chosen(choice: Option<&str>, medias: &[&str]) -> Result<(Vec<usize>, Vec<String>), String> {
        let listed = sdp::list((HEAD.to_owned() + &medias.concat()).as_bytes()).unwrap();
        let choice = choice.map(|text| text.parse().unwrap());
        let mut told = Vec::new();
        let path = Path::new("film.sdp");
        let chosen = choose(choice, path, listed, &mut |what| told.push(what));
        let chosen = chosen.map_err(|error| error.to_string())?;
        Ok((chosen.iter().map(|one| one.number).collect(), told))
    }

    #[test]
    fn one_is_taken_and_of_several_the_one_that_is_named() {
        assert_eq!(chosen(None, &[VIDEO]), Ok((vec![1], vec![])));
        for (choice, medias, number) in [
            ("video", [AUDIO, VIDEO], 2),
            ("audio", [AUDIO, VIDEO], 1),
            ("2", [AUDIO, VIDEO], 2),
            ("2", [AAC, VIDEO], 2),
        ] {
            let found = chosen(Some(choice), &medias);
            assert_eq!(found, Ok((vec![number], vec![])), "{choice}");
        }
        let all = chosen(Some("all"), &[VIDEO, AUDIO, AUDIO]);
        assert_eq!(all, Ok((vec![1, 2, 3], vec![])));
    }

    #[test]
    fn what_is_not_understood_is_left_out_aloud() {
        let left_out = "film.sdp: left out stream 1: audio, not understood: its encoding MPEG4-GENERIC is not known here";
        for choice in [None, Some("all")] {
            let found = chosen(choice, &[AAC, VIDEO]);
            assert_eq!(found, Ok((vec![2], vec![left_out.to_owned()])));
        }
        let found = chosen(Some("audio"), &[AAC, AUDIO]).unwrap();
        assert_eq!(found, (vec![2], vec![left_out.to_owned()]));
    }

    #[test]
    fn who_has_to_choose_is_told_what_there_is() {
        for (choice, medias, why) in [
            (
                None,
                &[VIDEO, AUDIO][..],
                "has 2 streams: say which with --stream",
            ),
            (
                Some("audio"),
                &[AUDIO, VIDEO, AUDIO],
                "has 2 audio streams: say which",
            ),
            (
                Some("video"),
                &[AUDIO, AUDIO],
                "has no video stream that is understood",
            ),
            (
                Some("audio"),
                &[VIDEO, AAC],
                "has no audio stream that is understood",
            ),
            (Some("3"), &[VIDEO, AUDIO], "has no stream 3"),
            (
                Some("1"),
                &[AAC, VIDEO],
                "has a stream 1 that is not understood (its encoding MPEG4",
            ),
            (Some("all"), &[AAC], "has no stream that is understood"),
        ] {
            let refused = chosen(choice, medias).unwrap_err();
            assert!(refused.starts_with(&format!("film.sdp {why}")), "{refused}");
            assert_eq!(refused.matches("\n  stream ").count(), medias.len());
        }
        let refused = chosen(None, &[AUDIO; 30]).unwrap_err();
        assert!(
            refused.ends_with("stream 20: audio, PCMU/8000/1, to 127.0.0.1:6002\n  and 10 more"),
            "{refused}"
        );
        for text in ["", "0", "-1", "sound"] {
            let refused = text.parse::<Choice>().unwrap_err();
            assert!(refused.contains("audio, video or all"), "{refused}");
        }
    }

    #[test]
    fn each_stream_has_a_file_of_its_own() {
        let listed = sdp::list((HEAD.to_owned() + VIDEO + AUDIO).as_bytes()).unwrap();
        let all = choose(Some(Choice::All), Path::new("x"), listed, &mut |_| {}).unwrap();
        let files = |out: &str| -> Vec<PathBuf> {
            all.iter()
                .map(|chosen| file_of(Path::new(out), chosen))
                .collect()
        };
        assert_eq!(
            files("a/copy.mp4"),
            [PathBuf::from("a/copy-1.h264"), "a/copy-2.wav".into()]
        );
        assert_eq!(
            files("copy"),
            [PathBuf::from("copy-1.h264"), "copy-2.wav".into()]
        );
    }
}
