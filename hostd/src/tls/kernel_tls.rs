//! Whether the kernel could seal and open records by itself, for `hythe host status` and the
//! doctor.
//!
//! The carrier does not use it: where it was looked for, the module was missing, so that nothing
//! is known about its speed. Never loads a module.

use std::fs;

/// The kernel's list of protocols that can be laid over TCP.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_ulp";

/// Why kernel TLS is not used.
#[must_use]
pub fn why_not() -> String {
    match fs::read_to_string(AVAILABLE) {
        Ok(list) if list.split_whitespace().any(|one| one == "tls") => {
            "the kernel has it; this version of hythe does not use it".to_owned()
        }
        Ok(_) => format!("the kernel has no module tls loaded ({AVAILABLE}; modprobe tls)"),
        Err(error) => format!("{AVAILABLE}: {error}"),
    }
}
