//! Sockets that the agent asks for: opened, and then the beginning of their flows.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hythe_node::hop::HopPool as _;
use hythe_node::monotonic_ns;
use hythe_pool::{PortIndex, PortInfo};

use super::Session;
use crate::flow::FlowId;
use crate::halves::{ReceivingHalf, SendingHalf};
use crate::message::{Agreed, FromProcess, PublicKey, Role, Transport, WireUse};
use crate::receiving::Receiving;
use crate::sending::Sending;
use crate::socket::FlowSocket;
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
    /// Sockets past the kernel's protocols, if they are wanted.
    pub(super) wire: Option<WireUse>,
}

/// Of each transport, and of each role where they differ.
#[derive(Debug)]
enum OpenedSocket {
    Packets(Box<FlowSocket>),
    Connector(Connector),
    Listener(FlowListener),
}

impl OpenedSocket {
    fn open(
        (role, transport): (Role, Transport),
        address: IpAddr,
        interface: Option<&str>,
    ) -> io::Result<Self> {
        Ok(match (transport, role) {
            (Transport::Packets, _) => {
                Self::Packets(Box::new(FlowSocket::open(address, interface)?))
            }
            (Transport::Tcp | Transport::Tls, Role::Send { .. }) => {
                Self::Connector(Connector::open(address, interface)?)
            }
            (Transport::Tcp | Transport::Tls, Role::Receive { .. }) => {
                Self::Listener(FlowListener::open(address, interface)?)
            }
        })
    }

    /// Its port, and the bytes of its buffer that count for packets.
    fn about(&self) -> io::Result<(u16, u32)> {
        Ok(match self {
            Self::Packets(socket) => (socket.address()?.port(), socket.buffer_bytes()),
            Self::Connector(connector) => (connector.port()?, 0),
            Self::Listener(listener) => (listener.port()?, 0),
        })
    }
}

impl Session {
    pub(super) fn open_socket(
        &self,
        (flow, role, transport): (u32, Role, Transport),
        (address, interface): (IpAddr, Option<String>),
        wire: Option<WireUse>,
    ) {
        let Some(port) = self.own_port(role) else {
            self.say_ended(flow, "its port has closed".to_owned(), 0);
            return;
        };
        let opened = OpenedSocket::open((role, transport), address, interface.as_deref())
            .and_then(|socket| socket.about().map(|about| (socket, about)))
            .and_then(|opened| Ok((opened, keys_for(transport)?)));
        match opened {
            Ok(((socket, (socket_port, buffer_bytes)), keys)) => {
                let key = keys.as_ref().map(KeyPair::public);
                let opened = Opened {
                    role,
                    port,
                    address,
                    interface,
                    socket,
                    keys,
                    wire,
                };
                self.lock().opened.insert(flow, opened);
                self.tell(&FromProcess::Ready {
                    flow,
                    port: socket_port,
                    buffer_bytes,
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

    pub(super) fn begin(
        &self,
        number: u32,
        (peer, key): (SocketAddr, Option<PublicKey>),
        agreed: &Agreed,
    ) -> Result<(), String> {
        let opened = self.lock().opened.remove(&number);
        let opened = opened.ok_or("its socket is not open")?;
        if opened.keys.is_some() != key.is_some() {
            return Err("one end has a key, and the other has none".to_owned());
        }
        let keys = opened.keys.zip(key);
        let settings = agreed.settings();
        settings.check().map_err(|fault| fault.to_string())?;
        if !self.is_still_open(&opened.port) {
            return Err("its port has closed".to_owned());
        }
        let id = FlowId {
            number,
            port: opened.port,
        };
        match opened.socket {
            OpenedSocket::Packets(socket) => {
                self.begin_packets(id, opened.role, (*socket, opened.wire), (peer, agreed))
            }
            OpenedSocket::Connector(connector) => {
                let way = (opened.address, opened.interface);
                let seal = keys.map(|(own, peer)| own.client(peer)).transpose();
                let to = Destination {
                    peer,
                    secret: FlowSecret::of(agreed),
                    unreachable_ns: agreed.unreachable_ns,
                    seal: seal.map_err(|error| error.to_string())?,
                };
                self.begin_connecting(id, opened.role, (connector, way), (to, agreed))
            }
            OpenedSocket::Listener(listener) => {
                let seal = keys.map(|(own, peer)| own.server(peer)).transpose();
                let terms = Terms {
                    peer: peer.ip(),
                    secret: FlowSecret::of(agreed),
                    window: settings.window,
                    message_bytes_max: agreed.message_bytes_max,
                    unreachable_ns: agreed.unreachable_ns,
                    seal: seal.map_err(|error| error.to_string())?,
                };
                let limits = (id.port.depth, id.port.policy);
                let (participant, now_ns) = (&self.participant, monotonic_ns());
                let half = TcpReceiving::new(participant, listener, terms, limits, now_ns);
                let half = ReceivingHalf::Tcp(Box::new(half));
                self.add_receiving(id, opened.role, half, Vec::new())
            }
        }
    }

    fn begin_packets(
        &self,
        id: FlowId,
        role: Role,
        (mut socket, wire): (FlowSocket, Option<WireUse>),
        (peer, agreed): (SocketAddr, &Agreed),
    ) -> Result<(), String> {
        socket.connect(peer).map_err(|error| error.to_string())?;
        let settings = agreed.settings();
        if let Some(wire) = wire {
            self.add_wire(id.number, &mut socket, wire);
        }
        match role {
            Role::Send { host_port, .. } => {
                let half = Sending::new(socket, settings).map_err(|fault| fault.to_string())?;
                let half = SendingHalf::by_packets(half).map_err(|error| error.to_string())?;
                self.add_sending(id, host_port, half, agreed)
            }
            Role::Receive { .. } => {
                socket.join_batches();
                let doorbells = self.doorbells(&socket).map_err(|error| error.to_string())?;
                let limits = (id.port.depth, id.port.policy);
                let half = Receiving::new(&self.participant, socket, settings, limits)
                    .map_err(|fault| fault.to_string())?;
                self.add_receiving(id, role, ReceivingHalf::by_packets(half), doorbells)
            }
        }
    }
}

/// Made for one flow, if that is sealed.
fn keys_for(transport: Transport) -> io::Result<Option<KeyPair>> {
    match transport {
        Transport::Tls => KeyPair::new().map(Some),
        Transport::Tcp | Transport::Packets => Ok(None),
    }
}
