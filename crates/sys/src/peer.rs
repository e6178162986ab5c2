//! Who is at the other end of a Unix socket.

#![allow(
    unsafe_code,
    reason = "this is the island: socket options that rustix does not have"
)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A pidfd of the process that made the other end: for a connected socket, of the one that called
/// `listen` (`SO_PEERPIDFD`, Linux 6.5). It serves across PID namespaces, also where the process
/// has no number here.
///
/// # Errors
/// What `getsockopt` says: `ENOPROTOOPT` on older kernels; `ESRCH` or `EINVAL` if the process has
/// ended and was waited for.
pub fn peer_pidfd(socket: impl AsFd) -> io::Result<OwnedFd> {
    let descriptor: libc::c_int = option(socket, libc::SO_PEERPIDFD)?;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The effective user of the process that made the other end (`SO_PEERCRED`), as this user
/// namespace numbers it.
///
/// # Errors
/// What `getsockopt` says.
pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    let credentials: libc::ucred = option(socket, libc::SO_PEERCRED)?;
    Ok(credentials.uid)
}

/// The process that made the other end (`SO_PEERCRED`), as this PID namespace numbers it; for a
/// connected socket the one that called `listen`. `None`: it is not of this namespace.
///
/// # Errors
/// What `getsockopt` says.
pub fn peer_pid(socket: impl AsFd) -> io::Result<Option<u32>> {
    let credentials: libc::ucred = option(socket, libc::SO_PEERCRED)?;
    Ok(u32::try_from(credentials.pid).ok().filter(|pid| *pid != 0))
}

/// Is the process of this pidfd gone, and waited for? For where `poll`, which knows it earlier, is
/// refused. False also where the kernel does not say.
pub fn is_reaped(pidfd: impl AsFd) -> bool {
    let descriptor = pidfd.as_fd().as_raw_fd();
    // SAFETY: signal 0 is sent to nobody, and a null `siginfo` is one that the kernel makes.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            descriptor,
            0,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    sent != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Values made of integers only: all bytes the kernel may write are valid.
trait Plain: Copy {
    const ZERO: Self;
}

impl Plain for libc::c_int {
    const ZERO: Self = 0;
}

impl Plain for libc::ucred {
    const ZERO: Self = Self {
        pid: 0,
        uid: 0,
        gid: 0,
    };
}

fn option<T: Plain>(socket: impl AsFd, name: libc::c_int) -> io::Result<T> {
    let mut value = T::ZERO;
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for writes of `bytes` bytes, any of which make a valid value; the
    // kernel keeps no pointer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if bytes as usize != size_of::<T>() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn peer_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&one).unwrap(), rustix::process::getuid().as_raw());
        assert_eq!(peer_pid(&one).unwrap(), Some(std::process::id()));
        match peer_pidfd(&one) {
            Ok(descriptor) => {
                assert!(!is_reaped(&descriptor));
                let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
                let pid = format!("Pid:\t{}\n", std::process::id());
                assert!(std::fs::read_to_string(path).unwrap().contains(&pid));
            }
            Err(error) => eprintln!("SKIPPED (needs Linux 6.5): the peer's pidfd: {error}"),
        }
    }

    #[test]
    fn process_that_was_waited_for_is_reaped() {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => {
                child.wait().unwrap();
                assert!(is_reaped(&pidfd));
            }
            Err(error) => {
                child.wait().unwrap();
                eprintln!("SKIPPED (needs Linux 5.3): a pidfd: {error}");
            }
        }
    }
}
