//! What the bench and its two ends say to each other: one line of JSON each.

use serde::{Deserialize, Serialize};

use super::calls::{Arrivals, CallCase, Paced};
use super::case::{Case, Content};
use super::job::Sent;
use super::lossy::{LossyCase, Passed, Streamed, Taken};
use super::plays::{Play, Played, PlaysCase, Watched};
use crate::network::{self, Link};

/// A file with media, and what it has in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    pub(super) content: Content,
    pub(super) path: String,
}

/// To an end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Put up a link's end and know the other. Answer: `Ready`.
    Join(Link),
    /// To the receiver: open a socket for each destination. Answer: `Ready`.
    Expect(Case),
    /// To the receiver: open the sockets of all calls. Answer: `Ready`.
    Listen(CallCase),
    /// To the receiver: open a session. Answer: `Ready`.
    Take(LossyCase),
    /// To the receiver: open a socket for each destination, and note when packets arrive. Answer:
    /// `Ready`.
    Watch(PlaysCase),
    /// To the relay: be the way from the first link to the second; the seed decides what is lost.
    /// Answer: `Ready`.
    Pass { seed: u64 },
    /// To who was made ready by one of those: everything was sent. Answer: `Received`, `Arrivals`,
    /// `Taken`, `Watched` or `Passed`, when all is there or nothing comes any more.
    Collect,
    /// To the sender. Answer: `Sent`.
    Send(Case),
    /// To the sender. Answer: `Paced`.
    Call(CallCase),
    /// To the sender. Answer: `Streamed`.
    Stream(LossyCase),
    /// To the sender: start a program that plays. Answer: `Played`.
    Play(Play),
}

/// What an end found out, where an order asks for more than to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    Received(Tally),
    Sent(Sent),
    Arrivals(Arrivals),
    Paced(Paced),
    Taken(Taken),
    Streamed(Streamed),
    Passed(Passed),
    Played(Played),
    Watched(Watched),
}

impl network::Order for Order {
    type Outcome = Outcome;

    fn join(link: Link) -> Self {
        Self::Join(link)
    }
}

/// What arrived, of all destinations together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Packets that came for the first time and were right.
    pub(super) delivered: u64,
    /// Numbers below the highest that never came; where the number of packets is known, all that
    /// never came.
    pub(super) missing: u64,
    /// Packets that came twice, had another content than was sent, or were none.
    pub(super) wrong: u64,
    /// When the last right one had been checked, on the monotonic clock.
    pub(super) last_ns: u64,
}
