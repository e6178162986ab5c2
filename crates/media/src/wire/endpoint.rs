//! The sockets of a destination: RTP, and RTCP beside it.
//!
//! Both are connected, because `sendfile` takes no address, and because only connected sockets are
//! told what hosts answer. Our own ports are a pair, even and odd (RFC 3550, 11): some receivers
//! send their reports to the port behind the one that RTP comes from. What holds between calls: the
//! sockets never block, and what goes wrong with a packet is kept in their error queues. Never
//! sends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use hythe_sys::socket_option::{SocketOption, set_socket_option};
use rustix::io::Errno;
use rustix::net::sockopt::{
    ip_mtu, ipv6_mtu, set_ip_add_membership_with_ifindex, set_ip_multicast_if_with_ifindex,
    set_ip_multicast_loop, set_ip_multicast_ttl, set_ipv6_add_membership, set_ipv6_multicast_hops,
    set_ipv6_multicast_if, set_ipv6_multicast_loop, set_ipv6_v6only, set_socket_reuseaddr,
    set_socket_send_buffer_size, set_socket_send_buffer_size_force,
};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, connect_unspec, netdevice, socket_with,
};

use super::departure::{Departures, clock_of};
use super::method::{Method, WireSocket};
use super::scheduler::Scheduler;
use crate::MediaError;
use crate::address::require_interface;
use crate::ports::rtcp_address;

/// Space in a socket for packets that the interface has not taken yet: four runs of the largest
/// size, so that one can be on the wire while this process waits for its turn. The kernel reckons
/// with twice that for its own needs (socket(7)).
pub const SEND_BUFFER_BYTES: usize = 4 * 65_536;

/// A port's neighbour is taken now and then, hardly so often.
const PAIR_TRIES: usize = 32;

/// How to send to a destination. The default suits unicast.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DestinationOptions {
    /// Only this way of sending, for measurement; none: the best that works.
    pub method: Option<Method>,
    /// Where RTCP goes; none: to the port behind the destination's, which has to be even.
    pub rtcp: Option<SocketAddr>,
    /// How many routers a multicast packet may pass, plus one: 1 (the default) stays on the link, 0
    /// on this host.
    pub multicast_hops: u8,
    /// The interface that multicast packets leave by; none: as routed.
    pub multicast_interface: Option<String>,
    /// Do receivers on this host get multicast packets, too? With 0 hops they do in any case.
    pub multicast_loop: bool,
    /// Space for packets that the interface has not taken yet.
    pub send_buffer_bytes: usize,
    /// Our own even port, which several destinations may share: each is told what comes from it
    /// alone, and what comes from nobody else. None: a pair of its own. Whoever names one holds it
    /// with [`PortPair`].
    pub local_port: Option<u16>,
    /// `SO_PRIORITY`, which can choose a class of the interface's queueing discipline.
    pub priority: Option<i32>,
    /// Packets may be given departure times, if the scheduler of the interface heeds them.
    pub departures: bool,
}

impl Default for DestinationOptions {
    fn default() -> Self {
        Self {
            method: None,
            rtcp: None,
            multicast_hops: 1,
            multicast_interface: None,
            multicast_loop: true,
            send_buffer_bytes: SEND_BUFFER_BYTES,
            local_port: None,
            priority: None,
            departures: false,
        }
    }
}

/// The two sockets, and where they lead.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) rtp: WireSocket,
    pub(crate) rtcp: UdpSocket,
    /// Where RTCP goes.
    pub(crate) rtcp_to: SocketAddr,
    /// Who heeds departure times, if packets have any.
    pub(crate) departures: Departures,
    /// What decides which scheduler it is: the interface, if it is named, and the priority. None:
    /// no departure times.
    way: Option<(Option<String>, Option<i32>)>,
}

impl Endpoint {
    /// Opens and connects both.
    ///
    /// # Errors
    ///
    /// [`MediaError::Destination`] for an address without a port for RTCP, [`MediaError::Socket`]
    /// if the kernel refuses a socket or an option, or knows no way there.
    pub(crate) fn open(
        address: SocketAddr,
        options: &DestinationOptions,
    ) -> Result<Self, MediaError> {
        let address = canonical(address);
        let rtcp_to = match options.rtcp {
            Some(other) => canonical(other),
            None => rtcp_address(address)?,
        };
        if rtcp_to.is_ipv4() != address.is_ipv4() || address.port() == 0 || rtcp_to.port() == 0 {
            return Err(MediaError::Destination {
                destination: address,
            });
        }
        if options.multicast_interface.is_none() || !address.ip().is_multicast() {
            require_interface(address)?;
        }
        let failed = |what| {
            move |source: io::Error| MediaError::Socket {
                what,
                destination: address,
                source,
            }
        };
        let pair = match options.local_port {
            Some(port) => shared_pair(any(address), port),
            None => bound_pair(address),
        };
        let (rtp, rtcp) = pair.map_err(failed("open a pair of UDP sockets"))?;
        for (socket, to) in [(&rtp, address), (&rtcp, rtcp_to)] {
            socket
                .set_nonblocking(true)
                .map_err(failed("set up a socket"))?;
            set_multicast(socket, to, options).map_err(failed("set up multicast"))?;
            socket.connect(to).map_err(failed("find a way"))?;
        }
        set_up(&rtp, options).map_err(failed("set up a socket"))?;
        let interface = options.multicast_interface.clone();
        let interface = interface.filter(|_| address.ip().is_multicast());
        let mut endpoint = Self {
            address,
            rtp: WireSocket::new(rtp),
            rtcp,
            rtcp_to,
            departures: Departures::Unused,
            way: options.departures.then_some((interface, options.priority)),
        };
        endpoint.find_scheduler();
        Ok(endpoint)
    }

