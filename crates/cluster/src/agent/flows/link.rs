//! The link of a control connection: may flows go over it?
//!
//! Both users must have declared it trusted: each agent tells the other which address its end of
//! the connection has, and both must see the same. So sockets of a flow are always at the two
//! addresses that TLS has proven, and no message of a host can name another.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::OnceLock;

use hythe_flows::message::Carrier;
use hythe_flows::wire_path;
use hythe_packets::{MTU_BYTES_MAX, MTU_BYTES_MIN};
use rustix::net::sockopt;

use crate::ConnectionPath;
use crate::error::ClusterError;

/// Any port of UDP: nothing is sent.
const DISCARD: u16 = 9;

/// The link of a session.
#[derive(Debug)]
pub(crate) struct Link {
    interface: Option<String>,
    /// What flows are to be carried by, where it can be had.
    carrier: Carrier,
    /// Why it is not trusted here, if so.
    here: Result<ConnectionPath, String>,
    /// What the other side calls its end.
    there: OnceLock<IpAddr>,
}

impl Link {
    /// That of a connection.
    pub(crate) fn of(
        (trusted, carrier): (&[String], Carrier),
        path: Option<ConnectionPath>,
        interface_of: impl FnOnce(IpAddr) -> Option<String>,
    ) -> Self {
        let looked_for = path.filter(|_| !trusted.is_empty());
        let interface = looked_for.and_then(|path| interface_of(path.local));
        let here = judge(trusted, path, interface.as_deref());
        Self {
            interface,
            carrier,
            here,
            there: OnceLock::new(),
        }
    }

    /// What is told the other side, if the link is trusted here.
    pub(crate) fn trusted_address(&self) -> Option<IpAddr> {
        self.here.as_ref().ok().map(|path| path.local)
    }

    /// The other side trusts it.
    pub(crate) fn trusted_there(&self, address: IpAddr) -> Result<(), ClusterError> {
        let said = self.there.set(address.to_canonical());
        said.map_err(|_| ClusterError::Unexpected("a link that is trusted twice".to_owned()))
    }

    pub(crate) fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Where a process is to ask for sockets past the kernel's protocols, if it is to.
    pub(crate) fn wire(&self) -> Option<String> {
        let interface = self.interface.as_deref();
        let interface = interface.filter(|_| self.carrier == Carrier::Xdp)?;
        Some(wire_path(interface).display().to_string())
    }

    /// Where both ends of a flow are.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(crate) fn path(&self) -> Result<ConnectionPath, String> {
        let path = self.here.clone()?;
        match self.there.get() {
            None => Err("the link is not trusted there".to_owned()),
            Some(there) if *there != path.peer => Err(format!(
                "its end of the link is {} here and {there} there: an address is translated \
                 between",
                path.peer
            )),
            Some(_) => Ok(path),
        }
    }
}

fn judge(
    trusted: &[String],
    path: Option<ConnectionPath>,
    interface: Option<&str>,
) -> Result<ConnectionPath, String> {
    if trusted.is_empty() {
        return Err("no link is trusted here".to_owned());
    }
    let path = path.ok_or("its connection has no addresses")?;
    let is_local = |ip| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    if is_local(path.local) || is_local(path.peer) {
        return Err("an address of one link only".to_owned());
    }
    match interface {
        None => Err(format!("no interface here has {}", path.local)),
        Some(name) if !trusted.iter().any(|one| one == name) => {
            Err(format!("the link at {name} is not trusted here"))
        }
        Some(_) => Ok(path),
    }
}

/// The largest packet that leaves for the other end, as far as the kernel knows.
pub(super) fn mtu_of(path: ConnectionPath) -> io::Result<u16> {
    let socket = UdpSocket::bind((path.local, 0))?;
    socket.connect((path.peer, DISCARD))?;
    let bytes = match path.local {
        IpAddr::V4(_) => sockopt::ip_mtu(&socket)?,
        IpAddr::V6(_) => sockopt::ipv6_mtu(&socket)?,
    };
    let bytes = u16::try_from(bytes).unwrap_or(u16::MAX).min(MTU_BYTES_MAX);
    match bytes >= MTU_BYTES_MIN {
        true => Ok(bytes),
        false => Err(io::Error::other(format!(
            "packets have {bytes} bytes at most"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_users_trust_is_used() {
        let path = ConnectionPath {
            local: [10, 0, 0, 1].into(),
            peer: [10, 0, 0, 2].into(),
        };
        let link = |trusted: &[&str], path, interface: Option<&str>| {
            let trusted: Vec<String> = trusted.iter().map(ToString::to_string).collect();
            Link {
                interface: interface.map(str::to_owned),
                carrier: Carrier::default(),
                here: judge(&trusted, path, interface),
                there: OnceLock::new(),
            }
        };
        let why = |link: &Link| link.path().expect_err("not used");
        assert_eq!(why(&link(&[], Some(path), None)), "no link is trusted here");
        let not_there = link(&["x", "y"], Some(path), Some("y"));
        assert_eq!(why(&not_there), "the link is not trusted there");
        let other = link(&["x"], Some(path), Some("y"));
        other.trusted_there(path.peer).expect("once");
        assert_eq!(why(&other), "the link at y is not trusted here");
        let translated = link(&["y"], Some(path), Some("y"));
        translated.trusted_there(path.local).expect("once");
        assert!(why(&translated).contains("translated"));
        let both = link(&["y"], Some(path), Some("y"));
        both.trusted_there(path.peer).expect("once");
        assert_eq!(both.path(), Ok(path));
        assert_eq!(both.wire(), None, "it was not asked for");
        let by_xdp = Link {
            carrier: Carrier::Xdp,
            ..link(&["y"], Some(path), Some("y"))
        };
        assert_eq!(by_xdp.wire().as_deref(), Some("/run/hythe/wire/y"));
        assert!(both.trusted_there(path.peer).is_err());
    }

    #[test]
    fn the_longest_packet_is_what_the_kernel_says() {
        let here: IpAddr = [127, 0, 0, 1].into();
        let path = ConnectionPath {
            local: here,
            peer: here,
        };
        assert_eq!(mtu_of(path).expect("loopback"), MTU_BYTES_MAX);
    }
}
