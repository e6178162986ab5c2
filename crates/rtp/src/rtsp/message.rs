//! Requests as bytes (RFC 2326, sections 4 to 6) and replies as bytes.
//!
//! A connection splits what it received into messages; the service reads each as a [`Request`] and
//! writes a [`Response`]. Nothing is allocated by a length that a message claims, and nothing is
//! kept between calls.
//!
//! Stricter than the RFC in what no player does: lines end in CRLF or LF, not in CR alone; a header
//! is one line; there are no control characters; a message on the wire that is no request
//! (interleaved data, a response) is refused.

use std::fmt::Write;

use super::status::{Refusal, Status};

const VERSION: &str = "RTSP/1.0";

/// A request whose bytes are all there.
#[derive(Debug)]
pub(crate) struct Request<'m> {
    pub(crate) method: &'m str,
    /// A URL or `*`: visible characters.
    pub(crate) target: &'m str,
    pub(crate) body: &'m [u8],
    headers: Vec<(&'m str, &'m str)>,
}

/// How many bytes at the start of `buffer` are a message; `None` as long as it is not whole. At
/// most `limit`.
pub(crate) fn split(buffer: &[u8], limit: usize) -> Result<Option<usize>, Refusal> {
    let too_large = || {
        Refusal::new(
            Status::TooLarge,
            format!("a request has at most {limit} bytes"),
        )
    };
    let Some(head_bytes) = head_length(buffer)? else {
        return if buffer.len() < limit {
            Ok(None)
        } else {
            Err(too_large())
        };
    };
    let body_bytes = body_length(&buffer[..head_bytes])?;
    let bytes = head_bytes
        .checked_add(body_bytes)
        .filter(|bytes| *bytes <= limit)
        .ok_or_else(too_large)?;
    Ok((bytes <= buffer.len()).then_some(bytes))
}

/// Up to and with the first empty line.
pub(super) fn head_length(buffer: &[u8]) -> Result<Option<usize>, Refusal> {
    let mut line_start = 0;
    for (index, &byte) in buffer.iter().enumerate() {
        match byte {
            b'\n' => {
                if matches!(&buffer[line_start..index], b"" | b"\r") {
                    return Ok(Some(index + 1));
                }
                line_start = index + 1;
            }
            b'\r' if buffer.get(index + 1).is_none_or(|next| *next == b'\n') => {}
            b'\t' => {}
            0..0x20 | 0x7f => return Err(malformed("it has control characters")),
            _ => {}
        }
    }
    Ok(None)
}

fn body_length(head: &[u8]) -> Result<usize, Refusal> {
    let mut lengths = lines(head).filter_map(|line| value_of(line, "Content-Length"));
    let Some(length) = lengths.next() else {
        return Ok(0);
    };
    if lengths.next().is_some() {
        return Err(malformed("it has two Content-Lengths"));
    }
    decimal(length)
        .map(|length| length as usize)
        .ok_or_else(|| malformed("its Content-Length is no number"))
}

/// The sequence number of a message that may be malformed otherwise, to answer with.
pub(crate) fn sequence_number(message: &[u8]) -> Option<u32> {
    let head = lines(message).take_while(|line| !line.is_empty());
    head.filter_map(|line| value_of(line, "CSeq"))
        .find_map(decimal)
}

/// Lines without what ends them. Their bytes are as received.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// The value of the header `name`, if `line` is it.
pub(super) fn value_of<'l>(line: &'l [u8], name: &str) -> Option<&'l str> {
    let (found, value) = str::from_utf8(line).ok()?.split_once(':')?;
    found.eq_ignore_ascii_case(name).then(|| value.trim())
}

pub(super) fn decimal(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

fn malformed(why: &'static str) -> Refusal {
    Refusal::new(Status::BadRequest, why)
}

impl<'m> Request<'m> {
    /// Reads a message as [`split`] found it, with at most `headers_max` headers.
    pub(crate) fn parse(message: &'m [u8], headers_max: usize) -> Result<Self, Refusal> {
        let head_bytes = head_length(message)?.unwrap_or(message.len());
        let (head, body) = message.split_at(head_bytes);
        let head = str::from_utf8(head).map_err(|_| malformed("it is not UTF-8"))?;
        let mut lines = head.lines();
        let (method, target) = request_line(lines.next().unwrap_or_default())?;
        let mut headers = Vec::new();
        for line in lines.take_while(|line| !line.is_empty()) {
            if headers.len() == headers_max {
                let why = format!("a request has at most {headers_max} headers");
                return Err(Refusal::new(Status::BadRequest, why));
            }
            let (name, value) = line
                .split_once(':')
                .filter(|(name, _)| is_token(name))
                .ok_or_else(|| malformed("a line is no header"))?;
            headers.push((name, value.trim()));
        }
        Ok(Self {
            method,
            target,
            body,
            headers,
        })
    }

    /// The value of the first header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&'m str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }

    /// The number that the reply repeats.
    pub(crate) fn sequence_number(&self) -> Option<u32> {
        self.header("CSeq").and_then(decimal)
    }
}

fn request_line(line: &str) -> Result<(&str, &str), Refusal> {
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed("it is no request"));
    };
    let visible = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token(method) || !visible || !version.starts_with("RTSP/") {
        return Err(malformed("it is no RTSP request"));
    }
    if version != VERSION {
        return Err(Refusal::new(
            Status::VersionNotSupported,
            "this is RTSP/1.0",
        ));
    }
    Ok((method, target))
}

