//! A pool with one participant, and the other end of a flow in the hands of a test: what the unit
//! tests share. Time is what the test says.

use std::net::UdpSocket;
use std::sync::Arc;

use hythe_node::hop::{HopNode as _, Participant};
use hythe_node::{Node, Pool, PoolOptions};
use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Arrival, Checksum, HEADER_BYTES, Receiver, Sender, Settings, Window,
};
use tempfile::TempDir;

use crate::socket::FlowSocket;

const ADDRESS: &str = "127.0.0.1";

pub(crate) struct Fixture {
    pub(crate) node: Node,
    _pool: Pool,
    _root: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|options| options)
    }

    pub(crate) fn with(change: impl FnOnce(PoolOptions) -> PoolOptions) -> Self {
        let root = TempDir::new().expect("made");
        let options = PoolOptions::new("test").root(root.path()).bytes(16 << 20);
        let pool = Pool::open_or_create(&change(options)).expect("made");
        Self {
            node: Node::join(&pool, "process").expect("joins"),
            _pool: pool,
            _root: root,
        }
    }

    pub(crate) fn participant(&self) -> &Arc<Participant> {
        self.node.participant()
    }
}

pub(crate) fn settings(messages: u32) -> Settings {
    Settings {
        session: 0x0123_4567_89ab_cdef,
        flow: 7,
        mtu_bytes: 1_500,
        window: Window {
            messages,
            bytes: 1 << 20,
        },
        message_bytes_max: 1 << 20,
        unreachable_ns: 60_000_000_000,
        initial_rtt_ns: 10_000_000,
        burst_bytes: 1 << 16,
        buffer_bytes: u32::MAX,
    }
}

/// A socket of a flow, and one of a test at its other end.
pub(crate) fn sockets() -> (FlowSocket, UdpSocket) {
    let flow = FlowSocket::open(ADDRESS.parse().expect("an address"), None).expect("opens");
    let other = UdpSocket::bind((ADDRESS, 0)).expect("bound");
    other.set_nonblocking(true).expect("set");
    other
        .connect(flow.address().expect("bound"))
        .expect("connected");
    flow.connect(other.local_addr().expect("bound"))
        .expect("connected");
    (flow, other)
}

/// The publisher's end: each packet is one datagram.
pub(crate) struct SendingPeer {
    pub(crate) sender: Sender,
    pub(crate) socket: UdpSocket,
}

impl SendingPeer {
    pub(crate) fn new(socket: UdpSocket, settings: Settings) -> Self {
        let sender = Sender::new(settings).expect("settings");
        Self { sender, socket }
    }

    /// Sends what may leave, and says how many datagrams that is.
    pub(crate) fn send(&mut self, now_ns: u64, payload: &[u8]) -> usize {
        let packets = std::iter::from_fn(|| {
            let packet = self.sender.transmit(now_ns)?;
            let payload = &payload[packet.range()];
            let mut datagram = packet.seal(Checksum::of(payload)).to_vec();
            datagram.extend_from_slice(payload);
            self.socket.send(&datagram).expect("sent");
            Some(())
        });
        packets.count()
    }

    /// Takes the acknowledgements that have come, and says how many.
    pub(crate) fn hear(&mut self, now_ns: u64) -> usize {
        let mut bytes = [0; ACKNOWLEDGEMENT_BYTES_MAX];
        let mut count = 0;
        while let Ok(length) = self.socket.recv(&mut bytes) {
            self.sender
                .acknowledged(now_ns, &bytes[..length])
                .expect("honest");
            count += 1;
        }
        count
    }
}

/// The subscriber's end, which keeps nothing.
pub(crate) struct ReceivingPeer {
    pub(crate) receiver: Receiver,
    pub(crate) socket: UdpSocket,
}

impl ReceivingPeer {
    pub(crate) fn new(socket: UdpSocket, settings: Settings) -> Self {
        let receiver = Receiver::new(settings).expect("settings");
        Self { receiver, socket }
    }

    /// Takes what has come, accepts what is whole, and acknowledges: so many datagrams have come.
    pub(crate) fn turn(&mut self, now_ns: u64) -> usize {
        let (mut bytes, mut count) = ([0; 1 << 16], 0);
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let joined = &bytes[..length];
            for datagram in joined.chunks(hythe_packets::datagram_bytes(joined)) {
                count += 1;
                let (header, payload) = datagram
                    .split_first_chunk::<HEADER_BYTES>()
                    .expect("a header");
                let arrival = self.receiver.receive(now_ns, header, Checksum::of(payload));
                if let Arrival::Place(place) = arrival.expect("honest") {
                    place.done();
                }
            }
        }
        while let Some(message) = self.receiver.next_message() {
            self.receiver.accept(now_ns, message.number + 1);
        }
        let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
        if let Some(bytes) = self.receiver.acknowledge(now_ns, &mut out) {
            self.socket.send(&out[..bytes]).expect("sent");
        }
        count
    }
}
