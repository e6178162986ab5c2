//! The Transport header (RFC 2326, section 12.39): which of the ways that a client offers is taken,
//! and the answer.
//!
//! Only RTP over UDP, to the client's own address or to a group that the owner of the media offers:
//! a server that sends wherever it is told would flood others for anybody who asks.

use std::net::{IpAddr, SocketAddr};

use super::catalogue::{Group, Stream};
use super::status::{Refusal, Status};

/// The least port that media is sent to: below it are system services.
const PORT_MIN: u16 = 1024;

/// How a stream is sent to one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    /// The client may write `RTP/AVP/UDP`, which means the same as `RTP/AVP`; it is answered in its
    /// own words.
    profile: &'static str,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To this even port of the client.
    Client(u16),
    /// To the group that the owner offers.
    Group(Group),
}

impl Transport {
    /// Takes the first acceptable way of `header` for `stream`. `foreign` is set if one wanted
    /// media sent to somebody else.
    pub(crate) fn choose(
        header: &str,
        peer: IpAddr,
        stream: &Stream,
        foreign: &mut bool,
    ) -> Result<Self, Refusal> {
        let mut first = None;
        for offer in split(header, ',') {
            match Offer::parse(offer).and_then(|offer| offer.accept(peer, stream)) {
                Ok(transport) => return Ok(transport),
                Err(refusal) => {
                    *foreign |= refusal.why == FOREIGN;
                    first.get_or_insert(refusal);
                }
            }
        }
        Err(first.unwrap_or_else(|| unsupported("no transport is named")))
    }

    /// Where RTP goes.
    pub(crate) fn destination(self, peer: SocketAddr) -> SocketAddr {
        match self.way {
            Way::Group(group) => group.address,
            Way::Client(port) => {
                let mut destination = peer; // keeps the scope of a link-local address
                destination.set_port(port);
                destination
            }
        }
    }

    /// How many routers packets to a group may pass, plus one.
    pub(crate) fn ttl(self) -> Option<u8> {
        match self.way {
            Way::Group(group) => Some(group.ttl),
            Way::Client(_) => None,
        }
    }

    /// The value of the answer's header.
    pub(crate) fn answer(self, stream: &Stream, ssrc: u32) -> String {
        let profile = self.profile;
        match self.way {
            Way::Group(Group { address, ttl }) => {
                let (ip, ports) = (address.ip(), pair(address.port()));
                format!("{profile};multicast;destination={ip};port={ports};ttl={ttl}")
            }
            Way::Client(port) => {
                let (client, server) = (pair(port), pair(stream.server_port));
                format!(
                    "{profile};unicast;client_port={client};server_port={server};ssrc={ssrc:08X}"
                )
            }
        }
    }
}

/// A pair as the header says it.
fn pair(rtp: u16) -> String {
    format!("{rtp}-{}", u32::from(rtp) + 1)
}

/// One of the ways that a client offers.
#[derive(Debug, Default)]
struct Offer<'h> {
    profile: &'h str,
    unicast: bool,
    multicast: bool,
    client_port: Option<&'h str>,
    destination: Option<&'h str>,
    mode: Option<&'h str>,
}

/// What RTP over UDP is called; the last two have feedback (RFC 4585), which a stream that takes
/// none may ignore.
pub(super) const PROFILES: [&str; 4] = ["RTP/AVP", "RTP/AVP/UDP", "RTP/AVPF", "RTP/AVPF/UDP"];

const FOREIGN: &str = "media is sent to the address that asks for it, and to no other";

fn unsupported(why: &'static str) -> Refusal {
    Refusal::new(Status::UnsupportedTransport, why)
}