    /// Finds out who heeds departure times on the way, if packets may have any: when it is opened,
    /// and when the way may have changed.
    pub(crate) fn find_scheduler(&mut self) {
        let Some((interface, priority)) = &self.way else {
            return;
        };
        let found = Scheduler::towards(self.address, interface.as_deref(), *priority);
        self.departures = match found {
            Err(errno) => Departures::Unknown(errno),
            Ok(scheduler) => match clock_of(scheduler.timing) {
                None => Departures::Ignored(scheduler),
                clock => match self.rtp.keep_departures(clock) {
                    Ok(()) => Departures::Kept(scheduler),
                    Err(errno) => Departures::Refused(scheduler, errno),
                },
            },
        };
        if !matches!(self.departures, Departures::Kept(_)) {
            // It only stops giving times, which the kernel does not refuse.
            let _ = self.rtp.keep_departures(None);
        }
    }

    /// Bytes of the largest packet, from the RTP header on, that goes unfragmented, and the path's
    /// MTU itself.
    pub(crate) fn path_limit(&self) -> Option<(u16, u32)> {
        /// IP and UDP header.
        const HEADERS_V4: u32 = 20 + 8;
        const HEADERS_V6: u32 = 40 + 8;
        let socket = self.rtp.socket();
        let (mtu, headers) = match self.address {
            SocketAddr::V4(_) => (ip_mtu(socket).ok()?, HEADERS_V4),
            SocketAddr::V6(_) => (ipv6_mtu(socket).ok()?, HEADERS_V6),
        };
        let packet = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
        Some((packet, mtu))
    }

    /// Lets the RTCP of a group's members in, who answer from addresses of their own. For others it
    /// changes nothing.
    pub(crate) fn hear_members(&self) -> io::Result<()> {
        if self.rtcp_to.ip().is_multicast() {
            disconnect(&self.rtcp, self.address)?;
        }
        Ok(())
    }

    /// Connects the RTP socket anew, from the same port: its own address may be gone with the
    /// interface that had it. A failure shows in the next send.
    pub(crate) fn reconnect(&self) -> io::Result<()> {
        let socket = self.rtp.socket();
        disconnect(socket, self.address)?;
        Ok(connect(socket, &self.address)?)
    }
}

/// Disconnects a socket of the family of `address`, which keeps its port.
fn disconnect(socket: &UdpSocket, address: SocketAddr) -> io::Result<()> {
    let own = SocketAddr::new(any(address), socket.local_addr()?.port());
    connect_unspec(socket)?;
    match bind(socket, &own) {
        // It kept its port, having been bound to it by number.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An IPv4 address in the clothes of IPv6 is IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address, // keeps its scope
    }
}

