//! The error queue of a socket: what became of packets sent earlier.
//!
//! The media hop reads there what hosts and routers say about its packets (ICMP) and which packets
//! a packet scheduler dropped because their departure time had passed, and whoever sends with
//! `MSG_ZEROCOPY` when the kernel let go of the pages. Needs
//! [`Ipv4Errors`](crate::socket_option::SocketOption::Ipv4Errors), its sibling for IPv6, or
//! [`ZeroCopy`](crate::socket_option::SocketOption::ZeroCopy), or `SO_TXTIME` with
//! `SOF_TXTIME_REPORT_ERRORS`. Nothing is held between calls. Never blocks, and never reads a
//! datagram.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// `SO_EE_ORIGIN_ZEROCOPY` of `linux/errqueue.h`, which libc does not have.
const ORIGIN_ZEROCOPY: u8 = 5;
/// `SO_EE_CODE_ZEROCOPY_COPIED`, from there, too.
const ZEROCOPY_COPIED: u8 = 1;
/// `SO_EE_ORIGIN_TXTIME`, and its code for packets that came to the scheduler in time and left it
/// too late.
const ORIGIN_TXTIME: u8 = 6;
const TXTIME_MISSED: u8 = 2;

/// One entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueuedError {
    /// Sends with `MSG_ZEROCOPY`, counted from 0 per socket, whose pages the kernel no longer
    /// needs.
    ZeroCopy {
        /// The first that is complete.
        first: u32,
        /// The last; all between are complete, too. Less than `first` where the count has wrapped.
        last: u32,
        /// The kernel copied them after all.
        copied: bool,
    },
    /// A host or router answered an earlier packet.
    Icmp {
        /// What it means, as an `errno`.
        code: i32,
        /// With `EMSGSIZE`: the path's MTU in bytes.
        information: u32,
    },
    /// This host refused a packet before it left; the call that sent it has said so, too.
    Local {
        /// Why, as an `errno`.
        code: i32,
    },
    /// The packet scheduler (etf) dropped what one call sent: it was not to leave at its departure
    /// time.
    Departure {
        /// The departure time, by the clock that was chosen with `SO_TXTIME`.
        departure_ns: u64,
        /// The time passed while the scheduler had it. Otherwise it was past already, had no time,
        /// or another clock's.
        was_missed: bool,
    },
    /// A report that this program has not asked for.
    Other,
}

/// Takes the oldest entry; `None` if there is none. Taking the last one also clears the error that
/// the next send would return.
///
/// # Errors
///
/// What `recvmsg` returns.
pub fn take_queued_error(socket: impl AsFd) -> io::Result<Option<QueuedError>> {
    // Room for the report and the address behind it; `u64` for its alignment.
    let mut control = [0_u64; 32];
    // SAFETY: a message header of zeros is a valid one, with no buffers.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `message` is valid; its one buffer, `control`, is writable for the length it gives
    // and outlives the call.
    let result = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        };
    }
    Ok(Some(report_in(&message).map_or(QueuedError::Other, read)))
}

/// The report among the control messages of `message`.
fn report_in(message: &libc::msghdr) -> Option<libc::sock_extended_err> {
    // SAFETY: `message` was filled by the kernel, and its control buffer is alive.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: not null, so a whole header lies there, as the kernel wrote it.
        let header = unsafe { ptr::read_unaligned(next) };
        let kind = (header.cmsg_level, header.cmsg_type);
        let is_report = [
            (libc::SOL_IP, libc::IP_RECVERR),
            (libc::SOL_IPV6, libc::IPV6_RECVERR),
        ]
        .contains(&kind);
        // SAFETY: this only computes a length.
        let needed = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) };
        if is_report && header.cmsg_len as usize >= needed as usize {
            // SAFETY: `next` points to a header in the control buffer.
            let data = unsafe { libc::CMSG_DATA(next) };
            // SAFETY: the length was checked, so a whole report lies there; any bytes are a valid
            // value of it.
            return Some(unsafe { ptr::read_unaligned(data.cast()) });
        }
        // SAFETY: as for the first; `next` is one of its headers.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

