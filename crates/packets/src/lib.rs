//! Packets between hosts over a link that the user trusts, without I/O: messages in order, exactly
//! once, each contiguous in a slot of the receiver, over datagrams that may be lost, doubled,
//! reordered or damaged. `spec/packets.md` describes the bytes, ADR 0042 the reasons.
//!
//! A *flow* goes one way: a [`Sender`] in the process that publishes, a [`Receiver`] in the process
//! that receives. Both are given bytes and the time in nanoseconds of any clock that never goes
//! back, and say what to do next. Both hosts agree on [`Settings`] beforehand, over TLS; the
//! carriers `udp` and `xdp` move the datagrams.
//!
//! **Sending**: a message is announced by its length, and stays in its slot until it is accepted.
//!
//! ```text
//! sender.push(now, length, tag)?                   -> its number
//! while let Some(packet) = sender.transmit(now) {  up to a batch
//!     headers[i] = packet.seal(Checksum::of(&slot(packet.message)[packet.range()]));
//! }
//! ```
//!
//! Header and payload are two pieces of an `iovec`, or the header is written into the headroom in
//! front of a chunk. Packets of one message follow each other, and all but its last are of one
//! size: neighbours go to one `sendmsg` with `UDP_SEGMENT`, others to one `sendmmsg`. A header that
//! the kernel did not take (`EAGAIN`) is sent later as it is; its number stays good. Then
//! `acknowledged` for each datagram that came, `expire` at `next_wake`, and the slots of all
//! messages below `accepted` are free.
//!
//! **Receiving**: for each datagram of `recvmmsg` (each segment, with `UDP_GRO`; each chunk of a
//! ring)
//!
//! ```text
//! if let Arrival::Place(place) = receiver.receive(now, &header, Checksum::of(payload))? {
//!     slot(place.message(), place.length())?[place.range()].copy_from_slice(payload);
//!     place.done();
//! }
//! ```
//!
//! A place that is dropped instead (no slot could be leased) is as a packet that was lost. After
//! the batch: `next_message` until there is none, `accept` for those that the pool has taken over,
//! and `acknowledge` writes at most one datagram to return. So batches are acknowledged as a whole.
//!
//! A peer with the session word is not trusted: what an honest one cannot send is a [`Fault`],
//! which ends the flow; all else is dropped, counted by reason ([`Drops`]), and not answered.
//! Memory is allocated by `new` alone, as much as the constants of this crate say.
//!
//! This crate never opens a socket, calls the kernel, reads a clock, sleeps, logs, draws random
//! numbers, or allocates after `new`.

mod acknowledgement;
mod congestion;
mod fault;
mod header;
mod numbers;
mod pacing;
mod receiver;
mod round_trip;
mod sender;
mod sent;
mod settings;
mod spans;

pub use acknowledgement::ACKNOWLEDGEMENT_BYTES_MAX;
pub use fault::{DropReason, Drops, Fault};
pub use header::{Checksum, HEADER_BYTES, datagram_bytes};
pub use receiver::{Arrival, Content, Message, Place, Receiver};
pub use sender::{Acknowledged, Sender, State, Transmit};
pub use settings::{
    MESSAGES_MAX, MTU_BYTES_MAX, MTU_BYTES_MIN, PACKETS_MAX, SPANS_MAX, Settings, Window,
};
