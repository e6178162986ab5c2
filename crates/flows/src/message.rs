//! What a process and the agent of its host tell each other about flows.
//!
//! Over a socket `flows` in the pool's directory, each message one packet: `postcard` of
//! [`FromProcess`] or [`FromAgent`]. The agent numbers the flows of a connection.

use std::net::{IpAddr, SocketAddr};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Changes with every change of what is here.
pub const VERSION: u32 = 7;
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
        /// Port of the UDP socket for frames; 0: there is none.
        frame_port: u16,
        /// Of the key pair that it has made for a sealed flow.
        key: Option<PublicKey>,
    },
    /// An answer to [`FromAgent::Carry`], and said again when it changes.
    Carried {
        /// The flow.
        flow: u32,
        /// How short messages may leave or arrive by frames; `None`: they do not.
        frames: Option<FramesUse>,
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

/// How a flow's messages are sent: by one TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// In clear text.
    Tcp,
    /// Sealed by TLS 1.3.
    Tls,
}

/// How an end of a flow uses `AF_XDP` sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FramesUse {
    /// Payload in the pool's region for network cards leaves from there.
    pub sends_from_slots: bool,
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
        /// By which alone its packets leave and arrive; `None`: by whichever the routes say.
        interface: Option<String>,
        /// Open a UDP socket beside it, for frames.
        has_frames: bool,
    },
    /// Use `AF_XDP` sockets of this program from now on, or none.
    Carry {
        /// The flow.
        flow: u32,
        /// The program.
        wire: Option<WirePlace>,
    },
    /// The other end is there.
    Begin {
        /// The flow.
        flow: u32,
        /// Its socket.
        peer: SocketAddr,
        /// Port of its UDP socket for frames; 0: it has none.
        frame_port: u16,
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

/// A program that serves an interface with `AF_XDP` sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WirePlace {
    /// Its socket.
    pub path: String,
    /// Another number, another program.
    pub instance: u64,
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
    /// Secret of the flow.
    pub word: u64,
    /// Number of the flow between the two hosts.
    pub number: u32,
    /// What may be under way.
    pub window: Window,
    /// Longest message.
    pub message_bytes_max: u32,
    /// Silence after which the peer is gone.
    pub unreachable_ns: u64,
    /// How long the publisher waits where the subscriber has taken too little, in milliseconds; 0:
    /// not at all.
    pub block_ms: u32,
}

/// What a publisher may have sent that its subscriber has not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// From 1 to [`WINDOW_MESSAGES_MAX`].
    pub messages: u32,
    /// Bytes of payload: at least those of the longest message.
    pub bytes: u32,
}

/// A publisher keeps 8 bytes for each, a subscriber 12.
pub const WINDOW_MESSAGES_MAX: u32 = 1_024;

impl Agreed {
    /// # Errors
    /// A value out of its bounds, named.
    pub fn check(&self) -> Result<(), String> {
        let Window { messages, bytes } = self.window;
        if !(1..=WINDOW_MESSAGES_MAX).contains(&messages) {
            return Err(format!("a window of {messages} messages"));
        }
        if bytes < self.message_bytes_max {
            let longest = self.message_bytes_max;
            return Err(format!(
                "a window of {bytes} bytes for messages of {longest}"
            ));
        }
        match self.unreachable_ns {
            0 => Err("a lease of no time".to_owned()),
            _ => Ok(()),
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
