//! What two agents tell each other over their control connection.

use std::fmt;
use std::net::IpAddr;

use hythe_flows::message::{PublicKey, Transport};
use hythe_node::{ChannelKind, ChannelType, PortPolicy};
use serde::{Deserialize, Serialize};

use super::text;

/// A message of a control connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// The sender lives. The receiver sends the number back at once.
    KeepAlive {
        /// Whatever the sender chose.
        number: u64,
    },
    /// The number of a keep-alive, back.
    Echo {
        /// The number.
        number: u64,
    },
    /// The sender has receiving ends there, or others than before.
    Want(Want),
    /// The sender has no receiving end of that kind there any more.
    Unwant {
        /// What met there.
        kind: EndKind,
        /// On which channel.
        #[serde(deserialize_with = "text::name")]
        channel: String,
    },
    /// The sender's pool has taken over all frames of a stream up to this one.
    Acknowledge {
        /// The stream.
        stream: u32,
        /// Its last frame that was taken.
        through: u64,
    },
    /// What the receiver wants there it does not get.
    Refused {
        /// What would meet there.
        kind: EndKind,
        /// On which channel.
        #[serde(deserialize_with = "text::name")]
        channel: String,
        /// Why.
        #[serde(deserialize_with = "text::reason")]
        reason: String,
    },
    /// Notifiers of the sender raised events there since the last such message.
    Raise {
        /// On which channel.
        #[serde(deserialize_with = "text::name")]
        channel: String,
        /// Event n as bit n.
        events: u64,
    },
    /// The sender ends the session.
    Bye {
        /// Why.
        #[serde(deserialize_with = "text::reason")]
        reason: String,
    },
    /// How many ends the sender has on a channel now.
    Ends(Ends),
    /// First of a session, and when it changes: whether the user of the sender trusts the link of
    /// this connection. Where both do, flows go in clear text, else sealed.
    LinkTrust {
        /// Trusted: the sender's end of this connection, as the sender sees it.
        address: Option<IpAddr>,
    },
    /// The sender has a publisher for a flow.
    FlowOffer(FlowOffer),
    /// The flow is not taken yet.
    FlowWaits {
        /// Its number.
        flow: u32,
        /// What is waited for.
        #[serde(deserialize_with = "text::reason")]
        reason: String,
    },
    /// The sender has a subscriber for the flow.
    FlowTaken(FlowTaken),
    /// The sender has other receivers, too: what is on its way is to arrive, and then the flow is
    /// to end.
    FlowFinish {
        /// Its number.
        flow: u32,
    },
    /// The flow is over at the sender, or is offered no more.
    FlowEnded {
        /// Its number.
        flow: u32,
        /// Which end the sender has.
        side: FlowSide,
        /// Why; empty: all that was sent has arrived.
        #[serde(deserialize_with = "text::reason")]
        reason: String,
    },
    /// Messages of a stream that the sender's pool has not taken, nor will: each is counted there.
    NotTaken {
        /// The stream.
        stream: u32,
        /// How many since the last such message.
        messages: u32,
        /// Why not.
        why: NotTaken,
    },
    // 16 was used until version 7 of the protocol, and stays free.
}

/// Why the pool of a receiver does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NotTaken {
    /// No slot was free.
    NoSlot,
    /// It is longer than the largest slot.
    TooLong,
    /// The channel carries another type there.
    OtherType,
    /// There is no port for its publisher.
    NoPort,
    /// Anything else.
    Other,
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "no slot was free",
            Self::TooLong => "longer than the largest slot",
            Self::OtherType => "the channel carries another type",
            Self::NoPort => "no port was left for the publisher",
            Self::Other => "the log of its agent says why",
        })
    }
}

/// A publisher of the sender has a socket for a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowOffer {
    /// Number of the flow, chosen by its sender, unique in the session.
    pub flow: u32,
    /// Name of a channel of publish/subscribe.
    #[serde(deserialize_with = "text::name")]
    pub channel: String,
    /// What it carries at the sender.
    pub carries: CarriedType,
    /// How its messages are sent.
    pub transport: Transport,
    /// The socket's, at the sender's address of the control connection.
    pub port: u16,
    /// Secret of the flow, random: its connection and its frames begin with it.
    pub word: u64,
    /// Of the sender's process, if the flow is to be sealed.
    pub key: Option<PublicKey>,
    /// Of its UDP socket for `AF_XDP` frames, at the same address; 0: it has none.
    pub frame_port: u16,
}

