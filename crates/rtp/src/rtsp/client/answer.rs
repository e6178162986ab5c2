//! What a server sends, cut into messages (RFC 2326, sections 7 and 10.12).
//!
//! [`Dialogue`](super::Dialogue) hands the bytes over as they come and takes answers out. Nothing
//! is allocated by a length that the server claims, and no more is kept than one message may have
//! and what came with its last byte. What is no answer is passed over and counted. Never here: what
//! an answer means, waiting.

use crate::rtsp::message;
use crate::shown::{LINE, VALUE, shown, shown_bytes};

/// Headers of a message, and its body, at most.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
/// `$`, a channel, and a length of two bytes.
const FRAME_HEAD_BYTES: usize = 4;

/// What receives media that a server sends on the connection of RTSP.
pub(super) const OVER_TCP: &str = "ffmpeg receives RTP over TCP, ffmpeg -rtsp_transport tcp -i URL \
     -c copy FILE.ts";

/// An answer, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Three digits.
    pub status: u16,
    /// What came: `RTSP/1.0 200 OK`, as it may be shown.
    pub line: String,
    /// Of what is asked for; empty where there is none.
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Answer {
    /// The value of the first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        value_of(&self.headers, name)
    }

    /// Has the server done what it was asked?
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == 200
    }

    /// Why not, and what to do, in words for people.
    #[must_use]
    pub fn refusal(&self) -> String {
        let (line, value) = (&self.line, |name| {
            shown(self.header(name).unwrap_or("(not said)"), LINE)
        });
        match self.status {
            300..=399 => format!(
                "{line}: it sends on to `{}`, where nobody is followed to; open that, if it is right",
                value("Location")
            ),
            401 | 407 => format!(
                "{line}: it wants a password (`{}`), which is not supported",
                value("WWW-Authenticate")
            ),
            // Cameras behind a firewall, or set to it, send on the connection of RTSP only.
            461 => {
                format!("{line}: it does not send by UDP, and nothing else is received; {OVER_TCP}")
            }
            _ => line.clone(),
        }
    }
}

/// What a server asks its client for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// Such as TEARDOWN.
    pub method: String,
    /// Of what is said; empty where there is none.
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl ServerRequest {
    /// The value of the first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        value_of(&self.headers, name)
    }

    /// Why a session ends, as it may be shown: the message of a Terminate-Reason (RFC 7826, section
    /// 18.52), or else its first word.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let value = self.header("Terminate-Reason")?;
        let message = value.split_once("user-msg=\"");
        let message = message.and_then(|(_, rest)| rest.split('"').next());
        let word = value.split(';').next().unwrap_or_default();
        Some(shown(message.unwrap_or(word), LINE))
    }
}

fn value_of<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    let mut headers = headers.iter();
    let found = headers.find(|(found, _)| found.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// What was passed over because it answers nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Packets on the RTSP connection, which were not asked for.
    pub frames: u64,
    /// Requests of the server, but for those that say what becomes of the session.
    pub requests: u64,
    /// Answers to earlier requests, and those that announce another (100 Continue).
    pub answers: u64,
    /// Bytes of all these, and empty lines.
    pub bytes: u64,
}

/// What came next, and of how many bytes.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) bytes: usize,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Answer(Answer),
    Request(ServerRequest),
    /// A packet.
    Frame,
    /// What stands between messages.
    LineBreak,
}

/// Bytes that came and are not used up.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// Where what is not used up begins.
    start: usize,
    /// So many bytes have to be there before another look is worth it.
    needed: usize,
    /// Of a message whose head is not whole: where its last line begins, and whether more came than
    /// letters of it. A head that comes byte by byte is looked at once, not once for each of them.
    line: usize,
    has_more: bool,
}

impl Inbox {
    /// Takes what came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        // What stands behind a CR says whether that was the beginning of a line's end.
        let is_open = self.bytes.last() == Some(&b'\r');
        self.bytes.extend_from_slice(bytes);
        self.has_more |= is_open || bytes.iter().any(u8::is_ascii_control);
    }

    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The next message, once it is whole.
    pub(super) fn next(&mut self) -> Result<Option<Message>, String> {
        let waiting = self.waiting();
        if waiting.len() < self.needed {
            return Ok(None);
        }
        let next = match waiting {
            [] | [b'$'] | [b'$', _] | [b'$', _, _] => None,
            [b'\r' | b'\n', ..] => Some((1, Kind::LineBreak)),
            [b'$', _, high, low, ..] => {
                let length = u16::from_be_bytes([*high, *low]);
                Some((FRAME_HEAD_BYTES + usize::from(length), Kind::Frame))
            }
            _ if self.has_more || waiting.len() >= HEAD_BYTES_MAX => message(waiting, self.line)?,
            _ => None,
        };
        let available = waiting.len();
        Ok(match next {
            Some((bytes, _)) if available < bytes => {
                self.needed = bytes;
                None
            }
            Some((bytes, kind)) => {
                self.start += bytes;
                (self.needed, self.line, self.has_more) = (0, 0, true);
                Some(Message { bytes, kind })
            }
            None => {
                let last = waiting[self.line..].iter().rposition(|byte| *byte == b'\n');
                self.line += last.map_or(0, |at| at + 1);
                self.has_more = false;
                None
            }
        })
    }
}

