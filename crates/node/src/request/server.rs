//! The server of a request/reply channel: takes requests, and owes each a reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_abi::request::{Header, MessageKind};
use hythe_pool::{MemberIndex, PortKind, PortPolicy, PortStatistics};

use super::intake::{self, Arrived};
use super::options::ServerOptions;
use super::outlets::Outlets;
use crate::NodeError;
use crate::buffer::{Lease, Reference, Sample};
use crate::leasing::{LeaseWait, named_lease_in};
use crate::participant::Participant;
use crate::port::{Opener, Port, PortPlan};
use crate::sources::Sources;
use crate::transport::Origin;
use crate::unconnected::RETRY;
use crate::wait::{Awaited, ring};
use crate::wait_set::Waitable;
use crate::wait_set::sealed::{Parts, PortParts};

/// The server of a request/reply channel.
#[derive(Debug)]
pub struct Server {
    port: Port,
    epoch: Option<u32>,
    changes: Option<u32>,
    /// The last time that connecting to all clients failed.
    missed_some: Option<Instant>,
    sources: Sources,
    outlets: Arc<Outlets>,
}

impl Server {
    pub(crate) fn open(
        opener: &Opener,
        name: &str,
        options: &ServerOptions,
    ) -> Result<Self, NodeError> {
        let plan = PortPlan {
            kind: PortKind::Server,
            depth: options.depth,
            policy: PortPolicy::DropNewest,
            history: 0,
            request_bytes: options.request_bytes,
        };
        // Every message has a header: who may only read can neither ask nor answer.
        opener.shared.pool().map_to_write(RegionIndex(0))?;
        let port = Port::open(opener, name, options.carries.as_ref(), plan)?;
        let mut server = Self {
            outlets: Arc::new(Outlets::new(port.name(), port.index)),
            port,
            epoch: None,
            changes: None,
            missed_some: None,
            sources: Sources::default(),
        };
        server.port.ring_others();
        let Self { port, sources, .. } = &mut server;
        sources.update(port, true)?;
        // So that the first lease is where its client sees it.
        server.outlets.update(&server.sources)?;
        Ok(server)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.port.name()
    }

    /// Leases a buffer for a reply, where all clients that there are see it: that of a core is in
    /// the core's region.
    ///
    /// # Errors
    /// As [`crate::Node::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(
            &self.port.shared,
            self.outlets.region(None).unwrap_or(RegionIndex(0)),
            bytes,
            LeaseWait::default(),
        )
    }

    /// Takes the next request, waiting for at most `timeout`. `None`: there was none. A signal does
    /// not end the wait, [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// [`NodeError::Interrupted`]; a damaged pool. Invalid messages of a faulty peer are
    /// skipped and counted.
    pub fn take(&mut self, timeout: Duration) -> Result<Option<Request>, NodeError> {
        let shared = Arc::clone(&self.port.shared);
        shared.wait_on(self.port.wait, timeout, self)
    }

    /// Takes the next request if there is one, from each client in turn.
    ///
    /// # Errors
    /// As [`Server::take`].
    pub fn try_take(&mut self) -> Result<Option<Request>, NodeError> {
        self.refresh()?;
        let mut passed_over = PortStatistics::default();
        let arrived = self.next_request(&mut passed_over);
        if passed_over != PortStatistics::default() {
            self.outlets.count(&self.port.shared, |counted| {
                counted.violations += passed_over.violations;
                counted.dropped += passed_over.dropped;
            });
        }
        let arrived = self.port.shared.pool().unless_lost(arrived)?;
        Ok(arrived.map(|arrived| self.request_of(arrived)))
    }

    /// Of a client that sends replies instead of requests, no more are skipped in one call than its
    /// queue holds.
    fn next_request(
        &mut self,
        passed_over: &mut PortStatistics,
    ) -> Result<Option<Arrived>, NodeError> {
        let shared = &self.port.shared;
        while let Some(arrived) = intake::take(&mut self.sources, shared, passed_over)? {
            if arrived.header.kind == MessageKind::Request {
                return Ok(Some(arrived));
            }
            passed_over.violations += 1;
            if passed_over.violations > arrived.capacity.into() {
                break;
            }
        }
        Ok(None)
    }

    fn request_of(&self, arrived: Arrived) -> Request {
        let Arrived {
            origin,
            header,
            sample,
            ..
        } = arrived;
        // It may be waiting for the place that has just become free.
        ring(self.port.shared.pool().control(), origin.member);
        self.outlets.count(&self.port.shared, |counted| {
            counted.messages += 1;
            counted.payload_bytes += sample.len() as u64;
        });
        Request {
            sample: Some(sample),
            responder: Some(Responder {
                shared: Arc::clone(&self.port.shared),
                outlets: Arc::clone(&self.outlets),
                origin,
                number: header.number,
                owes: true,
            }),
        }
    }

    /// How many clients are connected. One that left counts until all that it sent is taken.
    ///
    /// # Errors
    /// A damaged pool.
    pub fn clients(&mut self) -> Result<usize, NodeError> {
        let refreshed = self.refresh();
        self.port.shared.pool().unless_lost(refreshed)?;
        Ok(self.sources.count())
    }

    /// The counters of this port: `messages` are the requests taken; `dropped` are replies that
    /// reached no client. Zero in a forked copy, where the lock may be held by a thread of the
    /// parent.
    #[must_use]
    pub fn statistics(&self) -> PortStatistics {
        if self.port.shared.is_a_copy() {
            return PortStatistics::default();
        }
        self.outlets.statistics()
    }

    /// A request is not what the channel carries.
    pub(crate) fn note_violation(&self) {
        self.outlets
            .count(&self.port.shared, |counted| counted.violations += 1);
    }

    fn refresh(&mut self) -> Result<(), NodeError> {
        self.port.shared.check_original()?;
        // A core that comes changes the channel, not a connection.
        let epoch = Some(self.port.epoch());
        let changes = self.port.changes();
        let is_due = self.missed_some.is_some_and(|at| at.elapsed() >= RETRY);
        if (self.epoch, self.changes) == (epoch, Some(changes)) && !is_due {
            return Ok(());
        }
        let all_seen = self.sources.update(&self.port, false)?;
        let all_connected = self.outlets.update(&self.sources)?;
        self.missed_some = (!all_connected).then(Instant::now);
        self.epoch = epoch;
        self.changes = all_seen.then_some(changes);
        Ok(())
    }
}

