//! The sockets of a receiver: RTP on an even port, RTCP on the next one, or as a description says;
//! parity on those behind.
//!
//! [`session`](crate::receive::session) waits on them and takes what came. Datagrams are received
//! straight into the caller's memory: joined by the kernel where it can (`UDP_GRO`), else many per
//! call (`recvmmsg`), with source and instant. Nothing here looks into a datagram, allocates after
//! [`Sockets::open`], or blocks but in [`Sockets::wait`], which has a bound.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hythe_sys::udp_receive::{self, BATCH_BYTES, MESSAGES_MAX, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, netdevice, socket_with, sockopt};

use crate::MediaError;
use crate::address::require_interface;

/// What a socket holds while nobody reads, as the kernel accounts for it: 50 ms of 400 Mbit/s,
/// which with the kernel's own overhead (a packet of 1,400 bytes costs 2,304) are 4 MiB.
pub const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Space for one datagram where the kernel does not join them: what Ethernet carries, and some
/// more.
const DATAGRAM_BYTES: usize = BATCH_BYTES / MESSAGES_MAX;
const RTCP_BUFFER_BYTES: usize = 256 << 10;
/// How often a pair of ports is looked for.
const PAIR_TRIES: usize = 100;

/// What to bind to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Address and port of RTP: of this host, unspecified (all of this host), or a multicast group.
    /// Port 0: any even one.
    pub address: SocketAddr,
    /// Port of RTCP; `None`: the one behind RTP's, which has to be even then (RFC 3550, 11).
    pub rtcp_port: Option<u16>,
    /// The interface on which a group is joined; `None`: where the way to it leads.
    pub interface: Option<String>,
    /// Join the group for packets of this host only (RFC 4607).
    pub source: Option<IpAddr>,
    /// Of the RTP socket, [`RECEIVE_BUFFER_BYTES`] by default.
    pub receive_buffer_bytes: usize,
    /// Receive SMPTE ST 2022-1 parity, too: on the ports two and four above RTP's.
    pub parity: bool,
    /// Let the kernel join datagrams where it can. Switched off to measure what that brings.
    pub joins: bool,
}

impl Binding {
    /// With defaults for everything but the address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            rtcp_port: None,
            interface: None,
            source: None,
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            parity: false,
            joins: true,
        }
    }
}

/// What [`Sockets::wait`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is RTP.
    pub rtp: bool,
    /// There is RTCP.
    pub rtcp: bool,
    /// There is parity.
    pub parity: bool,
    /// The stop descriptor is readable, or hung up.
    pub stop: bool,
}

/// The sockets of one stream.
#[derive(Debug)]
pub struct Sockets {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    /// Of columns and of rows.
    parity: Option<[UdpSocket; 2]>,
    address: SocketAddr,
    part: NonZeroUsize,
    messages: usize,
}

