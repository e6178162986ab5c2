//! RTP and the protocols beside it: RTCP, SDP, RTSP, payload formats and loss repair, without I/O.
//!
//! Functions take bytes and the current time, and return bytes and what to do next. The crate
//! `hythe-media` adds sockets, files and buffers; any other program can do the same.
//!
//! **Streams**: [`mod@format`] describes what a stream carries, [`Identity`] holds the random
//! values of a stream (SSRC, first sequence number, first timestamp), [`mod@unit`] is one access
//! unit of media. [`video`] and [`mpeg_audio`] read the headers of coded media. [`payload`]
//! fragments units into payloads and reassembles them.
//!
//! **Control**: [`rtcp`] writes the reports of a sender, [`loss`] implements retransmission (RFC
//! 4588) and parity (RFC 5109, SMPTE ST 2022-1) for senders and receivers, [`sdp`] describes
//! streams to players, [`rtsp`] is a server and a client of RTSP.
//!
//! **Receiving**: [`receive`] validates packets, reorders them, and decides which to request again
//! and what to report.
//!
//! Input of a peer is checked before it is used, and no number in it decides how much memory is
//! allocated. This crate never opens a file or a socket, calls the kernel, reads a clock, sleeps,
//! or draws random numbers.

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