impl Awaited for Server {
    type Found = Request;

    fn look(&mut self) -> Result<Option<Request>, NodeError> {
        self.try_take()
    }

    fn nap(&self) -> Duration {
        self.sources.nap()
    }
}

impl Waitable for Server {}

impl Parts for Server {
    fn parts(&mut self) -> PortParts<'_> {
        PortParts {
            port: &mut self.port,
            events: None,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.port.shared.is_a_copy() {
            return;
        }
        // First the replies: a client that sees the port closed knows that none comes behind it.
        let replies = self.outlets.close();
        self.port.begin_closing();
        // A client that connected meanwhile sees the closed port, or we see its connection.
        let updated = self.sources.update(&self.port, false).map(drop);
        let left = updated.and(self.sources.disconnect_all());
        let left = replies
            .map(|target| target.disconnect())
            .fold(left, Result::and);
        if let Err(error) = left {
            tracing::error!(%error, "could not leave a channel");
        }
    }
}

/// A request, to be read and answered by any thread. If it is dropped unanswered, its client gets
/// an error.
#[derive(Debug)]
pub struct Request {
    /// `None` only once it was taken apart.
    sample: Option<Sample>,
    responder: Option<Responder>,
}

impl Request {
    /// The payload of the request.
    #[must_use]
    pub fn sample(&self) -> &Sample {
        #[allow(
            clippy::expect_used,
            reason = "proof: taken only by methods that take the request itself"
        )]
        self.sample.as_ref().expect("a whole request")
    }

    /// Splits the request into its payload and the obligation to reply, so that the buffer can be
    /// forwarded, or a part of it sent back.
    #[must_use]
    pub fn into_parts(mut self) -> (Sample, Responder) {
        #[allow(
            clippy::expect_used,
            reason = "proof: taken only by methods that take the request itself"
        )]
        let parts = self.sample.take().zip(self.responder.take());
        parts.expect("a whole request")
    }

    /// Replies with the first `bytes` of a leased buffer. False: the client is gone, or its
    /// queue is full; the reply is counted as dropped.
    ///
    /// # Errors
    /// A core is the client, and the buffer is in a region that it does not see
    /// ([`NodeError::RegionNotVisible`]) or too long for its endpoint
    /// ([`NodeError::TooLargeForCore`]); the client gets an error, too. A damaged pool.
    ///
    /// # Panics
    /// If `bytes` is more than the buffer's capacity, or the lease is another node's.
    pub fn reply(self, lease: Lease, bytes: usize) -> Result<bool, NodeError> {
        self.into_parts().1.reply(lease, bytes)
    }

    /// Replies with the buffer that the request came in, without copying. False: as
    /// [`Request::reply`].
    ///
    /// # Errors
    /// [`NodeError::SharedBuffer`] if the client kept a reference to it, or sent one that others
    /// hold; those of [`Request::reply`].
    pub fn reply_in_kind(self) -> Result<bool, NodeError> {
        let (sample, responder) = self.into_parts();
        responder.forward(sample)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(responder) = &mut self.responder {
            // In its own buffer: this needs no free one.
            responder.end(MessageKind::GivenUp, self.sample.take());
        }
    }
}

