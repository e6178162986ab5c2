//! What a process and the agent of its host tell each other about flows.
//!
//! Over a socket `flows` in the pool's directory, each message one packet: `postcard` of
//! [`FromProcess`] or [`FromAgent`]. The agent numbers the flows of a connection.

use std::net::{IpAddr, SocketAddr};

use hythe_packets::{Settings, Window};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Changes with every change of what is here.
pub const VERSION: u32 = 6;
/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// A process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromProcess {
    /// First of all.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The participant of the pool that it is.
        member: u8,
        /// Its session.
        session: u32,
    },
    /// A publisher would send by itself what another host takes by the agent's port.
    Ask {
        /// The publisher's port.
        port: u32,
        /// The agent's.
        host_port: u32,
    },
    /// A subscriber would receive by itself what comes from other hosts.
    Offer {
        /// Its port.
        port: u32,
    },
    /// An answer to [`FromAgent::Open`]: the socket is open.
    Ready {
        /// The flow.
        flow: u32,
        /// Its port.
        port: u16,
        /// Its buffer, as the kernel says it: for [`Agreed::buffer_bytes`].
        buffer_bytes: u32,
        /// Of the key pair that it has made for a sealed flow.
        key: Option<PublicKey>,
    },
    /// What carries the flow from now on.
    Carried {
        /// The flow.
        flow: u32,
        /// What it is.
        carrier: Carrier,
        /// The card itself reads and writes what goes by `AF_XDP`.
        is_zero_copy: bool,
        /// Payload that lies in the pool's region for network cards leaves from there.
        sends_from_slots: bool,
        /// Why it is not what was asked for, for people; empty: it is.
        reason: String,
    },
    /// The publisher sends nothing more by the agent's port.
    Left {
        /// The flow.
        flow: u32,
    },
    /// The flow is over here, or was never begun.
    Ended {
        /// The flow.
        flow: u32,
        /// Why; empty: all that was sent has arrived.
        reason: String,
        /// Messages of which nobody knows whether they arrived.
        unconfirmed: u32,
    },
}

/// How a flow's messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// One TCP connection, in clear text.
    Tcp,
    /// One TCP connection, sealed by TLS 1.3.
    Tls,
    /// Packets over UDP and `AF_XDP` ([`hythe_packets`]).
    Packets,
}

/// What carries a flow, at one of its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carrier {
    /// Its UDP socket alone.
    #[default]
    Udp,
    /// An `AF_XDP` socket beside that.
    Xdp,
    /// A TCP connection, in clear text.
    Tcp,
    /// A TCP connection, sealed.
    Tls,
}

/// The public half of a process's key for one flow, of Ed25519.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKey(pub [u8; 32]);

/// The agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// Open a socket on this address.
    Open {
        /// The flow.
        flow: u32,
        /// What it is for.
        role: Role,
        /// Which kind of socket.
        transport: Transport,
        /// Of this host.
        address: IpAddr,
        /// By which alone its packets leave and come; `None`: by whichever the routes say.
        interface: Option<String>,
        /// The sockets past the kernel's protocols that it is to use, if any.
        wire: Option<WireUse>,
    },
    /// Use these sockets past the kernel's protocols from now on, or none.
    Carry {
        /// The flow.
        flow: u32,
        /// As of [`Open`](Self::Open).
        wire: Option<WireUse>,
    },
    /// The other end is there.
    Begin {
        /// The flow.
        flow: u32,
        /// Its socket.
        peer: SocketAddr,
        /// Its key, if the flow is sealed: no other is accepted.
        key: Option<PublicKey>,
        /// What both ends agreed on.
        agreed: Agreed,
    },
    /// Everything that the publisher sent by the agent's port has arrived: send.
    Go {
        /// The flow.
        flow: u32,
    },
    /// Finish what is under way, and end the flow. A subscriber's process takes what is left of it
    /// before what comes by the agent.
    Finish {
        /// The flow.
        flow: u32,
    },
    /// The flow is over.
    End {
        /// The flow.
        flow: u32,
        /// Why.
        reason: String,
    },
    /// The agents of both hosts have lost each other: the flow goes on without them, for a bounded
    /// time, until the publisher finds the other host's next port.
    Alone {
        /// The flow.
        flow: u32,
    },
    /// Nothing of a flow that is over is on its way to the subscriber any more: the publisher may
    /// send by the agent's port again.
    Return {
        /// The flow.
        flow: u32,
    },
}

/// Sockets past the kernel's protocols, and what leaves by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireUse {
    /// Where a program serves the interface with them.
    pub path: String,
    /// Another number, another program.
    pub instance: u64,
    /// Runs of up to 8 packets.
    pub short: bool,
    /// Longer ones.
    pub long: bool,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The publisher's.
    Send {
        /// Its port.
        port: u32,
        /// The agent's port that is not sent to any more.
        host_port: u32,
    },
    /// The subscriber's.
    Receive {
        /// Its port.
        port: u32,
        /// The participant that stands for the publisher's host.
        host: u8,
    },
}

/// What both ends of a flow agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreed {
    /// Secret of the session.
    pub session: u64,
    /// Number of the flow between the two hosts.
    pub number: u32,
    /// Largest IP packet of the path.
    pub mtu_bytes: u16,
    /// Messages that may be on their way.
    pub window_messages: u32,
    /// Bytes of them.
    pub window_bytes: u32,
    /// Longest message.
    pub message_bytes_max: u32,
    /// Of the receiver's socket, as it said.
    pub buffer_bytes: u32,
    /// Silence after which the peer is gone.
    pub unreachable_ns: u64,
    /// Round trip until one is measured.
    pub initial_rtt_ns: u64,
    /// How long the publisher waits where the subscriber has taken too little, in milliseconds; 0:
    /// not at all.
    pub block_ms: u32,
}

impl Agreed {
    /// As the packets of the flow want it.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            session: self.session,
            flow: self.number,
            mtu_bytes: self.mtu_bytes,
            window: Window {
                messages: self.window_messages,
                bytes: self.window_bytes,
            },
            message_bytes_max: self.message_bytes_max,
            unreachable_ns: self.unreachable_ns,
            initial_rtt_ns: self.initial_rtt_ns,
            // One call with segments.
            burst_bytes: 1 << 16,
            buffer_bytes: self.buffer_bytes,
        }
    }
}

/// The packet of a message.
///
/// # Errors
/// It is longer than [`MESSAGE_BYTES_MAX`].
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, String> {
    let bytes = postcard::to_stdvec(message).map_err(|error| error.to_string())?;
    match bytes.len() {
        ..=MESSAGE_BYTES_MAX => Ok(bytes),
        length => Err(format!("a message of {length} bytes")),
    }
}

/// The message of a packet.
///
/// # Errors
/// It is none.
pub fn decode<T: DeserializeOwned>(packet: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(packet) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(format!("{} bytes behind a message", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}
