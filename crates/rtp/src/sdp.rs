//! The session description (RFC 8866) that a player opens to hear or see the streams.
//!
//! `ffmpeg -protocol_whitelist file,udp,rtp -i stream.sdp …` takes it as it is, as do ffplay, VLC
//! and GStreamer. Whoever starts a stream writes it; receivers read back from it where to listen.
//! What is not understood in one that others wrote is kept, or passed over with its stream.

mod encrypted;
mod listing;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use sdp_types::{
    Attribute, Connection, Media, MediaType, Origin, RtcpFb, RtcpFbPt, RtcpFbVal, RtpMap, Session,
    Time, TransportProto,
};

use crate::L16;
use crate::format::{Encoding, StreamFormat};
use crate::loss::fec::{Protection, Shape};
use crate::shown::{VALUE, shown};

pub use listing::{Listed, list};

/// Payload types whose descriptions VLC 3 gives to its reader of announcements (SAP), which takes
/// them, plays nothing, and ends: as `vlc` does then, unless it is told to have live555 read them.
/// Nothing that a description may say keeps that reader away, so the description says what to do.
const TYPES_OF_VLC: [u8; 9] = [0, 3, 8, 10, 11, 12, 14, 32, 33];
/// What it says of them (`i=`), for people.
const HINT_FOR_VLC: &str = "VLC 3 plays this with --no-sap-parse";

/// Of groups where nothing else is said: not beyond this link.
const TTL_DEFAULT: u8 = 1;
/// The encoding name of retransmissions (RFC 4588, section 8.1).
const RETRANSMISSION: &str = "rtx";

/// The encoding name of parity (RFC 5109, section 14).
const ULPFEC: &str = "ulpfec";
/// Encodings that come beside that of the stream: of packets sent again, parity (RFC 5109, RFC
/// 8627) and copies (RFC 2198), and of key tones (RFC 4733) and silence (RFC 3389).
const BESIDE: [&str; 7] = [
    RETRANSMISSION,
    ULPFEC,
    "flexfec",
    "flexfec-03",
    "red",
    "telephone-event",
    "CN",
];
const SMPTE2022: &str = "smpte2022-1";

/// One stream: what it carries, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDescription {
    /// What it carries.
    pub format: StreamFormat,
    /// Where its packets are sent: a receiver's address, or a group's.
    pub destination: SocketAddr,
    /// How many hops packets to an IPv4 group live; not said elsewhere.
    pub ttl: u8,
    /// The port of RTCP where it is not the next one (RFC 3605).
    pub rtcp_port: Option<u16>,
    /// Milliseconds of media in a packet.
    pub ptime_ms: Option<u32>,
    /// Receivers may ask for packets again (RFC 4585, generic NACK).
    pub takes_nack: bool,
    /// Its profile is RTP/AVPF, though receivers may not ask for packets again.
    pub has_avpf: bool,
    /// How packets are sent again.
    pub retransmission: Option<Retransmission>,
    /// Parity that is sent along.
    pub parity: Option<Parity>,
    /// Further attributes, names and values, as they stand there.
    pub attributes: Vec<(String, Option<String>)>,
}

/// Packets sent again as a stream of their own in the same session (RFC 4588, SSRC multiplexing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// Their payload type.
    pub payload_type: u8,
    /// How long the sender keeps packets for it, in milliseconds.
    pub time_ms: Option<u32>,
}

/// Parity packets beside a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// SMPTE ST 2022-1: columns on the port two above, rows four above. No attribute for it is
    /// registered; ours is `a=smpte2022-1:L=…;D=…;protects=…`, which others pass over.
    Smpte2022(Shape, Protection),
    /// RFC 5109, as a stream of its own in the same session.
    Ulpfec {
        /// Its payload type.
        payload_type: u8,
    },
}

