//! A conference: what each participant sends goes to all the others, as it came.
//!
//! The command owns a [`Relay`] and calls [`turn`](Relay::turn) in a loop. Packets are received in
//! batches, joined by the kernel where it can, and sent on from the buffer they came in: nobody
//! rewrites or copies a payload. RTCP goes the same way (RFC 3550, section 7.2: a translator that
//! forwards), so participants see each other's reports.
//!
//! **Who takes part is said beforehand.** A participant is an address that it sends from and is
//! sent to (symmetric RTP, RFC 4961); its socket is connected, so the kernel drops what comes from
//! elsewhere. Whoever forges an address can neither join nor have media sent to somebody who did
//! not ask for it.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use hythe_rtp::HEADER_BYTES;
use hythe_sys::udp_receive::{self, BATCH_BYTES, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::MediaError;
use crate::wire::PacketMemory;
use crate::wire::destination::{Destination, DestinationStatistics};
use crate::wire::endpoint::{DestinationOptions, PortPair};
use crate::wire::health::Event;
use crate::wire::packets::Packets;
use crate::wire::run::PacketPlace;

/// Most participants: each packet of one goes to all the others.
pub const PARTICIPANTS_MAX: usize = 64;
/// One message at a time, with all the space there is: the kernel joins what came together.
const BATCH: NonZeroUsize = NonZeroUsize::new(BATCH_BYTES).expect("more than none");
/// Batches taken from one participant before the others have their turn.
const BATCHES: usize = 8;
/// The smallest datagram that is RTP or RTCP; version 2 stands in its first two bits (RFC 3550, 5.1
/// and 6.4).
const VERSION: u8 = 2;
const RTCP_BYTES_MIN: usize = 8;
const RTCP_BYTES_MAX: usize = 2048;

/// What one participant sent, and what it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantStatistics {
    /// Whose.
    pub address: SocketAddr,
    /// RTP packets that came from it.
    pub received: u64,
    /// Datagrams from it that are neither RTP nor RTCP.
    pub malformed: u64,
    /// What it was sent.
    pub sent: DestinationStatistics,
}

#[derive(Debug)]
struct Participant {
    address: SocketAddr,
    destination: Destination,
    received: u64,
    malformed: u64,
}

/// Forwards between its participants.
#[derive(Debug)]
pub struct Relay {
    ports: PortPair,
    participants: Vec<Participant>,
    buffer: Vec<u8>,
    places: Vec<PacketPlace>,
    events: Vec<Event>,
}

impl Relay {
    /// A relay on a pair of ports that nobody has, without participants.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if there is no pair left.
    pub fn new() -> Result<Self, MediaError> {
        Self::on(PortPair::hold())
    }

    /// The same on `port`, an even one, and the one behind it.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if somebody else has them, or the port is odd.
    pub fn on_port(port: u16) -> Result<Self, MediaError> {
        Self::on(PortPair::hold_port(port))
    }

    fn on(ports: io::Result<PortPair>) -> Result<Self, MediaError> {
        let ports = ports.map_err(|source| MediaError::System {
            what: "hold a pair of UDP ports",
            source,
        })?;
        Ok(Self {
            ports,
            participants: Vec::new(),
            buffer: vec![0; BATCH_BYTES],
            places: Vec::new(),
            events: Vec::new(),
        })
    }

