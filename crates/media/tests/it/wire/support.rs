//! Packets to send and sockets to receive them with.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use hythe_media::wire::PacketMemory;
use hythe_media::wire::destination::Destination;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_media::wire::health::Event;
use hythe_media::wire::method::Method;
use hythe_media::wire::packets::Packets;
use hythe_media::wire::run::PacketPlace;
use rustix::fs::{MemfdFlags, memfd_create};

/// Ends a wait that has failed.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Packets built one behind the other, and a file of the same bytes.
pub(crate) struct Prebuilt {
    file: OwnedFd,
    offset: usize,
    bytes: Vec<u8>,
    pub(crate) places: Vec<PacketPlace>,
}

impl Prebuilt {
    /// One packet of each size, behind `offset` other bytes; no two packets are alike.
    pub(crate) fn new(sizes: &[u16], offset: usize) -> Self {
        let mut bytes = vec![0xee; offset];
        let mut places = Vec::new();
        for (sequence, size) in (0..).zip(sizes) {
            places.push(PacketPlace {
                offset: (bytes.len() - offset) as u32,
                bytes: *size,
                sequence,
                due_ns: 0,
            });
            let number = sequence.to_be_bytes();
            bytes.extend((0..*size).map(|index| number[usize::from(index) % 2] ^ index as u8));
        }
        let file = memfd_create("packets", MemfdFlags::CLOEXEC).expect("works");
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&file, rest).expect("works")..];
        }
        Self {
            file,
            offset,
            bytes,
            places,
        }
    }

    /// `count` packets of 1,400 bytes.
    pub(crate) fn equal(count: usize) -> Self {
        Self::new(&vec![1400; count], 256)
    }

    pub(crate) fn memory(&self) -> PacketMemory<'_> {
        PacketMemory {
            file: Some(self.file.as_fd()),
            file_offset: self.offset as u64,
            bytes: &self.bytes[self.offset..],
        }
    }

    pub(crate) fn packets(&self) -> Packets<'_> {
        Packets::lasting(self.memory(), &self.places).expect("works")
    }

    pub(crate) fn packet(&self, index: usize) -> &[u8] {
        let place = self.places[index];
        &self.memory().bytes[place.offset as usize..][..usize::from(place.bytes)]
    }
}

/// A socket on an even port of `host` with much space, and its address.
pub(crate) fn receiver(host: &str) -> (UdpSocket, SocketAddr) {
    loop {
        let socket = UdpSocket::bind((host, 0)).expect("works");
        let address = socket.local_addr().expect("works");
        if address.port().is_multiple_of(2) {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20).expect("works");
            socket.set_read_timeout(Some(BOUND)).expect("works");
            return (socket, address);
        }
    }
}

/// Refuses all but `expected`, in this order and each once.
pub(crate) fn expect<'p>(socket: &UdpSocket, expected: impl IntoIterator<Item = &'p [u8]>) {
    let mut buffer = vec![0; 70_000];
    for (index, packet) in expected.into_iter().enumerate() {
        let bytes = socket
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("packet {index}: {error}"));
        assert!(
            buffer[..bytes] == *packet,
            "packet {index} is another one, of {bytes} bytes"
        );
    }
    expect_nothing(socket);
}

pub(crate) fn expect_nothing(socket: &UdpSocket) {
    socket.set_nonblocking(true).expect("works");
    assert!(
        socket.recv(&mut [0; 2000]).is_err(),
        "more came than was sent"
    );
    socket.set_nonblocking(false).expect("works");
}

pub(crate) fn forced(method: Method) -> DestinationOptions {
    let mut options = DestinationOptions::default();
    options.method = Some(method);
    options
}

/// Sends all, and refuses to do with less.
pub(crate) fn send_all(destination: &mut Destination, packets: &Packets<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    let done = destination.send(packets, Instant::now(), &mut events);
    assert_eq!(
        done,
        packets.len(),
        "{:?} {events:?}",
        destination.statistics()
    );
    events
}
