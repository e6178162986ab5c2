//! The queues of a network interface, as `ethtool -l` and `-L` see them.
//!
//! Called by the service of an interface; the setter by its tests, in place of an administrator.
//! Nothing is held between calls.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `linux/sockios.h`.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// `linux/ethtool.h`.
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Channels {
    command: u32,
    /// The most that there can be: to receive, to send, for other things, for both.
    most: [u32; 4],
    /// How many there are.
    receive: u32,
    send: u32,
    other: u32,
    both: u32,
}

/// `struct ifreq` with a pointer in its union, which has 24 bytes.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut Channels,
    rest: [u8; 24 - size_of::<*mut Channels>()],
}

/// How many queues the interface has: the greater of those to receive and to send. `socket` is any
/// of the interface's network.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn queue_count(socket: impl AsFd, interface: &str) -> io::Result<u32> {
    let channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    let found = ask(socket, interface, channels)?;
    Ok(found.receive.max(found.send).saturating_add(found.both))
}

/// Gives the interface so many queues to receive, and as many to send.
///
/// # Errors
/// No permission; the driver has no queues of these kinds, or not so many; one is in use.
pub fn set_queue_count(socket: impl AsFd, interface: &str, count: u32) -> io::Result<()> {
    let channels = Channels {
        command: ETHTOOL_SCHANNELS,
        receive: count,
        send: count,
        ..Channels::default()
    };
    ask(socket, interface, channels).map(drop)
}

fn ask(socket: impl AsFd, interface: &str, mut channels: Channels) -> io::Result<Channels> {
    let mut name = [0_u8; libc::IFNAMSIZ];
    let Some(place) = name[..libc::IFNAMSIZ - 1].get_mut(..interface.len()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    place.copy_from_slice(interface.as_bytes());
    let mut request = Request {
        name,
        data: &raw mut channels,
        rest: [0; 24 - size_of::<*mut Channels>()],
    };
    let file = socket.as_fd().as_raw_fd();
    // SAFETY: both structures are laid out as the kernel's, live until the call returns, and are
    // referred to by nobody else; the descriptor is open while borrowed.
    let result = unsafe { libc::ioctl(file, SIOCETHTOOL, &raw mut request) };
    match result {
        0 => Ok(channels),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_queueless_interface_is_an_error() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        for name in ["hythe-none", "a-name-that-is-longer-than-any", "lo"] {
            queue_count(&socket, name).expect_err(name);
            set_queue_count(&socket, name, 1).expect_err(name);
        }
    }
}
