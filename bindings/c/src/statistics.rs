//! What a port has counted, as the functions `hythe_…_statistics` tell it. Never counts anything
//! itself.

use core::ffi::c_int;

use hythe::PortStatistics;

use crate::ffi_guard::{Refusal, cross};
use crate::sized::{self, Extensible};

/// The counters of a port since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hythe_statistics {
    /// sizeof(struct hythe_statistics), set by the caller.
    pub size: usize,
    /// Messages published or taken; requests sent or taken; how often events were raised or taken.
    pub messages: u64,
    /// Bytes of their payload.
    pub payload_bytes: u64,
    /// Of a publisher: messages that did not reach a subscriber, because its queue was full. Of a
    /// subscriber: messages that it missed, because its own queue was full, or they were lost on
    /// the way from another host. Otherwise: requests and replies that reached nobody.
    pub dropped: u64,
    /// Invalid descriptors of faulty peers, which were refused.
    pub violations: u64,
    /// Messages that hythe_publisher_forward_copy() copied.
    pub copies: u64,
    /// Bytes of their payload.
    pub copied_bytes: u64,
}

// SAFETY: as the trait says; `u64`s end it.
unsafe impl Extensible for hythe_statistics {
    const NOUN: &'static str = "struct for statistics";
}

/// What a port says it has counted, for the caller.
///
/// # Safety
/// As [`sized::write`].
pub(crate) unsafe fn tell_counted(
    counted: impl FnOnce() -> Result<PortStatistics, Refusal>,
    into: *mut hythe_statistics,
) -> c_int {
    cross(|| {
        let counted = counted()?.into();
        // SAFETY: the caller's word.
        unsafe { sized::write(into, &counted) }.map(|()| 0)
    })
}

impl From<PortStatistics> for hythe_statistics {
    fn from(counted: PortStatistics) -> Self {
        Self {
            size: 0,
            messages: counted.messages,
            payload_bytes: counted.payload_bytes,
            dropped: counted.dropped,
            violations: counted.violations,
            copies: counted.copies,
            copied_bytes: counted.copied_bytes,
        }
    }
}
