//! Sockets that the agent asks for: opened, and then the beginning of their flows.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hythe_node::hop::HopPool as _;
use hythe_node::monotonic_ns;
use hythe_pool::{PortIndex, PortInfo};

use super::Session;
use crate::flow::FlowId;
use crate::frames::FrameSocket;
use crate::message::{Agreed, FromProcess, PublicKey, Role, Transport, WirePlace};
use crate::tcp::{Connector, Destination, FlowListener, FlowSecret, KeyPair, TcpReceiving, Terms};

/// A socket whose flow has not begun.
#[derive(Debug)]
pub(super) struct Opened {
    role: Role,
    port: PortInfo,
    address: IpAddr,
    interface: Option<String>,
    socket: OpenedSocket,
    /// Of a flow that is sealed.
    keys: Option<KeyPair>,
    /// For short messages of a flow that may use frames.
    frames: Option<FrameSocket>,
    /// The program that they are to go by, if there is one.
    pub(super) wire: Option<WirePlace>,
}

/// That of each role.
#[derive(Debug)]
enum OpenedSocket {
    Connector(Connector),
    Listener(FlowListener),
}

impl OpenedSocket {
    fn open(role: Role, address: IpAddr, interface: Option<&str>) -> io::Result<Self> {
        Ok(match role {
            Role::Send { .. } => Self::Connector(Connector::open(address, interface)?),
            Role::Receive { .. } => Self::Listener(FlowListener::open(address, interface)?),
        })
    }

    fn port(&self) -> io::Result<u16> {
        match self {
            Self::Connector(connector) => connector.port(),
            Self::Listener(listener) => listener.port(),
        }
    }
}

impl Session {
    pub(super) fn open_socket(
        &self,
        (flow, role, transport): (u32, Role, Transport),
        (address, interface): (IpAddr, Option<String>),
        has_frames: bool,
    ) {
        let Some(port) = self.own_port(role) else {
            self.say_ended(flow, "its port has closed".to_owned(), 0);
            return;
        };
        let opened = OpenedSocket::open(role, address, interface.as_deref())
            .and_then(|socket| socket.port().map(|port| (socket, port)))
            .and_then(|opened| Ok((opened, keys_for(transport)?)));
        match opened {
            Ok(((socket, socket_port), keys)) => {
                let key = keys.as_ref().map(KeyPair::public);
                // Frames are a help, and no flow depends on them.
                let frames = has_frames
                    .then(|| FrameSocket::open(address, interface.as_deref()).ok())
                    .flatten();
                let frame_port = frames.as_ref().and_then(|frames| frames.port().ok());
                let opened = Opened {
                    role,
                    port,
                    address,
                    interface,
                    socket,
                    keys,
                    frames,
                    wire: None,
                };
                self.lock().opened.insert(flow, opened);
                self.tell(&FromProcess::Ready {
                    flow,
                    port: socket_port,
                    frame_port: frame_port.unwrap_or(0),
                    key,
                });
            }
            Err(error) => {
                self.say_ended(flow, format!("no socket on {address}: {error}"), 0);
            }
        }
    }

    /// The port that is asked for, if it is one of this process.
    fn own_port(&self, role: Role) -> Option<PortInfo> {
        let (Role::Send { port, .. } | Role::Receive { port, .. }) = role;
        let tables = self.participant.pool().control().tables();
        let info = tables.port(PortIndex(port));
        info.filter(|info| info.member == self.participant.index())
    }

    /// The other end is there, at these ports and with this key.
    pub(super) fn begin(
        &self,
        number: u32,
        (peer, frame_port, key): (SocketAddr, u16, Option<PublicKey>),
        agreed: &Agreed,
    ) -> Result<(), String> {
        let opened = self.lock().opened.remove(&number);
        let mut opened = opened.ok_or("its socket is not open")?;
        if opened.keys.is_some() != key.is_some() {
            return Err("one end has a key, and the other has none".to_owned());
        }
        agreed.check()?;
        if !self.is_still_open(&opened.port) {
            return Err("its port has closed".to_owned());
        }
        let frames = opened.frames.take().filter(|_| frame_port != 0);
        let frames = frames.and_then(|mut frames| {
            let other = SocketAddr::new(peer.ip(), frame_port);
            frames.connect(other, agreed.word).ok().map(|()| frames)
        });
        let wire = opened.wire.take();
        self.begin_opened(number, opened, (peer, key, frames), agreed)?;
        if let Some(wire) = wire {
            self.carry(number, Some(wire));
        }
        Ok(())
    }

    fn begin_opened(
        &self,
        number: u32,
        opened: Opened,
        (peer, key, frames): (SocketAddr, Option<PublicKey>, Option<FrameSocket>),
        agreed: &Agreed,
    ) -> Result<(), String> {
        let port = opened.port;
        let id = FlowId { number, port };
        let keys = opened.keys.zip(key);
        match opened.socket {
            OpenedSocket::Connector(connector) => {
                let way = (opened.address, opened.interface);
                let seal = keys.map(|(own, peer)| own.client(peer)).transpose();
                let to = Destination {
                    peer,
                    secret: FlowSecret::of(agreed),
                    unreachable_ns: agreed.unreachable_ns,
                    seal: seal.map_err(|error| error.to_string())?,
                };
                self.begin_connecting(id, opened.role, (connector, way), (to, frames, agreed))
            }
            OpenedSocket::Listener(listener) => {
                let seal = keys.map(|(own, peer)| own.server(peer)).transpose();
                let terms = Terms {
                    peer: peer.ip(),
                    secret: FlowSecret::of(agreed),
                    window: agreed.window,
                    message_bytes_max: agreed.message_bytes_max,
                    unreachable_ns: agreed.unreachable_ns,
                    seal: seal.map_err(|error| error.to_string())?,
                };
                let limits = (id.port.depth, id.port.policy);
                let (participant, now_ns) = (&self.participant, monotonic_ns());
                let sockets = (listener, frames);
                let half = TcpReceiving::new(participant, sockets, terms, limits, now_ns);
                self.add_receiving(id, opened.role, half)
            }
        }
    }
}

/// Made for one flow, if that is sealed.
fn keys_for(transport: Transport) -> io::Result<Option<KeyPair>> {
    match transport {
        Transport::Tls => KeyPair::new().map(Some),
        Transport::Tcp => Ok(None),
    }
}
