//! Socket options that rustix does not have, and what a socket says of its queue.
//!
//! The media hop sets them on its sockets, the doctor tries them, and the tap of
//! [`packet`](crate::packet) sets its own through here. What rustix has (sizes of buffers,
//! multicast, the path's MTU) is called there. Nothing is held between calls, and nothing here
//! decides what a refusal means.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::Duration;

/// `MSG_ZEROCOPY`, which rustix has no name for.
pub const MSG_ZEROCOPY: u32 = libc::MSG_ZEROCOPY as u32;

/// A socket option whose value is an `int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `UDP_SEGMENT`: cut what is sent into datagrams of this many bytes; 0 ends that.
    UdpSegment,
    /// `UDP_GRO`: hand over several datagrams of a flow in one read.
    UdpGro,
    /// `SO_ZEROCOPY`: allow `MSG_ZEROCOPY`.
    ZeroCopy,
    /// `SO_PRIORITY`: the class of the interface's queueing discipline. Above 6 needs
    /// `CAP_NET_ADMIN` (socket(7)).
    Priority,
    /// `SO_NO_CHECK`: send IPv4 datagrams without a checksum (RFC 768). The kernel then refuses to
    /// segment, as it does for devices that do not allow it.
    NoChecksum,
    /// `IP_RECVERR`: keep what routers and hosts say about packets sent over IPv4 in the
    /// [error queue](crate::error_queue), and report what the interface's queue drops.
    Ipv4Errors,
    /// `IPV6_RECVERR`: the same for IPv6.
    Ipv6Errors,
}

/// Sets `option` of `socket`.
///
/// # Errors
///
/// What `setsockopt` returns: the protocol does not have the option, or the value is out of its
/// range.
pub fn set_socket_option(socket: impl AsFd, option: SocketOption, value: i32) -> io::Result<()> {
    let (level, name) = match option {
        SocketOption::UdpSegment => (libc::SOL_UDP, libc::UDP_SEGMENT),
        SocketOption::UdpGro => (libc::SOL_UDP, libc::UDP_GRO),
        SocketOption::ZeroCopy => (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
        SocketOption::Priority => (libc::SOL_SOCKET, libc::SO_PRIORITY),
        SocketOption::NoChecksum => (libc::SOL_SOCKET, libc::SO_NO_CHECK),
        SocketOption::Ipv4Errors => (libc::SOL_IP, libc::IP_RECVERR),
        SocketOption::Ipv6Errors => (libc::SOL_IPV6, libc::IPV6_RECVERR),
    };
    set_raw(socket, level, name, &value)
}

/// Lets the `fq` queueing discipline pace what `socket` sends (`SO_MAX_PACING_RATE`). Without that
/// discipline the option has no effect on UDP.
///
/// # Errors
///
/// What `setsockopt` returns.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    // The kernel takes an `unsigned long` since Linux 4.20, which is 64 bits wide only on some
    // processors.
    let rate = libc::c_ulong::try_from(bytes_per_second).unwrap_or(libc::c_ulong::MAX);
    set_raw(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate)
}