impl StreamDescription {
    /// A stream of `format` to `destination`, and nothing else said.
    #[must_use]
    pub fn new(format: StreamFormat, destination: SocketAddr) -> Self {
        Self {
            format,
            destination,
            ttl: TTL_DEFAULT,
            rtcp_port: None,
            ptime_ms: None,
            takes_nack: false,
            has_avpf: false,
            retransmission: None,
            parity: None,
            attributes: Vec::new(),
        }
    }

    fn connection(&self) -> Connection {
        let ip = self.destination.ip();
        Connection::from_ip_addr_ttl(ip, ip.is_multicast().then_some(self.ttl))
    }

    /// What stands there, without `c=`.
    pub(crate) fn media(&self) -> Media {
        let payload_type = self.format.payload_type;
        // Feedback needs the profile that has it (RFC 4585, section 4).
        let profile = if self.takes_nack || self.has_avpf {
            TransportProto::RtpAvpf
        } else {
            TransportProto::RtpAvp
        };
        let mut formats = payload_type.to_string();
        if let Some(retransmission) = self.retransmission {
            formats += &format!(" {}", retransmission.payload_type);
        }
        if let Some(Parity::Ulpfec { payload_type }) = self.parity {
            formats += &format!(" {payload_type}");
        }
        let kind = match self.format.encoding.media() {
            "video" => MediaType::Video,
            _ => MediaType::Audio,
        };
        let mut media = Media::new(kind, self.destination.port(), profile, formats);
        media.add_attribute(self.map());
        let mut say = |name: &str, value: String| media.add_attribute_with_value(name, value);
        if !self.format.parameters.is_empty() {
            say("fmtp", format!("{payload_type} {}", self.format.parameters));
        }
        if let Some(port) = self.rtcp_port {
            say("rtcp", port.to_string());
        }
        if let Some(milliseconds) = self.ptime_ms {
            say("ptime", milliseconds.to_string());
        }
        if self.takes_nack {
            say("rtcp-fb", format!("{payload_type} nack"));
        }
        if let Some(Retransmission {
            payload_type: number,
            time_ms,
        }) = self.retransmission
        {
            let time = time_ms.map_or(String::new(), |time| format!(";rtx-time={time}"));
            say(
                "rtpmap",
                format!("{number} {RETRANSMISSION}/{}", self.format.clock_hz),
            );
            say("fmtp", format!("{number} apt={payload_type}{time}"));
        }
        match self.parity {
            None => {}
            Some(Parity::Ulpfec { payload_type }) => {
                let clock_hz = self.format.clock_hz;
                say("rtpmap", format!("{payload_type} {ULPFEC}/{clock_hz}"));
            }
            Some(Parity::Smpte2022(shape, protection)) => {
                let (columns, rows) = (shape.columns(), shape.rows());
                let protects = protects(protection);
                say(
                    SMPTE2022,
                    format!("L={columns};D={rows};protects={protects}"),
                );
            }
        }
        for (name, value) in &self.attributes {
            media.add_attribute(match value {
                Some(value) => Attribute::with_value(name, value),
                None => Attribute::new(name),
            });
        }
        media
    }

    fn map(&self) -> RtpMap {
        let StreamFormat {
            encoding,
            payload_type,
            clock_hz,
            channels,
            ..
        } = &self.format;
        let channels = match encoding {
            Encoding::L16 | Encoding::Pcmu | Encoding::Pcma => Some(*channels),
            // RFC 7587, section 7: always 2, whatever is encoded.
            Encoding::Opus => Some(2),
            _ => None,
        };
        // One channel is what is meant where none is said.
        match channels.filter(|channels| *channels > 1) {
            Some(channels) => {
                RtpMap::with_encoding_params(*payload_type, encoding.name(), *clock_hz, channels)
            }
            None => RtpMap::new(*payload_type, encoding.name(), *clock_hz),
        }
    }
}

