//! The answering end: takes requests, and owes each a reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_abi::request::{Header, MessageKind};
use hythe_pool::{
    ChannelInfo, Member, MemberIndex, PortIndex, PortKind, PortPolicy, PortStatistics, Side,
};

use super::intake::{Arrived, Intake};
use super::options::ServerOptions;
use super::outlets::{Outlets, Way, way_of};
use crate::NodeError;
use crate::buffer::{Lease, Reference, Sample};
use crate::node::{LeaseWait, PortPlan, Shared, named_lease_in};
use crate::publisher::leave_side;
use crate::refused::RETRY;
use crate::wait::{WaitPlan, ring, wait_for};
use crate::waiter::sealed::{Parts, PortParts};
use crate::waiter::{Route, Waitable};

/// The answering end of a request/reply channel.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    channel: ChannelInfo,
    port: PortIndex,
    plan: WaitPlan,
    changes: Option<u32>,
    /// When it was last tried, in vain, to connect to all clients.
    missed_some: Option<Instant>,
    intake: Intake,
    outlets: Arc<Outlets>,
    /// To the waiter that it is attached to.
    route: Option<Route>,
}

impl Server {
    pub(crate) fn open(
        shared: &Arc<Shared>,
        name: &str,
        options: &ServerOptions,
    ) -> Result<Self, NodeError> {
        let plan = PortPlan {
            kind: PortKind::Server,
            depth: options.depth,
            policy: PortPolicy::DropNewest,
            history: 0,
        };
        // Every message has a header: who may only read can neither ask nor answer.
        shared.pool().map_to_write(RegionIndex(0))?;
        let (channel, port) = shared.open_port(name, options.carries.as_ref(), plan)?;
        let control = shared.pool().control();
        // Clients that wait for a server need not find out by looking.
        let others = control
            .ports()
            .filter(|other| other.channel == channel.index);
        others.for_each(|other| ring(control, other.member));
        Ok(Self {
            shared: Arc::clone(shared),
            outlets: Arc::new(Outlets::new(&channel.name, port)),
            channel,
            port,
            plan: WaitPlan::for_processes(),
            changes: None,
            missed_some: None,
            intake: Intake::default(),
            route: None,
        })
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel.name
    }

    /// Leases a buffer for a reply.
    ///
    /// # Errors
    /// As [`crate::Node::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(&self.shared, RegionIndex(0), bytes, LeaseWait::default())
    }

    /// Takes the next request, waiting for at most `timeout`. `None`: there was none.
    ///
    /// # Errors
    /// A damaged pool. What a lying peer sent is skipped and counted.
    pub fn take(&mut self, timeout: Duration) -> Result<Option<Request>, NodeError> {
        let shared = Arc::clone(&self.shared);
        let (control, plan) = (shared.pool().control(), self.plan.gated(shared.spin_gate()));
        wait_for(control, shared.index(), plan, timeout, || self.try_take())
    }

    /// Takes the next request if there is one, from each client in turn.
    ///
    /// # Errors
    /// As [`Server::take`].
    pub fn try_take(&mut self) -> Result<Option<Request>, NodeError> {
        self.refresh()?;
        let mut violations = 0;
        let arrived = self.next_request(&mut violations);
        if violations > 0 {
            self.outlets
                .count(&self.shared, |counted| counted.violations += violations);
        }
        let arrived = self.shared.pool().unless_lost(arrived)?;
        Ok(arrived.map(|arrived| self.request_of(arrived)))
    }

    /// A client that sends replies instead of requests is not listened to for longer than its queue holds.
    fn next_request(&mut self, violations: &mut u64) -> Result<Option<Arrived>, NodeError> {
        while let Some(arrived) = self.intake.take(&self.shared, violations)? {
            if arrived.header.kind == MessageKind::Request {
                return Ok(Some(arrived));
            }
            *violations += 1;
            if *violations > arrived.way.places.capacity.into() {
                break;
            }
        }
        Ok(None)
    }

    fn request_of(&self, arrived: Arrived) -> Request {
        let Arrived {
            way,
            header,
            sample,
        } = arrived;
        // It may be waiting for the place that has just become free.
        ring(self.shared.pool().control(), way.producer);
        self.outlets.count(&self.shared, |counted| {
            counted.messages += 1;
            counted.payload_bytes += sample.len() as u64;
        });
        Request {
            sample: Some(sample),
            responder: Some(Responder {
                shared: Arc::clone(&self.shared),
                outlets: Arc::clone(&self.outlets),
                way: way_of(&way),
                client: way.producer,
                number: header.number,
                owes: true,
            }),
        }
    }

    /// Clients connected at this moment. One that left counts until all it had sent is taken.
    ///
    /// # Errors
    /// A damaged pool.
    pub fn clients(&mut self) -> Result<usize, NodeError> {
        let refreshed = self.refresh();
        self.shared.pool().unless_lost(refreshed)?;
        Ok(self.intake.ways().count())
    }

    /// What this port has counted: as messages, the requests taken; as dropped, the replies that reached nobody. Nothing
    /// in a forked copy: another thread of the parent may have held the lock.
    #[must_use]
    pub fn statistics(&self) -> PortStatistics {
        if self.shared.is_a_copy() {
            return PortStatistics::default();
        }
        self.outlets.statistics()
    }

    /// A request is not what the channel carries.
    pub(crate) fn note_violation(&self) {
        self.outlets
            .count(&self.shared, |counted| counted.violations += 1);
    }

    fn refresh(&mut self) -> Result<(), NodeError> {
        self.shared.check_original()?;
        let changes = Member::changes(self.shared.pool().control(), self.shared.index());
        let is_due = self.missed_some.is_some_and(|at| at.elapsed() >= RETRY);
        if self.changes == Some(changes) && !is_due {
            return Ok(());
        }
        let all_seen = self.intake.update(&self.shared, self.port)?;
        let all_connected = self.outlets.update(&self.shared, &self.intake)?;
        self.missed_some = (!all_connected).then(Instant::now);
        self.changes = all_seen.then_some(changes);
        Ok(())
    }
}

