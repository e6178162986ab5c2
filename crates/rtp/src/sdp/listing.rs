//! All streams of a description, also those that are not understood: for whoever has to choose.

use std::fmt;

use sdp_types::Session;

use super::{StreamDescription, parse_media};
use crate::format::Encoding;
use crate::shown::{VALUE, shown};

/// Streams of a description, at most: whoever receives all of them opens sockets and a file for
/// each.
const STREAMS_MAX: usize = 128;

/// A stream as it stands in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its place among the `m=` lines, counted from 1.
    pub number: usize,
    /// What its `m=` line says it is: audio, video, application.
    pub media: String,
    /// The stream, or why it is not understood.
    pub stream: Result<StreamDescription, String>,
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, media) = (self.number, shown(&self.media, VALUE));
        match &self.stream {
            Ok(stream) => {
                let (format, to) = (&stream.format, stream.destination);
                let (name, hertz) = (format.encoding.name(), format.clock_hz);
                write!(formatter, "{number}: {media}, {name}/{hertz}")?;
                if let Encoding::L16 | Encoding::Pcmu | Encoding::Pcma = format.encoding {
                    write!(formatter, "/{}", format.channels)?;
                }
                // Where a server is asked for it, neither is agreed on yet.
                if to.port() > 0 {
                    write!(formatter, ", to {to}")?;
                }
                Ok(())
            }
            Err(reason) => write!(formatter, "{number}: {media}, not understood: {reason}"),
        }
    }
}

/// The streams that `text` describes, in order; at least one.
///
/// # Errors
///
/// What is wrong, if it is no description, or has no stream, or more than anybody receives.
pub fn list(text: &[u8]) -> Result<Vec<Listed>, String> {
    let session = Session::parse(text).map_err(|error| shown(&error.to_string(), VALUE))?;
    if session.medias.is_empty() {
        return Err("it describes no stream".to_owned());
    }
    let count = session.medias.len();
    if count > STREAMS_MAX {
        return Err(format!(
            "it describes {count} streams; up to {STREAMS_MAX} are taken"
        ));
    }
    let listed = (1..).zip(&session.medias).map(|(number, media)| Listed {
        number,
        media: media.media.clone(),
        stream: parse_media(media, &session),
    });
    Ok(listed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ffmpeg 5.1 writes it of a film's picture and sound, each sent to a port of its own.
    const OF_FFMPEG: &str = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nt=0 0\na=tool:libavformat 59.27.100\n\
        m=video 6000 RTP/AVP 96\nc=IN IP4 127.0.0.1\na=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=1\n\
        m=audio 6002 RTP/AVP 97\nc=IN IP4 127.0.0.1\nb=AS:64\na=rtpmap:97 opus/48000/2\n\
        m=audio 6004 RTP/AVP 98\nc=IN IP4 127.0.0.1\na=rtpmap:98 MPEG4-GENERIC/44100/2\na=fmtp:98 streamtype=5\n\
        m=audio 6006 RTP/AVP 0\nc=IN IP4 239.1.2.3/1\n";

    #[test]
    fn listing_shows_each_stream_or_why_it_is_unknown() {
        let text = OF_FFMPEG.as_bytes();
        let listed = list(text).unwrap();
        let said: Vec<String> = listed.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "1: video, H264/90000, to 127.0.0.1:6000",
                "2: audio, opus/48000, to 127.0.0.1:6002",
                "3: audio, not understood: its encoding MPEG4-GENERIC is not known here",
                "4: audio, PCMU/8000/1, to 239.1.2.3:6006",
            ]
        );
        assert_eq!(listed[2].number, 3);
        let understood: Vec<_> = listed
            .into_iter()
            .filter_map(|one| one.stream.ok())
            .collect();
        assert_eq!(super::super::parse(text), Ok(understood));
    }

    #[test]
    fn description_without_streams_and_nonsense_are_refused() {
        let none = "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n";
        assert!(list(none.as_bytes()).unwrap_err().contains("no stream"));
        assert!(list(b"film").unwrap_err().contains("line 1"));
        let one = "m=audio 6002 RTP/AVP 0\r\n";
        assert_eq!(
            list((none.to_owned() + &one.repeat(128)).as_bytes())
                .unwrap()
                .len(),
            128
        );
        let refused = list((none.to_owned() + &one.repeat(129)).as_bytes()).unwrap_err();
        assert!(refused.contains("129 streams; up to 128"), "{refused}");
    }

    /// Together they took over a minute when the work grew with the square of a description's
    /// length.
    #[test]
    fn descriptions_made_to_keep_readers_busy_are_read_like_others() {
        let head = "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n";
        let types: String = (0..=255).map(|number| format!(" {number}")).collect();
        let maps: String = (0..=255)
            .map(|number| format!("a=rtpmap:{number} rtx/90000\r\n"))
            .collect();
        for media in [
            format!(
                "m=video 0 RTP/AVP{}\r\n{}",
                " 33".repeat(160_000),
                "a=rtpmap:1 a/1\r\n".repeat(30_000)
            ),
            format!(
                "m=video 0 RTP/AVP 33{types}\r\n{}",
                "a=rtpmap:1 a/1\r\n".repeat(60_000)
            ),
            format!(
                "m=video 0 RTP/AVP 33{types}\r\n{maps}{}",
                "a=fmtp:1 apt=33\r\n".repeat(50_000)
            ),
        ] {
            let listed = list((head.to_owned() + &media).as_bytes()).unwrap();
            assert_eq!(listed[0].number, 1);
        }
    }

    #[test]
    fn what_others_wrote_is_shown_without_what_terminals_obey() {
        let text = format!(
            "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
             m=\u{1b}[2J 0 RTP/AVP 96\r\na=rtpmap:96 {}\u{7}/90000\r\n",
            "x".repeat(100_000)
        );
        let shown = list(text.as_bytes()).unwrap()[0].to_string();
        assert!(
            shown.starts_with("1: \\u{1b}[2J, not understood: its encoding xxx"),
            "{shown}"
        );
        assert!(
            shown.len() < 300 && !shown.contains(char::is_control),
            "{shown}"
        );
    }
}
