//! Which version this is, for the compiler and at run time. Never changes while a program runs.

use core::ffi::{c_char, c_int};

/// Version of the header. Before 1.0 another minor version is another interface; from then on only
/// another major one.
pub const HYTHE_VERSION_MAJOR: c_int = 0;
/// See HYTHE_VERSION_MAJOR.
pub const HYTHE_VERSION_MINOR: c_int = 1;
/// See HYTHE_VERSION_MAJOR.
pub const HYTHE_VERSION_PATCH: c_int = 0;

/// Nanoseconds of a millisecond: `50 * HYTHE_MILLISECOND_NS` is a time-out.
pub const HYTHE_MILLISECOND_NS: u64 = 1_000_000u64;
/// Nanoseconds of a second.
pub const HYTHE_SECOND_NS: u64 = 1_000_000_000u64;

/// The library's version as text, "0.1.0". Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_the_version_of_the_package() {
        let header = format!("{HYTHE_VERSION_MAJOR}.{HYTHE_VERSION_MINOR}.{HYTHE_VERSION_PATCH}");
        assert_eq!(header, env!("CARGO_PKG_VERSION"));
        // SAFETY: it is text that ends with a zero, and static.
        let text = unsafe { core::ffi::CStr::from_ptr(hythe_version()) };
        assert_eq!(text.to_str(), Ok(header.as_str()));
    }
}