impl Sockets {
    /// Binds them, and joins the group if the address is one.
    ///
    /// # Errors
    ///
    /// [`MediaError::PortTaken`]; [`MediaError::Interface`] for one that is not there, even if
    /// there is no group to join; [`MediaError::Socket`] for what else the kernel refuses, and for
    /// an odd port without one for RTCP.
    pub fn open(binding: &Binding) -> Result<Self, MediaError> {
        let Bound { rtp, rtcp, parity } = bind_all(binding)?;
        let failed = failed(binding.address);
        let of_media = [
            (&rtp, binding.receive_buffer_bytes),
            (&rtcp, RTCP_BUFFER_BYTES),
        ];
        let of_parity = parity.iter().flatten();
        let of_parity = of_parity.map(|socket| (socket, binding.receive_buffer_bytes / 4));
        for (socket, bytes) in of_media.into_iter().chain(of_parity) {
            // What the system's administrator allows to everybody may be less; forcing it takes
            // CAP_NET_ADMIN.
            sockopt::set_socket_recv_buffer_size_force(socket, bytes)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes))
                .map_err(|error| failed("size the receive buffer", error.into()))?;
        }
        // Without it instants are taken later, and jitter is a little more.
        let _ = udp_receive::enable_timestamps(&rtp);
        let joins = binding.joins && udp_receive::enable_gro(&rtp).is_ok();
        let (part, messages) = if joins {
            (BATCH_BYTES, 1)
        } else {
            (DATAGRAM_BYTES, MESSAGES_MAX)
        };
        let address = rtp.local_addr();
        Ok(Self {
            address: address.map_err(|error| failed("read the address", error))?,
            rtp,
            rtcp,
            parity,
            part: NonZeroUsize::new(part).unwrap_or(NonZeroUsize::MIN), // neither is zero
            messages,
        })
    }

    /// Where RTP is received, with the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Does the kernel join datagrams?
    #[must_use]
    pub fn joins(&self) -> bool {
        self.messages == 1
    }

    /// How far apart messages lie in the buffer that [`Self::receive`] fills.
    #[must_use]
    pub fn part(&self) -> usize {
        self.part.get()
    }

    /// What the RTP socket holds, as the kernel gave it (it doubles what it is asked for).
    ///
    /// # Errors
    ///
    /// [`MediaError::Socket`].
    pub fn receive_buffer_bytes(&self) -> Result<usize, MediaError> {
        let bytes = sockopt::socket_recv_buffer_size(&self.rtp);
        bytes.map_err(|error| self.failed("read the receive buffer's size", error.into()))
    }

    /// Waits until something comes, `stop` is readable, or `timeout` is over.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`].
    pub fn wait(
        &self,
        stop: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> Result<Readiness, MediaError> {
        let unused = self.rtcp.as_fd(); // in the place of what there is not
        let [columns, rows] = match &self.parity {
            Some(parity) => parity.each_ref().map(AsFd::as_fd),
            None => [unused; 2],
        };
        let stop_or_unused = stop.unwrap_or(unused);
        let mut waited = [self.rtp.as_fd(), unused, stop_or_unused, columns, rows]
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return Err(MediaError::System {
                    what: "wait for packets",
                    source: error.into(),
                });
            }
        }
        let [rtp, rtcp, third, columns, rows] = waited.map(|waited| !waited.revents().is_empty());
        Ok(Readiness {
            rtp,
            rtcp,
            parity: (columns || rows) && self.parity.is_some(),
            stop: third && stop.is_some(),
        })
    }

    /// Takes RTP that waits into `buffer`, of [`BATCH_BYTES`]: message `n` at `n *` [`Self::part`].
    /// Returns how many; 0 if none waits.
    ///
    /// # Errors
    ///
    /// [`MediaError::Socket`].
    pub fn receive(
        &self,
        buffer: &mut [u8],
        messages: &mut [Message; MESSAGES_MAX],
    ) -> Result<usize, MediaError> {
        let messages = &mut messages[..self.messages];
        let received = udp_receive::receive(&self.rtp, buffer, self.part, messages);
        received.map_err(|error| self.failed("receive RTP", error))
    }

    /// Takes one datagram of RTCP that waits. It is cut off if it is longer than `buffer`.
    ///
    /// # Errors
    ///
    /// [`MediaError::Socket`].
    pub fn receive_rtcp<'b>(
        &self,
        buffer: &'b mut [u8],
    ) -> Result<Option<(&'b [u8], SocketAddr)>, MediaError> {
        self.receive_one(&self.rtcp, buffer)
    }

    /// Takes one datagram of parity that waits. It is cut off if it is longer than `buffer`.
    ///
    /// # Errors
    ///
    /// [`MediaError::Socket`].
    pub fn receive_parity<'b>(
        &self,
        buffer: &'b mut [u8],
    ) -> Result<Option<(&'b [u8], SocketAddr)>, MediaError> {
        let mut received = None;
        for socket in self.parity.iter().flatten() {
            received = self
                .receive_one(socket, buffer)?
                .map(|(datagram, source)| (datagram.len(), source));
            if received.is_some() {
                break;
            }
        }
        Ok(received.map(|(bytes, source)| (&buffer[..bytes], source)))
    }

    fn receive_one<'b>(
        &self,
        socket: &UdpSocket,
        buffer: &'b mut [u8],
    ) -> Result<Option<(&'b [u8], SocketAddr)>, MediaError> {
        match socket.recv_from(buffer) {
            Ok((bytes, source)) => Ok(Some((&buffer[..bytes], source))),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(self.failed("receive RTCP or parity", error)),
        }
    }

    /// Sends a packet of RTCP from the RTCP port.
    ///
    /// # Errors
    ///
    /// What the kernel says; it costs one report, and the stream goes on.
    pub fn send_rtcp(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        self.rtcp.send_to(packet, to).map(|_| ())
    }

    /// How many datagrams of RTP the kernel dropped because the buffer was full; joined ones count
    /// once.
    ///
    /// # Errors
    ///
    /// [`MediaError::Socket`].
    pub fn drops(&self) -> Result<u32, MediaError> {
        let drops = udp_receive::drops(&self.rtp);
        drops.map_err(|error| self.failed("read the drop counter", error))
    }

    fn failed(&self, what: &'static str, source: io::Error) -> MediaError {
        failed(self.address)(what, source)
    }
}

