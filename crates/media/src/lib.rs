//! The media hop: media in, RTP packets out, and back, with as few copies as the network stack
//! allows. The protocol alone is [`hythe_rtp`].
//!
//! **Out**: a [`source`] yields units of media with their times; [`hythe_rtp::payload`] says which
//! slices of them each packet carries; a [`send`] session builds the packets in slots of the
//! pool's wire region ([`wire::layout`]), or leaves them in the messages of a channel
//! ([`source::channel`]), each with the instant that [`pace`] gives it, and sends every group to
//! all destinations from there by the fastest way that each allows ([`wire::destinations`]).
//! [`voice`] sends thousands of telephone calls, [`rtsp`] serves on request, [`sdp`] has files that
//! tell players how to listen.
//!
//! **Back**: [`receive`] takes datagrams in batches, puts them in order, joins payloads to units
//! and gives them to a [`sink`], on the way to a channel in [`slots`] of the pool, from which they
//! are published without a copy. [`hythe_rtp::loss`] repairs what got lost on the way, on both
//! sides.
//!
//! **Of the demo**: [`mp3`] finds frames that are forwarded as parts of slots, [`wav`] reads what a
//! third party recorded.
//!
//! Parsers and pacing decide without doing: they are handed bytes and the time and return what to
//! do. Of a pool only [`send`], [`wire::layout`], [`slots`] with [`receive::memory`], and channels
//! at both ends know. This crate never waits without a bound, and never allocates on the way of a
//! packet.

pub mod address;
mod error;
pub mod g711;
pub mod identity;
mod instant;
pub mod mp3;
pub mod pace;
pub mod ports;
pub mod receive;
pub mod relay;
pub mod rtsp;
pub mod sdp;
pub mod send;
pub mod serve;
pub mod sink;
pub mod slots;
pub mod source;
pub mod voice;
pub mod wav;
pub mod wire;

pub use error::MediaError;