impl Waitable for Server {}

impl Parts for Server {
    fn parts(&mut self) -> PortParts<'_> {
        PortParts {
            shared: &self.shared,
            port: self.port,
            channel: self.channel.index,
            channel_name: &self.channel.name,
            events: None,
            route: &mut self.route,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        let control = self.shared.pool().control();
        // Before its number can become another's.
        self.route = None;
        // First the replies: a client that sees the port closed knows that none comes behind it.
        let replies = self.outlets.close();
        self.shared
            .act(|member| member.close_port(control, self.port));
        // A client that connected meanwhile sees the closed port, or we see its connection.
        hythe_memory::full_barrier();
        let updated = self.intake.update(&self.shared, self.port).map(drop);
        let mut outcome = updated.and(self.intake.leave_all(&self.shared));
        for info in replies {
            outcome = outcome.and(leave_side(&self.shared, info, Side::Producer));
            ring(control, info.consumer);
        }
        if let Err(error) = outcome {
            tracing::error!(%error, "could not leave a channel");
        }
        self.shared.act(|member| {
            member.free_port(control, self.port);
            member.retire_channel(control, self.channel.index);
        });
    }
}

/// A request, to be read and answered, by any thread. Dropped unanswered, it tells its client so.
#[derive(Debug)]
pub struct Request {
    /// `None` only once it was taken apart.
    sample: Option<Sample>,
    responder: Option<Responder>,
}

impl Request {
    /// What was asked.
    #[must_use]
    pub fn sample(&self) -> &Sample {
        #[allow(
            clippy::expect_used,
            reason = "proof: taken only by methods that take the request itself"
        )]
        self.sample.as_ref().expect("a whole request")
    }

    /// What was asked, and the duty to reply: for handing the buffer on elsewhere, or a part of it back.
    #[must_use]
    pub fn into_parts(mut self) -> (Sample, Responder) {
        #[allow(
            clippy::expect_used,
            reason = "proof: taken only by methods that take the request itself"
        )]
        let parts = self.sample.take().zip(self.responder.take());
        parts.expect("a whole request")
    }

    /// Replies with the first `bytes` of a leased buffer. False: the client is gone, or left no room; the reply is counted as
    /// dropped.
    ///
    /// # Errors
    /// A damaged pool.
    ///
    /// # Panics
    /// If `bytes` is more than the buffer's capacity, or the lease is another node's.
    pub fn reply(self, lease: Lease, bytes: usize) -> Result<bool, NodeError> {
        self.into_parts().1.reply(lease, bytes)
    }

    /// Replies with the buffer that the request came in, without copying. False: as [`Request::reply`].
    ///
    /// # Errors
    /// [`NodeError::SharedBuffer`] if the client kept a reference to it, or sent one that others hold.
    pub fn reply_in_kind(self) -> Result<bool, NodeError> {
        let (sample, responder) = self.into_parts();
        responder.hand_on(sample)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(responder) = &mut self.responder {
            // In its own buffer: this needs no free one.
            responder.give_up(self.sample.take());
        }
    }
}

/// The duty to reply to one request. Dropped, it tells the client that no reply comes.
#[derive(Debug)]
pub struct Responder {
    shared: Arc<Shared>,
    outlets: Arc<Outlets>,
    way: Way,
    client: MemberIndex,
    number: u64,
    owes: bool,
}

impl Responder {
    /// Who asked.
    #[must_use]
    pub const fn client(&self) -> MemberIndex {
        self.client
    }

    /// Leases a buffer for the reply.
    ///
    /// # Errors
    /// As [`crate::Node::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(&self.shared, RegionIndex(0), bytes, LeaseWait::default())
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

    /// Replies with a received sample, or a part of one, without copying: that of the request, or any other that nobody else
    /// holds. False: as [`Request::reply`].
    ///
    /// # Errors
    /// [`NodeError::SharedBuffer`] if somebody else holds it as well; the client is then told that no reply comes.
    ///
    /// # Panics
    /// If the sample is another node's.
    pub fn hand_on(self, sample: Sample) -> Result<bool, NodeError> {
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
        self.owes = false;
        let header = self.header(MessageKind::Reply);
        let sent = self.outlets.send(&self.shared, self.way, reference, header);
        self.shared.pool().unless_lost(sent)
    }

    const fn header(&self, kind: MessageKind) -> Header {
        Header {
            kind,
            number: self.number,
        }
    }

    /// Tells the client that no reply comes, in this buffer or in one leased for it.
    fn give_up(&mut self, sample: Option<Sample>) {
        if !std::mem::take(&mut self.owes) || self.shared.is_a_copy() {
            return;
        }
        let own = sample.map(Sample::into_reference);
        let reference = own.filter(Reference::is_alone).map_or_else(
            || {
                named_lease_in(&self.shared, RegionIndex(0), 0, LeaseWait::NONE)
                    .map(|lease| lease.into_reference(0))
            },
            Ok,
        );
        let header = self.header(MessageKind::GivenUp);
        let told = reference
            .and_then(|reference| self.outlets.send(&self.shared, self.way, reference, header));
        if let Err(error) = told {
            // The client's own time-out tells it.
            tracing::warn!(%error, "could not tell a client that its request is given up");
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.give_up(None);
    }
}
