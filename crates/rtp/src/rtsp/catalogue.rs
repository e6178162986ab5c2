//! What there is to play, as its owner tells it.
//!
//! The service asks for each DESCRIBE and SETUP, so an implementation that has to open files
//! remembers what it found.

use std::net::SocketAddr;

use crate::format::StreamFormat;
use crate::sdp::Retransmission;

/// Knows presentations by their paths.
pub trait Catalogue {
    /// The presentation of that path, `None` if there is none. `path` is what stood behind the host
    /// in the URL, percent-decoded, without slashes at its ends, without query; it has neither
    /// control characters nor `..`. It may be empty.
    fn describe(&self, path: &str) -> Option<Presentation>;

    /// Why there is no presentation of that path yet, in one line; `None`: none is expected.
    /// Clients are told to try again.
    fn why_not_yet(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }
}

/// One or more streams that are played together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presentation {
    /// At least one; known to clients by their index.
    pub streams: Vec<Stream>,
    /// How long it is, in nanoseconds; `None` for what has no end, or none that is known.
    pub duration_ns: Option<u64>,
    /// PLAY may name where to begin. Live media has only now.
    pub can_seek: bool,
    /// PAUSE may stop it for a while. After a pause, live media goes on at now.
    pub can_pause: bool,
}

/// One stream of a presentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What it carries.
    pub format: StreamFormat,
    /// The even UDP port that its packets are sent from; RTCP has the next one.
    pub server_port: u16,
    /// The synchronisation source, where all clients are sent the same packets; `None`: each
    /// session is given its own.
    pub ssrc: Option<u32>,
    /// Clients may ask for packets again (RFC 4585), which is offered as RTP/AVPF. Who sets up
    /// RTP/AVP has the stream without.
    pub takes_nack: bool,
    /// As what packets are sent again, if not as they were (RFC 4588).
    pub retransmission: Option<Retransmission>,
    /// The group that it may also be sent to.
    pub group: Option<Group>,
}

/// A multicast group that a stream is offered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Group and even port of RTP; RTCP has the next one.
    pub address: SocketAddr,
    /// How many routers packets may pass, plus one.
    pub ttl: u8,
}