/// The only subscriber of the sender has one, too: the publisher's process may connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTaken {
    /// The flow.
    pub flow: u32,
    /// The socket's, at the sender's address of the control connection.
    pub port: u16,
    /// Of its UDP socket for `AF_XDP` frames, at the same address; 0: it has none.
    pub frame_port: u16,
    /// Messages that may be on their way.
    pub window_messages: u32,
    /// Bytes of them.
    pub window_bytes: u32,
    /// Longest message.
    pub message_bytes_max: u32,
    /// How long the publisher waits for a subscriber that takes too little; 0: not at all.
    pub block_ms: u32,
    /// Of the sender's process, if the flow is sealed.
    pub key: Option<PublicKey>,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowSide {
    /// The publisher's.
    Sending,
    /// The subscriber's.
    Receiving,
}

/// The ends that a host has on a channel, as far as the other may know of them: those that send if
/// it may read there, those that receive if it may write. None of either: it has none any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// What meets there; never replies, which are the other half of requests.
    pub kind: EndKind,
    /// The channel's name.
    #[serde(deserialize_with = "text::name")]
    pub channel: String,
    /// What it carries there.
    pub carries: CarriedType,
    /// Publishers, clients or notifiers.
    pub sending: u32,
    /// Subscribers, servers or listeners.
    pub receiving: u32,
}

/// The receiving ends that a host has on a channel, taken together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// What meets there.
    pub kind: EndKind,
    /// The channel's name.
    #[serde(deserialize_with = "text::name")]
    pub channel: String,
    /// What it carries there.
    pub carries: CarriedType,
    /// The strongest policy of them.
    pub policy: Policy,
    /// The greatest depth.
    pub depth: u32,
    /// The greatest history.
    pub history: u32,
}

/// What meets on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EndKind {
    /// Publishers and subscribers.
    Publish,
    /// Clients and servers: requests.
    Request,
    /// Servers and clients: what becomes of the requests. It goes the other way.
    Reply,
    /// Notifiers and listeners.
    Event,
}

impl From<ChannelKind> for EndKind {
    fn from(kind: ChannelKind) -> Self {
        match kind {
            ChannelKind::PublishSubscribe => Self::Publish,
            ChannelKind::RequestReply => Self::Request,
            ChannelKind::Event => Self::Event,
        }
    }
}

impl From<EndKind> for ChannelKind {
    fn from(kind: EndKind) -> Self {
        match kind {
            EndKind::Publish => Self::PublishSubscribe,
            EndKind::Request | EndKind::Reply => Self::RequestReply,
            EndKind::Event => Self::Event,
        }
    }
}

/// What a channel carries. Raw bytes have no name and no sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedType {
    /// Name of the type.
    #[serde(deserialize_with = "text::name")]
    pub name: String,
    /// Size of a value.
    pub bytes: u32,
    /// Its alignment.
    pub align: u32,
    /// Version of the type.
    pub version: u32,
}

impl From<ChannelType> for CarriedType {
    fn from(carried: ChannelType) -> Self {
        Self {
            name: carried.name,
            bytes: carried.bytes,
            align: carried.align,
            version: carried.version,
        }
    }
}

impl From<CarriedType> for ChannelType {
    fn from(carried: CarriedType) -> Self {
        Self {
            name: carried.name,
            bytes: carried.bytes,
            align: carried.align,
            version: carried.version,
        }
    }
}

/// What happens to a message for a full queue; a later one is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Policy {
    /// It passes it by.
    DropNewest,
    /// It takes the place of the oldest.
    EvictOldest,
    /// Its sender waits.
    Block {
        /// At most so long.
        timeout_ms: u32,
    },
}

impl From<PortPolicy> for Policy {
    fn from(policy: PortPolicy) -> Self {
        match policy {
            PortPolicy::DropNewest => Self::DropNewest,
            PortPolicy::EvictOldest => Self::EvictOldest,
            PortPolicy::Block { timeout_ms } => Self::Block { timeout_ms },
        }
    }
}

impl From<Policy> for PortPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::DropNewest => Self::DropNewest,
            Policy::EvictOldest => Self::EvictOldest,
            Policy::Block { timeout_ms } => Self::Block { timeout_ms },
        }
    }
}
