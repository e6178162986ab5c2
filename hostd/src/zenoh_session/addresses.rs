//! The addresses at which this host can be reached.
//!
//! Asked for anew each time: Zenoh itself asks once in the life of a process. Never resolves a
//! name.

use std::net::{IpAddr, SocketAddr};

/// Where a listener can be reached from outside: its address, or for one that listens on all, that
/// of each interface that is up and has a carrier. Sorted.
pub(crate) fn reachable(listener: SocketAddr) -> Vec<SocketAddr> {
    if !listener.ip().is_unspecified() {
        return vec![listener];
    }
    let mut found = Vec::new();
    for interface in pnet_datalink::interfaces() {
        let is_up = interface.is_up() && interface.is_lower_up();
        for network in interface.ips.iter().filter(|_| is_up) {
            if is_usable(network.ip(), listener) {
                found.push(SocketAddr::new(network.ip(), listener.port()));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Loopback leads others to themselves. An IPv6 address of one link means nothing without the
/// interface, which each host names in its own way.
fn is_usable(ip: IpAddr, listener: SocketAddr) -> bool {
    match ip {
        _ if ip.is_loopback() => false,
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => listener.is_ipv6() && !ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_with_an_address_is_reached_there() {
        let listener = SocketAddr::from(([10, 1, 2, 3], 7410));
        assert_eq!(reachable(listener), [listener]);
    }

    #[test]
    fn wildcard_listener_is_reached_at_interface_addresses() {
        let found = reachable(SocketAddr::from(([0, 0, 0, 0], 7410)));
        assert!(found.iter().all(|address| address.is_ipv4()));
        assert!(found.iter().all(|address| !address.ip().is_loopback()));
    }
}
