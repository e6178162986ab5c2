//! Which presentation or stream a request is about: its URL (RFC 2326, section 3.2),
//! `rtsp://HOST[:PORT]/PATH[/stream=N]`.
//!
//! The host is not judged: whoever asks here means this host, by whatever name.

use std::net::SocketAddr;

use super::status::{Refusal, Status};

/// What stands in front of the index of a stream, in the last part of its URL.
const STREAM: &str = "stream=";
const SCHEME: &str = "rtsp://";

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url<'u> {
    /// The presentation's URL as the client wrote it, without a slash at its end.
    pub(crate) base: &'u str,
    /// The presentation's path, as [`Catalogue::describe`](super::Catalogue::describe) wants it.
    pub(crate) path: String,
    /// The stream, if the URL is that of one.
    pub(crate) stream: Option<usize>,
}

impl<'u> Url<'u> {
    pub(crate) fn parse(text: &'u str) -> Result<Self, Refusal> {
        let malformed = |why| Refusal::new(Status::BadRequest, why);
        let scheme = text.get(..SCHEME.len());
        if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME)) {
            return Err(malformed("a URL begins with rtsp://"));
        }
        let end = text.find(['?', '#']).unwrap_or(text.len());
        let whole = text[..end].trim_end_matches('/');
        let behind = whole.get(SCHEME.len()..).unwrap_or_default();
        let host = behind.split('/').next().unwrap_or_default();
        if host.is_empty() {
            return Err(malformed("the URL names no host"));
        }
        let (base, stream) = match behind[host.len()..].rsplit_once('/') {
            Some((_, last)) => match last.strip_prefix(STREAM).and_then(index) {
                Some(stream) => (&whole[..whole.len() - last.len()], Some(stream)),
                None => (whole, None),
            },
            None => (whole, None),
        };
        let base = base.trim_end_matches('/');
        let path = decode(base[SCHEME.len() + host.len()..].trim_start_matches('/'))?;
        Ok(Self { base, path, stream })
    }
}

/// The URL of the presentation at `path` on the server at `address`: whatever a path may not
/// contain as it is, is percent-encoded.
///
/// ```
/// let url = hythe_rtp::rtsp::presentation_url("[::1]:8554".parse()?, "a b/50%?.ts");
/// assert_eq!(url, "rtsp://[::1]:8554/a%20b/50%25%3F.ts");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[must_use]
pub fn presentation_url(address: SocketAddr, path: &str) -> String {
    // Without the scope of a link-local address, which URLs do not have.
    let base = format!("{SCHEME}{}/", SocketAddr::new(address.ip(), address.port()));
    let Ok(mut url) = ::url::Url::parse(&base) else {
        return format!("{base}{path}"); // an address and a port are always such
    };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path.split('/'));
    }
    url.into()
}

fn index(text: &str) -> Option<usize> {
    let plain = text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Percent-decodes a path and refuses what could mislead an owner that looks for files by it.
fn decode(path: &str) -> Result<String, Refusal> {
    let nowhere = || Refusal::new(Status::NotFound, "no such path");
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit(), digit());
                let value = high.zip(low).map(|(high, low)| (high * 16 + low) as u8);
                value.ok_or_else(nowhere)?
            }
            byte => byte,
        });
    }
    let path = String::from_utf8(bytes).map_err(|_| nowhere())?;
    let climbs = path.split('/').any(|part| part == ".." || part == ".");
    if climbs || path.chars().any(char::is_control) {
        return Err(nowhere());
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_url_leads_back_to_its_path() {
        for path in [
            "film.ts",
            "a b.ts",
            "50% ?#&.ts",
            "%41.ts",
            "Straße\"'<>`{}|\\^[].ts",
            "cameras/front door",
            "",
        ] {
            let url = presentation_url("192.0.2.1:554".parse().unwrap(), path);
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>?#".contains(&byte);
            assert!(url.bytes().all(is_plain), "{url}");
            assert_eq!(Url::parse(&url).unwrap().path, path, "{url}");
        }
    }

    #[test]
    fn urls_come_apart() {
        for (text, base, path, stream) in [
            ("rtsp://h/x", "rtsp://h/x", "x", None),
            ("rtsp://h/x/", "rtsp://h/x", "x", None),
            (
                "RTSP://h:554/a%20b/c.wav/stream=1",
                "RTSP://h:554/a%20b/c.wav",
                "a b/c.wav",
                Some(1),
            ),
            (
                "rtsp://[::1]:8554/x/stream=0/",
                "rtsp://[::1]:8554/x",
                "x",
                Some(0),
            ),
            ("rtsp://h", "rtsp://h", "", None),
            ("rtsp://h/", "rtsp://h", "", None),
            ("rtsp://h/stream=2", "rtsp://h", "", Some(2)),
            ("rtsp://h/x?user=1/stream=7", "rtsp://h/x", "x", None),
            (
                "rtsp://h/x/stream=9999",
                "rtsp://h/x/stream=9999",
                "x/stream=9999",
                None,
            ),
            (
                "rtsp://h/x/stream=",
                "rtsp://h/x/stream=",
                "x/stream=",
                None,
            ),
            ("rtsp://stream=1", "rtsp://stream=1", "", None),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.base, &url.path[..], url.stream),
                (base, path, stream),
                "{text}"
            );
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for text in [
            "",
            "*",
            "/x",
            "x",
            "http://h/x",
            "rtsp:/h",
            "rtsp://",
            "rtsp:///x",
            "rtsp://?x",
            "rtspé//",
        ] {
            assert_eq!(
                Url::parse(text).unwrap_err().status,
                Status::BadRequest,
                "{text}"
            );
        }
        for text in [
            "rtsp://h/../x",
            "rtsp://h/x/%2e%2E/y",
            "rtsp://h/a/./b",
            "rtsp://h/x%00",
            "rtsp://h/%0d%0aX: y",
            "rtsp://h/%",
            "rtsp://h/%4",
            "rtsp://h/%zz",
            "rtsp://h/%ff",
        ] {
            assert_eq!(
                Url::parse(text).unwrap_err().status,
                Status::NotFound,
                "{text}"
            );
        }
    }
}