impl<'h> Offer<'h> {
    fn parse(text: &'h str) -> Result<Self, Refusal> {
        let mut parts = split(text, ';').map(str::trim);
        let mut offer = Self {
            profile: parts.next().unwrap_or_default(),
            ..Self::default()
        };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = Some(value.trim());
            match &name.trim().to_ascii_lowercase()[..] {
                "unicast" => offer.unicast = true,
                "multicast" => offer.multicast = true,
                "client_port" => offer.client_port = value,
                "destination" => offer.destination = value,
                "mode" => offer.mode = value,
                _ => {} // what we do not know changes nothing of what we do
            }
        }
        if offer.profile.is_empty() {
            return Err(Refusal::new(
                Status::BadRequest,
                "Transport: a way has no profile",
            ));
        }
        Ok(offer)
    }

    fn accept(&self, peer: IpAddr, stream: &Stream) -> Result<Transport, Refusal> {
        let mut profiles = PROFILES.iter();
        let profile = profiles
            .find(|known| known.eq_ignore_ascii_case(self.profile))
            .ok_or_else(|| unsupported("only RTP over UDP is served: RTP/AVP or RTP/AVPF"))?;
        let plays = |mode: &str| mode.trim_matches('"').eq_ignore_ascii_case("play");
        if !self.mode.is_none_or(plays) {
            return Err(unsupported("nothing is recorded here: mode=PLAY"));
        }
        // Without a word, multicast is meant; but clients that give a port mean it.
        let multicast = self.multicast || !self.unicast && self.client_port.is_none();
        let way = if multicast {
            let group = stream
                .group
                .ok_or_else(|| unsupported("there is no multicast of this stream"))?;
            self.judge_destination(group.address.ip())?;
            Way::Group(group)
        } else {
            self.judge_destination(peer)?;
            Way::Client(client_port(self.client_port)?)
        };
        Ok(Transport { profile, way })
    }

    fn judge_destination(&self, allowed: IpAddr) -> Result<(), Refusal> {
        let named = self.destination.map(|text| text.trim_matches('"').parse());
        match named {
            None => Ok(()),
            Some(Ok(address)) if IpAddr::to_canonical(&address) == allowed.to_canonical() => Ok(()),
            Some(_) => Err(unsupported(FOREIGN)),
        }
    }
}

/// The first of a pair of ports: even, not below 1024, the second the next.
fn client_port(value: Option<&str>) -> Result<u16, Refusal> {
    let value = value.ok_or_else(|| unsupported("unicast needs client_port"))?;
    let (rtp, rtcp) = match value.split_once('-') {
        Some((rtp, rtcp)) => (port(rtp), port(rtcp)),
        None => (
            port(value),
            port(value).and_then(|port| port.checked_add(1)),
        ),
    };
    match (rtp, rtcp) {
        (Some(rtp), Some(rtcp)) if rtp >= PORT_MIN && rtp % 2 == 0 && rtcp == rtp + 1 => Ok(rtp),
        _ => Err(unsupported(
            "client_port is an even port from 1024 on and the next one",
        )),
    }
}

