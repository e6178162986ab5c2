//! Where frames of one end of a flow leave and arrive: a UDP socket that reserves the port, and the
//! `AF_XDP` sockets of the program that serves the interface, while there is one.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use hythe_node::RegionIndex;
use hythe_sys::socket_option::bind_to_interface;
use hythe_wire::{PAYLOAD_BYTES_MAX, Sent, Wire, WireStatistics};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

use super::encoding::{HEADER_BYTES, Packet};
use crate::watch::Watch;

/// Headers of IPv4 and UDP.
const NETWORK_BYTES: u32 = 20 + 8;
/// The end of the program is looked for this often: each look is a system call.
const END_LOOK_NS: u64 = 10_000_000;
/// A shorter payload is copied beside its header: a further piece of a frame costs the kernel more
/// than that where it copies (0.7 us were measured).
const SLOT_PIECE_MIN: usize = 257;

/// The sockets of one end.
#[derive(Debug)]
pub(crate) struct FrameSocket {
    /// Nothing is received from it: what arrives there found no `AF_XDP` socket.
    udp: UdpSocket,
    /// Secret of the flow.
    word: u64,
    wire: Option<Box<Wired>>,
    /// The longest payload of a frame here.
    payload_bytes_max: usize,
    buffer: Box<[u8]>,
    /// Zeroes, as long as the longest payload: what probes carry.
    padding: Box<[u8]>,
    /// Frames that programs before took.
    frames_of_ended: u64,
}

/// What has arrived.
#[derive(Debug)]
pub(super) enum Arrived {
    Packet(Packet),
    /// A frame that is damaged, or none of the flow.
    Other,
    Nothing,
}

#[derive(Debug)]
struct Wired {
    wire: Wire,
    /// Payload that lies there is sent from there.
    region: Option<RegionIndex>,
    end_looked_ns: u64,
}

impl FrameSocket {
    /// On an address of this host, at a port that the kernel chooses.
    pub(crate) fn open(address: IpAddr, interface: Option<&str>) -> io::Result<Self> {
        let udp = UdpSocket::bind((address, 0))?;
        // Before it is connected: its route is that of the interface.
        interface.map_or(Ok(()), |name| bind_to_interface(&udp, name))?;
        udp.set_nonblocking(true)?;
        // Least that the kernel grants.
        let _ = sockopt::set_socket_recv_buffer_size(&udp, 1);
        Ok(Self {
            udp,
            word: 0,
            wire: None,
            payload_bytes_max: 0,
            buffer: vec![0; PAYLOAD_BYTES_MAX].into(),
            padding: Box::default(),
            frames_of_ended: 0,
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.udp.local_addr()?.port())
    }

    /// To the other end; `word` is the secret of the flow.
    pub(crate) fn connect(&mut self, peer: SocketAddr, word: u64) -> io::Result<()> {
        self.udp.connect(peer)?;
        let datagram_bytes = sockopt::ip_mtu(&self.udp)?.saturating_sub(NETWORK_BYTES) as usize;
        self.payload_bytes_max = datagram_bytes
            .min(PAYLOAD_BYTES_MAX)
            .saturating_sub(HEADER_BYTES);
        self.padding = vec![0; self.payload_bytes_max].into();
        self.word = word;
        Ok(())
    }

    /// Another descriptor of the UDP socket.
    pub(crate) fn udp(&self) -> io::Result<UdpSocket> {
        self.udp.try_clone()
    }

    /// Uses these `AF_XDP` sockets from now on, or none; payload that lies in the region is sent
    /// from there.
    pub(crate) fn set_wire(&mut self, wire: Option<(Wire, Option<RegionIndex>)>) {
        self.end_wire();
        self.wire = wire.map(|(wire, region)| {
            Box::new(Wired {
                wire,
                region,
                end_looked_ns: 0,
            })
        });
    }

    /// With its sockets the kernel lets go of what it had to send.
    fn end_wire(&mut self) {
        self.frames_of_ended = self.frames();
        self.wire = None;
    }

    /// Are there sockets of a program that has not ended? A system call.
    pub(crate) fn is_served(&mut self) -> bool {
        let wire = self.wire.as_mut();
        wire.is_some_and(|wired| !wired.wire.look_for_end())
    }

    pub(crate) fn has_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// The region from which payload is sent without a copy by this process, if there is one.
    pub(crate) fn region(&self) -> Option<RegionIndex> {
        self.wire.as_ref().and_then(|wired| wired.region)
    }

    pub(crate) fn statistics(&self) -> WireStatistics {
        let wire = self.wire.as_ref();
        wire.map_or(WireStatistics::default(), |wired| wired.wire.statistics())
    }

    /// Descriptors that become readable when a frame arrives.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let wire = self.wire.iter();
        let files = wire.flat_map(|wired| wired.wire.descriptors());
        files.map(|file| file.try_clone_to_owned()).collect()
    }

    /// Has `watch` become readable when a frame arrives, for as long as there are these sockets.
    pub(crate) fn watch(&self, watch: &Watch) -> io::Result<()> {
        let wire = self.wire.iter();
        let mut files = wire.flat_map(|wired| wired.wire.descriptors());
        files.try_for_each(|file| watch.add(file))
    }