/// Describes `streams`. `session` distinguishes this description from others of this host: the time
/// of its start, say, or a random number.
#[must_use]
pub fn describe(streams: &[StreamDescription], session: u64) -> String {
    let first = streams.first();
    let host = first.map_or(IpAddr::from([0; 4]), |stream| stream.destination.ip());
    let mut description = Session::new(Origin::with_ip_addr(session, 0, host), "Hythe");
    if first.is_some_and(|first| TYPES_OF_VLC.contains(&first.format.payload_type)) {
        description.session_description = Some(HINT_FOR_VLC.to_owned());
    }
    description.connection = first.map(StreamDescription::connection);
    description.add_time(Time::new(0, 0));
    for stream in streams {
        let mut media = stream.media();
        let connection = Some(stream.connection());
        if connection != description.connection {
            media.connections.extend(connection);
        }
        description.medias.push(media);
    }
    let mut text = Vec::new();
    // A Vec takes everything, and the parts above are all text.
    let _ = description.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The streams that `text` describes. Those that are not understood are left out.
///
/// # Errors
///
/// What is wrong, if it is no description, or has no stream that is understood.
pub fn parse(text: &[u8]) -> Result<Vec<StreamDescription>, String> {
    let mut streams = Vec::new();
    let mut refused = None;
    for listed in list(text)? {
        match listed.stream {
            Ok(stream) => streams.push(stream),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    match refused {
        Some(reason) if streams.is_empty() => Err(reason),
        _ => Ok(streams),
    }
}

fn parse_media(media: &Media, session: &Session) -> Result<StreamDescription, String> {
    if let Some(reason) = encrypted::reason(media, session) {
        return Err(reason);
    }
    if !["RTP/AVP", "RTP/AVPF"].contains(&&media.proto[..]) {
        let transport = shown(&media.proto, VALUE);
        return Err(format!("its transport is {transport}, not RTP"));
    }
    let connection = media.connections.first().or(session.connection.as_ref());
    let address = connection
        .ok_or("it has no address (c=)")?
        .try_address()
        .map_err(|error| shown(&error.to_string(), VALUE))?;
    let destination = SocketAddr::new(address.ip, media.port);
    let types = payload_types(&media.fmt);
    let maps = Maps::of(media);
    let mut own_types = types.iter().filter(|number| !maps.is_beside(**number));
    let payload_type = own_types.next().or(types.first());
    let payload_type = *payload_type.ok_or("its m= line names no payload type")?;
    let format = parse_format(media, &maps, payload_type)?;
    let mut stream = StreamDescription::new(format, destination);
    stream.ttl = address.ttl.unwrap_or(TTL_DEFAULT);
    stream.retransmission =
        (types.iter()).find_map(|number| parse_retransmission(media, &maps, *number, payload_type));
    stream.parity = types.iter().find_map(|number| parse_ulpfec(&maps, *number));
    let of_retransmission = stream.retransmission.map(|found| found.payload_type);
    let of_parity = match stream.parity {
        Some(Parity::Ulpfec { payload_type }) => Some(payload_type),
        _ => None,
    };
    let own = [Some(payload_type), of_retransmission, of_parity].map(|own| own.map(u16::from));
    for attribute in &media.attributes {
        let value = attribute.value.as_deref().unwrap_or("");
        // The first word of most is a number: the payload type that they are about, or all they
        // say.
        let number: Option<u16> = value.split(' ').next().and_then(|word| word.parse().ok());
        match (&attribute.attribute[..], number) {
            ("rtpmap" | "fmtp", Some(number)) if own.contains(&Some(number)) => {}
            ("rtcp", Some(port)) => stream.rtcp_port = Some(port),
            ("ptime", Some(milliseconds)) => stream.ptime_ms = Some(milliseconds.into()),
            (SMPTE2022, _) if let Some(parity) = parse_smpte2022(value) => {
                stream.parity = Some(parity);
            }
            ("rtcp-fb", _) if is_nack(value, payload_type) => stream.takes_nack = true,
            (name, _) => stream
                .attributes
                .push((name.to_owned(), attribute.value.clone())),
        }
    }
    stream.has_avpf = media.proto == "RTP/AVPF" && !stream.takes_nack;
    Ok(stream)
}

fn is_nack(value: &str, payload_type: u8) -> bool {
    value.parse::<RtcpFb>().is_ok_and(|feedback| {
        let is_ours = match feedback.pt {
            RtcpFbPt::Wildcard => true,
            RtcpFbPt::Fmt(number) => number == payload_type,
        };
        is_ours && feedback.val == RtcpFbVal::Nack(None)
    })
}

/// Those of an `m=` line, each once: a line may repeat them a hundred thousand times.
fn payload_types(formats: &str) -> Vec<u8> {
    let numbers = formats.split_ascii_whitespace();
    let mut types = Vec::new();
    for number in numbers.map_while(|number| number.parse().ok()) {
        if !types.contains(&number) {
            types.push(number);
        }
    }
    types
}

/// The first `a=rtpmap` of each payload type: read once, because there may be as many as a
/// description has capacity for.
struct Maps(BTreeMap<u8, RtpMap>);

impl Maps {
    fn of(media: &Media) -> Self {
        let mut maps = BTreeMap::new();
        for map in media.attributes_typed::<RtpMap>().filter_map(Result::ok) {
            maps.entry(map.payload_type).or_insert(map);
        }
        Self(maps)
    }

    /// Does it come beside that of the stream?
    fn is_beside(&self, payload_type: u8) -> bool {
        let mut names = BESIDE.iter();
        names.any(|name| self.encoding_is(payload_type, name))
    }

    fn encoding_is(&self, payload_type: u8, name: &str) -> bool {
        let map = self.0.get(&payload_type);
        map.is_some_and(|map| map.encoding_name.eq_ignore_ascii_case(name))
    }
}

/// What `a=fmtp` says behind the payload type.
fn parameters(media: &Media, payload_type: u8) -> &str {
    let number = payload_type.to_string();
    let mut values = media.get_attribute_values("fmtp").flatten();
    let found = values.find_map(|value| value.split_once(' ').filter(|(of, _)| *of == number));
    found.map_or("", |(_, parameters)| parameters.trim())
}

/// The value of `name` in `name=value;name=value`.
fn parameter<'p>(parameters: &'p str, name: &str) -> Option<&'p str> {
    let mut pairs = parameters
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
}

const PROTECTIONS: [(Protection, &str); 3] = [
    (Protection::Columns, "columns"),
    (Protection::Rows, "rows"),
    (Protection::Both, "both"),
];

fn protects(protection: Protection) -> &'static str {
    let found = PROTECTIONS.iter().find(|known| known.0 == protection);
    found.map_or("", |known| known.1)
}

