//! The media hop: MP3 frames in, RTP packets out, without copying a payload.
//!
//! The storage hop reads a file into buffers; [`mp3`] finds the frames in them, which are handed on
//! as parts of slots; an RTOS core decodes them; [`rtp`] cuts the PCM into packets whose payload
//! stays in the slot; [`send`] puts them on the wire at the pace of the media clock, and [`sdp`]
//! tells players how to listen. [`receiver`], [`wav`] and [`counter`] are the far end for
//! `hythe demo` and for tests: third-party software that records, and a count of packets that does
//! not come from the sender.
//!
//! `mp3`, `rtp`, `rtcp`, `sdp` and [`clock`] decide without doing: they are handed bytes and the
//! time and return what to do. Only `send`, `receiver` and `counter` call the kernel.
//!
//! Of a pool only [`wire::layout`] knows: it is given leases, and lays packets out in them. Everything else
//! is handed slices. This crate never allocates on the way of a packet and never waits without a
//! bound.

pub mod address;
pub mod clock;
pub mod counter;
mod error;
pub mod format;
mod instant;
pub mod mp3;
pub mod pace;
pub mod payload;
mod ports;
pub mod receiver;
pub mod rtcp;
pub mod rtp;
pub mod sdp;
pub mod send;
pub mod sink;
pub mod source;
pub mod unit;
pub mod voice;
pub mod wav;
pub mod wire;

pub use error::MediaError;
