//! A pool with one participant, and the other end of a flow in the hands of a test: what the unit
//! tests share. Time is what the test says.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use hythe_node::hop::{HopNode as _, Participant};
use hythe_node::{Node, Pool, PoolOptions, PortPolicy};
use tempfile::TempDir;

use crate::message::Window;
use crate::tcp::{FlowListener, FlowSecret, Pipe, TcpReceiving, TcpSending, Terms};

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECRET: FlowSecret = FlowSecret { flow: 7, word: 11 };
pub(crate) const UNREACHABLE_NS: u64 = 60_000_000_000;

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

/// Of messages of a mebibyte together.
pub(crate) fn window(messages: u32) -> Window {
    let bytes = 1 << 20;
    Window { messages, bytes }
}

/// A publisher's half, and the other end of its connection, which takes little that nobody reads.
pub(crate) fn sending(messages: u32) -> (TcpSending, TcpStream) {
    let (pipe, far) = connected();
    let half = TcpSending::new(pipe, None, window(messages), UNREACHABLE_NS);
    (half, far)
}

pub(crate) fn connected() -> (Pipe, TcpStream) {
    let listener = TcpListener::bind((ADDRESS, 0)).expect("bound");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    near.set_nonblocking(true).expect("set");
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 1).expect("set");
    let (far, _) = listener.accept().expect("connected");
    let pipe = Pipe::connected(Arc::new(near.into()), UNREACHABLE_NS, None).expect("made");
    (pipe, far)
}

/// A subscriber's half that is connected, and the publisher's end.
pub(crate) fn receiving(
    fixture: &Fixture,
    limits: (u32, PortPolicy),
    messages: u32,
) -> (TcpReceiving, TcpStream) {
    let listener = FlowListener::open(ADDRESS, None).expect("listens");
    let port = listener.port().expect("bound");
    let terms = Terms {
        peer: ADDRESS,
        secret: SECRET,
        window: window(messages),
        message_bytes_max: 1 << 20,
        unreachable_ns: UNREACHABLE_NS,
        seal: None,
    };
    let sockets = (listener, None);
    let mut half = TcpReceiving::new(fixture.participant(), sockets, terms, limits, 1);
    let mut stream = TcpStream::connect((ADDRESS, port)).expect("connects");
    let mut greeting = b"HYTHEFLW\x01\0\0\0\x07\0\0\0\x0b".to_vec();
    greeting.resize(32, 0);
    stream.write_all(&greeting).expect("sent");
    hythe_testing::eventually("it is accepted", || half.accept(1));
    stream.read_exact(&mut [0; 32]).expect("answered");
    (half, stream)
}

/// What a publisher sends for a message.
pub(crate) fn message(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}