fn any(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Two sockets of the family of `address`, the first on an even port, the second on the next.
fn bound_pair(address: SocketAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    let host = any(address);
    for _ in 0..PAIR_TRIES {
        let one = UdpSocket::bind((host, 0))?;
        let port = one.local_addr()?.port();
        match UdpSocket::bind((host, port ^ 1)) {
            Ok(other) if port.is_multiple_of(2) => return Ok((one, other)),
            Ok(other) => return Ok((other, one)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// A pair of ports of this host, held for as long as the value lives, for
/// [`DestinationOptions::local_port`].
#[derive(Debug)]
pub struct PortPair {
    port: u16,
    /// Of the address families that this host has. Nothing is read from them.
    _held: Vec<(UdpSocket, UdpSocket)>,
}

impl PortPair {
    /// Any pair that is free.
    ///
    /// # Errors
    ///
    /// What the kernel says: no ports left.
    pub fn hold() -> io::Result<Self> {
        let tries = (0..PAIR_TRIES).map(|_| {
            let any = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            let port = any.local_addr()?.port() & !1;
            drop(any);
            Self::hold_port(port)
        });
        let found = tries.into_iter().find_map(Result::ok);
        found.ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }

    /// This even port and the next.
    ///
    /// # Errors
    ///
    /// Invalid input for an odd port, or 0; what the kernel says: somebody else has one of them.
    pub fn hold_port(port: u16) -> io::Result<Self> {
        if port == 0 || !port.is_multiple_of(2) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let v4 = shared_pair(Ipv4Addr::UNSPECIFIED.into(), port)?;
        let v6 = shared_pair(Ipv6Addr::UNSPECIFIED.into(), port).ok(); // not every host has it
        Ok(Self {
            port,
            _held: [Some(v4), v6].into_iter().flatten().collect(),
        })
    }

    /// The even one.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Sockets of a pair that others of ours may have, too.
fn shared_pair(host: IpAddr, port: u16) -> io::Result<(UdpSocket, UdpSocket)> {
    let open = |port| -> io::Result<UdpSocket> {
        let family = match host {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        set_socket_reuseaddr(&socket, true)?;
        if host.is_ipv6() {
            set_ipv6_v6only(&socket, true)?;
        }
        bind(&socket, &SocketAddr::new(host, port))?;
        Ok(socket.into())
    };
    Ok((open(port)?, open(port + 1)?))
}

fn set_multicast(
    socket: &UdpSocket,
    address: SocketAddr,
    options: &DestinationOptions,
) -> io::Result<()> {
    let interface = match &options.multicast_interface {
        Some(name) if address.ip().is_multicast() => netdevice::name_to_index(socket, name)?,
        _ => 0, // as routed
    };
    let hops = options.multicast_hops;
    // Linux keeps packets with 0 hops on the host only if somebody there has joined the group, so
    // we do. Ours come from another port than they go to, so they do not come back to this socket.
    let stays = hops == 0;
    let does_loop = options.multicast_loop || stays;
    match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            let any = Ipv4Addr::UNSPECIFIED;
            set_ip_multicast_if_with_ifindex(socket, &any, &any, interface)?;
            set_ip_multicast_ttl(socket, hops.into())?;
            set_ip_multicast_loop(socket, does_loop)?;
            if stays {
                set_ip_add_membership_with_ifindex(socket, &group, &any, interface)?;
            }
        }
        IpAddr::V6(group) if group.is_multicast() => {
            set_ipv6_multicast_if(socket, interface)?;
            set_ipv6_multicast_hops(socket, hops.into())?;
            set_ipv6_multicast_loop(socket, does_loop)?;
            if stays {
                set_ipv6_add_membership(socket, &group, interface)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn set_up(rtp: &UdpSocket, options: &DestinationOptions) -> io::Result<()> {
    let bytes = options.send_buffer_bytes;
    // Beyond `net.core.wmem_max` only with privilege; what the kernel allows will do.
    if set_socket_send_buffer_size_force(rtp, bytes).is_err() {
        set_socket_send_buffer_size(rtp, bytes)?;
    }
    let errors = if rtp.local_addr()?.is_ipv4() {
        SocketOption::Ipv4Errors
    } else {
        SocketOption::Ipv6Errors
    };
    set_socket_option(rtp, errors, 1)?;
    if let Some(priority) = options.priority {
        set_socket_option(rtp, SocketOption::Priority, priority)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(address: &str) -> Result<Endpoint, MediaError> {
        Endpoint::open(address.parse().unwrap(), &DestinationOptions::default())
    }

    #[test]
    fn own_ports_are_a_pair_and_the_rtp_port_survives_a_reconnect() {
        let endpoint = open("127.0.0.1:5004").unwrap();
        let own = endpoint.rtp.socket().local_addr().unwrap().port();
        assert!(own.is_multiple_of(2));
        assert_eq!(endpoint.rtcp.local_addr().unwrap().port(), own + 1);
        assert_eq!(endpoint.rtcp.peer_addr().unwrap().port(), 5005);
        for _ in 0..2 {
            endpoint.reconnect().unwrap();
            let socket = endpoint.rtp.socket();
            assert_eq!(socket.local_addr().unwrap().port(), own);
            assert_eq!(socket.peer_addr().unwrap(), endpoint.address);
        }
    }

    #[test]
    fn ipv4_in_the_clothes_of_ipv6_is_ipv4() {
        let endpoint = open("[::ffff:127.0.0.1]:5004").unwrap();
        assert!(endpoint.address.is_ipv4());
        let (packet, mtu) = endpoint.path_limit().unwrap();
        assert!(u32::from(packet) + 28 <= mtu, "{packet} {mtu}");
    }

    #[test]
    fn endpoint_refuses_address_without_rtcp_port() {
        for address in ["127.0.0.1:0", "127.0.0.1:5005", "[::1]:65535"] {
            let error = open(address).unwrap_err();
            assert!(matches!(error, MediaError::Destination { .. }), "{error}");
        }
        let with = |rtcp: &str| {
            let options = DestinationOptions {
                rtcp: Some(rtcp.parse().unwrap()),
                ..DestinationOptions::default()
            };
            Endpoint::open("127.0.0.1:5005".parse().unwrap(), &options)
        };
        assert!(with("127.0.0.1:7").is_ok());
        assert!(with("127.0.0.1:0").is_err());
        assert!(with("[::1]:7").is_err());
    }

    #[test]
    fn interface_that_does_not_exist_is_refused_for_multicast() {
        let options = DestinationOptions {
            multicast_interface: Some("no-such-one".into()),
            ..DestinationOptions::default()
        };
        let error = Endpoint::open("224.0.1.7:5004".parse().unwrap(), &options).unwrap_err();
        assert!(matches!(error, MediaError::Socket { .. }), "{error}");
    }
}
