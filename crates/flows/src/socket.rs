//! A connected UDP socket that never blocks: runs of datagrams out, what has come in.
//!
//! Beside it there may be an `AF_XDP` socket, for the same datagrams ([`Wire`]). It sends what the
//! agent says, as a rule what is short: the kernel cuts long runs for UDP by one call. Both
//! receive. Which of them a datagram goes by the other host need not know, and nothing is lost when
//! the second one goes.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hythe_node::RegionIndex;
use hythe_packets::{ACKNOWLEDGEMENT_BYTES_MAX, datagram_bytes};
use hythe_sys::socket_option::bind_to_interface;
use hythe_sys::udp_receive::{self, BATCH_BYTES};
use hythe_sys::udp_send;
use hythe_wire::{Sent, Wire, WireStatistics};
use rustix::net::sockopt;

use crate::watch::Watch;

/// Of each direction; the kernel grants what its limit permits.
const BUFFER_BYTES: usize = 4 << 20;

/// Longer runs of datagrams are long ones.
const WIRE_RUN_MAX: usize = 8;
/// Of datagrams that have come by the wire, taken by one call.
const WIRE_BATCH: usize = 64;
/// Who looks all the time, for what comes by a wire, looks at UDP so often: each look is a system
/// call. Half as often after each look in vain.
const UDP_LOOK_NS: u64 = 20_000;
const UDP_LOOK_NS_MAX: u64 = 16 * UDP_LOOK_NS;
/// And for the end of the wire.
const END_LOOK_NS: u64 = 10_000_000;
/// Datagrams that leave by the other way may come sooner than those before: what is sent while
/// others are on their way changes it so often only.
const SWITCH_NS: u64 = 100_000_000;
/// A shorter payload is copied beside its header: a further piece of a frame costs the kernel more
/// than that where it copies (0.7 µs were measured).
const SLOT_PIECE_MIN: usize = 257;

/// The socket of one end of a flow.
#[derive(Debug)]
pub(crate) struct FlowSocket {
    socket: UdpSocket,
    wire: Option<Box<Wired>>,
    /// What wires that have ended had taken.
    frames_of_ended: u64,
}

#[derive(Debug)]
struct Wired {
    wire: Wire,
    /// Payload that lies there is sent from there.
    card: Option<RegionIndex>,
    uses: Uses,
    sends: bool,
    switched_ns: u64,
    looked_ns: u64,
    /// Until the next look at UDP.
    look_ns: u64,
    /// The last datagram came by UDP: long runs do, and more of one may lie there.
    comes_by_udp: bool,
    end_looked_ns: u64,
}

/// What leaves by a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) short: bool,
    pub(crate) long: bool,
}

/// Datagrams of one size that are to be sent; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// Two for each datagram, header and payload.
    pub(crate) pieces: &'a [IoSlice<'a>],
    /// For each, where its payload is in the region for network cards, if it is there.
    pub(crate) places: &'a [Option<u64>],
    pub(crate) segments: usize,
    pub(crate) segment_bytes: u16,
    /// Nothing that was sent before is on its way.
    pub(crate) is_first: bool,
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

