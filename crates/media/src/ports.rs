//! Which port the RTCP of a stream has.

use std::net::SocketAddr;

use crate::MediaError;

/// Where the RTCP of a stream goes: to the port behind an even one (RFC 3550, 11), on the same
/// link.
///
/// # Errors
///
/// [`MediaError::Destination`] for a port that is odd, or 0.
pub fn rtcp_address(destination: SocketAddr) -> Result<SocketAddr, MediaError> {
    let port = destination.port();
    if port == 0 || !port.is_multiple_of(2) {
        return Err(MediaError::Destination { destination });
    }
    let mut rtcp = destination; // with the link that an address of IPv6 may belong to
    rtcp.set_port(port + 1);
    Ok(rtcp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, SocketAddrV6};

    #[test]
    fn rtcp_goes_to_the_port_behind_on_the_same_link() {
        let v6 = |port, link| SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, 0, link));
        assert_eq!(rtcp_address(v6(5004, 7)).unwrap(), v6(5005, 7));
        let v4 = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!(rtcp_address(v4(65_534)).unwrap(), v4(65_535));
        assert!(rtcp_address(v4(5005)).is_err() && rtcp_address(v4(0)).is_err());
    }
}
