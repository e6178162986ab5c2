//! Serving on request: RTSP 1.0 (RFC 2326), so that players open `rtsp://…` and media is sent to
//! them over UDP.
//!
//! [`Service`] is handed the bytes that clients sent and the time, and returns replies and what the
//! owner of the media has to do ([`Action`]). What there is to play comes through [`Catalogue`].
//! The other side is [`client`]. No packet of media passes here.
//!
//! Replies are made in two steps, because an answer to PLAY names the first packet:
//! [`Service::next`] decides, the owner acts, and [`Service::reply`] completes the answer with what
//! came of it.
//!
//! What holds between calls: every buffer has a limit ([`Limits`]); a session belongs to the
//! address that made it, and media is only sent to that address or to a group that the owner
//! offers; each [`Action::Stop`] and [`Action::Pause`] follows an [`Action::Start`] of the same
//! stream of the same session.
//!
//! The messages are read here and not by the crate `rtsp-types` (0.1.3): its Transport header
//! panics on a lone quotation mark, it cannot tell another version from garbage (505 and 400), and
//! it brings an URL parser with Unicode tables.
//!
//! Never here: connections, RTP over the RTSP connection, recording, redirects, more than one
//! answer to a request.

mod catalogue;
pub mod client;
mod connection;
mod description;
mod limits;
mod message;
mod range;
mod service;
mod session;
mod status;
mod transport;
mod url;

pub use catalogue::{Catalogue, Group, Presentation, Stream};
pub use connection::ConnectionId;
pub use description::{control, description};
pub use limits::{Counters, Limits};
pub use service::{Expired, Full, Notice, Outcome, Random, Reply, Service};
pub use session::{Action, SessionId, Start, Started};
pub use url::presentation_url;