fn failed(destination: SocketAddr) -> impl Fn(&'static str, io::Error) -> MediaError {
    move |what, source| MediaError::Socket {
        what,
        destination,
        source,
    }
}

/// Nothing there, or an answer to a report that nobody wanted (ICMP).
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | Interrupted | ConnectionRefused | HostUnreachable
    )
}

/// What is bound for a [`Binding`].
struct Bound {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    parity: Option<[UdpSocket; 2]>,
}

/// Binds RTP, then RTCP, then parity; any pair of ports if the binding names none.
fn bind_all(binding: &Binding) -> Result<Bound, MediaError> {
    let address = binding.address;
    if address.port() == 0 {
        return find_ports(binding);
    }
    let is_alone = binding.rtcp_port.is_none() && !address.port().is_multiple_of(2);
    if is_alone {
        return Err(unbindable(
            address,
            "RTP takes an even port, or name one for RTCP",
        ));
    }
    let rtp = bind_one(binding, address)?;
    bind_beside(binding, rtp, address)
}

fn unbindable(address: SocketAddr, reason: &str) -> MediaError {
    let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
    failed(address)("bind RTP and RTCP", source)
}

/// Binds the ports that go with RTP's.
fn bind_beside(
    binding: &Binding,
    rtp: UdpSocket,
    address: SocketAddr,
) -> Result<Bound, MediaError> {
    let above = |ports: u16| {
        let port = address.port().checked_add(ports);
        let port = port.ok_or_else(|| unbindable(address, "there is no port so far above"))?;
        bind_one(binding, SocketAddr::new(address.ip(), port))
    };
    let rtcp = match binding.rtcp_port {
        Some(port) => bind_one(binding, SocketAddr::new(address.ip(), port))?,
        None => above(1)?,
    };
    let parity = match binding.parity {
        true => Some([above(2)?, above(4)?]),
        false => None,
    };
    Ok(Bound { rtp, rtcp, parity })
}

fn find_ports(binding: &Binding) -> Result<Bound, MediaError> {
    // Odd ones are kept until the end, so that the kernel does not offer them again.
    let mut odd = Vec::new();
    for _ in 0..PAIR_TRIES {
        let rtp = bind_one(binding, binding.address)?;
        let local = rtp.local_addr();
        let address = local.map_err(|error| failed(binding.address)("read the port", error))?;
        if binding.rtcp_port.is_none() && !address.port().is_multiple_of(2) {
            odd.push(rtp);
            continue;
        }
        match bind_beside(binding, rtp, address) {
            Err(MediaError::PortTaken { port }) if Some(port) != binding.rtcp_port => {}
            bound => return bound,
        }
    }
    Err(MediaError::PortTaken { port: 0 })
}

fn bind_one(binding: &Binding, address: SocketAddr) -> Result<UdpSocket, MediaError> {
    let failed = failed(address);
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)
        .map_err(|error| failed("open a UDP socket", error.into()))?;
    let interface = interface(&socket, binding)?;
    require_interface(scoped(address, interface))?;
    if address.ip().is_multicast() {
        join(&socket, binding, interface).map_err(|error| failed("join the group", error))?;
    }
    match bind(&socket, &scoped(address, interface)) {
        Ok(()) => Ok(socket.into()),
        Err(Errno::ADDRINUSE) => Err(MediaError::PortTaken {
            port: address.port(),
        }),
        Err(error) => Err(failed("bind to the port", error.into())),
    }
}

/// The index of the interface, 0 if none was named.
fn interface(socket: impl AsFd, binding: &Binding) -> Result<u32, MediaError> {
    let Some(name) = &binding.interface else {
        return Ok(0);
    };
    netdevice::name_to_index(socket, name).map_err(|error| MediaError::Interface {
        name: name.clone(),
        source: error.into(),
    })
}

