//! What all ports have in common: a channel, a number on it, and what others see of them.
//!
//! Publishers, subscribers, clients, servers, notifiers and listeners open one. Closing has an
//! order: first the port is marked as closing, then its owner leaves its connections, then the
//! number is free. Never takes and never sends a message.

use std::sync::Arc;

use hythe_pool::{
    ChannelInfo, ChannelKind, ChannelType, PoolError, PortIndex, PortInfo, PortKind, PortPolicy,
    PortWishes,
};

use crate::NodeError;
use crate::contention::retry_on_contention;
use crate::ends::ring_hosts;
use crate::participant::Participant;
use crate::transport::{
    EventSource, EventTarget, FindSources, FindTargets, FirstMessages, Seeking, StoredSource,
    StoredTarget, Target, Transports,
};
use crate::wait::{WaitPlan, ring};

/// What a port is opened by: a participant, and the transports that its node knows.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    pub(crate) shared: Arc<Participant>,
    pub(crate) transports: Transports,
}

/// An open port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) shared: Arc<Participant>,
    pub(crate) channel: ChannelInfo,
    pub(crate) index: PortIndex,
    transports: Transports,
    plan: PortPlan,
    /// How it waits: by the thread that opened it.
    pub(crate) wait: WaitPlan,
    /// To the wait set that it is attached to.
    pub(crate) route: Option<Route>,
}

/// The port that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortPlan {
    pub(crate) kind: PortKind,
    pub(crate) depth: u32,
    pub(crate) policy: PortPolicy,
    pub(crate) history: u32,
    /// Of a server: how large the empty slots are that a core which asks is given; `None`: for
    /// whatever its endpoint carries.
    pub(crate) request_bytes: Option<u32>,
}

/// What a sending port has found.
#[derive(Debug)]
pub(crate) struct FoundTargets {
    pub(crate) targets: Vec<StoredTarget>,
    /// Receivers that could not be connected to, and why.
    pub(crate) failed: Vec<(PortInfo, NodeError)>,
    /// What a transport met besides; the targets are good all the same.
    pub(crate) outcome: Result<(), NodeError>,
}

/// A port's way to a wait set: ends with the port, at the latest.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) shared: Arc<Participant>,
    pub(crate) port: PortIndex,
    pub(crate) id: u64,
}

impl Drop for Route {
    fn drop(&mut self) {
        // A thread of the parent may have held the lock.
        if !self.shared.is_a_copy() {
            self.shared.routes().end(self.port, self.id);
        }
    }
}

impl Port {
    /// Opens a port on a channel, which is made if there is none.
    pub(crate) fn open(
        opener: &Opener,
        name: &str,
        carries: Option<&ChannelType>,
        plan: PortPlan,
    ) -> Result<Self, NodeError> {
        let (channel, index) = open_port(&opener.shared, name, carries, plan)?;
        ring_hosts(opener.shared.pool().control());
        Ok(Self {
            shared: Arc::clone(&opener.shared),
            channel,
            index,
            transports: Arc::clone(&opener.transports),
            plan,
            wait: WaitPlan::for_processes(),
            route: None,
        })
    }

    /// The channel's name.
    pub(crate) fn name(&self) -> &str {
        &self.channel.name
    }

    pub(crate) const fn kind(&self) -> PortKind {
        self.plan.kind
    }

    /// Changes with each change of the channel's ports, and of what is behind it.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        let control = self.shared.pool().control();
        control.tables().channel_epoch(self.channel.index)
    }

    /// Changes with each change of a connection of this participant.
    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.shared
            .pool()
            .control()
            .tables()
            .changes(self.shared.index())
    }

    /// Rings all who have ports on the channel: who waits for this one need not find out by
    /// looking.
    pub(crate) fn ring_others(&self) {
        let control = self.shared.pool().control();
        let others = control.tables().ports_of_channel(self.channel.index);
        others.for_each(|other| ring(control, other.member));
    }

    /// Looks for receivers of what the port sends, beside `known`.
    pub(crate) fn find_targets(
        &self,
        wanted: PortKind,
        first: Option<&dyn FirstMessages>,
        known: Vec<&dyn Target>,
        is_opening: bool,
    ) -> FoundTargets {
        let mut find = FindTargets {
            seeking: self.seeking(is_opening),
            wanted,
            first,
            known,
            found: Vec::new(),
            failed: Vec::new(),
        };
        let mut outcome = Ok(());
        for transport in &*self.transports {
            outcome = outcome.and(transport.find_targets(&mut find));
        }
        FoundTargets {
            targets: find.found,
            failed: find.failed,
            outcome,
        }
    }

    /// Looks for senders to the port, beside those in `sources`.
    pub(crate) fn find_sources(
        &self,
        sources: &mut Vec<StoredSource>,
        is_opening: bool,
    ) -> Result<(), NodeError> {
        let mut find = FindSources {
            seeking: self.seeking(is_opening),
            kind: self.plan.kind,
            rings_back: matches!(self.plan.policy, PortPolicy::Block { .. }),
            sources,
        };
        let transports = self.transports.iter();
        transports
            .map(|transport| transport.find_sources(&mut find))
            .fold(Ok(()), Result::and)
    }

    /// Finds all listeners of what the port raises, anew but for those that stay.
    pub(crate) fn find_listeners(
        &self,
        listeners: &mut Vec<Box<dyn EventTarget>>,
        is_opening: bool,
    ) {
        listeners.retain(|listener| listener.stays());
        let seeking = self.seeking(is_opening);
        for transport in &*self.transports {
            transport.find_listeners(&seeking, listeners);
        }
    }

    /// Finds new raisers of what the port takes, beside those in `sources`.
    pub(crate) fn find_event_sources(
        &self,
        sources: &mut Vec<Box<dyn EventSource>>,
        is_opening: bool,
    ) {
        let seeking = self.seeking(is_opening);
        for transport in &*self.transports {
            transport.find_event_sources(&seeking, sources);
        }
    }

    fn seeking(&self, is_opening: bool) -> Seeking<'_> {
        Seeking {
            shared: &self.shared,
            channel: &self.channel,
            port: self.index,
            depth: self.plan.depth,
            request_bytes: self.plan.request_bytes,
            plan: self.wait,
            is_opening,
        }
    }

    /// Whoever connects from here on finds that it may not, or we see the connection.
    pub(crate) fn refuse_connections(&mut self) {
        let control = self.shared.pool().control();
        self.shared
            .act(|member| member.refuse_connections(control, self.index));
    }

    pub(crate) fn admit_connections(&mut self) {
        let control = self.shared.pool().control();
        self.shared
            .act(|member| member.admit_connections(control, self.index));
    }

    /// Says that the port closes: whoever connects meanwhile sees that, or we see the connection.
    pub(crate) fn begin_closing(&mut self) {
        let control = self.shared.pool().control();
        // Before its number can become another's.
        self.route = None;
        self.shared
            .act(|member| member.close_port(control, self.index));
        hythe_memory::full_barrier();
    }
}

