//! A tap on a network interface: copies of the UDP packets that arrive for one port.
//!
//! The media crate counts with it what a receiver got, independently of the sender. rustix cannot
//! bind packet sockets. Needs `CAP_NET_RAW`. What holds between calls: an open socket whose filter
//! lets only packets for that port pass, arriving ones. Nothing here looks into a packet beyond its
//! headers, and nothing is ever sent.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, netdevice, recv, socket_with, sockopt,
};

use crate::socket_option::set_raw;

/// How much of each packet is kept: the headers of IPv6, UDP and RTP and some room for options.
pub const SNAP_BYTES: usize = 128;

/// What is asked for; the kernel gives what `net.core.rmem_max` allows.
const BUFFER_BYTES: usize = 4 << 20;
const PROTOCOL_UDP: u32 = 17;
/// The low 13 bits of the fragment word: any but the first fragment has no UDP header.
const FRAGMENT_OFFSET: u32 = 0x1fff;

/// An open tap.
#[derive(Debug)]
pub struct UdpTap {
    socket: OwnedFd,
}

impl UdpTap {
    /// Listens on `interface` for UDP packets that arrive for `port`.
    ///
    /// # Errors
    ///
    /// Permission denied without `CAP_NET_RAW`; no such device.
    pub fn open(interface: &str, port: u16) -> io::Result<Self> {
        // Protocol 0: nothing is received before the filter is in place and `bind` names one.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        let index = netdevice::name_to_index(&socket, interface)?;
        sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
        attach_filter(socket.as_fd(), &arrivals_for(port))?;
        // A packet to this host passes its loopback interface twice, out and in.
        set_raw(
            socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &1,
        )?;
        bind(socket.as_fd(), index)?;
        Ok(Self { socket })
    }

    /// Takes the next packet, from its IP header on; `None` if there is none. Never blocks.
    ///
    /// # Errors
    ///
    /// What `recv` returns: the interface went down, say.
    pub fn take<'b>(&self, buffer: &'b mut [u8; SNAP_BYTES]) -> io::Result<Option<&'b [u8]>> {
        match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((bytes, _)) => Ok(Some(&buffer[..bytes])),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// How many packets the tap itself lost since the last call, because nobody took them.
    ///
    /// # Errors
    ///
    /// What `getsockopt` returns.
    pub fn overflows(&self) -> io::Result<u32> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `statistics` is valid for writes of `length` bytes, and any bytes are a valid
        // value of it; `length` is valid for reads and writes. The kernel keeps neither pointer.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        check(result)?;
        Ok(statistics.tp_drops)
    }
}

impl AsFd for UdpTap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The filter: IPv4 or IPv6, UDP, not a later fragment, destination `port`.
fn arrivals_for(port: u16) -> [libc::sock_filter; 18] {
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const LOAD_HALF_AT_X: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
    const LOAD_HEADER_BYTES: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
    const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
    const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const JUMP_SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    [
        /*  0 */ step(LOAD_BYTE, 0, 0, 0),
        /*  1 */ step(AND, 0xf0, 0, 0),
        /*  2 */ step(JUMP_EQUAL, 0x40, 2, 0),
        /*  3 */ step(JUMP_EQUAL, 0x60, 8, 0),
        /*  4 */ step(RETURN, 0, 0, 0),
        // IPv4
        /*  5 */ step(LOAD_BYTE, 9, 0, 0),
        /*  6 */ step(JUMP_EQUAL, PROTOCOL_UDP, 0, 9),
        /*  7 */ step(LOAD_HALF, 6, 0, 0),
        /*  8 */ step(JUMP_SET, FRAGMENT_OFFSET, 7, 0),
        /*  9 */ step(LOAD_HEADER_BYTES, 0, 0, 0),
        /* 10 */ step(LOAD_HALF_AT_X, 2, 0, 0),
        /* 11 */ step(JUMP_EQUAL, u32::from(port), 5, 4),
        // IPv6, where UDP follows directly
        /* 12 */ step(LOAD_BYTE, 6, 0, 0),
        /* 13 */ step(JUMP_EQUAL, PROTOCOL_UDP, 0, 2),
        /* 14 */ step(LOAD_HALF, 42, 0, 0),
        /* 15 */ step(JUMP_EQUAL, u32::from(port), 1, 0),
        /* 16 */ step(RETURN, 0, 0, 0),
        /* 17 */ step(RETURN, SNAP_BYTES as u32, 0, 0),
    ]
}

fn attach_filter(socket: BorrowedFd<'_>, filter: &[libc::sock_filter]) -> io::Result<()> {
    // The kernel only reads the filter, in spite of the pointer's type.
    let program = libc::sock_fprog {
        len: filter.len() as libc::c_ushort,
        filter: filter.as_ptr().cast_mut(),
    };
    set_raw(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn bind(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: `address` is a valid socket address of this family, and valid for reads of its size.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    check(result)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn only_packets_for_the_port_are_seen_and_each_once() {
        for host in ["127.0.0.1", "::1"] {
            let Ok(socket) = UdpSocket::bind((host, 0)) else {
                eprintln!("SKIPPED: this machine has no {host}");
                continue;
            };
            let other = UdpSocket::bind((host, 0)).unwrap();
            let tap = match UdpTap::open("lo", socket.local_addr().unwrap().port()) {
                Ok(tap) => tap,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    eprintln!("SKIPPED: a packet socket needs CAP_NET_RAW ({error})");
                    return;
                }
                Err(error) => panic!("{error}"),
            };
            for _ in 0..3 {
                other
                    .send_to(b"for the port", socket.local_addr().unwrap())
                    .unwrap();
                socket
                    .send_to(b"from the port", other.local_addr().unwrap())
                    .unwrap();
            }
            let mut buffer = [0; SNAP_BYTES];
            for _ in 0..3 {
                let packet = tap
                    .take(&mut buffer)
                    .unwrap()
                    .expect("a packet that has arrived");
                assert!(packet.ends_with(b"for the port"), "{packet:02x?}");
            }
            assert_eq!(tap.take(&mut buffer).unwrap(), None);
            assert_eq!(tap.overflows().unwrap(), 0);
        }
    }

    #[test]
    fn no_such_interface_is_an_error() {
        let error = UdpTap::open("hythe-none", 5004).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
