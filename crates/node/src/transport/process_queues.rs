//! The transport between processes: a queue for each pair of ports of a channel.
//!
//! The sending port makes the connection; the other finds it. A port that closes meanwhile sees the
//! connection, or the sender sees the closed port: each looks behind a full barrier.

use std::any::Any;
use std::sync::Arc;

use hythe_pool::{ChannelIndex, ConnectionInfo, PortIndex, PortInfo, PortPolicy, QueuePlan};

use super::queue_source::QueueSource;
use super::queue_target::QueueTarget;
use super::{FindSources, FindTargets, StoredSource, StoredTarget, Transport, Watch};
use crate::NodeError;
use crate::participant::Participant;
use crate::quota::{Outstanding, Quota};
use crate::wait::ring_port;

/// Makes queues between ports of processes.
#[derive(Debug)]
pub(crate) struct ProcessQueues;

impl Transport for ProcessQueues {
    /// Connects to ports that there is no connection to yet. One that cannot be connected to hides
    /// no other.
    fn find_targets(&self, find: &mut FindTargets<'_>) -> Result<(), NodeError> {
        if find.seeking.is_opening {
            return Ok(());
        }
        let (shared, channel) = (find.seeking.shared, find.seeking.channel.index);
        let control = shared.pool().control();
        let known: Vec<PortIndex> = find.known().filter_map(port_of).collect();
        let receivers: Vec<PortInfo> = control
            .tables()
            .ports()
            .filter(|other| other.kind == find.wanted && other.channel == channel)
            .filter(|other| !known.contains(&other.index))
            .collect();
        if !receivers.is_empty() {
            // Whom this node may spin for now: before the watcher looks, which may take as long as
            // many messages.
            shared.spin_gate().refresh(control, shared.index());
        }
        for receiver in receivers {
            match find_target(find, receiver) {
                Ok(Some(target)) => find.found.push(StoredTarget::Queue(target)),
                Ok(None) => {}
                Err(error) => find.failed.push((receiver, error)),
            }
        }
        Ok(())
    }

    /// Finds new connections to the port.
    fn find_sources(&self, find: &mut FindSources<'_>) -> Result<(), NodeError> {
        if find.seeking.is_opening {
            return Ok(());
        }
        let (shared, port) = (find.seeking.shared, find.seeking.port);
        let control = shared.pool().control();
        let connections = control.tables().connections();
        let to_us =
            |info: &ConnectionInfo| info.consumer == shared.index() && info.consumer_port == port;
        for info in connections.filter(to_us) {
            let is_known = find.known().any(|source| {
                let source: &dyn Any = source;
                source
                    .downcast_ref::<QueueSource>()
                    .is_some_and(|source| source.is_of(&info))
            });
            if !is_known && shared.act(|member| member.attend(control, &info)) {
                let end = control.tables().consumer_end(info);
                let source = QueueSource::new(shared, end, find.rings_back);
                find.sources.push(StoredSource::Queue(source));
                // As where the other side connects: it may be on another CPU, and worth spinning for.
                shared.spin_gate().refresh(control, shared.index());
            }
        }
        Ok(())
    }

    /// Marks say it all.
    fn watch(&self, _: &Arc<Participant>, _: ChannelIndex) -> Option<Box<dyn Watch>> {
        None
    }
}

fn port_of(target: &dyn super::Target) -> Option<PortIndex> {
    let target: &dyn Any = target;
    let queue = target.downcast_ref::<QueueTarget>();
    queue.map(|queue| queue.receiver.index)
}

fn find_target(
    find: &FindTargets<'_>,
    receiver: PortInfo,
) -> Result<Option<QueueTarget>, NodeError> {
    let (shared, port) = (find.seeking.shared, find.seeking.port);
    let receivers = find.known.len() + find.found.len() + 1;
    let mut quota = Quota::for_receivers(shared.pool(), receivers);
    let outstanding = Outstanding::for_quota(&quota);
    connect_with(shared, port, receiver, outstanding, |target| {
        match find.history {
            Some(history) => history.give(shared, &mut quota, target),
            None => Ok(()),
        }
    })
}

/// A connection from a port to another. `None`: that closed meanwhile.
pub(super) fn connect(
    shared: &Arc<Participant>,
    port: PortIndex,
    receiver: PortInfo,
    outstanding: Outstanding,
) -> Result<Option<QueueTarget>, NodeError> {
    connect_with(shared, port, receiver, outstanding, |_| Ok(()))
}

/// The same; `begin` sends the first things over it.
fn connect_with(
    shared: &Arc<Participant>,
    port: PortIndex,
    receiver: PortInfo,
    outstanding: Outstanding,
    begin: impl FnOnce(&mut QueueTarget) -> Result<(), NodeError>,
) -> Result<Option<QueueTarget>, NodeError> {
    let control = shared.pool().control();
    let queue = QueuePlan {
        capacity: receiver.depth,
        drops_oldest: receiver.policy == PortPolicy::DropOldest,
    };
    let (member, index) = (receiver.member, receiver.index);
    let info = shared.act(|me| me.connect(control, port, member, index, queue))?;
    let mut target = QueueTarget::new(
        shared,
        control.tables().producer_end(info),
        receiver,
        outstanding,
    );
    // Before the look below: what a receiver that closes now does not take, whoever leaves last
    // releases.
    if let Err(error) = begin(&mut target) {
        // The next attempt makes another.
        leave_unattended(shared, &info)?;
        return Err(error);
    }
    hythe_memory::full_barrier();
    if !control.tables().is_still_open(&receiver) {
        // It closed while we connected, and may have looked before there was something to see.
        leave_unattended(shared, &info)?;
        return Ok(None);
    }
    // Behind what was sent first: a wait set looks for that.
    ring_port(control, member, index);
    Ok(Some(target))
}

/// Leaves a connection just made to a port that closed meanwhile: for both sides, unless the other
/// has begun with it.
fn leave_unattended(shared: &Participant, info: &ConnectionInfo) -> Result<(), NodeError> {
    let (control, regions) = (shared.pool().control(), shared.pool().regions());
    Ok(shared.act(|member| member.leave_unattended(control, regions, info))?)
}
