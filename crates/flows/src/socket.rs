//! A connected UDP socket that never blocks: runs of datagrams out, what has come in.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hythe_packets::{ACKNOWLEDGEMENT_BYTES_MAX, datagram_bytes};
use hythe_sys::udp_receive::{self, BATCH_BYTES};
use hythe_sys::udp_send;
use rustix::net::sockopt;

/// Of each direction; the kernel grants what its limit permits.
const BUFFER_BYTES: usize = 4 << 20;

/// The socket of one end of a flow.
#[derive(Debug)]
pub(crate) struct FlowSocket {
    socket: UdpSocket,
}

/// What became of a run that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The kernel has it.
    Taken,
    /// The socket's buffer is full.
    Later,
    /// The path takes shorter datagrams only.
    TooLong,
    /// It is gone, as if lost on the way: the link is down, or nobody is at the port.
    Lost,
}

/// Where datagrams are received, before it is known where they belong.
#[derive(Debug)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// For datagrams that the kernel joins.
    pub(crate) fn for_batches() -> Self {
        Self(vec![0; BATCH_BYTES])
    }

    /// For one short one at a time.
    pub(crate) fn for_acknowledgements() -> Self {
        Self(vec![0; ACKNOWLEDGEMENT_BYTES_MAX])
    }
}

impl FlowSocket {
    /// Opens a socket on an address of this host, on a port that the kernel chooses.
    pub(crate) fn open(address: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        // What is not granted costs packets of long bursts, which are sent again.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
        Ok(Self { socket })
    }

    /// Has the kernel join datagrams that come together, if it can. From now on [`Self::receive`]
    /// wants a [`Buffer::for_batches`].
    pub(crate) fn join_batches(&self) {
        let _ = udp_receive::enable_gro(&self.socket);
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(crate) fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(peer)
    }

    /// Another descriptor of it.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.socket.try_clone()?.into())
    }

    /// What the kernel keeps until it is read, by its own reckoning.
    pub(crate) fn buffer_bytes(&self) -> u32 {
        let granted = sockopt::socket_recv_buffer_size(&self.socket).unwrap_or(0);
        u32::try_from(granted).unwrap_or(u32::MAX)
    }

    /// Sends datagrams of `segment_bytes`, of which the last may be shorter.
    pub(crate) fn send(
        &self,
        pieces: &[IoSlice<'_>],
        segments: usize,
        segment_bytes: u16,
    ) -> Passed {
        let sent = match segments {
            1 => rustix::net::sendmsg(
                &self.socket,
                pieces,
                &mut rustix::net::SendAncillaryBuffer::default(),
                rustix::net::SendFlags::NOSIGNAL,
            )
            .map(drop)
            .map_err(io::Error::from),
            _ => udp_send::send_segmented(&self.socket, pieces, segment_bytes),
        };
        match sent {
            Ok(()) => Passed::Taken,
            Err(error) => passed(&error),
        }
    }

    /// The MTU of the way to the peer, as far as the kernel knows it.
    pub(crate) fn path_mtu(&self) -> Option<u16> {
        let mtu = match self.address().ok()? {
            SocketAddr::V4(_) => sockopt::ip_mtu(&self.socket),
            SocketAddr::V6(_) => sockopt::ipv6_mtu(&self.socket),
        };
        u16::try_from(mtu.ok()?).ok()
    }

    /// Sends one datagram.
    pub(crate) fn send_one(&self, datagram: &[u8]) -> Passed {
        match self.socket.send(datagram) {
            Ok(_) => Passed::Taken,
            Err(error) => passed(&error),
        }
    }

    /// Gives each datagram that has come to `take`: one, or those that the kernel has joined, which
    /// are as long as the first says, but for the last. False: none had come.
    pub(crate) fn receive<E>(
        &self,
        Buffer(bytes): &mut Buffer,
        take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        match self.socket.recv(bytes) {
            Ok(length) => {
                let joined = &bytes[..length];
                let mut datagrams = joined.chunks(datagram_bytes(joined));
                datagrams.try_for_each(take)?;
                Ok(true)
            }
            // What the kernel says of earlier datagrams, that nobody was there for instance, is no
            // datagram: the flow's own time-outs judge.
            Err(_) => Ok(false),
        }
    }
}

impl AsFd for FlowSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn passed(error: &io::Error) -> Passed {
    match error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error)
    {
        Some(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Passed::Later,
        Some(rustix::io::Errno::MSGSIZE | rustix::io::Errno::INVAL) => Passed::TooLong,
        _ => Passed::Lost,
    }
}
