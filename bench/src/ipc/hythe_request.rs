//! A round trip as a request and its reply, beside the same over a pair of channels: `hythe.rs`.
//!
//! Nobody writes: the client asks with the reply before, the server replies with the buffer that
//! the request came in.

use std::time::Duration;

use hythe_node::hop::HopNode as _;
use hythe_node::{
    Client, ClientOptions, Node, NodeError, Pool, Request, Sample, Server, ServerOptions,
    TrustPeers,
};

use super::case::{Case, Wait};
use super::end::End;
use super::side::Side;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};

const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
const CHANNEL: &str = "ask";

/// One end, in a process of its own.
#[derive(Debug)]
pub(super) struct RequestEnd {
    case: Case,
    size: usize,
    way: Way,
    node: Node,
    lookout: Lookout,
}

#[derive(Debug)]
enum Way {
    Asks {
        client: Client,
        /// The last reply.
        held: Option<Sample>,
    },
    Answers {
        server: Server,
        asked: Option<Request>,
    },
}

impl RequestEnd {
    /// Joins; the asking side waits until the other has.
    pub(super) fn join(
        pool: &Pool,
        side: Side,
        case: Case,
        size: usize,
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let (node, way) = match side {
            Side::Near => {
                let node = Node::join(pool, "bench")?;
                let mut client = node.client(CHANNEL, &ClientOptions::default())?;
                let mut bounded_wait = BoundedWait::new(&lookout);
                while !client.wait_for_servers(1, NAP)? {
                    bounded_wait.look_up()?;
                }
                (node, Way::Asks { client, held: None })
            }
            Side::Far => {
                let node = Node::join(pool, "echo")?;
                let server = node.server(CHANNEL, &ServerOptions::default())?;
                let asked = None;
                (node, Way::Answers { server, asked })
            }
        };
        Ok(Self {
            case,
            size,
            way,
            node,
            lookout,
        })
    }
}

impl End for RequestEnd {
    #[inline]
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        match &mut self.way {
            Way::Asks { client, held } => {
                if let Some(sample) = held.take() {
                    client.forward(sample)?;
                    return Ok(());
                }
                let mut lease = client.lease(self.size)?;
                fill(&mut lease.as_mut_slice(TRUST)[..self.size], number);
                client.request(lease, self.size)?;
                Ok(())
            }
            Way::Answers { asked, .. } => {
                let replied = asked.take().map(Request::reply_in_kind).transpose()?;
                match replied {
                    Some(true) => Ok(()),
                    Some(false) | None => Err(BenchError::Dropped { number }),
                }
            }
        }
    }

    #[inline]
    fn receive(&mut self, _number: u64) -> Result<bool, BenchError> {
        let (wait, node, lookout) = (self.case.wait, &self.node, &self.lookout);
        match &mut self.way {
            Way::Asks { client, held } => {
                let reply = until(wait, node, lookout, || client.take(Duration::ZERO))?;
                *held = Some(reply.outcome?);
                Ok(true)
            }
            Way::Answers { server, asked } => {
                let request = until(wait, node, lookout, || server.try_take())?;
                // Without payload: the last. Nobody waits for the reply.
                if request.sample().is_empty() {
                    return Ok(false);
                }
                *asked = Some(request);
                Ok(true)
            }
        }
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        let Way::Asks { client, held } = &mut self.way else {
            return Ok(());
        };
        if let Some(sample) = held.take()
            && !is_message(sample.as_slice(TRUST), 0)
        {
            return Err(BenchError::Damaged { number: 0 });
        }
        let lease = client.lease(0)?;
        client.request(lease, 0)?;
        Ok(())
    }
}

/// Looks until there is something, or sleeps, as the case says.
#[inline]
fn until<T>(
    wait: Wait,
    node: &Node,
    lookout: &Lookout,
    mut look: impl FnMut() -> Result<Option<T>, NodeError>,
) -> Result<T, BenchError> {
    let mut bounded_wait = BoundedWait::new(lookout);
    loop {
        let found = match wait {
            Wait::Poll => look()?,
            Wait::Block | Wait::Adaptive => node.wait_until(NAP, NAP, &mut look)?,
        };
        match found {
            Some(found) => return Ok(found),
            None if wait == Wait::Poll => bounded_wait.spin()?,
            None => bounded_wait.look_up()?,
        }
    }
}
