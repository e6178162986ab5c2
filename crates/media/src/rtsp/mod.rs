//! Serving on request, and asking for it: the connections of RTSP, whose protocol is
//! [`hythe_rtp::rtsp`].
//!
//! `hythe media serve` calls [`server`]; the other side is [`client`]. No packet of media passes
//! here.

pub mod client;
pub mod server;
mod starting;
mod wire;

pub use starting::Answer;
