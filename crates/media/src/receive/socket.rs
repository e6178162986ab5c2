//! The sockets of a receiver: RTP on an even port, RTCP on the next one, or as a description says.
//!
//! [`session`](crate::receive::session) waits on them and takes what came. Datagrams are received straight into the caller's memory:
//! joined by the kernel where it can (`UDP_GRO`), else many per call (`recvmmsg`), with source and instant. Nothing here looks into a
//! datagram, allocates after [`Sockets::open`], or blocks but in [`Sockets::wait`], which has a bound.

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

/// What a socket holds while nobody reads, as the kernel accounts for it: 50 ms of 400 Mbit/s, which with the kernel's own overhead
/// (a packet of 1,400 bytes costs 2,304) are 4 MiB.
pub const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Room for one datagram where the kernel does not join them: what Ethernet carries, and some more.
const DATAGRAM_BYTES: usize = BATCH_BYTES / MESSAGES_MAX;
const RTCP_BUFFER_BYTES: usize = 256 << 10;
/// How often a pair of ports is looked for.
const PAIR_TRIES: usize = 100;

/// What to bind to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Address and port of RTP: of this host, unspecified (all of this host), or a multicast group. Port 0: any even one.
    pub address: SocketAddr,
    /// Port of RTCP; `None`: the one behind RTP's, which has to be even then (RFC 3550, 11).
    pub rtcp_port: Option<u16>,
    /// The interface on which a group is joined; `None`: where the way to it leads.
    pub interface: Option<String>,
    /// Join the group for packets of this host only (RFC 4607).
    pub source: Option<IpAddr>,
    /// Of the RTP socket, [`RECEIVE_BUFFER_BYTES`] by default.
    pub receive_buffer_bytes: usize,
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
    /// The stop descriptor is readable, or hung up.
    pub stop: bool,
}

/// The two sockets.
#[derive(Debug)]
pub struct Sockets {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    address: SocketAddr,
    part: NonZeroUsize,
    messages: usize,
}

impl Sockets {
    /// Binds both, and joins the group if the address is one.
    ///
    /// # Errors
    ///
    /// [`MediaError::PortTaken`]; [`MediaError::Socket`] for what else the kernel refuses, and for an odd port without one for RTCP.
    pub fn open(binding: &Binding) -> Result<Self, MediaError> {
        let (rtp, rtcp) = bind_pair(binding)?;
        let failed = failed(binding.address);
        for (socket, bytes) in [
            (&rtp, binding.receive_buffer_bytes),
            (&rtcp, RTCP_BUFFER_BYTES),
        ] {
            // What the system's administrator allows to everybody may be less; forcing it takes CAP_NET_ADMIN.
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
        let unused = self.rtcp.as_fd(); // in the place of a stop descriptor
        let mut waited = [self.rtp.as_fd(), self.rtcp.as_fd(), stop.unwrap_or(unused)]
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
        let [rtp, rtcp, third] = waited.map(|waited| !waited.revents().is_empty());
        Ok(Readiness {
            rtp,
            rtcp,
            stop: third && stop.is_some(),
        })
    }

    /// Takes RTP that waits into `buffer`, of [`BATCH_BYTES`]: message `n` at `n *` [`Self::part`]. Returns how many; 0 if none
    /// waits.
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
        match self.rtcp.recv_from(buffer) {
            Ok((bytes, source)) => Ok(Some((&buffer[..bytes], source))),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(self.failed("receive RTCP", error)),
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

    /// How many datagrams of RTP the kernel dropped because the buffer was full; joined ones count once.
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

/// Binds RTP, then RTCP; any pair of ports if the binding names none.
fn bind_pair(binding: &Binding) -> Result<(UdpSocket, UdpSocket), MediaError> {
    let address = binding.address;
    if address.port() == 0 {
        return find_pair(binding);
    }
    let is_alone = binding.rtcp_port.is_none() && !address.port().is_multiple_of(2);
    if is_alone {
        let reason = "RTP takes an even port, or name one for RTCP";
        let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
        return Err(failed(address)("bind RTP and RTCP", source));
    }
    let mut rtcp_address = address;
    rtcp_address.set_port(binding.rtcp_port.unwrap_or(address.port() + 1));
    let rtp = bind_one(binding, address)?;
    Ok((rtp, bind_one(binding, rtcp_address)?))
}

fn find_pair(binding: &Binding) -> Result<(UdpSocket, UdpSocket), MediaError> {
    // Odd ones are kept until the end, so that the kernel does not offer them again.
    let mut odd = Vec::new();
    for _ in 0..PAIR_TRIES {
        let rtp = bind_one(binding, binding.address)?;
        let local = rtp.local_addr();
        let mut address = local.map_err(|error| failed(binding.address)("read the port", error))?;
        let port = address.port();
        if binding.rtcp_port.is_none() && !port.is_multiple_of(2) {
            odd.push(rtp);
            continue;
        }
        address.set_port(binding.rtcp_port.unwrap_or(port + 1));
        match bind_one(binding, address) {
            Err(MediaError::PortTaken { .. }) if binding.rtcp_port.is_none() => odd.push(rtp),
            bound => return Ok((rtp, bound?)),
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
    let joined = address.ip().is_multicast().then(|| join(&socket, binding));
    let interface = match joined {
        Some(joined) => joined.map_err(|error| failed("join the group", error))?,
        None => 0,
    };
    match bind(&socket, &scoped(address, interface)) {
        Ok(()) => Ok(socket.into()),
        Err(Errno::ADDRINUSE) => Err(MediaError::PortTaken {
            port: address.port(),
        }),
        Err(error) => Err(failed("bind to the port", error.into())),
    }
}

/// Joins the group, and lets others on this host do the same. The index of the interface, 0 if none was named.
fn join(socket: impl AsFd, binding: &Binding) -> io::Result<u32> {
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let interface = match &binding.interface {
        Some(name) => netdevice::name_to_index(&socket, name)?,
        None => 0,
    };
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
    Ok(interface)
}

/// A group within one link is another one on each interface.
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
    fn a_pair_is_found_and_is_ours_alone() {
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
            drop(sockets);
            let _other = UdpSocket::bind((address.ip(), address.port() + 1)).unwrap();
            let error = open(&address.to_string()).unwrap_err();
            assert!(matches!(error, MediaError::PortTaken { port } if port == address.port() + 1));
        }
    }

    #[test]
    fn an_odd_port_wants_one_for_rtcp() {
        let error = open("127.0.0.1:45677").unwrap_err();
        assert!(matches!(error, MediaError::Socket { .. }), "{error}");
        let sockets = open("127.0.0.1:0").unwrap();
        let free = sockets.address().port();
        drop(sockets);
        let binding = Binding {
            rtcp_port: Some(free),
            ..Binding::new(SocketAddr::from(([127, 0, 0, 1], free + 1)))
        };
        assert_eq!(Sockets::open(&binding).unwrap().address().port(), free + 1);
    }

    #[test]
    fn a_wait_ends_for_each_reason() {
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
                stop: false
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
    fn an_interface_that_is_not_there_is_named() {
        let binding = Binding {
            interface: Some("hythe-none".into()),
            ..Binding::new("239.255.77.1:0".parse().unwrap())
        };
        let error = Sockets::open(&binding).unwrap_err();
        assert!(
            matches!(
                error,
                MediaError::Socket {
                    what: "join the group",
                    ..
                }
            ),
            "{error}"
        );
    }
}
