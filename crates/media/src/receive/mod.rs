//! Receiving: RTP from the network, in order, as units for a sink.
//!
//! ```text
//! socket -> memory -> sources -> reorder -> Depacketize -> Sink   session: waits, and runs all
//!                        |          |                             stream:  all but the sockets
//!                      source    requests -> feedback -> socket
//! ```
//!
//! A batch of datagrams is received into [`memory`], slots of a pool or a [`buffer`] of our own,
//! and stays where it is: [`sources`] says which packets are the stream's and [`source`] what is
//! missing of it, by RFC 3550; [`reorder`] holds spans of that memory, puts them in order and waits
//! for what is missing, within bounds; [`repairer`] finds it in what else was sent, [`feedback`]
//! reports, and asks for what [`requests`] lists. Packets in order are out, and their space in the
//! buffer is free, before the call that brought them returns; a slot is free when who reads from it
//! lets it go.
//!
//! Only [`socket`] and [`session`] call the kernel. Nothing here allocates on the way of a packet
//! (a slot has two handles, once), and nothing believes one: whoever knows our port may send to it.
//!
//! [`sources`]: hythe_rtp::receive::sources
//! [`source`]: hythe_rtp::receive::source
//! [`reorder`]: hythe_rtp::receive::reorder
//! [`feedback`]: hythe_rtp::receive::feedback
//! [`requests`]: hythe_rtp::receive::requests

pub mod buffer;
pub mod memory;
pub mod repairer;
pub mod session;
pub mod socket;
pub mod statistics;
pub mod stream;
