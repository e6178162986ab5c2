//! System calls by which `hythe doctor` finds out what this machine can do.
//!
//! Each tries one thing for real and leaves nothing behind: what it opens is closed, what it maps
//! unmapped. Nothing here decides what an answer means, and nothing on a data path calls it.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::file_pages::FilePages;

/// A socket option whose value is an `int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `UDP_SEGMENT`: cut what is sent into datagrams of this many bytes.
    UdpSegment,
    /// `UDP_GRO`: hand over several datagrams of a flow in one read.
    UdpGro,
    /// `SO_ZEROCOPY`: allow `MSG_ZEROCOPY`.
    ZeroCopy,
}

/// `MSG_ZEROCOPY`, which rustix has no name for.
pub const MSG_ZEROCOPY: u32 = libc::MSG_ZEROCOPY as u32;

/// Sets `option` of `socket`.
///
/// # Errors
///
/// What `setsockopt` returns: the protocol does not have the option.
pub fn set_socket_option(socket: impl AsFd, option: SocketOption, value: i32) -> io::Result<()> {
    let (level, name) = match option {
        SocketOption::UdpSegment => (libc::SOL_UDP, libc::UDP_SEGMENT),
        SocketOption::UdpGro => (libc::SOL_UDP, libc::UDP_GRO),
        SocketOption::ZeroCopy => (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    };
    set_option(socket, level, name, &value)
}

/// Lets packets of `socket` carry the time at which they are to leave (`SO_TXTIME`), on the
/// monotonic clock.
///
/// # Errors
///
/// What `setsockopt` returns.
pub fn enable_transmit_time(socket: impl AsFd) -> io::Result<()> {
    let value = libc::sock_txtime {
        clockid: libc::CLOCK_MONOTONIC,
        flags: 0,
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_TXTIME, &value)
}

fn set_option<T: Copy>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` is valid for reads of its size; the kernel copies it and keeps no pointer.
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

/// Creates an io_uring of one entry and closes it.
///
/// # Errors
///
/// What `io_uring_setup` returns: not compiled in, forbidden by `kernel.io_uring_disabled` or by a
/// filter of system calls.
pub fn try_io_uring() -> io::Result<()> {
    /// `struct io_uring_params`, 120 bytes in every version; zeros ask for the defaults.
    #[repr(C, align(8))]
    struct Parameters([u8; 120]);
    let mut parameters = Parameters([0; 120]);
    // SAFETY: `parameters` has the size and alignment of the structure that the kernel reads and
    // writes, any bytes are a valid value of it, and the kernel keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut parameters) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    drop(unsafe { OwnedFd::from_raw_fd(result as i32) });
    Ok(())
}

/// Puts the calling thread under `SCHED_FIFO`. Call it from a thread that ends soon after.
///
/// # Errors
///
/// Permission denied without `CAP_SYS_NICE` and beyond the limit `RLIMIT_RTPRIO`, or in a control
/// group without real-time budget.
pub fn enter_fifo(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameters` is valid for reads of its size and the kernel keeps no pointer; 0 names
    // the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How many pages of the first `bytes` bytes of `file` are in the page cache.
///
/// # Errors
///
/// What `mmap` or `mincore` return; an empty range.
pub fn resident_pages(file: impl AsFd, bytes: usize) -> io::Result<usize> {
    let resident = FilePages::map(file, 0, bytes)?.resident()?;
    Ok(resident.iter().filter(|page| **page).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::param::page_size;
    use std::io::Write;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn options_are_taken_where_the_protocol_has_them() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_socket_option(&udp, SocketOption::UdpSegment, 1000).unwrap();
        set_socket_option(&udp, SocketOption::UdpGro, 1).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(set_socket_option(&tcp, SocketOption::UdpSegment, 1000).is_err());
    }

    #[test]
    fn pages_just_written_are_resident() {
        let path = std::env::temp_dir().join(format!("hythe-resident-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![1; 3 * page_size()]).unwrap();
        assert_eq!(resident_pages(&file, 3 * page_size()).unwrap(), 3);
        assert!(resident_pages(&file, 0).is_err());
    }

    #[test]
    fn a_priority_that_does_not_exist_is_refused() {
        assert!(enter_fifo(1000).is_err());
    }
}