pub(super) fn port(text: &str) -> Option<u16> {
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// The parts of `text` between separators that do not stand in quotation marks.
pub(super) fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character| {
        quoted ^= character == '"';
        character == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Encoding, StreamFormat};

    fn stream(group: Option<&str>) -> Stream {
        Stream {
            format: StreamFormat {
                encoding: Encoding::Pcmu,
                payload_type: 0,
                clock_hz: 8000,
                channels: 1,
                parameters: String::new(),
            },
            server_port: 6970,
            ssrc: None,
            takes_nack: false,
            retransmission: None,
            group: group.map(|address| Group {
                address: address.parse().unwrap(),
                ttl: 3,
            }),
        }
    }

    fn answer(header: &str, group: Option<&str>) -> Result<String, (Status, bool)> {
        let (stream, mut foreign) = (stream(group), false);
        let peer = "192.0.2.1".parse().unwrap();
        match Transport::choose(header, peer, &stream, &mut foreign) {
            Ok(transport) => Ok(transport.answer(&stream, 0xAB)),
            Err(refusal) => Err((refusal.status, foreign)),
        }
    }

    #[test]
    fn first_acceptable_way_is_taken() {
        let unicast = |client| {
            format!("RTP/AVP;unicast;client_port={client};server_port=6970-6971;ssrc=000000AB")
        };
        for (header, client) in [
            ("RTP/AVP;unicast;client_port=5000-5001", "5000-5001"),
            ("rtp/avp; unicast ; client_port = 5000 - 5001", "5000-5001"),
            ("RTP/AVP;client_port=1024", "1024-1025"),
            (
                "RTP/AVP;unicast;client_port=65534-65535;mode=\"PLAY\"",
                "65534-65535",
            ),
            (
                "RTP/AVP;unicast;destination=192.0.2.1;client_port=4-5;client_port=5000-5001",
                "5000-5001",
            ),
            (
                "RTP/AVP;unicast;destination=::ffff:192.0.2.1;client_port=5000-5001",
                "5000-5001",
            ),
            (
                "RTP/AVP/TCP;interleaved=0-1,RTP/AVP;unicast;client_port=5000-5001;mode=play",
                "5000-5001",
            ),
            (
                "RTP/AVP;multicast,RTP/SAVP;unicast;client_port=2-3,RTP/AVP;unicast;client_port=5000-5001",
                "5000-5001",
            ),
            (
                "x;y=\"a,b;\",RTP/AVP;unicast;client_port=5000-5001",
                "5000-5001",
            ),
        ] {
            assert_eq!(answer(header, None), Ok(unicast(client)), "{header}");
        }
    }

    #[test]
    fn profile_with_feedback_is_answered_as_offered() {
        let mut repaired = stream(None);
        repaired.takes_nack = true;
        let peer = "192.0.2.1".parse().unwrap();
        for profile in ["RTP/AVPF", "RTP/AVPF/UDP", "RTP/AVP", "RTP/AVP/UDP"] {
            let header = format!("{profile};unicast;client_port=5000-5001");
            for stream in [&repaired, &stream(None)] {
                let chosen = Transport::choose(&header, peer, stream, &mut false).unwrap();
                let answered = chosen.answer(stream, 0xAB);
                assert!(
                    answered.starts_with(&format!("{profile};unicast;")),
                    "{answered}"
                );
            }
        }
    }

    #[test]
    fn group_is_answered_with_what_the_owner_offers() {
        let expected = "RTP/AVP;multicast;destination=239.9.9.9;port=5004-5005;ttl=3".to_owned();
        for header in [
            "RTP/AVP;multicast",
            "RTP/AVP",
            "RTP/AVP;multicast;destination=239.9.9.9;port=1-2;ttl=255",
        ] {
            assert_eq!(
                answer(header, Some("239.9.9.9:5004")),
                Ok(expected.clone()),
                "{header}"
            );
            assert_eq!(
                answer(header, None),
                Err((Status::UnsupportedTransport, false))
            );
        }
    }

    #[test]
    fn other_ways_are_refused() {
        for header in [
            "RTP/AVP/TCP;unicast;interleaved=0-1",
            "RTP/SAVP;unicast;client_port=5000-5001",
            "RAW/RAW/UDP",
            "RTP/AVP;unicast",
            "RTP/AVP;unicast;client_port=",
            "RTP/AVP;unicast;client_port=5001-5002",
            "RTP/AVP;unicast;client_port=5000-5000",
            "RTP/AVP;unicast;client_port=5000-5003",
            "RTP/AVP;unicast;client_port=1022-1023",
            "RTP/AVP;unicast;client_port=0-1",
            "RTP/AVP;unicast;client_port=65536-65537",
            "RTP/AVP;unicast;client_port=65535",
            "RTP/AVP;unicast;client_port=+5000-5001",
            "RTP/AVP;unicast;client_port=5000-5001;mode=RECORD",
            "RTP/AVP;unicast;client_port=5000-5001;mode=\"",
            "\"",
            "\",\";\"",
        ] {
            assert_eq!(
                answer(header, None),
                Err((Status::UnsupportedTransport, false)),
                "{header}"
            );
        }
        for header in ["", ",", ";;;", " ; "] {
            assert_eq!(
                answer(header, None),
                Err((Status::BadRequest, false)),
                "{header}"
            );
        }
    }

    #[test]
    fn media_goes_to_nobody_else() {
        for (header, group) in [
            (
                "RTP/AVP;unicast;destination=192.0.2.2;client_port=5000-5001",
                None,
            ),
            (
                "RTP/AVP;unicast;destination=example.com;client_port=5000-5001",
                None,
            ),
            ("RTP/AVP;unicast;destination=;client_port=5000-5001", None),
            (
                "RTP/AVP;unicast;destination=192.0.2.255;client_port=5000-5001",
                None,
            ),
            (
                "RTP/AVP;unicast;destination=239.9.9.9;client_port=5000-5001",
                Some("239.9.9.9:5004"),
            ),
            (
                "RTP/AVP;multicast;destination=239.9.9.8",
                Some("239.9.9.9:5004"),
            ),
            (
                "RTP/AVP;multicast;destination=192.0.2.1",
                Some("239.9.9.9:5004"),
            ),
        ] {
            assert_eq!(
                answer(header, group),
                Err((Status::UnsupportedTransport, true)),
                "{header}"
            );
        }
    }
}