/// Has `socket` send by one interface only, and take what comes by that (`SO_BINDTODEVICE`), also
/// when it gets another name. Without a right since Linux 5.7, for a socket that has none yet.
///
/// # Errors
///
/// What `setsockopt` returns: no such device, not permitted.
pub fn bind_to_interface(socket: impl AsFd, interface: &str) -> io::Result<()> {
    let mut name = [0_u8; libc::IFNAMSIZ];
    let Some(place) = name[..libc::IFNAMSIZ - 1].get_mut(..interface.len()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    place.copy_from_slice(interface.as_bytes());
    set_raw(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
}

/// The clock of the departure times of a socket's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepartureClock {
    /// `CLOCK_MONOTONIC`, by which `fq` reckons.
    Monotonic,
    /// `CLOCK_TAI`, by which `etf` reckons. Needs `CAP_NET_ADMIN`.
    Tai,
}

/// Lets the packets of `socket` have departure times (`SO_TXTIME`, with which `SCM_TXTIME` is
/// taken), and has what a scheduler drops for their sake put into the [error
/// queue](crate::error_queue). Whether anybody heeds them it does not say. rustix has no name for
/// `CLOCK_TAI` here.
///
/// # Errors
///
/// What `setsockopt` returns: permission denied, protocol not available before Linux 4.19.
pub fn set_departure_clock(socket: impl AsFd, clock: DepartureClock) -> io::Result<()> {
    let value = libc::sock_txtime {
        clockid: match clock {
            DepartureClock::Monotonic => libc::CLOCK_MONOTONIC,
            DepartureClock::Tai => libc::CLOCK_TAI,
        },
        flags: libc::SOF_TXTIME_REPORT_ERRORS,
    };
    set_raw(socket, libc::SOL_SOCKET, libc::SO_TXTIME, &value)
}

/// Bytes that `socket` sent and the network stack still holds on this host, with what it reckons
/// for its own needs (`SIOCOUTQ`): in a queueing discipline, at a neighbour that is being looked
/// for, or in a card. 0: all have left, or lie in another socket of this host.
///
/// # Errors
///
/// What `ioctl` returns: it is no socket, or of a protocol that does not say.
pub fn unsent_bytes(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: for this request the kernel writes one `int`, for which `bytes` is valid, and keeps
    // no pointer.
    let result = unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            libc::TIOCOUTQ,
            ptr::from_mut(&mut bytes),
        )
    };
    if result == 0 {
        Ok(usize::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How long the peer's kernel has not acknowledged anything of a TCP connection on which something
/// is unacknowledged (`TCP_INFO`); zero: nothing is. A peer whose process reads nothing is not
/// silent: its kernel answers probes of its window.
///
/// # Errors
///
/// What `getsockopt` returns: it is no TCP socket.
pub fn tcp_silence(socket: impl AsFd) -> io::Result<Duration> {
    // SAFETY: the structure consists of integers, of which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, for which `info` is valid, and keeps no
    // pointer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            ptr::from_mut(&mut info).cast(),
            ptr::from_mut(&mut bytes),
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match info.tcpi_unacked > 0 || info.tcpi_probes > 0 {
        true => Duration::from_millis(info.tcpi_last_ack_recv.into()),
        false => Duration::ZERO,
    })
}

/// Sets an option whose value is a `T` as the kernel defines it.
pub(crate) fn set_raw<T: Copy>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` is valid for reads of its size. The kernel copies it (and, of a packet
    // filter, what it points to, which lives as long as the caller's borrow) and keeps no pointer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn options_are_taken_where_the_protocol_has_them() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for option in [
            SocketOption::UdpSegment,
            SocketOption::UdpGro,
            SocketOption::ZeroCopy,
            SocketOption::Priority,
            SocketOption::Ipv4Errors,
        ] {
            set_socket_option(&udp, option, 1).unwrap();
        }
        set_max_pacing_rate(&udp, 1_000_000).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(set_socket_option(&tcp, SocketOption::UdpSegment, 1000).is_err());
    }

    #[test]
    fn departure_clocks_are_what_was_asked_for() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_departure_clock(&udp, DepartureClock::Monotonic).unwrap();
        let (clock, flags) = rustix::net::sockopt::get_txtime(&udp).unwrap();
        assert_eq!(clock, rustix::time::ClockId::Monotonic);
        assert_eq!(flags, rustix::net::TxTimeFlags::REPORT_ERRORS);
        match set_departure_clock(&udp, DepartureClock::Tai) {
            // rustix knows no such clock, which is why this is here.
            Ok(()) => assert!(rustix::net::sockopt::get_txtime(&udp).is_err()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
    }

    #[test]
    fn what_lies_in_another_socket_has_left() {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        from.send_to(&[7; 1000], to.local_addr().unwrap()).unwrap();
        assert_eq!(unsent_bytes(&from).unwrap(), 0);
        assert!(unsent_bytes(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(set_socket_option(&udp, SocketOption::UdpSegment, 65_536).is_err());
        assert!(set_socket_option(&udp, SocketOption::UdpSegment, -1).is_err());
    }
}
