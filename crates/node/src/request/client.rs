//! The client of a request/reply channel: sends requests to the servers in turn, and matches
//! replies to requests.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::RegionIndex;
use hythe_abi::request::{BYTES, Header, MessageKind};
use hythe_pool::{PortKind, PortPolicy, PortStatistics};

use super::intake::{self, Arrived};
use super::options::ClientOptions;
use super::servers::{Lost, Sent, Servers};
use super::table::{Outcome, Table};
use crate::buffer::{Lease, Reference, Sample};
use crate::leasing::{LeaseWait, named_lease_in};
use crate::port::{Opener, Port, PortPlan};
use crate::sources::Sources;
use crate::wait::Awaited;
use crate::wait_set::Waitable;
use crate::wait_set::sealed::{Parts, PortParts};
use crate::{NodeError, ServerLoss, holders};

/// A request that was sent: the number by which its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PendingReply(u64);

impl PendingReply {
    /// The request with that number, for callers that stored only the number.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number, unique among the requests of its client.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub struct Reply {
    /// Which request.
    pub request: PendingReply,
    /// The reply; or [`NodeError::ServerLost`], [`NodeError::Unanswered`].
    pub outcome: Result<Sample, NodeError>,
}

/// The client of a request/reply channel.
///
/// ```
/// # fn main() -> Result<(), hythe_node::NodeError> {
/// # let root = std::env::temp_dir().join(format!("hythe-ask-{}", std::process::id()));
/// use std::time::Duration;
/// use hythe_node::{ClientOptions, Node, Pool, PoolOptions, ServerOptions};
///
/// const SECOND: Duration = Duration::from_secs(1);
/// let options = PoolOptions::new("example").root(&root).bytes(16 << 20);
/// let node = Node::join(&Pool::open_or_create(&options)?, "doc-test")?;
/// let mut server = node.server("upper", &ServerOptions::default())?;
/// let mut client = node.client("upper", &ClientOptions::default())?;
///
/// // Two requests in flight; the replies may be waited for in any order.
/// let mut lease = client.lease(5)?;
/// lease.write(0, b"hello");
/// let first = client.request(lease, 5)?;
/// let second = client.request(client.lease(0)?, 0)?;
///
/// // Usually another process.
/// while let Some(request) = server.try_take()? {
///     let mut text = request.sample().to_vec();
///     text.make_ascii_uppercase();
///     let mut lease = server.lease(text.len())?;
///     lease.write(0, &text);
///     request.reply(lease, text.len())?;
/// }
///
/// assert!(client.wait(second, SECOND)?.expect("a reply").is_empty());
/// assert_eq!(client.wait(first, SECOND)?.expect("a reply").to_vec(), b"HELLO");
/// # drop((client, server, node));
/// # Pool::remove(&options)?;
/// # std::fs::remove_dir_all(&root).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Client {
    port: Port,
    statistics: PortStatistics,
    send_timeout: Duration,
    epoch: Option<u32>,
    changes: Option<u32>,
    /// Why a server could not be connected to. Requests go to the others. It is the error of a
    /// request that no server takes.
    refused: Option<NodeError>,
    servers: Servers,
    sources: Sources,
    table: Table,
}

impl Client {
    pub(crate) fn open(
        opener: &Opener,
        name: &str,
        options: &ClientOptions,
    ) -> Result<Self, NodeError> {
        let outstanding = options.outstanding.clamp(1, 32768);
        let plan = PortPlan {
            kind: PortKind::Client,
            depth: outstanding.next_power_of_two(),
            policy: PortPolicy::DropNewest,
            history: 0,
            request_bytes: None,
        };
        // Every message has a header: who may only read can neither ask nor answer.
        opener.shared.pool().map_to_write(RegionIndex(0))?;
        let mut client = Self {
            port: Port::open(opener, name, options.carries.as_ref(), plan)?,
            servers: Servers::new(plan.depth),
            statistics: PortStatistics::default(),
            send_timeout: options.send_timeout,
            epoch: None,
            changes: None,
            refused: None,
            sources: Sources::default(),
            table: Table::new(outstanding),
        };
        // What cannot be connected to now is tried again, and told, with the first request.
        let _ = client.servers.update(&client.port, true);
        Ok(client)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.port.name()
    }