/// How long the message at the start of `waiting` is, and what it is; `None` as long as that is not
/// known. Of one that is not whole, the body is what there is of it. Its head does not end in front
/// of `line`.
fn message(waiting: &[u8], line: usize) -> Result<Option<(usize, Kind)>, String> {
    let no_rtsp = || format!("this is no RTSP: `{}`", shown_bytes(waiting));
    let head_bytes = message::head_length(&waiting[line..]).map_err(|_| match waiting {
        [b'R', b'T', b'S', b'P', b'/', ..] => {
            let shown = shown_bytes(waiting);
            format!("its answer has control characters: `{shown}`")
        }
        _ => no_rtsp(),
    })?;
    let head_bytes = match head_bytes.map(|bytes| line + bytes) {
        Some(bytes) if bytes <= HEAD_BYTES_MAX => bytes,
        None if waiting.len() < HEAD_BYTES_MAX => return Ok(None),
        _ => {
            return Err(format!(
                "the headers of its answer do not end within {HEAD_BYTES_MAX} bytes: `{}`",
                shown_bytes(waiting)
            ));
        }
    };
    let (head, rest) = waiting.split_at(head_bytes);
    let body_bytes = body_length(head)?;
    let line = first_line(head);
    let kind = match line.strip_prefix("RTSP/") {
        Some(_) => Kind::Answer(Answer {
            status: status(&line)?,
            line: shown(&line, LINE),
            body: rest[..body_bytes.min(rest.len())].to_vec(),
            headers: headers(head),
        }),
        None if line.contains(" RTSP/") => Kind::Request(ServerRequest {
            method: line.split(' ').next().unwrap_or_default().to_owned(),
            body: rest[..body_bytes.min(rest.len())].to_vec(),
            headers: headers(head),
        }),
        None => return Err(no_rtsp()),
    };
    Ok(Some((head_bytes + body_bytes, kind)))
}

fn first_line(head: &[u8]) -> String {
    let line = message::lines(head).next().unwrap_or_default();
    String::from_utf8_lossy(line).into_owned()
}

/// Lines that are no headers are none of ours.
fn headers(head: &[u8]) -> Vec<(String, String)> {
    let lines = message::lines(head).skip(1);
    let named = lines.filter_map(|line| {
        let (name, value) = str::from_utf8(line).ok()?.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    });
    named.collect()
}

fn body_length(head: &[u8]) -> Result<usize, String> {
    let mut lengths =
        message::lines(head).filter_map(|line| message::value_of(line, "Content-Length"));
    let Some(length) = lengths.next() else {
        return Ok(0);
    };
    if let Some(second) = lengths.next() {
        return Err(format!(
            "it has two Content-Lengths: `{}` and `{}`",
            shown(length, VALUE),
            shown(second, VALUE)
        ));
    }
    let bytes = message::decimal(length).ok_or_else(|| {
        format!(
            "its Content-Length is no number: `{}`",
            shown(length, VALUE)
        )
    })?;
    let bytes = bytes as usize;
    if bytes > BODY_BYTES_MAX {
        return Err(format!(
            "its body is larger than 1 MiB: Content-Length is {bytes}"
        ));
    }
    Ok(bytes)
}