fn parse_smpte2022(value: &str) -> Option<Parity> {
    let side = |name| parameter(value, name)?.parse::<u8>().ok();
    let shape = Shape::new(side("L")?, side("D")?).ok()?;
    let protects = parameter(value, "protects")?;
    let known = PROTECTIONS.iter().find(|known| known.1 == protects)?;
    Some(Parity::Smpte2022(shape, known.0))
}

fn parse_ulpfec(maps: &Maps, number: u8) -> Option<Parity> {
    let is_ours = maps.encoding_is(number, ULPFEC);
    is_ours.then_some(Parity::Ulpfec {
        payload_type: number,
    })
}

fn parse_retransmission(media: &Media, maps: &Maps, number: u8, of: u8) -> Option<Retransmission> {
    if !maps.encoding_is(number, RETRANSMISSION) {
        return None;
    }
    let parameters = parameters(media, number);
    let value = |name| parameter(parameters, name);
    let is_ours = value("apt")?.parse() == Ok(of);
    is_ours.then(|| Retransmission {
        payload_type: number,
        time_ms: value("rtx-time").and_then(|time| time.parse().ok()),
    })
}

fn parse_format(media: &Media, maps: &Maps, payload_type: u8) -> Result<StreamFormat, String> {
    let map = (maps.0.get(&payload_type).cloned())
        .or_else(|| assigned(payload_type))
        .ok_or(format!(
            "it has no a=rtpmap for payload type {payload_type}"
        ))?;
    let encoding = Encoding::named(&map.encoding_name).ok_or(format!(
        "its encoding {} is not known here",
        shown(&map.encoding_name, VALUE)
    ))?;
    if map.clock_rate == 0 {
        return Err("its clock does not run: 0 Hz".to_owned());
    }
    let parameters = parameters(media, payload_type).to_owned();
    let channels = match (encoding, map.encoding_params.as_deref()) {
        (Encoding::Opus, _) if parameters.replace(' ', "").contains("sprop-stereo=1") => 2,
        (Encoding::L16 | Encoding::Pcmu | Encoding::Pcma, Some(channels)) => channels
            .parse()
            .map_err(|_| format!("{} is no number of channels", shown(channels, VALUE)))?,
        _ => 1,
    };
    if matches!(encoding, Encoding::L16 | Encoding::Pcmu | Encoding::Pcma) {
        L16::new(map.clock_rate, channels).map_err(|error| error.to_string())?;
    }
    Ok(StreamFormat {
        encoding,
        payload_type,
        clock_hz: map.clock_rate,
        channels,
        parameters,
    })
}