    /// Where participants send to, on any address of this host.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.port()
    }

    /// Adds a participant.
    ///
    /// # Errors
    ///
    /// As [`Destination::open`]; [`MediaError::Socket`] beyond [`PARTICIPANTS_MAX`] and for one
    /// that is there already.
    pub fn add(&mut self, address: SocketAddr) -> Result<(), MediaError> {
        let refused = |what, kind: io::ErrorKind| MediaError::Socket {
            what,
            destination: address,
            source: kind.into(),
        };
        if self.participants.len() == PARTICIPANTS_MAX {
            let what = "add a participant beyond 64";
            return Err(refused(what, io::ErrorKind::QuotaExceeded));
        }
        if self
            .participants
            .iter()
            .any(|other| other.address == address)
        {
            let what = "add the same participant again";
            return Err(refused(what, io::ErrorKind::AlreadyExists));
        }
        let options = DestinationOptions {
            local_port: Some(self.ports.port()),
            ..DestinationOptions::default()
        };
        let destination = Destination::open(address, &options)?;
        // Without it batches are single packets, which is only slower.
        let _ = udp_receive::enable_gro(destination.rtp_socket());
        self.participants.push(Participant {
            address,
            destination,
            received: 0,
            malformed: 0,
        });
        Ok(())
    }

    /// Takes a participant out; the others are not disturbed. False: there is none of that address.
    pub fn remove(&mut self, address: SocketAddr) -> bool {
        let before = self.participants.len();
        self.participants
            .retain(|participant| participant.address != address);
        self.participants.len() < before
    }

    /// What was done so far, by participant.
    pub fn statistics(&self) -> impl Iterator<Item = ParticipantStatistics> {
        self.participants
            .iter()
            .map(|participant| ParticipantStatistics {
                address: participant.address,
                received: participant.received,
                malformed: participant.malformed,
                sent: participant.destination.statistics(),
            })
    }

    /// Waits for packets, `wait` at most or until `stop` can be read, and forwards what came.
    /// False: `stop` can be read.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if the kernel refuses to wait.
    pub fn turn(
        &mut self,
        stop: BorrowedFd<'_>,
        wait: Duration,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<bool, MediaError> {
        let ready = self.wait(stop, wait)?;
        for index in 0..self.participants.len() {
            if ready.get(2 * index + 1) == Some(&true) {
                self.forward_media(index);
            }
            if ready.get(2 * index + 2) == Some(&true) {
                self.forward_reports(index);
            }
        }
        self.events.drain(..).for_each(|event| tell(&event));
        Ok(ready.first() != Some(&true))
    }

    /// Which can be read: `stop`, then RTP and RTCP of each participant.
    fn wait(&self, stop: BorrowedFd<'_>, wait: Duration) -> Result<Vec<bool>, MediaError> {
        let sockets = self.participants.iter().flat_map(|participant| {
            let destination = &participant.destination;
            [
                destination.rtp_socket().as_fd(),
                destination.rtcp_socket().as_fd(),
            ]
        });
        let all = std::iter::once(stop).chain(sockets);
        let mut all: Vec<PollFd<'_>> = all
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: wait.as_secs().cast_signed(),
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(&mut all, Some(&timeout)) {
            Ok(_) => Ok(all.iter().map(|one| !one.revents().is_empty()).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(MediaError::System {
                what: "wait for participants",
                source: error.into(),
            }),
        }
    }

    fn forward_media(&mut self, from: usize) {
        for _ in 0..BATCHES {
            let mut messages = [Message::NONE];
            let socket = self.participants[from].destination.rtp_socket();
            // An error is the answer to something that was sent there, and the sending side counts
            // it.
            let taken = udp_receive::receive(socket, &mut self.buffer, BATCH, &mut messages);
            let Ok(1..) = taken else {
                return;
            };
            self.lay_out(from, &messages[0]);
            self.send_on(from);
        }
    }

    /// Finds the packets of a batch; what is no RTP is counted and left out.
    fn lay_out(&mut self, from: usize, message: &Message) {
        self.places.clear();
        let batch = &self.buffer[..message.bytes.min(BATCH_BYTES)];
        let segments = batch.chunks(message.segment_bytes.max(1));
        let (mut offset, participant) = (0, &mut self.participants[from]);
        for packet in segments {
            if packet.len() >= HEADER_BYTES && packet[0] >> 6 == VERSION && !message.is_truncated {
                participant.received += 1;
                self.places.push(PacketPlace {
                    offset,
                    // Fits: a datagram has less than 2^16 bytes.
                    bytes: packet.len() as u16,
                    sequence: u16::from_be_bytes([packet[2], packet[3]]),
                    due_ns: 0,
                });
            } else {
                participant.malformed += 1;
            }
            offset += packet.len() as u32;
        }
    }

    /// Sends what was built to everybody else. Who has no free capacity loses it: a conference does
    /// not wait.
    fn send_on(&mut self, from: usize) {
        let now = Instant::now();
        for index in (0..self.participants.len()).filter(|index| *index != from) {
            let receiver = &mut self.participants[index];
            let memory = PacketMemory {
                // It is used again.
                file: None,
                file_offset: 0,
                bytes: &self.buffer,
            };
            let Ok(packets) = Packets::passing(memory, &self.places) else {
                return;
            };
            let sent = receiver.destination.send(&packets, now, &mut self.events);
            let left = packets.len() - sent;
            if left > 0 {
                receiver.destination.give_up(left, now, &mut self.events);
            }
        }
    }

    fn forward_reports(&mut self, from: usize) {
        for _ in 0..BATCHES {
            let mut report = [0; RTCP_BYTES_MAX];
            let received = self.participants[from]
                .destination
                .rtcp_socket()
                .recv(&mut report);
            let Ok(bytes) = received else {
                return;
            };
            if bytes < RTCP_BYTES_MIN || report[0] >> 6 != VERSION {
                self.participants[from].malformed += 1;
                continue;
            }
            let others = self.participants.iter_mut().enumerate();
            for (_, other) in others.filter(|(index, _)| *index != from) {
                other.destination.send_report(&report[..bytes]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const PACKETS: u16 = 100;

    /// Two neighbouring ports of a participant.
    struct Phone {
        rtp: UdpSocket,
        rtcp: UdpSocket,
    }

    impl Phone {
        fn new(relay_port: u16) -> Self {
            let pair = (0..1000).find_map(|_| {
                let rtp = UdpSocket::bind("127.0.0.1:0").ok()?;
                let port = rtp.local_addr().ok()?.port();
                let rtcp = port
                    .is_multiple_of(2)
                    .then(|| UdpSocket::bind(("127.0.0.1", port + 1)));
                Some((rtp, rtcp?.ok()?))
            });
            let (rtp, rtcp) = pair.unwrap();
            rtp.connect(("127.0.0.1", relay_port)).unwrap();
            rtcp.connect(("127.0.0.1", relay_port + 1)).unwrap();
            for socket in [&rtp, &rtcp] {
                let quiet = Duration::from_millis(200);
                socket.set_read_timeout(Some(quiet)).unwrap();
            }
            Self { rtp, rtcp }
        }

        fn address(&self) -> SocketAddr {
            self.rtp.local_addr().unwrap()
        }

        fn packet(&self, sequence: u16) -> Vec<u8> {
            let mut packet = vec![0x80, 0];
            packet.extend(sequence.to_be_bytes());
            packet.extend([0; 8]);
            packet.extend(self.address().port().to_be_bytes().repeat(80));
            packet
        }

        fn heard(&self) -> Vec<Vec<u8>> {
            let mut bytes = [0; 2048];
            std::iter::from_fn(|| {
                let length = self.rtp.recv(&mut bytes).ok()?;
                Some(bytes[..length].to_vec())
            })
            .collect()
        }
    }

    fn run(relay: &mut Relay) {
        let (_never, stop) = std::os::unix::net::UnixStream::pair().unwrap();
        for _ in 0..20 {
            let wait = Duration::from_millis(5);
            assert!(
                relay
                    .turn(stop.as_fd(), wait, &mut |event| panic!("{event}"))
                    .unwrap()
            );
        }
    }

    #[test]
    fn everybody_hears_all_the_others_and_nobody_itself() {
        let mut relay = Relay::new().unwrap();
        let phones = [(); 3].map(|()| Phone::new(relay.port()));
        for phone in &phones {
            relay.add(phone.address()).unwrap();
        }
        for sequence in 0..PACKETS {
            for phone in &phones {
                phone.rtp.send(&phone.packet(sequence)).unwrap();
            }
        }
        run(&mut relay);
        for phone in &phones {
            let heard = phone.heard();
            for other in &phones {
                let expected: Vec<Vec<u8>> = (0..PACKETS)
                    .map(|sequence| other.packet(sequence))
                    .collect();
                let theirs: Vec<Vec<u8>> = heard
                    .iter()
                    .filter(|packet| expected.contains(packet))
                    .cloned()
                    .collect();
                let is_itself = other.address() == phone.address();
                assert_eq!(theirs, if is_itself { Vec::new() } else { expected });
            }
        }
    }

    #[test]
    fn reports_go_to_the_others_too() {
        let mut relay = Relay::new().unwrap();
        let phones = [(); 2].map(|()| Phone::new(relay.port()));
        for phone in &phones {
            relay.add(phone.address()).unwrap();
        }
        let report = [0x80, 201, 0, 1, 0, 0, 0, 7];
        phones[0].rtcp.send(&report).unwrap();
        run(&mut relay);
        let mut heard = [0; 100];
        assert_eq!(phones[1].rtcp.recv(&mut heard).unwrap(), report.len());
        assert_eq!(heard[..report.len()], report);
        assert!(phones[0].rtcp.recv(&mut heard).is_err());
    }

    #[test]
    fn strangers_and_garbage_go_to_nobody() {
        let mut relay = Relay::new().unwrap();
        let phones = [(); 2].map(|()| Phone::new(relay.port()));
        for phone in &phones {
            relay.add(phone.address()).unwrap();
        }
        let stranger = Phone::new(relay.port());
        stranger.rtp.send(&stranger.packet(1)).unwrap();
        phones[0].rtp.send(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        phones[0].rtp.send(&[0x80; 4]).unwrap();
        run(&mut relay);
        assert!(phones.iter().all(|phone| phone.heard().is_empty()));
        let malformed: Vec<u64> = relay.statistics().map(|one| one.malformed).collect();
        assert_eq!(malformed, [2, 0]);
    }

    #[test]
    fn participants_come_once_and_go() {
        let mut relay = Relay::new().unwrap();
        let phone = Phone::new(relay.port());
        relay.add(phone.address()).unwrap();
        assert!(relay.add(phone.address()).is_err());
        assert!(relay.remove(phone.address()) && !relay.remove(phone.address()));
        relay.add(phone.address()).unwrap();
    }
}
