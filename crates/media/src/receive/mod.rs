//! Receiving: RTP from the network, in order, as units for a sink.
//!
//! [`sources`] says which packets are the stream's and [`source`] what is missing of it, by RFC 3550; [`reorder`] puts them in order
//! and waits for what is missing, within bounds. These decide without doing.
//!
//! Nothing here believes a packet: whoever knows our port may send to it.

pub mod buffer;
pub mod feedback;
pub mod heard;
pub mod reorder;
pub mod requests;
pub mod session;
pub mod socket;
pub mod source;
pub mod sources;
pub mod statistics;
pub mod stream;
pub mod timeline;