/// RFC 2326, section 15.1.
fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// A reply.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    status: Status,
    why: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Response {
    pub(crate) fn ok() -> Self {
        Self {
            status: Status::Ok,
            why: String::new(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// `value` has no line break: it is our own, or comes from a request that was parsed.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn body(self, content_type: &str, body: String) -> Self {
        let mut response = self.header("Content-Type", content_type);
        response.body = body;
        response
    }

    /// The bytes for the wire.
    pub(crate) fn write(&self, sequence_number: Option<u32>) -> Vec<u8> {
        let mut text = format!("{VERSION} {} {}", self.status.code(), self.status.phrase());
        if !self.why.is_empty() {
            let _ = write!(text, ": {}", self.why); // a String takes everything, here and below
        }
        text.push_str("\r\n");
        if let Some(number) = sequence_number {
            let _ = write!(text, "CSeq: {number}\r\n");
        }
        text.push_str("Server: Hythe\r\n");
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        if !self.body.is_empty() {
            let _ = write!(text, "Content-Length: {}\r\n", self.body.len());
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text.into_bytes()
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Self {
            status: refusal.status,
            why: refusal.why.into_owned(),
            headers: refusal.header.into_iter().collect(),
            body: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 200;

    fn status(message: &[u8]) -> Option<Status> {
        match split(message, LIMIT) {
            Ok(Some(bytes)) => Request::parse(&message[..bytes], 3).err(),
            Ok(None) => None,
            Err(refusal) => Some(refusal),
        }
        .map(|refusal| refusal.status)
    }

    #[test]
    fn request_is_whole_with_its_last_byte() {
        let message =
            b"SET_PARAMETER rtsp://h/x RTSP/1.0\r\nCSeq: 7\r\ncontent-length:  3\r\n\r\na\n\0more";
        let whole = message.len() - 4;
        for bytes in 0..whole {
            assert_eq!(split(&message[..bytes], LIMIT), Ok(None), "{bytes}");
        }
        assert_eq!(split(message, LIMIT), Ok(Some(whole)));
        let request = Request::parse(&message[..whole], 3).unwrap();
        assert_eq!(
            (request.method, request.target),
            ("SET_PARAMETER", "rtsp://h/x")
        );
        assert_eq!(
            (request.header("CSEQ"), request.body),
            (Some("7"), &b"a\n\0"[..])
        );
    }

    #[test]
    fn lines_may_end_in_lf_alone() {
        let message = b"OPTIONS * RTSP/1.0\nCSeq: 1\n\n";
        assert_eq!(split(message, LIMIT), Ok(Some(message.len())));
        let request = Request::parse(message, 3).unwrap();
        assert_eq!(request.sequence_number(), Some(1));
    }

    #[test]
    fn lengths_are_not_believed() {
        for (length, expected) in [
            ("150", Status::TooLarge),
            ("4294967295", Status::TooLarge),
            ("4294967296", Status::BadRequest),
            ("18446744073709551615", Status::BadRequest),
            ("-1", Status::BadRequest),
            ("+1", Status::BadRequest),
            ("", Status::BadRequest),
            ("1\r\nContent-Length: 2", Status::BadRequest),
        ] {
            let message =
                format!("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: {length}\r\n\r\n");
            assert_eq!(status(message.as_bytes()), Some(expected), "{length}");
        }
        assert_eq!(status(&[b'a'; LIMIT]), Some(Status::TooLarge));
        assert_eq!(status(&[b'a'; LIMIT - 1]), None);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for message in [
            &b"\x16\x03\x01"[..],
            b"$\0\0\x04abcd",
            b"a\rb",
            b"OPTIONS * RTSP/1.0\r\n\x7f",
            b"\r\n\r\n",
            b"OPTIONS  * RTSP/1.0\r\n\r\n",
            b"OPTIONS *\r\n\r\n",
            b"OPTIONS * RTSP/1.0 \r\n\r\n",
            b" OPTIONS * RTSP/1.0\r\n\r\n",
            b"OPT(IONS * RTSP/1.0\r\n\r\n",
            b"OPTIONS r\xc3\xa9 RTSP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"RTSP/1.0 200 OK\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nno header\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nCSeq : 1\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nA: b\r\n folded\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\n: b\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nA: \xff\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n",
        ] {
            let text = String::from_utf8_lossy(message);
            assert_eq!(status(message), Some(Status::BadRequest), "{text}");
        }
        for version in ["RTSP/2.0", "RTSP/0.9", "RTSP/1.1", "RTSP/x"] {
            let message = format!("OPTIONS * {version}\r\nCSeq: 4\r\n\r\n");
            assert_eq!(
                status(message.as_bytes()),
                Some(Status::VersionNotSupported)
            );
            assert_eq!(sequence_number(message.as_bytes()), Some(4));
        }
    }

    #[test]
    fn replies_are_the_expected_bytes() {
        let response = Response::ok()
            .header("A", "b")
            .body("t/x", "body".to_owned());
        let expected = "RTSP/1.0 200 OK\r\nCSeq: 9\r\nServer: Hythe\r\nA: b\r\nContent-Type: t/x\r\n\
                        Content-Length: 4\r\n\r\nbody";
        assert_eq!(response.write(Some(9)), expected.as_bytes());
        let refusal = Refusal::new(Status::MethodNotAllowed, "why").with_header("Allow", "X");
        let expected = "RTSP/1.0 405 Method Not Allowed: why\r\nServer: Hythe\r\nAllow: X\r\n\r\n";
        assert_eq!(Response::from(refusal).write(None), expected.as_bytes());
    }
}
