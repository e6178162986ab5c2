//! A thread with mounts of its own.
//!
//! The recorder of the storage hop runs a command in one: what it mounts there nobody else sees,
//! and it goes with the last process that uses it. Needs `CAP_SYS_ADMIN`. Never touches the mounts
//! of anybody else.

#![allow(
    unsafe_code,
    reason = "this is the island: unshare is unsafe in rustix for the sake of flags that are not used here"
)]

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

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