/// The obligation to reply to one request. If it is dropped, the client gets an error.
#[derive(Debug)]
pub struct Responder {
    shared: Arc<Participant>,
    outlets: Arc<Outlets>,
    origin: Origin,
    number: u64,
    owes: bool,
}

impl Responder {
    /// The client.
    #[must_use]
    pub const fn client(&self) -> MemberIndex {
        self.origin.member
    }

    /// Leases a buffer for the reply, where its client sees it.
    ///
    /// # Errors
    /// As [`crate::Node::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(&self.shared, self.region(), bytes, LeaseWait::default())
    }

    fn region(&self) -> RegionIndex {
        let region = self.outlets.region(Some(self.origin));
        region.unwrap_or(RegionIndex(0))
    }

    /// As [`Request::reply`].
    ///
    /// # Errors
    /// As [`Request::reply`].
    ///
    /// # Panics
    /// As [`Request::reply`].
    pub fn reply(self, lease: Lease, bytes: usize) -> Result<bool, NodeError> {
        assert!(
            bytes <= lease.capacity(),
            "{bytes} bytes from a buffer of {}",
            lease.capacity()
        );
        // Fits: a slot's size is 32 bits.
        self.send(lease.into_reference(bytes as u32))
    }

    /// Replies with a received sample, or a part of one, without copying: that of the request, or
    /// any other that nobody else holds. False: as [`Request::reply`].
    ///
    /// # Errors
    /// [`NodeError::SharedBuffer`] if the buffer has another holder; the client gets an error.
    /// Those of [`Request::reply`].
    ///
    /// # Panics
    /// If the sample is another node's.
    pub fn forward(self, sample: Sample) -> Result<bool, NodeError> {
        self.send(sample.into_reference())
    }

    fn send(mut self, reference: Reference) -> Result<bool, NodeError> {
        assert!(
            reference.is_of(&self.shared),
            "a buffer is sent by the node that leased or took it"
        );
        self.shared.check_original()?;
        if !reference.is_alone() {
            // Of a lost pool nothing is held by anybody.
            self.shared.pool().check_whole()?;
            return Err(NodeError::SharedBuffer {
                channel: self.outlets.channel.clone(),
            });
        }
        let header = self.header(MessageKind::Reply);
        let sent = self
            .outlets
            .send(&self.shared, self.origin, reference, header);
        // What was refused is no reply: the client is told so.
        self.owes = sent.is_err();
        self.shared.pool().unless_lost(sent)
    }

    /// Ends it without telling the client anything: by what the channel carries, it expects no
    /// reply to this request.
    pub fn end_silently(mut self) {
        if std::mem::take(&mut self.owes) && !self.shared.is_a_copy() {
            self.outlets.abandon(self.origin, self.number);
        }
    }

    const fn header(&self, kind: MessageKind) -> Header {
        Header {
            kind,
            number: self.number,
        }
    }

    /// Ends it because who should have answered is gone: to the client it is as if this server had
    /// gone with the request.
    pub(crate) fn lose(mut self) {
        self.end(MessageKind::Lost, None);
    }

    /// Tells the client that no reply comes, in this buffer or in one leased for it.
    fn end(&mut self, kind: MessageKind, sample: Option<Sample>) {
        if !std::mem::take(&mut self.owes) || self.shared.is_a_copy() {
            return;
        }
        let own = sample.map(Sample::into_reference);
        let reference = own.filter(Reference::is_alone).map_or_else(
            || {
                named_lease_in(&self.shared, self.region(), 0, LeaseWait::NONE)
                    .map(|lease| lease.into_reference(0))
            },
            Ok,
        );
        let header = self.header(kind);
        let told = reference.and_then(|reference| {
            self.outlets
                .send(&self.shared, self.origin, reference, header)
        });
        if let Err(error) = told {
            // The client's own time-out tells it.
            self.outlets.abandon(self.origin, self.number);
            tracing::warn!(%error, "could not tell a client that its request is given up");
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.end(MessageKind::GivenUp, None);
    }
}
