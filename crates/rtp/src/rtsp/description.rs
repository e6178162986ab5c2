//! The session description (RFC 8866) that answers DESCRIBE, by RFC 2326, appendix C.
//!
//! Ports and addresses in it are placeholders: SETUP agrees on the real ones. A stream that is
//! offered to a group names the group.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sdp_types::{Connection, Media, Origin, Session, Time};

use super::catalogue::{Presentation, Stream};
use super::range;
use crate::sdp::StreamDescription;

/// The URL of a stream, relative to that of its presentation.
#[must_use]
pub fn control(stream: usize) -> String {
    format!("stream={stream}")
}

/// Describes `presentation`. `origin` is this host as the client reached it; `session` is a number
/// that stays the same, and the version, which is higher for each other description; `control`
/// gives the URL of each stream, absolute or relative to the presentation's.
#[must_use]
pub fn description(
    presentation: &Presentation,
    origin: IpAddr,
    (session, version): (u64, u64),
    control: impl Fn(usize) -> String,
) -> String {
    let medias = presentation.streams.iter().enumerate();
    let description = Session::builder(Origin::with_ip_addr(session, version, origin), "Hythe")
        .connection(Connection::from_ip_addr(unspecified(origin)))
        .time(Time::new(0, 0))
        .attribute_with_value("control", "*")
        .attribute_with_value("range", whole(presentation))
        .medias(medias.map(|(index, stream)| media(stream, origin, control(index))))
        .build();
    let mut text = Vec::new();
    // A Vec takes everything, and the parts above are all text.
    let _ = description.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn unspecified(origin: IpAddr) -> IpAddr {
    match origin {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn whole(presentation: &Presentation) -> String {
    range::write(presentation.can_seek.then_some(0), presentation.duration_ns)
}

fn media(stream: &Stream, origin: IpAddr, control: String) -> Media {
    let placeholder = SocketAddr::new(unspecified(origin), 0);
    let group = stream.group;
    let destination = group.map_or(placeholder, |group| group.address);
    let description = StreamDescription {
        takes_nack: stream.takes_nack,
        retransmission: stream.retransmission,
        attributes: vec![("control".to_owned(), Some(control))],
        ..StreamDescription::new(stream.format.clone(), destination)
    };
    let mut media = description.media();
    let group =
        group.map(|group| Connection::from_ip_addr_ttl(group.address.ip(), Some(group.ttl)));
    media.connections.extend(group);
    media
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Encoding, StreamFormat};
    use crate::rtsp::Group;
    use crate::sdp::Retransmission;

    fn stream(encoding: Encoding, payload_type: u8, clock_hz: u32, channels: u8) -> Stream {
        Stream {
            format: StreamFormat {
                encoding,
                payload_type,
                clock_hz,
                channels,
                parameters: String::new(),
            },
            server_port: 6000,
            ssrc: None,
            takes_nack: false,
            retransmission: None,
            group: None,
        }
    }

    #[test]
    fn description_has_length_and_stream_urls_of_stored_media() {
        let mut video = stream(Encoding::H264, 96, 90_000, 1);
        video.format.parameters = "packetization-mode=1;profile-level-id=42E01E".to_owned();
        let presentation = Presentation {
            streams: vec![video, stream(Encoding::Opus, 97, 48_000, 2)],
            duration_ns: Some(12_500_000_000),
            can_seek: true,
            can_pause: true,
        };
        let text = description(
            &presentation,
            "192.0.2.7".parse().unwrap(),
            (42, 3),
            control,
        );
        let expected = "v=0\r\no=- 42 3 IN IP4 192.0.2.7\r\ns=Hythe\r\nc=IN IP4 0.0.0.0\r\n\
             t=0 0\r\na=control:*\r\na=range:npt=0.000-12.500\r\n\
             m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
             a=fmtp:96 packetization-mode=1;profile-level-id=42E01E\r\na=control:stream=0\r\n\
             m=audio 0 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\na=control:stream=1\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn live_media_is_described_with_its_group() {
        let mut voice = stream(Encoding::Pcmu, 0, 8000, 1);
        voice.group = Some(Group {
            address: "239.1.2.3:5004".parse().unwrap(),
            ttl: 4,
        });
        let presentation = Presentation {
            streams: vec![voice],
            duration_ns: None,
            can_seek: false,
            can_pause: false,
        };
        let origin = "2001:db8::1".parse().unwrap();
        let text = description(&presentation, origin, (1, 0), |_| "rtsp://h/x".to_owned());
        let expected = "v=0\r\no=- 1 0 IN IP6 2001:db8::1\r\ns=Hythe\r\nc=IN IP6 ::\r\nt=0 0\r\n\
             a=control:*\r\na=range:npt=now-\r\nm=audio 5004 RTP/AVP 0\r\nc=IN IP4 239.1.2.3/4\r\n\
             a=rtpmap:0 PCMU/8000\r\na=control:rtsp://h/x\r\n";
        assert_eq!(text, expected);
        assert!(sdp_types::Session::parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn repair_is_offered_with_the_profile_that_has_it() {
        let mut video = stream(Encoding::H264, 96, 90_000, 1);
        video.takes_nack = true;
        video.retransmission = Some(Retransmission {
            payload_type: 98,
            time_ms: Some(200),
        });
        let presentation = Presentation {
            streams: vec![video],
            duration_ns: None,
            can_seek: false,
            can_pause: true,
        };
        let text = description(&presentation, "192.0.2.7".parse().unwrap(), (1, 0), control);
        let expected = "m=video 0 RTP/AVPF 96 98\r\na=rtpmap:96 H264/90000\r\na=rtcp-fb:96 nack\r\n\
             a=rtpmap:98 rtx/90000\r\na=fmtp:98 apt=96;rtx-time=200\r\na=control:stream=0\r\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