impl Drop for Port {
    /// Frees the number. Nothing leads to the port any more.
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        self.route = None;
        let control = self.shared.pool().control();
        self.shared.act(|member| {
            member.free_port(control, self.index);
            member.retire_channel(control, self.channel.index);
        });
        ring_hosts(control);
    }
}

/// Finds or makes a channel. `None` as type takes whatever an existing channel carries.
pub(crate) fn open_channel(
    shared: &Participant,
    kind: ChannelKind,
    name: &str,
    carries: Option<&ChannelType>,
) -> Result<ChannelInfo, NodeError> {
    let control = shared.pool().control();
    let index = shared.act(|member| member.open_channel_of(control, kind, name, carries))?;
    control
        .tables()
        .channel(index)
        .ok_or_else(|| PoolError::Busy("the channel").into())
}

/// Opens a port on a channel, which is made if there is none.
fn open_port(
    shared: &Participant,
    name: &str,
    carries: Option<&ChannelType>,
    plan: PortPlan,
) -> Result<(ChannelInfo, PortIndex), NodeError> {
    shared.check_original()?;
    plan.check_depth(shared, name)?;
    let control = shared.pool().control();
    shared.spin_gate().note_thread(control, shared.index());
    let opened = retry_on_contention(|| {
        let channel = open_channel(shared, plan.kind.channel_kind(), name, carries)?;
        let PortPlan {
            kind,
            depth,
            policy,
            history,
            ..
        } = plan;
        let wishes = PortWishes {
            depth,
            policy,
            history,
        };
        let opened = shared.act(|member| {
            let opened = member.open_port_with(control, channel.index, kind, wishes);
            // A channel that was made for a port is removed if the table of ports is full.
            opened.inspect_err(|_| member.retire_channel(control, channel.index))
        });
        let port = opened?;
        // Until it had a port, the channel could be retired, and its record taken by another.
        if control
            .tables()
            .channel(channel.index)
            .is_some_and(|now| now.is_like(&channel))
        {
            return Ok((channel, port));
        }
        shared.act(|member| member.free_port(control, port));
        Err(PoolError::Busy("the channel").into())
    });
    // Else it may be the port of a pool that nobody else finds.
    shared.pool().check_found()?;
    // A region that has come since this process joined.
    shared.pool().map_known();
    shared.pool().unless_lost(opened)
}

impl PortPlan {
    /// Refuses a depth that the ports which connect to this one, or the first of them, could not
    /// make queues for.
    fn check_depth(self, shared: &Participant, name: &str) -> Result<(), NodeError> {
        if self.depth as usize <= hythe_abi::pool::QUEUE_SEGMENT_DESCRIPTORS {
            // Every connection has memory for that.
            return Ok(());
        }
        let control = shared.pool().control();
        let channel = control.tables().find_channel(name);
        if channel.as_ref().is_some_and(|found| found.core.is_some()) {
            // Then it is how many empty slots the core gets.
            return Ok(());
        }
        let peers = channel.map_or(0, |found| {
            let ports = control.tables().ports_of_channel(found.index);
            ports.filter(|port| port.kind != self.kind).count()
        });
        let free_capacity = control.tables().deepest_queue(shared.index(), peers as u32);
        if self.depth > free_capacity {
            let depth = self.depth;
            return Err(PoolError::QueueTooDeep {
                depth,
                free_capacity,
            }
            .into());
        }
        Ok(())
    }
}