/// Of a line that begins as one of RTSP.
fn status(line: &str) -> Result<u16, String> {
    let mut words = line.split(' ');
    let version = words.next().unwrap_or_default();
    if !version.starts_with("RTSP/1.") {
        return Err(format!(
            "it speaks another version than RTSP/1.0: `{}`",
            shown(line, VALUE)
        ));
    }
    let code = words.next().filter(|code| code.len() == 3);
    code.and_then(message::decimal)
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| *code >= 100)
        .ok_or_else(|| format!("its answer has no status: `{}`", shown(line, VALUE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Kind, String> {
        let mut inbox = Inbox::default();
        inbox.push(bytes);
        inbox
            .next()
            .map(|message| message.expect("a whole one").kind)
    }

    fn answer(kind: Kind) -> Answer {
        match kind {
            Kind::Answer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_whole_with_their_last_bytes() {
        let text = b"$\0\0\x02ab\n$\x01\0\0RTSP/1.0 200 OK\r\nCSeq: 7\r\ncontent-length: 3\r\nno header\r\n\r\na\n\0\
            REDIRECT rtsp://h/x RTSP/1.0\r\nCSeq: 1\r\n\r\nRTSP/1.0 4";
        let mut inbox = Inbox::default();
        let mut messages = Vec::new();
        for (at, byte) in (1..).zip(text) {
            inbox.push(&[*byte]);
            messages.extend(inbox.next().unwrap().map(|message| (at, message)));
            assert!(inbox.next().unwrap().is_none());
        }
        let ends: Vec<usize> = messages.iter().map(|(at, _)| *at).collect();
        let last = text.len() - b"RTSP/1.0 4".len();
        assert_eq!(ends, [6, 7, 11, last - 41, last]);
        let mut whole = Inbox::default();
        whole.push(text);
        for (_, message) in messages {
            let same = whole.next().unwrap().unwrap();
            assert_eq!(format!("{message:?}"), format!("{same:?}"));
            if let Kind::Answer(answer) = message.kind {
                assert_eq!((answer.status, answer.header("CSEQ")), (200, Some("7")));
                assert_eq!(
                    (&answer.body[..], &answer.line[..]),
                    (&b"a\n\0"[..], "RTSP/1.0 200 OK")
                );
            }
        }
        assert_eq!(whole.waiting(), b"RTSP/1.0 4");
    }

    #[test]
    fn what_is_no_answer_is_named_with_its_value() {
        let long = [
            b"RTSP/1.0 200 OK\r\nA: ".to_vec(),
            vec![b'x'; HEAD_BYTES_MAX],
        ]
        .concat();
        for (bytes, reason) in [
            (
                &b"HTTP/1.1 200 OK\r\n\r\n"[..],
                "no RTSP: `HTTP/1.1 200 OK\\r",
            ),
            (b"\x16\x03\x01", "no RTSP: `\\u{16}\\u{3}"),
            (
                b"RTSP/1.0 200 OK\r\nSession: a\rB: c\r\n\r\n",
                "control characters: `RTSP",
            ),
            (b"RTSP/2.0 200 OK\r\n\r\n", "RTSP/1.0: `RTSP/2.0 200 OK`"),
            (b"RTSP/1.0\r\n\r\n", "no status: `RTSP/1.0`"),
            (b"RTSP/1.0 -20 OK\r\n\r\n", "no status: `RTSP/1.0 -20 OK`"),
            (b"RTSP/1.0 099 OK\r\n\r\n", "no status"),
            (b"RTSP/1.0 2000 OK\r\n\r\n", "no status"),
            (b"RTSP/1.0  200 OK\r\n\r\n", "no status"),
            (
                b"RTSP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n",
                "no number: `-1`",
            ),
            (
                b"RTSP/1.0 200 OK\r\nContent-Length: +1\r\n\r\n",
                "no number: `+1`",
            ),
            (
                b"RTSP/1.0 200 OK\r\nContent-Length:\r\n\r\n",
                "no number: ``",
            ),
            (
                b"RTSP/1.0 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
                "no number: `18446744073709551616`",
            ),
            (
                b"RTSP/1.0 200 OK\r\nContent-Length: 1048577\r\n\r\n",
                "1 MiB: Content-Length is 1048577",
            ),
            (
                b"RTSP/1.0 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "two Content-Lengths: `1` and `2`",
            ),
            (
                &long,
                "do not end within 16384 bytes: `RTSP/1.0 200 OK\\r\\nA: xxx",
            ),
        ] {
            let refused = first(bytes).unwrap_err();
            assert!(refused.contains(reason) && refused.len() < 250, "{refused}");
        }
        let edge = [
            &b"RTSP/1.0 200 OK\r\nContent-Length: 1048576\r\n\r\n"[..],
            &vec![0; BODY_BYTES_MAX],
        ]
        .concat();
        assert_eq!(answer(first(&edge).unwrap()).body.len(), BODY_BYTES_MAX);
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (text, said) in [
            ("404 Not Found\r\n", "404 Not Found"),
            (
                "302 Moved\r\nLocation: rtsp://evil/\x01\r\n"
                    .replace('\x01', "x")
                    .as_str(),
                "on to `rtsp://evil/x`",
            ),
            ("301 Moved\r\n", "`(not said)`"),
            (
                "461 Unsupported Transport\r\n",
                "ffmpeg -rtsp_transport tcp",
            ),
            (
                "401 No\r\nWWW-Authenticate: Digest realm=\"a\"\r\n",
                "password (`Digest realm=\"a\"`)",
            ),
        ] {
            let refused = format!("RTSP/1.0 {text}\r\n");
            let refusal = answer(first(refused.as_bytes()).unwrap()).refusal();
            assert!(refusal.contains(said), "{refusal}");
        }
    }
}
