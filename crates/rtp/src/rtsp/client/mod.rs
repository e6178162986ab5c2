//! The other side: what a client asks for to receive streams of a presentation over UDP.
//!
//! [`Dialogue`] knows what is asked and what answers mean, and is handed bytes. Never here:
//! connections, packets of media, authentication, redirects, RTP over the RTSP connection.

mod answer;
mod dialogue;

use std::net::{IpAddr, SocketAddr};

pub use answer::{Answer, PassedOver, ServerRequest};
pub use dialogue::Dialogue;

/// How the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its host.
    pub host: IpAddr,
    /// Where it takes RTCP, if it said.
    pub rtcp: Option<SocketAddr>,
    /// The synchronisation source, if it said.
    pub ssrc: Option<u32>,
}