/// What one look at a socket brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Datagrams, and more may have come.
    Some,
    /// None: nothing has come.
    Nothing,
    /// None, and UDP was not looked at: something may have come there.
    NotLooked,
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
    /// Opens a socket on an address of this host, on a port that the kernel chooses; its packets
    /// leave and come by that interface, if one is named.
    pub(crate) fn open(address: IpAddr, interface: Option<&str>) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        // Before it is connected: its route is that of the interface.
        interface.map_or(Ok(()), |name| bind_to_interface(&socket, name))?;
        socket.set_nonblocking(true)?;
        // What is not granted costs packets of long bursts, which are sent again.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
        Ok(Self {
            socket,
            wire: None,
            frames_of_ended: 0,
        })
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

    /// Another descriptor of the same socket.
    pub(crate) fn udp(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    /// Uses these sockets past the kernel's protocols beside this one from now on, or none; payload
    /// that lies in a region of which they send is sent from there.
    pub(crate) fn set_wire(&mut self, wire: Option<(Wire, Option<RegionIndex>, Uses)>) {
        self.end_wire();
        self.wire = wire.map(|(wire, card, uses)| {
            Box::new(Wired {
                wire,
                card,
                uses,
                sends: false,
                switched_ns: 0,
                looked_ns: 0,
                look_ns: UDP_LOOK_NS,
                comes_by_udp: false,
                end_looked_ns: 0,
            })
        });
    }

    /// Uses those that it has for this from now on. False: it has none, or the program that serves
    /// them is gone. A system call.
    pub(crate) fn keep_wire(&mut self, uses: Uses) -> bool {
        self.wire.as_mut().is_some_and(|wired| {
            wired.uses = uses;
            !wired.wire.look_for_end()
        })
    }

    /// The region from which payload is sent without a copy by this process, if there is one.
    pub(crate) fn card(&self) -> Option<RegionIndex> {
        self.wire.as_ref().and_then(|wired| wired.card)
    }

    /// What was done by the wire that there is.
    pub(crate) fn wire_statistics(&self) -> WireStatistics {
        let wire = self.wire.as_ref();
        wire.map_or(WireStatistics::default(), |wired| wired.wire.statistics())
    }

    /// How many frames wires have taken.
    pub(crate) fn frames(&self) -> u64 {
        let wire = self.wire.as_ref();
        self.frames_of_ended + wire.map_or(0, |wired| wired.wire.taken())
    }

    /// How many of them, the first, are read by nobody any more.
    pub(crate) fn returned(&mut self) -> u64 {
        let wire = self.wire.as_mut();
        self.frames_of_ended + wire.map_or(0, |wired| wired.wire.returned())
    }

    /// With its sockets the kernel lets go of what a wire had to send.
    fn end_wire(&mut self) {
        self.frames_of_ended = self.frames();
        self.wire = None;
    }

    pub(crate) fn has_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// The next [`receive`](Self::receive) looks at UDP, too: its caller is about to sleep.
    pub(crate) fn look_at_udp(&mut self) {
        if let Some(wired) = &mut self.wire {
            wired.look_ns = 0;
        }
    }

    /// Does the card itself read and write what goes by the wire?
    pub(crate) fn is_zero_copy(&self) -> bool {
        let wire = self.wire.as_ref();
        wire.is_some_and(|wired| wired.wire.is_zero_copy())
    }

    /// Further descriptors that become readable when something comes.
    pub(crate) fn wire_descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let wire = self.wire.iter();
        let files = wire.flat_map(|wired| wired.wire.descriptors());
        files.map(|file| file.try_clone_to_owned()).collect()
    }

    /// Has somebody be woken when something comes by the wire, for as long as that is there.
    pub(crate) fn watch_wire(&self, watch: &Watch) -> io::Result<()> {
        let wire = self.wire.iter();
        let mut files = wire.flat_map(|wired| wired.wire.descriptors());
        files.try_for_each(|file| watch.add(file))
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

    /// Sends datagrams.
    pub(crate) fn send(&mut self, now_ns: u64, run: Run<'_>) -> Passed {
        if let Some(wired) = &mut self.wire
            && wired.is_for(now_ns, run)
        {
            return self.send_by_wire(now_ns, run);
        }
        self.send_by_udp(run.pieces, run.segments, run.segment_bytes)
    }

    fn send_by_wire(&mut self, now_ns: u64, run: Run<'_>) -> Passed {
        let (mut left, mut places) = (run.pieces, run.places.iter());
        if let Some(wired) = &mut self.wire {
            while let Some((datagram, rest)) = left.split_at_checked(2)
                && wired.send(now_ns, datagram, places.next().copied().flatten()) == Sent::Taken
            {
                left = rest;
            }
            wired.wire.flush();
        }
        match left.len() / 2 {
            0 => Passed::Taken,
            segments => self.send_by_udp(left, segments, run.segment_bytes),
        }
    }

    fn send_by_udp(&self, pieces: &[IoSlice<'_>], segments: usize, segment_bytes: u16) -> Passed {
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
    pub(crate) fn send_one(&mut self, now_ns: u64, datagram: &[u8]) -> Passed {
        if let Some(wired) = &mut self.wire
            && wired.uses.short
            && wired.wire.send(now_ns, &[IoSlice::new(datagram)]) == Sent::Taken
        {
            wired.wire.flush();
            return Passed::Taken;
        }
        match self.socket.send(datagram) {
            Ok(_) => Passed::Taken,
            Err(error) => passed(&error),
        }
    }

    /// Gives datagrams that have come to `take`: by the wire up to a limit, by UDP one, or those
    /// that the kernel has joined, which are as long as the first says, but for the last.
    pub(crate) fn receive<E>(
        &mut self,
        now_ns: u64,
        Buffer(bytes): &mut Buffer,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Received, E> {
        let mut by_wire = Received::Nothing;
        if let Some(wired) = &mut self.wire {
            for _ in 0..WIRE_BATCH {
                let Some(length) = wired.wire.receive(now_ns, bytes) else {
                    break;
                };
                by_wire = Received::Some;
                wired.comes_by_udp = false;
                // On a virtual link the other kernel may not have cut what it was given as one.
                let joined = &bytes[..length];
                joined
                    .chunks(datagram_bytes(joined))
                    .try_for_each(&mut take)?;
            }
            if !wired.is_to_look_at_udp(now_ns) {
                return Ok(match by_wire {
                    Received::Some => Received::Some,
                    _ => Received::NotLooked,
                });
            }
            if wired.has_ended(now_ns) {
                self.end_wire();
            }
        }
        match self.socket.recv(bytes) {
            Ok(length) => {
                if let Some(wired) = &mut self.wire {
                    (wired.comes_by_udp, wired.look_ns) = (true, UDP_LOOK_NS);
                }
                let joined = &bytes[..length];
                let mut datagrams = joined.chunks(datagram_bytes(joined));
                datagrams.try_for_each(take)?;
                Ok(Received::Some)
            }
            // What the kernel says of earlier datagrams, that nobody was there for instance, is no
            // datagram: the flow's own time-outs judge.
            Err(_) => Ok(by_wire),
        }
    }
}

impl Wired {
    /// Takes a datagram, header and payload.
    fn send(&mut self, now_ns: u64, datagram: &[IoSlice<'_>], place: Option<u64>) -> Sent {
        match (place, datagram) {
            (Some(at), [header, payload]) if payload.len() >= SLOT_PIECE_MIN => {
                self.wire.send_from_slots(now_ns, header, at, payload.len())
            }
            _ => self.wire.send(now_ns, datagram),
        }
    }

    /// Is a run to leave by the wire?
    fn is_for(&mut self, now_ns: u64, run: Run<'_>) -> bool {
        let is_wanted = match run.segments {
            ..=WIRE_RUN_MAX => self.uses.short,
            _ => self.uses.long,
        };
        if !is_wanted || !self.wire.is_fresh(now_ns) {
            self.sends = false;
            self.switched_ns = now_ns;
        } else if !self.sends
            && (run.is_first || now_ns.saturating_sub(self.switched_ns) >= SWITCH_NS)
        {
            self.sends = true;
        }
        self.sends
    }

    fn is_to_look_at_udp(&mut self, now_ns: u64) -> bool {
        let is_due = self.comes_by_udp || now_ns.saturating_sub(self.looked_ns) >= self.look_ns;
        if is_due {
            self.looked_ns = now_ns;
            self.look_ns = (2 * self.look_ns).clamp(UDP_LOOK_NS, UDP_LOOK_NS_MAX);
        }
        is_due
    }

    fn has_ended(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.end_looked_ns) >= END_LOOK_NS;
        if is_due {
            self.end_looked_ns = now_ns;
        }
        is_due && self.wire.look_for_end()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_bound_to_an_interface_that_is_there_or_not_made() {
        let here: IpAddr = [127, 0, 0, 1].into();
        FlowSocket::open(here, Some("lo")).expect("the loopback interface");
        for none in ["hythe-none", "a-name-that-is-longer-than-any"] {
            FlowSocket::open(here, Some(none)).expect_err("there is none");
        }
    }
}