fn read(report: libc::sock_extended_err) -> QueuedError {
    let code = report.ee_errno as i32;
    match report.ee_origin {
        ORIGIN_ZEROCOPY => QueuedError::ZeroCopy {
            first: report.ee_info,
            last: report.ee_data,
            copied: report.ee_code == ZEROCOPY_COPIED,
        },
        ORIGIN_TXTIME => QueuedError::Departure {
            departure_ns: u64::from(report.ee_data) << 32 | u64::from(report.ee_info),
            was_missed: report.ee_code == TXTIME_MISSED,
        },
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => QueuedError::Icmp {
            code,
            information: report.ee_info,
        },
        libc::SO_EE_ORIGIN_LOCAL => QueuedError::Local { code },
        _ => QueuedError::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket_option::{MSG_ZEROCOPY, SocketOption, set_socket_option};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{SendFlags, send};
    use std::net::UdpSocket;

    /// Ends a wait that has failed.
    const BOUND: Timespec = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };

    /// A connected socket of each family, with errors queued, and the one it sends to.
    fn pairs() -> Vec<(UdpSocket, UdpSocket)> {
        let of = |(host, option)| {
            let receiver = UdpSocket::bind((host, 0)).ok()?; // no IPv6, no pair
            let sender = UdpSocket::bind((host, 0)).unwrap();
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            set_socket_option(&sender, option, 1).unwrap();
            Some((sender, receiver))
        };
        let hosts = [
            ("127.0.0.1", SocketOption::Ipv4Errors),
            ("::1", SocketOption::Ipv6Errors),
        ];
        hosts.into_iter().filter_map(of).collect()
    }

    #[test]
    fn error_queue_reports_and_clears_closed_port() {
        for (sender, receiver) in pairs() {
            assert_eq!(take_queued_error(&sender).unwrap(), None);
            drop(receiver);
            sender.send(b"anyone?").unwrap();
            let expected = QueuedError::Icmp {
                code: libc::ECONNREFUSED,
                information: 0,
            };
            assert_eq!(take_queued_error(&sender).unwrap(), Some(expected));
            assert_eq!(take_queued_error(&sender).unwrap(), None);
            sender.send(b"no error is left for this one").unwrap();
        }
    }

    #[test]
    fn packet_too_large_is_a_local_error() {
        for (sender, _receiver) in pairs() {
            assert!(sender.send(&[0; 65_535]).is_err());
            let expected = QueuedError::Local {
                code: libc::EMSGSIZE,
            };
            assert_eq!(take_queued_error(&sender).unwrap(), Some(expected));
        }
    }

    #[test]
    fn completions_of_sends_without_a_copy_are_ranges() {
        for (sender, receiver) in pairs() {
            set_socket_option(&sender, SocketOption::ZeroCopy, 1).unwrap();
            let flags = SendFlags::from_bits_retain(MSG_ZEROCOPY);
            let mut complete = Vec::new();
            for count in 1..=3 {
                send(&sender, &[1; 5000], flags).unwrap();
                receiver.recv(&mut [0; 5000]).unwrap();
                while complete.len() < count {
                    let mut wait = [PollFd::new(&sender, PollFlags::ERR)];
                    assert_eq!(poll(&mut wait, Some(&BOUND)).unwrap(), 1, "no completion");
                    match take_queued_error(&sender).unwrap() {
                        Some(QueuedError::ZeroCopy { first, last, .. }) => {
                            complete.extend(first..=last);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert_eq!(complete, [0, 1, 2]);
        }
    }

    #[test]
    fn departure_times_that_were_not_kept_are_read_with_their_time() {
        // What `etf` reports (net/sched/sch_etf.c, report_sock_error): the time in two halves, the
        // upper one in `ee_data`.
        let report = |code| libc::sock_extended_err {
            ee_errno: libc::ECANCELED as u32,
            ee_origin: 6,
            ee_type: 0,
            ee_code: code,
            ee_pad: 0,
            ee_info: 0x89ab_cdef,
            ee_data: 0x0123_4567,
        };
        for (code, was_missed) in [(1, false), (2, true)] {
            let expected = QueuedError::Departure {
                departure_ns: 0x0123_4567_89ab_cdef,
                was_missed,
            };
            assert_eq!(read(report(code)), expected);
        }
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        assert!(take_queued_error(std::io::stdin()).is_err());
    }
}