/// What RFC 3551, tables 4 and 5, say of payload types that need no `a=rtpmap`; also of those
/// whose encoding is not known here, so that it can be named.
fn assigned(payload_type: u8) -> Option<RtpMap> {
    let (encoding, clock_hz, channels) = match payload_type {
        0 => ("PCMU", 8000, 1),
        3 => ("GSM", 8000, 1),
        4 => ("G723", 8000, 1),
        5 => ("DVI4", 8000, 1),
        6 => ("DVI4", 16_000, 1),
        7 => ("LPC", 8000, 1),
        8 => ("PCMA", 8000, 1),
        // 16,000 samples a second, and for historical reasons a clock of 8000 (section 4.5.2).
        9 => ("G722", 8000, 1),
        10 => ("L16", 44_100, 2),
        11 => ("L16", 44_100, 1),
        12 => ("QCELP", 8000, 1),
        13 => ("CN", 8000, 1),
        14 => ("MPA", 90_000, 1),
        15 => ("G728", 8000, 1),
        16 => ("DVI4", 11_025, 1),
        17 => ("DVI4", 22_050, 1),
        18 => ("G729", 8000, 1),
        25 => ("CelB", 90_000, 1),
        26 => ("JPEG", 90_000, 1),
        28 => ("nv", 90_000, 1),
        31 => ("H261", 90_000, 1),
        32 => ("MPV", 90_000, 1),
        33 => ("MP2T", 90_000, 1),
        34 => ("H263", 90_000, 1),
        _ => return None,
    };
    let map = RtpMap::with_encoding_params(payload_type, encoding, clock_hz, channels);
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(encoding: Encoding, payload_type: u8, clock_hz: u32, channels: u8) -> StreamFormat {
        StreamFormat {
            encoding,
            payload_type,
            clock_hz,
            channels,
            parameters: String::new(),
        }
    }

    #[test]
    fn description_is_the_expected_text() {
        let format = L16::new(44_100, 2).unwrap().into();
        let stream = StreamDescription::new(format, "127.0.0.1:5004".parse().unwrap());
        let expected = "v=0\r\n\
            o=- 42 0 IN IP4 127.0.0.1\r\n\
            s=Hythe\r\ni=VLC 3 plays this with --no-sap-parse\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
            m=audio 5004 RTP/AVP 10\r\na=rtpmap:10 L16/44100/2\r\n";
        assert_eq!(describe(&[stream], 42), expected);
    }

    #[test]
    fn all_that_can_be_said_is_said() {
        let mut format = format(Encoding::H264, 96, 90_000, 1);
        format.parameters = "packetization-mode=1;profile-level-id=42C01F".to_owned();
        let video = StreamDescription {
            ttl: 16,
            rtcp_port: Some(7000),
            ptime_ms: Some(20),
            takes_nack: true,
            retransmission: Some(Retransmission {
                payload_type: 98,
                time_ms: Some(500),
            }),
            parity: Some(Parity::Ulpfec { payload_type: 100 }),
            attributes: vec![
                ("control".to_owned(), Some("track=1".to_owned())),
                ("recvonly".to_owned(), None),
            ],
            ..StreamDescription::new(format, "239.1.2.3:5004".parse().unwrap())
        };
        let format = self::format(Encoding::Opus, 97, 48_000, 1);
        let shape = Shape::new(10, 5).unwrap();
        let audio = StreamDescription {
            parity: Some(Parity::Smpte2022(shape, Protection::Both)),
            ..StreamDescription::new(format, "[ff15::1]:6000".parse().unwrap())
        };
        let text = describe(&[video.clone(), audio.clone()], 7);
        let expected = "v=0\r\no=- 7 0 IN IP4 239.1.2.3\r\ns=Hythe\r\nc=IN IP4 239.1.2.3/16\r\n\
            t=0 0\r\nm=video 5004 RTP/AVPF 96 98 100\r\na=rtpmap:96 H264/90000\r\n\
            a=fmtp:96 packetization-mode=1;profile-level-id=42C01F\r\na=rtcp:7000\r\n\
            a=ptime:20\r\na=rtcp-fb:96 nack\r\na=rtpmap:98 rtx/90000\r\n\
            a=fmtp:98 apt=96;rtx-time=500\r\na=rtpmap:100 ulpfec/90000\r\n\
            a=control:track=1\r\na=recvonly\r\n\
            m=audio 6000 RTP/AVP 97\r\nc=IN IP6 ff15::1\r\na=rtpmap:97 opus/48000/2\r\n\
            a=smpte2022-1:L=10;D=5;protects=both\r\n";
        assert_eq!(text, expected);
        assert_eq!(parse(text.as_bytes()), Ok(vec![video, audio]));
    }

    #[test]
    fn descriptions_of_every_encoding_read_back() {
        let mut stereo = format(Encoding::Opus, 97, 48_000, 2);
        stereo.parameters = "sprop-stereo=1".to_owned();
        let formats = [
            format(Encoding::MpegTs, 33, 90_000, 1),
            format(Encoding::L16, 97, 22_050, 1),
            format(Encoding::L16, 97, 48_000, 8),
            format(Encoding::Pcmu, 0, 8000, 1),
            format(Encoding::Pcma, 97, 16_000, 2),
            format(Encoding::MpegAudio, 14, 90_000, 1),
            format(Encoding::H264, 96, 90_000, 1),
            format(Encoding::H265, 96, 90_000, 1),
            format(Encoding::Opus, 97, 48_000, 1),
            stereo,
        ];
        for format in formats {
            for address in [
                "127.0.0.1:5004",
                "[::1]:6000",
                "192.0.2.7:65534",
                "239.1.2.3:5004",
                "[ff02::7]:0",
            ] {
                let stream = StreamDescription::new(format.clone(), address.parse().unwrap());
                let text = describe(std::slice::from_ref(&stream), 1);
                assert_eq!(parse(text.as_bytes()), Ok(vec![stream]), "{text}");
            }
        }
    }

    #[test]
    fn profile_with_feedback_and_payloads_beside_are_taken() {
        // As a server of GStreamer describes, with more than it does.
        let text = with(
            "m=video 0 RTP/AVPF 97 100 101 96\r\na=rtpmap:96 H264/90000\r\na=rtpmap:97 rtx/90000\r\n\
             a=fmtp:97 apt=96;rtx-time=500\r\na=rtpmap:100 red/90000\r\na=rtpmap:101 flexfec-03/90000\r\n\
             a=rtcp-fb:96 nack pli\r\na=rtcp-fb:* ccm fir\r\n",
        );
        let stream = parse(text.as_bytes()).unwrap().remove(0);
        assert_eq!(stream.format.payload_type, 96);
        assert!(stream.has_avpf && !stream.takes_nack);
        assert_eq!(stream.retransmission.map(|rtx| rtx.payload_type), Some(97));
        let written = describe(&[stream], 1);
        assert!(written.contains(" RTP/AVPF 96 97\r\n"), "{written}");
    }

    /// With these lines behind the usual ones.
    fn with(lines: &str) -> String {
        format!("v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n{lines}")
    }

    #[test]
    fn types_that_rfc_3551_assigns_need_no_map() {
        for (number, name) in [
            (0, "PCMU"),
            (8, "PCMA"),
            (10, "L16"),
            (11, "L16"),
            (14, "MPA"),
            (33, "MP2T"),
        ] {
            let text = with(&format!("m=audio 5004 RTP/AVP {number}\r\n"));
            let found = parse(text.as_bytes()).unwrap();
            assert_eq!(found[0].format.encoding.name(), name);
        }
        // RFC 3551, section 4.5.2: its clock is not its sampling rate.
        let g722 = assigned(9).expect("assigned");
        assert_eq!((&g722.encoding_name[..], g722.clock_rate), ("G722", 8000));
        for unassigned in [1, 2, 19, 23, 35, 72, 95, 96, 127] {
            assert!(assigned(unassigned).is_none(), "{unassigned}");
        }
    }

    #[test]
    fn what_is_unknown_is_kept_or_left_out() {
        let text = with(
            "m=video 5004 RTP/AVP 96 100\r\na=rtpmap:96 MP2T/90000\r\na=rtpmap:100 flexfec/90000\r\n\
            a=fmtp:100 repair-window=1\r\na=rtcp-fb:96 nack pli\r\na=mystery\r\n\
            m=audio 5006 RTP/AVP 97\r\na=rtpmap:97 speex/8000\r\nm=application 9 UDP/TLS 1\r\n",
        );
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!(found.len(), 1);
        let names: Vec<_> = found[0]
            .attributes
            .iter()
            .map(|(name, _)| &name[..])
            .collect();
        assert_eq!(names, ["rtpmap", "fmtp", "rtcp-fb", "mystery"]);
        assert!(!found[0].takes_nack && found[0].retransmission.is_none());
        let again = parse(describe(&found, 1).as_bytes());
        assert_eq!(again, Ok(found));
    }

    #[test]
    fn what_is_no_stream_for_us_is_refused_with_a_reason() {
        for (text, reason) in [
            (String::new(), ""),
            (with(""), "no stream"),
            (
                with("m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 speex/8000\r\n"),
                "speex",
            ),
            (with("m=audio 5004 RTP/AVP 97\r\n"), "no a=rtpmap"),
            (with("m=audio 5004 RTP/AVP 9\r\n"), "its encoding G722"),
            (with("m=video 5004 RTP/AVP 26\r\n"), "its encoding JPEG"),
            (
                with("m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 L16/48000/9\r\n"),
                "eight channels",
            ),
            (
                with("m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 L16/48000/x\r\n"),
                "x is no number",
            ),
            (
                with("m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 opus/0/2\r\n"),
                "0 Hz",
            ),
            (with("m=audio 5004 RTP/SAVP 10\r\n"), "RTP/SAVP"),
            (with("m=audio 5004 RTP/AVP x\r\n"), "payload type"),
            (
                with("m=audio 5004 RTP/AVP 10\r\n").replace("c=IN IP4 127.0.0.1\r\n", ""),
                "no address",
            ),
        ] {
            let refused = parse(text.as_bytes()).unwrap_err();
            assert!(refused.contains(reason), "{refused}: {text}");
        }
    }
}
