//! Sends and receives media as RTP, with as few copies as the network stack allows. The protocols
//! themselves are in [`hythe_rtp`].
//!
//! **Sending**: a [`source`] reads units of media and their times; [`hythe_rtp::payload`] fragments
//! them into packets. A [`send`] session builds the packets in slots of the pool's wire region
//! ([`wire::layout`]), or leaves the payloads in the messages of a channel ([`source::channel`]).
//! [`pace`] gives each packet its departure time, and [`wire::destinations`] sends to every
//! destination by the best method that works there. [`voice`] sends thousands of telephone calls,
//! [`rtsp`] serves streams on request, [`sdp`] reads and writes session descriptions as files.
//!
//! **Receiving**: [`receive`] takes datagrams in batches, reorders them, reassembles units and
//! gives them to a [`sink`]. What is published on a channel is received into [`slots`] of the pool
//! and published without a copy. [`hythe_rtp::loss`] repairs lost packets on both sides.
//!
//! **Used by the demo**: [`mp3`] finds frames, [`wav`] reads recordings.
//!
//! Parsers and pacing do no I/O: they take bytes and the current time and return what to do. Only
//! [`send`], [`wire::layout`], [`slots`], [`receive::memory`], and channels as source and sink use
//! a pool. This crate never waits without a timeout, and never allocates memory for each packet.

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
