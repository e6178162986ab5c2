//! What two agents agree on for a flow: messages of one publisher, sent by a socket of its process
//! to one of the subscriber's, over a link that both users trust (`spec/packets.md`).

use serde::{Deserialize, Serialize};

use super::{CarriedType, text};

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
    /// The socket's, at the sender's address of the control connection.
    pub udp_port: u16,
    /// Secret of the flow, random: packets without it are nobody's.
    pub word: u64,
    /// Largest IP packet that leaves the sender.
    pub mtu_bytes: u16,
}

/// The only subscriber of the sender has one, too: packets may come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTaken {
    /// The flow.
    pub flow: u32,
    /// The socket's, at the sender's address of the control connection.
    pub udp_port: u16,
    /// Largest IP packet, of both ends the less.
    pub mtu_bytes: u16,
    /// Messages that may be on their way.
    pub window_messages: u32,
    /// Bytes of them.
    pub window_bytes: u32,
    /// Longest message.
    pub message_bytes_max: u32,
    /// What the socket keeps until it is read, as the kernel reckons it.
    pub buffer_bytes: u32,
    /// How long the publisher waits for a subscriber that takes too little; 0: not at all.
    pub block_ms: u32,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowSide {
    /// The publisher's.
    Sending,
    /// The subscriber's.
    Receiving,
}
