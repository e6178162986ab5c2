//! Who this process and thread are, where a seccomp filter may refuse the question.
//!
//! The calls cannot fail by their manual pages, and rustix panics where they do.

#![allow(
    unsafe_code,
    reason = "this is the island: calls of the C library that take no pointers"
)]

/// What stands for a user that the kernel does not tell: the id that `chown` takes for "leave it",
/// which nobody has.
pub const NOBODY_KNOWN: u32 = u32::MAX;

/// The real user id; [`NOBODY_KNOWN`] where it is not told.
#[must_use]
pub fn user() -> u32 {
    // SAFETY: it takes nothing and touches no memory.
    unsafe { libc::getuid() }
}

/// The effective user id; [`NOBODY_KNOWN`] where it is not told.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: it takes nothing and touches no memory.
    unsafe { libc::geteuid() }
}

/// The number of the calling thread, if it is told.
#[must_use]
pub fn thread() -> Option<rustix::process::Pid> {
    // SAFETY: it takes nothing and touches no memory.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    i32::try_from(number)
        .ok()
        .filter(|number| *number > 0)
        .and_then(rustix::process::Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_kernel_says() {
        assert_eq!(user(), rustix::process::getuid().as_raw());
        assert_eq!(effective_user(), rustix::process::geteuid().as_raw());
        assert_eq!(thread(), Some(rustix::thread::gettid()));
    }
}
