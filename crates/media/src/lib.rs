//! The media hop: media in, RTP packets out, and back, with as few copies as the network stack allows.
//!
//! **Out**: a [`source`] yields units of media with their times; [`payload`] says which slices of them each packet carries; a
//! [`send`] session lays the packets out in slots of the pool's wire region ([`wire::layout`]), or leaves them in the messages of a
//! channel ([`source::channel`]), each with the instant that [`pace`] gives it, and sends every group to all destinations from there
//! by the fastest way that each allows ([`wire::destinations`]).
//! [`voice`] sends thousands of telephone calls, [`rtsp`] serves on request, [`sdp`] tells players how to listen.
//!
//! **Back**: [`receive`] takes datagrams in batches, puts them in order, joins payloads to units and gives them to a [`sink`], on the
//! way to a channel in [`slots`] of the pool, from which they are published without a copy. [`loss`] repairs what got lost on the way, on both sides.
//!
//! **Of the demo**: [`mp3`] finds frames that are forwarded as parts of slots, [`wav`] reads what a third party recorded.
//!
//! Parsers, payloads, pacing, repair and the sessions of RTSP decide without doing: they are handed bytes and the time and return
//! what to do. Of a pool only [`send`], [`wire::layout`], [`slots`] with [`receive::memory`] and
//! [`payload::memory`], and channels at both ends know. This crate never waits without a bound, and never allocates on the way of a
//! packet.

pub mod address;
mod error;
pub mod format;
pub mod g711;
mod instant;
pub mod loss;
pub mod mp3;
pub mod pace;
pub mod payload;
pub mod ports;
pub mod receive;
pub mod relay;
pub mod rtcp;
pub mod rtp;
pub mod rtsp;
pub mod sdp;
pub mod send;
pub mod serve;
mod shown;
pub mod sink;
pub mod slots;
pub mod source;
pub mod unit;
mod video;
pub mod voice;
pub mod wav;
pub mod wire;

pub use error::MediaError;
