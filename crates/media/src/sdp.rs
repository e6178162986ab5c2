//! The session description (RFC 8866) that a player opens to hear the stream.
//!
//! `ffmpeg -protocol_whitelist file,udp,rtp -i stream.sdp …` takes it as it is, as do ffplay, VLC
//! and GStreamer. Whoever starts a stream writes it; [`receiver`](crate::receiver) reads back from
//! it where to listen.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::{fs, io};

use sdp_types::{Connection, Media, MediaType, Origin, RtpMap, Session, Time, TransportProto};

use crate::MediaError;
use crate::rtp::L16;

/// Describes a stream of `format` that is sent to `destination`. `session` distinguishes it from
/// other streams of this host: the time of its start, say, or a random number.
#[must_use]
pub fn describe(format: L16, destination: SocketAddr, session: u64) -> String {
    let payload_type = format.payload_type();
    let map = RtpMap::with_encoding_params(
        payload_type,
        "L16",
        format.samples_per_second(),
        format.channels(),
    );
    let media = Media::builder(
        MediaType::Audio,
        destination.port(),
        TransportProto::RtpAvp,
        payload_type,
    )
    .attribute(map)
    .build();
    let origin = Origin::with_ip_addr(session, 0, destination.ip());
    let description = Session::builder(origin, "Hythe")
        .connection(connection(destination.ip()))
        .time(Time::new(0, 0))
        .media(media)
        .build();
    let mut text = Vec::new();
    // A Vec takes everything, and the parts above are all text.
    let _ = description.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// A group needs a time to live: 1 keeps it on this link.
fn connection(address: IpAddr) -> Connection {
    Connection::from_ip_addr_ttl(address, address.is_multicast().then_some(1))
}

/// Where the description in `path` says that its one stream is sent, and what it is.
///
/// # Errors
///
/// [`MediaError::File`] if it cannot be read, [`MediaError::Description`] if it does not describe
/// one stream of L16 in the way that [`describe`] does.
pub fn read(path: &Path) -> Result<(L16, SocketAddr), MediaError> {
    let text = fs::read(path).map_err(|source| MediaError::File {
        what: "read the session description",
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|reason| MediaError::Description {
        path: path.to_owned(),
        reason,
    })
}

fn parse(text: &[u8]) -> Result<(L16, SocketAddr), String> {
    let session = Session::parse(text).map_err(|error| error.to_string())?;
    let [media] = &session.medias[..] else {
        return Err(format!(
            "it describes {} streams instead of one",
            session.medias.len()
        ));
    };
    let connection = media.connections.first().or(session.connection.as_ref());
    let address = connection
        .ok_or("it has no address (c=)")?
        .try_address()
        .map_err(|error| error.to_string())?;
    let map = media
        .attributes_typed::<RtpMap>()
        .next()
        .ok_or("it has no a=rtpmap")?
        .map_err(|error| error.to_string())?;
    if !map.encoding_name.eq_ignore_ascii_case("L16") {
        return Err(format!("its encoding is {}, not L16", map.encoding_name));
    }
    let channels = map.encoding_params.as_deref().unwrap_or("1");
    let channels = channels
        .parse()
        .map_err(|_| format!("{channels} is no number of channels"))?;
    let format = L16::new(map.clock_rate, channels).map_err(|error| error.to_string())?;
    Ok((format, SocketAddr::new(address.ip, media.port)))
}

/// Writes a description to `path`, readable for everyone, in one step: a player that opens the file
/// sees all of it or nothing.
///
/// # Errors
///
/// [`MediaError::File`].
pub fn write(path: &Path, description: &str) -> Result<(), MediaError> {
    let draft = path.with_extension("sdp.part");
    let written: io::Result<()> =
        fs::write(&draft, description).and_then(|()| fs::rename(&draft, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&draft); // may not be there
        MediaError::File {
            what: "write the session description",
            path: path.to_owned(),
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_the_expected_text() {
        let text = describe(
            L16::new(44_100, 2).unwrap(),
            "127.0.0.1:5004".parse().unwrap(),
            42,
        );
        let expected = "v=0\r\no=- 42 0 IN IP4 127.0.0.1\r\ns=Hythe\r\nc=IN IP4 127.0.0.1\r\n\
                        t=0 0\r\nm=audio 5004 RTP/AVP 10\r\na=rtpmap:10 L16/44100/2\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn descriptions_read_back() {
        for (rate, channels, address) in [
            (44_100, 1, "127.0.0.1:5004"),
            (48_000, 2, "[::1]:6000"),
            (22_050, 1, "192.0.2.7:65534"),
            (8_000, 2, "239.1.2.3:5004"),
        ] {
            let (format, address) = (L16::new(rate, channels).unwrap(), address.parse().unwrap());
            let text = describe(format, address, 1);
            assert_eq!(parse(text.as_bytes()), Ok((format, address)), "{text}");
        }
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        for text in [
            "",
            "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n",
            "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
             m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\n",
            "v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
             m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 L16/48000/2\r\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
