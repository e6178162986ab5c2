//! A thread with mounts, or a network, of its own.
//!
//! The recorder of the storage hop runs a command with mounts of its own: what it mounts there
//! nobody else sees, and it goes with the last process that uses it. The demo has a network for
//! each of its hosts. Needs `CAP_SYS_ADMIN`. Never touches the mounts or the network of anybody
//! else.

#![allow(
    unsafe_code,
    reason = "this is the island: unshare is unsafe in rustix for the sake of flags that are not used here"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Gives the calling thread, and the processes that it starts from now on, a copy of the mounts;
/// its working directory and root are its own from then on, too. Mounts that are shared stay so
/// until their propagation is changed.
///
/// # Errors
/// Not permitted without `CAP_SYS_ADMIN`.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the flag leaves the table of descriptors shared, which is what the function's safety
    // is about.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?)
}

/// A network: interfaces, addresses, sockets. It goes with the last process and the last value
/// that have it.
#[derive(Debug)]
pub struct Network(File);

impl Network {
    /// Gives the calling thread, and the threads and processes that it starts from now on, a new
    /// network, in which not even the loopback interface is up.
    ///
    /// # Errors
    /// Not permitted without `CAP_SYS_ADMIN`.
    pub fn unshare() -> io::Result<Self> {
        // SAFETY: as in `unshare_mounts`.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        Self::current()
    }

    /// That of the calling thread.
    ///
    /// # Errors
    /// No `/proc`.
    pub fn current() -> io::Result<Self> {
        File::open("/proc/thread-self/ns/net").map(Self)
    }

    /// Puts the calling thread into it, and what it starts from now on. `/proc/net` shows that of
    /// a process's first thread.
    ///
    /// # Errors
    /// Not permitted without `CAP_SYS_ADMIN`.
    pub fn enter(&self) -> io::Result<()> {
        let kind = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(self.0.as_fd(), kind)?)
    }
}

/// `SO_NETNS_COOKIE`, which libc does not have for every target.
const NETWORK_COOKIE: libc::c_int = 71;

/// A number of the network that a socket is in, which no other has while the system runs (since
/// Linux 5.14).
///
/// # Errors
/// What `getsockopt` says: `ENOPROTOOPT` on older kernels; no socket.
pub fn network_of(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut bytes = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `cookie` is valid for writes of `bytes` bytes, any of which are a valid value of it;
    // `bytes` is valid for reads and writes. The kernel keeps neither pointer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            NETWORK_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut bytes,
        )
    };
    match result {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(network: &Network) -> std::path::PathBuf {
        let link = format!("/proc/self/fd/{}", network.0.as_raw_fd());
        std::fs::read_link(link).expect("open")
    }

    #[test]
    fn thread_goes_to_a_network_and_back() {
        let of_others = Network::current().expect("a network");
        let moved = std::thread::spawn(move || {
            let own = match Network::unshare() {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return eprintln!("SKIPPED: no right to make a network");
                }
                made => made.expect("made"),
            };
            assert_ne!(identity(&own), identity(&of_others));
            let socket = || std::net::UdpSocket::bind("0.0.0.0:0").expect("bound");
            let (one, another) = (socket(), socket());
            if let Ok(network) = network_of(&one) {
                assert_eq!(network_of(&another).expect("a socket"), network);
                of_others.enter().expect("entered");
                assert_ne!(network_of(socket()).expect("a socket"), network);
                own.enter().expect("entered");
                network_of(&own.0).expect_err("no socket");
            }
            of_others.enter().expect("entered");
            let now = Network::current().expect("a network");
            assert_eq!(identity(&now), identity(&of_others));
        });
        moved.join().expect("no panic");
    }
}
