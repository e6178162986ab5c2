//! Whether a description is of an encrypted stream, which is not decrypted here: what comes would
//! be written as if it were media.

use sdp_types::{Attribute, Media, Session};

use crate::shown::{VALUE, shown};

/// Attributes by which keys are agreed on: RFC 4568 (SRTP), RFC 8122 (DTLS), RFC 4567 (MIKEY).
const ATTRIBUTES: [&str; 3] = ["crypto", "fingerprint", "key-mgmt"];

/// Why the stream is taken to be encrypted; `None`: nothing says so.
pub(super) fn reason(media: &Media, session: &Session) -> Option<String> {
    let by = if media.proto.contains("SAVP") {
        shown(&media.proto, VALUE)
    } else if let Some(name) = by_attribute(&media.attributes, &session.attributes) {
        format!("a={name}")
    } else if media.key.is_some() || session.key.is_some() {
        "k=".to_owned()
    } else {
        return None;
    };
    Some(format!(
        "it is encrypted ({by}), which is not decrypted here: have it sent as RTP/AVP without keys"
    ))
}

fn by_attribute(of_media: &[Attribute], of_session: &[Attribute]) -> Option<&'static str> {
    let mut all = of_media.iter().chain(of_session);
    all.find_map(|attribute| {
        let mut known = ATTRIBUTES.into_iter();
        known.find(|name| name.eq_ignore_ascii_case(&attribute.attribute))
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn encrypted_streams_are_refused_with_the_reason() {
        const KEY: &str =
            "crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";
        const PRINT: &str = "fingerprint:sha-256 12:DF:3E:5D:49:6B:19:E5:7C:AB:4A:AD:B9:B1:3F:82";
        let plain = |session: &str, proto: &str, media: &str| {
            format!(
                "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n{session}\
                 m=video 5004 {proto} 96\r\n{media}a=rtpmap:96 H264/90000\r\n"
            )
        };
        assert!(parse(plain("", "RTP/AVP", "").as_bytes()).is_ok());
        let line = |attribute: &str| format!("a={attribute}\r\n");
        for (text, by) in [
            (plain("", "RTP/AVP", &line(KEY)), "(a=crypto)"),
            (plain(&line(KEY), "RTP/AVPF", ""), "(a=crypto)"),
            (plain("", "RTP/SAVP", &line(KEY)), "(RTP/SAVP)"),
            (plain("", "RTP/SAVPF", ""), "(RTP/SAVPF)"),
            (
                plain("", "UDP/TLS/RTP/SAVPF", &line(PRINT)),
                "(UDP/TLS/RTP/SAVPF)",
            ),
            (plain("", "RTP/AVP", &line(PRINT)), "(a=fingerprint)"),
            (
                plain(&line("key-mgmt:mikey AQAFgM"), "RTP/AVP", ""),
                "(a=key-mgmt)",
            ),
            (plain("k=clear:secret\r\n", "RTP/AVP", ""), "(k=)"),
        ] {
            let reason = parse(text.as_bytes()).unwrap_err();
            assert!(
                reason.contains("encrypted") && reason.contains(by),
                "{reason}: {text}"
            );
            // Keys are secrets.
            assert!(
                !reason.contains("inline") && !reason.contains("secret"),
                "{reason}"
            );
        }
    }
}