    /// The longest message that fits a frame.
    pub(super) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// May a frame be sent now? The other station was heard just now, then.
    pub(super) fn is_fresh(&self, now_ns: u64) -> bool {
        let wire = self.wire.as_ref();
        wire.is_some_and(|wired| wired.wire.is_fresh(now_ns))
    }

    /// Frames that were taken so far.
    pub(super) fn frames(&self) -> u64 {
        let wire = self.wire.as_ref();
        self.frames_of_ended + wire.map_or(0, |wired| wired.wire.taken())
    }

    /// Of how many, the first of all, the kernel and the card read nothing any more.
    pub(super) fn returned(&mut self) -> u64 {
        let wire = self.wire.as_mut();
        self.frames_of_ended + wire.map_or(0, |wired| wired.wire.returned())
    }

    /// Takes a message, which leaves with the next [`flush`](Self::flush), from `place` of the
    /// region if that is named. False: no frame is free, or the other station was not heard.
    pub(super) fn send_message(
        &mut self,
        now_ns: u64,
        number: u64,
        payload: &[u8],
        place: Option<u64>,
    ) -> bool {
        let length = payload.len();
        let header = Packet::Message { number, length }.header(self.word, payload);
        let Some(Wired { wire, .. }) = self.wire.as_deref_mut() else {
            return false;
        };
        let sent = match place.filter(|_| length >= SLOT_PIECE_MIN) {
            Some(at) => wire.send_from_slots(now_ns, &header, at, length),
            None => wire.send(now_ns, &[IoSlice::new(&header), IoSlice::new(payload)]),
        };
        sent == Sent::Taken
    }

    /// Sends what was taken.
    pub(super) fn flush(&mut self) {
        if let Some(wired) = &mut self.wire {
            wired.wire.flush();
        }
    }

    /// Sends something without payload. False: as of [`send_message`](Self::send_message).
    pub(super) fn send(&mut self, now_ns: u64, packet: Packet) -> bool {
        let header = packet.header(self.word, &[]);
        let Some(Wired { wire, .. }) = self.wire.as_deref_mut() else {
            return false;
        };
        let is_sent = wire.send(now_ns, &[IoSlice::new(&header)]) == Sent::Taken;
        wire.flush();
        is_sent
    }

    /// Sends the longest frame: where the other station was not heard, by the UDP socket, so that
    /// its kernel finds the station. What is not taken is as if lost on the way.
    pub(super) fn probe(&mut self, now_ns: u64, number: u64) {
        let header = Packet::Probe(number).header(self.word, &self.padding);
        let Some(Wired { wire, .. }) = self.wire.as_deref_mut() else {
            return;
        };
        let pieces = [IoSlice::new(&header), IoSlice::new(&self.padding)];
        if wire.send(now_ns, &pieces) == Sent::Taken {
            wire.flush();
        } else {
            let mut control = SendAncillaryBuffer::default();
            let _ = sendmsg(&self.udp, &pieces, &mut control, SendFlags::empty());
        }
    }

    /// The next frame that has arrived. The payload of a message is [`payload`](Self::payload)
    /// until the next call.
    pub(super) fn receive(&mut self, now_ns: u64) -> Arrived {
        let wire = self.wire.as_mut();
        match wire.and_then(|wired| wired.wire.receive(now_ns, &mut self.buffer)) {
            Some(length) => Packet::decode(self.word, &self.buffer[..length])
                .map_or(Arrived::Other, Arrived::Packet),
            None => Arrived::Nothing,
        }
    }

    /// Bytes of the message that was received last.
    pub(super) fn payload(&self, length: usize) -> &[u8] {
        &self.buffer[HEADER_BYTES..HEADER_BYTES + length]
    }

    /// Lets go of the sockets of a program that has ended.
    pub(super) fn look_for_end(&mut self, now_ns: u64) {
        let Some(wired) = &mut self.wire else {
            return;
        };
        if now_ns.saturating_sub(wired.end_looked_ns) >= END_LOOK_NS {
            wired.end_looked_ns = now_ns;
            if wired.wire.look_for_end() {
                self.end_wire();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_bound_to_interface_that_exists_or_not_made() {
        let here: IpAddr = [127, 0, 0, 1].into();
        FrameSocket::open(here, Some("lo")).expect("the loopback interface");
        for none in ["hythe-none", "a-name-that-is-longer-than-any"] {
            FrameSocket::open(here, Some(none)).expect_err("there is none");
        }
    }

    #[test]
    fn longest_frame_is_that_of_interface_or_chunk() {
        let mut socket = FrameSocket::open([127, 0, 0, 1].into(), None).expect("opens");
        let peer = ([127, 0, 0, 1], 9).into();
        socket.connect(peer, 1).expect("connects");
        // The loopback interface's MTU is 64 KiB.
        assert_eq!(socket.payload_bytes_max(), PAYLOAD_BYTES_MAX - HEADER_BYTES);
        assert!(!socket.send_message(1, 0, &[1], None) && !socket.is_fresh(1));
    }
}
