//! The IP addresses of this machine's interfaces, as `ip address` lists them.
//!
//! Called by servers that listen on all addresses, to print those that clients can open. Nothing
//! is held between calls. Never says which address leads where.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of all interfaces that are up, in the kernel's order, each once.
///
/// # Errors
/// The kernel's answer could not be had: no memory, no descriptor.
pub fn interface_addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the place for the pointer is ours and lives until the call returns.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: null, or an entry of the list, which stands until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        let is_up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        let address = address_of(entry).filter(|address| is_up && !found.contains(address));
        found.extend(address);
        next = entry.ifa_next;
    }
    // SAFETY: the list is that of the call above, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// `None` for addresses of other families, such as those of Ethernet.
fn address_of(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: null, or an address that stands as long as its entry; each begins with its family.
    let family = unsafe { entry.ifa_addr.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of these. The C library aligns addresses for
            // any of them; it is read as if it did not.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let octets = address.sin_addr.s_addr.to_ne_bytes();
            Some(Ipv4Addr::from(octets).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn addresses_can_be_bound_and_are_listed_once() {
        let found = interface_addresses().expect("a list");
        for (number, address) in found.iter().enumerate() {
            assert!(!found[..number].contains(address), "{found:?}");
            // A link-local address is bound by its interface, and one that is still being probed
            // for duplicates not at all.
            if address.is_ipv4() {
                UdpSocket::bind((*address, 0)).expect("an address of this machine");
            }
        }
        // Where the loopback interface is up, as anywhere but in new network namespaces.
        if UdpSocket::bind("127.0.0.1:0").is_ok_and(|socket| socket.connect("127.0.0.1:9").is_ok())
        {
            assert!(found.contains(&Ipv4Addr::LOCALHOST.into()), "{found:?}");
        }
    }
}