    /// Leases a buffer for a request, where the servers that there are see it. One that goes to a
    /// core has space for the largest reply, which is written where the request was.
    ///
    /// # Errors
    /// As [`crate::Node::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        let (mut region, mut reply_bytes) = (self.servers.region(), self.servers.reply_bytes());
        if let Some(pending) = self.sources.pending() {
            region = Some(pending.region);
            reply_bytes = reply_bytes.max(pending.reply_bytes as usize);
        }
        let leased = named_lease_in(
            &self.port.shared,
            region.unwrap_or(RegionIndex(0)),
            bytes.max(reply_bytes),
            LeaseWait::default(),
        );
        if leased.as_ref().is_err_and(NodeError::is_pool_full) {
            self.servers.note_no_slot();
        }
        leased
    }

    /// Sends the first `bytes` of a leased buffer as a request. Does not wait for the reply.
    ///
    /// # Errors
    /// [`NodeError::NoServer`], [`NodeError::CoreSilent`] if there is none but a core that has not
    /// answered yet, [`NodeError::ServersFull`] if the queues of all stayed full,
    /// [`NodeError::TooManyRequests`]. The buffer is released then.
    ///
    /// # Panics
    /// If `bytes` is more than the buffer's capacity, or the lease is another node's.
    pub fn request(&mut self, lease: Lease, bytes: usize) -> Result<PendingReply, NodeError> {
        assert!(
            bytes <= lease.capacity(),
            "{bytes} bytes from a buffer of {}",
            lease.capacity()
        );
        // Fits: a slot's size is 32 bits.
        self.send(lease.into_reference(bytes as u32))
    }

    /// Sends a received sample, or a part of one, as a request, without copying.
    ///
    /// # Errors
    /// As [`Client::request`]; [`NodeError::SharedBuffer`] if somebody else holds it as well.
    ///
    /// # Panics
    /// If the sample is another node's.
    pub fn forward(&mut self, sample: Sample) -> Result<PendingReply, NodeError> {
        self.send(sample.into_reference())
    }

    /// Sends a request and waits for its reply for at most `timeout`.
    ///
    /// # Errors
    /// As [`Client::request`] and [`Client::wait`]; [`NodeError::NoReply`] if `timeout` has passed.
    /// Then, and if it was interrupted, the request is abandoned.
    ///
    /// # Panics
    /// As [`Client::request`].
    pub fn call(
        &mut self,
        lease: Lease,
        bytes: usize,
        timeout: Duration,
    ) -> Result<Sample, NodeError> {
        let pending = self.request(lease, bytes)?;
        match self.wait(pending, timeout) {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => {}
            Err(error) => {
                if matches!(error, NodeError::Interrupted) {
                    self.abandon(pending);
                }
                return Err(error);
            }
        }
        let server = self.servers.asked(pending.0).unwrap_or("its server");
        let late = NodeError::NoReply {
            channel: self.port.name().to_owned(),
            waited_ms: milliseconds(timeout),
            server: server.to_owned(),
        };
        self.abandon(pending);
        Err(late)
    }

    /// Waits for the reply to one request, for at most `timeout`. `None`: it has not come yet; the
    /// request stays open. A signal does not end the wait,
    /// [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// [`NodeError::Interrupted`]: the request stays open.
    /// [`NodeError::ServerLost`], [`NodeError::Unanswered`]: the request is over.
    /// [`NodeError::NotPending`]; a damaged pool.
    pub fn wait(
        &mut self,
        request: PendingReply,
        timeout: Duration,
    ) -> Result<Option<Sample>, NodeError> {
        self.wait_until(timeout, |client| match client.table.take(request.0) {
            Some(outcome) => client.sample_of(outcome).map(Some),
            None if client.table.has(request.0) => Ok(None),
            None => Err(NodeError::NotPending {
                channel: client.port.name().to_owned(),
                number: request.0,
            }),
        })
    }

    /// Waits for the reply to any request, for at most `timeout`. `None`: there was none. A signal
    /// does not end the wait, [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// [`NodeError::Interrupted`]; a damaged pool. What became of a request is in the reply.
    pub fn take(&mut self, timeout: Duration) -> Result<Option<Reply>, NodeError> {
        self.wait_until(timeout, |client| {
            Ok(client.table.take_any().map(|(number, outcome)| Reply {
                request: PendingReply(number),
                outcome: client.sample_of(outcome),
            }))
        })
    }

    /// Abandons a request: its reply is dropped and counted when it comes. The server is not
    /// notified.
    pub fn abandon(&mut self, request: PendingReply) {
        self.table.forget(request.0);
    }

    /// How many requests have no reply yet, or a reply that was not taken.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.table.len()
    }

    /// How many servers are connected. Does not wait.
    ///
    /// # Errors
    /// A full table of connections.
    pub fn servers(&mut self) -> Result<usize, NodeError> {
        let polled = self.poll();
        self.port.shared.pool().unless_lost(polled)?;
        match self.refused.take() {
            Some(refused) => Err(refused),
            None => Ok(self.servers.count()),
        }
    }

    /// Waits until there are at least `count` servers. False: the time was over first.
    ///
    /// # Errors
    /// As [`Client::servers`].
    pub fn wait_for_servers(&mut self, count: usize, timeout: Duration) -> Result<bool, NodeError> {
        let enough = self.wait_until(timeout, |client| {
            Ok((client.servers()? >= count).then_some(()))
        })?;
        Ok(enough.is_some())
    }

    /// The counters of this port: `messages` are the requests sent; `dropped` are those that no
    /// server took, and replies to abandoned requests.
    #[must_use]
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    fn wait_until<T>(
        &mut self,
        timeout: Duration,
        attempt: impl FnMut(&mut Self) -> Result<Option<T>, NodeError>,
    ) -> Result<Option<T>, NodeError> {
        let (shared, plan) = (Arc::clone(&self.port.shared), self.port.wait);
        let mut awaited = Awaiting {
            client: self,
            attempt,
        };
        let waited = shared.wait_on(plan, timeout, &mut awaited);
        shared.pool().unless_lost(waited)
    }

    fn send(&mut self, reference: Reference) -> Result<PendingReply, NodeError> {
        assert!(
            reference.is_of(&self.port.shared),
            "a buffer is sent by the node that leased or took it"
        );
        let bytes = u64::from(reference.descriptor().length);
        let sent = self.try_send(reference);
        match &sent {
            Ok(_) => {
                self.statistics.messages += 1;
                self.statistics.payload_bytes += bytes;
            }
            Err(_) => self.statistics.dropped += 1,
        }
        self.show_statistics();
        sent
    }

    /// As [`Client::request`], without waiting: the lease comes back where no server takes it now,
    /// or too many requests are open.
    pub(crate) fn try_request(
        &mut self,
        mut lease: Lease,
        bytes: usize,
    ) -> Result<Result<PendingReply, Lease>, NodeError> {
        self.poll()?;
        let Some(number) = self.table.next_number() else {
            return Ok(Err(lease));
        };
        let Self { port, servers, .. } = self;
        let reference = lease.as_payload(bytes);
        reference.write_headroom(&request_header(number))?;
        let Some(sent) = servers.send(&port.shared, port.name(), reference, number)? else {
            return Ok(Err(lease));
        };
        reference.moved_from(&port.shared);
        self.statistics.messages += 1;
        self.statistics.payload_bytes += bytes as u64;
        self.show_statistics();
        self.opened(number, sent)?;
        Ok(Ok(PendingReply(number)))
    }

    /// The request with this number was sent.
    fn opened(&mut self, number: u64, sent: Sent) -> Result<(), NodeError> {
        self.table.open(number);
        if sent == Sent::ToOneThatGoes {
            // It crossed with the server's closing: whoever leaves last releases it, so leave now,
            // not when somebody next asks.
            self.epoch = None;
            self.poll()?;
        }
        Ok(())
    }

    fn try_send(&mut self, mut reference: Reference) -> Result<PendingReply, NodeError> {
        self.port.shared.check_original()?;
        if self.refused.is_some() {
            // Once for each request: a queue may be free by now.
            self.epoch = None;
        }
        if !reference.is_alone() {
            // Of a lost pool nothing is held by anybody.
            self.port.shared.pool().check_whole()?;
            let channel = self.port.name().to_owned();
            return Err(NodeError::SharedBuffer { channel });
        }
        let number = self
            .table
            .next_number()
            .ok_or_else(|| NodeError::TooManyRequests {
                channel: self.port.name().to_owned(),
                limit: self.table.limit(),
            })?;
        reference.write_headroom(&request_header(number))?;
        let sent = self.wait_until(self.send_timeout, |client| {
            let Self { port, servers, .. } = client;
            servers.send(&port.shared, port.name(), &reference, number)
        })?;
        let Some(sent) = sent else {
            return Err(self
                .refused
                .take()
                .unwrap_or_else(|| self.nobody_takes_it()));
        };
        reference.moved_from(&self.port.shared);
        self.opened(number, sent)?;
        Ok(PendingReply(number))
    }

    fn nobody_takes_it(&self) -> NodeError {
        let (channel, waited_ms) = (self.port.name().to_owned(), milliseconds(self.send_timeout));
        if self.servers.count() == 0 {
            return match self.sources.pending() {
                Some(pending) => pending.why,
                None => NodeError::NoServer { channel, waited_ms },
            };
        }
        NodeError::ServersFull {
            channel,
            waited_ms,
            servers: self.servers.names(),
        }
    }

    fn sample_of(&self, outcome: Outcome) -> Result<Sample, NodeError> {
        let channel = || self.port.name().to_owned();
        match outcome {
            Outcome::Replied(sample) => Ok(sample),
            Outcome::GivenUp { server } => Err(NodeError::Unanswered {
                channel: channel(),
                server,
            }),
            Outcome::Lost { server, reason } => Err(NodeError::ServerLost {
                channel: channel(),
                server,
                reason,
            }),
        }
    }

    /// Takes all waiting replies. If ports or connections changed, disconnects closed servers and
    /// connects to new ones.
    fn poll(&mut self) -> Result<(), NodeError> {
        self.port.shared.check_original()?;
        let epoch = Some(self.port.epoch());
        let changes = Some(self.port.changes());
        let before = self.statistics;
        let is_known = (self.epoch, self.changes) == (epoch, changes) && !self.servers.has_liars();
        if is_known {
            self.take_replies()?;
        }
        if !is_known || self.sources.have_changed() {
            // After an error the next poll looks again.
            self.epoch = None;
            // In this order: what a server had sent before it was seen gone is found by the taking
            // behind that.
            self.servers.find_gone();
            let all_seen = self.sources.update(&self.port, false)?;
            self.take_replies()?;
            self.lose_servers()?;
            let connected = self.servers.update(&self.port, false);
            self.refused = connected
                .err()
                .map(|error| holders::named(self.port.shared.pool(), error));
            self.epoch = epoch;
            self.changes = changes.filter(|_| all_seen);
        }
        if self.statistics != before {
            self.show_statistics();
        }
        Ok(())
    }

    fn take_replies(&mut self) -> Result<(), NodeError> {
        let statistics = &mut self.statistics;
        // All that waits now; a server that keeps sending what nobody asked for does not keep us
        // here.
        for _ in 0..self.sources.capacity() {
            let shared = &self.port.shared;
            let taken = intake::take(&mut self.sources, shared, statistics)?;
            let Some(arrived) = taken else {
                return Ok(());
            };
            let Arrived {
                origin,
                header,
                sample,
                ..
            } = arrived;
            let asked = self.servers.answered(&origin, header.number);
            let outcome = match (asked, header.kind) {
                (Some(_), MessageKind::Reply) => Outcome::Replied(sample),
                (Some(server), MessageKind::GivenUp) => Outcome::GivenUp {
                    server: server.to_owned(),
                },
                (Some(server), MessageKind::Lost) => Outcome::Lost {
                    server: server.to_owned(),
                    reason: ServerLoss::Went,
                },
                // It answers what it was not asked.
                _ => {
                    statistics.violations += 1;
                    continue;
                }
            };
            if self.table.close(header.number, outcome).is_err() {
                statistics.dropped += 1;
            }
        }
        Ok(())
    }

    fn lose_servers(&mut self) -> Result<(), NodeError> {
        let Lost { requests, lies } = self.servers.leave_gone()?;
        self.statistics.violations += lies;
        for (number, server, reason) in requests {
            // Where it was abandoned, nobody needs to know.
            let _ = self.table.close(number, Outcome::Lost { server, reason });
        }
        Ok(())
    }

    /// A reply is not what the channel carries.
    pub(crate) fn note_violation(&mut self) {
        self.statistics.violations += 1;
        self.show_statistics();
    }

    fn show_statistics(&self) {
        let control = self.port.shared.pool().control();
        control
            .tables()
            .set_statistics(self.port.index, self.statistics);
    }
}

/// What a client waits for, beside all replies.
struct Awaiting<'a, F> {
    client: &'a mut Client,
    attempt: F,
}

impl<T, F: FnMut(&mut Client) -> Result<Option<T>, NodeError>> Awaited for Awaiting<'_, F> {
    type Found = T;

    fn look(&mut self) -> Result<Option<T>, NodeError> {
        self.client.poll()?;
        (self.attempt)(self.client)
    }

    fn nap(&self) -> Duration {
        self.client.sources.nap()
    }
}

impl Waitable for Client {}

impl Parts for Client {
    fn parts(&mut self) -> PortParts<'_> {
        PortParts {
            port: &mut self.port,
            events: None,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.port.shared.is_a_copy() {
            return;
        }
        self.port.begin_closing();
        // A server that connected meanwhile sees the closed port, or we see its connection.
        let updated = self.sources.update(&self.port, false).map(drop);
        let left = updated.and(self.sources.disconnect_all());
        if let Err(error) = left.and(self.servers.disconnect_all()) {
            tracing::error!(%error, "could not leave a channel");
        }
    }
}

fn request_header(number: u64) -> [u8; BYTES] {
    let kind = MessageKind::Request;
    Header { kind, number }.to_bytes()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
