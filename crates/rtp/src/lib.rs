//! RTP and what belongs to it, as protocol alone: bytes and the time in, bytes and decisions out.
//!
//! The crate `hythe-media` calls this one between its sockets, files and slots; any other program
//! can do the same.
//!
//! **A stream**: [`mod@format`] says what it carries, [`Identity`] what is chosen at random for it,
//! [`mod@unit`] what its media comes in. [`video`] and [`mpeg_audio`] read the headers of coded
//! media.
//!
//! [`payload`] cuts units into payloads and joins them again.
//!
//! **Beside it**: [`rtcp`] writes a sender's reports, [`loss`] repairs what got lost on the way, on
//! both sides, [`sdp`] tells players how to listen, [`rtsp`] serves on request.
//!
//! **Receiving**: [`receive`] tells which packets are the stream's, puts them in order, and decides
//! what to ask for again and to report.
//!
//! Whatever comes from a peer is checked before it is used, and no number in it decides how much is
//! allocated. This crate never opens a file or a socket, calls the kernel, reads a clock, sleeps,
//! or chooses at random.

mod error;
pub mod format;
pub mod loss;
pub mod mpeg_audio;
pub mod payload;
pub mod receive;
pub mod rtcp;
pub mod rtsp;
pub mod sdp;
mod shown;
mod stream;
pub mod unit;
pub mod video;

pub use error::RtpError;
pub use stream::{DYNAMIC, HEADER_BYTES, Identity, L16, MAX_PAYLOAD_BYTES, to_network_order};
