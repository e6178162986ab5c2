//! Who asks servers here for the clients of the other host.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use hythe_node::{Client, ClientOptions, Lease, Node, NodeError, Sample, hop};

use crate::agent::context::lock;
use crate::frame::{FrameKind, Opening};

/// The most requests of the other host on a channel that servers here have, and the most whose ends
/// it has not taken: what it sends beyond that waits there.
const OUTSTANDING: u32 = 64;
/// So many fit also where the memory of queues is short.
const OUTSTANDING_ALWAYS: u32 = 32;

/// A client's port, and what is open there.
#[derive(Debug)]
pub(in crate::agent::session) struct RemoteClient {
    pub(in crate::agent::session) node: Node,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    client: Client,
    /// The other side's number of each open request, by the client's.
    numbers: BTreeMap<u64, u64>,
    /// Those that ended without a server.
    ended: VecDeque<Answered>,
}

/// What became of a request that is to be sent on.
#[derive(Debug)]
pub(in crate::agent::session) enum Asked {
    /// A server has it.
    Sent,
    /// No server has room for it now.
    NotNow(Lease),
    /// There is no server.
    Nobody,
}

/// How a request ended.
#[derive(Debug)]
pub(in crate::agent::session) struct Answered {
    /// The other side's number.
    pub(in crate::agent::session) number: u64,
    /// A message is the reply.
    pub(in crate::agent::session) kind: FrameKind,
    pub(in crate::agent::session) reply: Option<Sample>,
}

impl Answered {
    /// Without a reply.
    pub(in crate::agent::session) const fn without(number: u64, kind: FrameKind) -> Self {
        let reply = None;
        Self {
            number,
            kind,
            reply,
        }
    }
}

impl RemoteClient {
    pub(super) fn open(node: Node, opening: &Opening) -> Result<Self, NodeError> {
        let open = |outstanding| {
            let options = ClientOptions::default()
                .carries(opening.carries.clone().into())
                .outstanding(outstanding);
            node.client(&opening.channel, &options)
        };
        let client = open(OUTSTANDING).or_else(|_| open(OUTSTANDING_ALWAYS))?;
        Ok(Self {
            node,
            state: Mutex::new(State {
                client,
                numbers: BTreeMap::new(),
                ended: VecDeque::new(),
            }),
        })
    }

    /// May the other side send one more?
    pub(in crate::agent::session) fn has_room(&self) -> bool {
        lock(&self.state).ended.len() < OUTSTANDING as usize
    }

    /// A slot for a request.
    pub(in crate::agent::session) fn lease(&self, bytes: u32) -> Result<Lease, NodeError> {
        lock(&self.state).client.lease(bytes as usize)
    }

    /// Asks a server, without waiting.
    pub(in crate::agent::session) fn ask(
        &self,
        lease: Lease,
        bytes: u32,
        number: u64,
    ) -> Result<Asked, NodeError> {
        let mut state = lock(&self.state);
        Ok(
            match hop::try_request(&mut state.client, lease, bytes as usize)? {
                Ok(pending) => {
                    state.numbers.insert(pending.number(), number);
                    Asked::Sent
                }
                // One that cannot be connected to is none.
                Err(_) if state.client.servers().unwrap_or(0) == 0 => Asked::Nobody,
                Err(lease) => Asked::NotNow(lease),
            },
        )
    }

    /// A request has ended without a server.
    pub(in crate::agent::session) fn end(&self, number: u64, kind: FrameKind) {
        let ended = Answered::without(number, kind);
        lock(&self.state).ended.push_back(ended);
    }

    /// What ended next, if anything has.
    pub(in crate::agent::session) fn next(&self) -> Result<Option<Answered>, NodeError> {
        let mut state = lock(&self.state);
        if let Some(ended) = state.ended.pop_front() {
            return Ok(Some(ended));
        }
        while let Some(reply) = state.client.take(Duration::ZERO)? {
            let Some(number) = state.numbers.remove(&reply.request.number()) else {
                continue;
            };
            return Ok(Some(match reply.outcome {
                Ok(sample) => Answered {
                    number,
                    kind: FrameKind::Message,
                    reply: Some(sample),
                },
                Err(NodeError::ServerLost { .. }) => Answered::without(number, FrameKind::Lost),
                Err(_) => Answered::without(number, FrameKind::GivenUp),
            }));
        }
        Ok(None)
    }

    /// Is nothing open, and nothing left to be told?
    pub(in crate::agent::session) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.numbers.is_empty() && state.ended.is_empty()
    }
}
