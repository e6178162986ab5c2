//! Packets on their way from memory to the network.
//!
//! Packets are built once, header in front of payload, one behind the other ([`run`]), in memory
//! that the kernel can send from without a copy; every destination is then sent the same bytes, by
//! the fastest method that its way allows.

pub mod departure;
pub mod destination;
pub mod destinations;
pub mod endpoint;
pub mod fallback;
pub mod header;
pub mod health;
pub mod layout;
pub mod method;
pub mod packets;
pub mod run;
pub mod scheduler;

use std::os::fd::BorrowedFd;

/// Memory with packets built in it, as the kernel sees it and as this process does.
#[derive(Clone, Copy, Debug)]
pub struct PacketMemory<'m> {
    /// The file behind it, for `sendfile`; `None`: what lies there is copied when it is sent.
    pub file: Option<BorrowedFd<'m>>,
    /// Where in the file the first byte is.
    pub file_offset: u64,
    /// The same bytes, mapped.
    pub bytes: &'m [u8],
}
