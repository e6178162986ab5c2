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
        Ok(move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&self.0),
            kind,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    fn identity(network: &Network) -> std::path::PathBuf {
        let link = format!("/proc/self/fd/{}", network.0.as_raw_fd());
        std::fs::read_link(link).expect("open")
    }

    #[test]
    fn a_thread_goes_to_a_network_and_back() {
        let of_others = Network::current().expect("a network");
        let moved = std::thread::spawn(move || {
            let own = match Network::unshare() {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return eprintln!("SKIPPED: no right to make a network");
                }
                made => made.expect("made"),
            };
            assert_ne!(identity(&own), identity(&of_others));
            of_others.enter().expect("entered");
            let now = Network::current().expect("a network");
            assert_eq!(identity(&now), identity(&of_others));
        });
        moved.join().expect("no panic");
    }
}