/// Joins the group, and lets others on this host do the same.
fn join(socket: impl AsFd, binding: &Binding, interface: u32) -> io::Result<()> {
    sockopt::set_socket_reuseaddr(&socket, true)?;
    match (binding.address.ip(), binding.source) {
        (group, Some(source)) => udp_receive::join_source(socket, group, source, interface)?,
        (IpAddr::V4(group), None) => {
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_add_membership_with_ifindex(socket, &group, &any, interface)?;
        }
        (IpAddr::V6(group), None) => {
            sockopt::set_ipv6_add_membership(socket, &group, interface)?;
        }
    }
    Ok(())
}

/// An address within one link, of a group or not, is another one on each interface.
fn scoped(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(mut address) if interface > 0 => {
            address.set_scope_id(interface);
            address.into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(address: &str) -> Result<Sockets, MediaError> {
        Sockets::open(&Binding::new(address.parse().unwrap()))
    }

    #[test]
    fn pair_is_found_and_is_ours_alone() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(sockets) = open(host) else {
                println!("skipped: no {host} here");
                continue;
            };
            let address = sockets.address();
            assert!(address.port().is_multiple_of(2));
            assert!(sockets.receive_buffer_bytes().unwrap() > 0);
            let error = open(&address.to_string()).unwrap_err();
            assert!(matches!(error, MediaError::PortTaken { port } if port == address.port()));
            // RTCP's port alone is enough to be refused.
            let address = SocketAddr::new(address.ip(), hythe_testing::reserve_ports(2));
            let _other = UdpSocket::bind((address.ip(), address.port() + 1)).unwrap();
            let error = open(&address.to_string()).unwrap_err();
            assert!(matches!(error, MediaError::PortTaken { port } if port == address.port() + 1));
        }
    }

    #[test]
    fn odd_port_wants_one_for_rtcp() {
        let error = open("127.0.0.1:45677").unwrap_err();
        assert!(matches!(error, MediaError::Socket { .. }), "{error}");
        let free = hythe_testing::reserve_ports(2);
        let binding = Binding {
            rtcp_port: Some(free),
            ..Binding::new(SocketAddr::from(([127, 0, 0, 1], free + 1)))
        };
        assert_eq!(Sockets::open(&binding).unwrap().address().port(), free + 1);
    }

    #[test]
    fn wait_ends_for_each_reason() {
        let sockets = open("127.0.0.1:0").unwrap();
        let (stop, stopper) = rustix::pipe::pipe().unwrap();
        let wait = |timeout| sockets.wait(Some(stop.as_fd()), timeout).unwrap();
        assert_eq!(wait(Duration::ZERO), Readiness::default());
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[1], sockets.address()).unwrap();
        let long = Duration::from_secs(60);
        assert_eq!(
            wait(long),
            Readiness {
                rtp: true,
                ..Readiness::default()
            }
        );
        let mut rtcp_address = sockets.address();
        rtcp_address.set_port(rtcp_address.port() + 1);
        sender.send_to(&[1, 2], rtcp_address).unwrap();
        assert_eq!(
            wait(long),
            Readiness {
                rtp: true,
                rtcp: true,
                ..Readiness::default()
            }
        );
        let mut buffer = [0; 100];
        let (datagram, source) = sockets.receive_rtcp(&mut buffer).unwrap().unwrap();
        assert_eq!(
            (datagram, source),
            (&[1, 2][..], sender.local_addr().unwrap())
        );
        assert_eq!(sockets.receive_rtcp(&mut buffer).unwrap(), None);
        drop(stopper);
        assert!(wait(long).stop);
        assert!(!sockets.wait(None, Duration::ZERO).unwrap().stop);
    }

    #[test]
    fn interface_that_is_not_there_is_named() {
        for address in ["239.255.77.1:0", "127.0.0.1:0"] {
            let binding = Binding {
                interface: Some("hythe-none".into()),
                ..Binding::new(address.parse().unwrap())
            };
            let error = Sockets::open(&binding).unwrap_err();
            assert!(
                matches!(&error, MediaError::Interface { name, .. } if name == "hythe-none"),
                "{error}"
            );
        }
    }
}
