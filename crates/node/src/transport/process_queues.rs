//! The transport between processes: a queue for each pair of ports of a channel.
//!
//! The sending port makes the connection; the other finds it. A port that closes meanwhile sees the
//! connection, or the sender sees the closed port: each looks behind a full barrier.

use std::any::Any;
use std::sync::Arc;

use hythe_memory::Mapped;
use hythe_pool::{
    ChannelIndex, ConnectionInfo, Control, MemberKind, PortIndex, PortInfo, PortKind, PortPolicy,
};

use super::connection::connect_with;
use super::event_cell;
use super::queue_source::QueueSource;
use super::queue_target::QueueTarget;
use super::{
    EventTarget, FindSources, FindTargets, Seeking, StoredSource, StoredTarget, Transport, Watch,
};
use crate::NodeError;
use crate::participant::Participant;
use crate::quota::{Outstanding, Quota};

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
        let replaced = find.replaced();
        let receivers: Vec<PortInfo> = control
            .tables()
            .ports_of_channel(channel)
            .filter(|other| other.kind == find.wanted)
            .filter(|other| !known.contains(&other.index) && find.seeking.may_meet(other))
            .filter(|other| !is_superseded(control, other) && !replaced.contains(&other.index))
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
        let connections = control.tables().connections_to(port);
        let to_us = |info: &ConnectionInfo| info.consumer == shared.index();
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
                // As where the other side connects: it may be on another CPU, and worth spinning
                // for.
                shared.spin_gate().refresh(control, shared.index());
            }
        }
        Ok(())
    }

    fn find_listeners(&self, seeking: &Seeking<'_>, found: &mut Vec<Box<dyn EventTarget>>) {
        event_cell::find(seeking, found);
    }

    /// Marks say it all.
    fn watch(&self, _: &Arc<Participant>, _: PortKind, _: ChannelIndex) -> Option<Box<dyn Watch>> {
        None
    }
}

fn port_of(target: &dyn super::Target) -> Option<PortIndex> {
    receiver_of(target).map(|receiver| receiver.index)
}

fn receiver_of(target: &dyn super::Target) -> Option<&PortInfo> {
    let target: &dyn Any = target;
    let queue = target.downcast_ref::<QueueTarget>();
    queue.map(|queue| &queue.receiver)
}

/// Is it the queue to this port?
pub(crate) fn leads_to(target: &StoredTarget, port: PortIndex) -> bool {
    port_of(&**target) == Some(port)
}

/// Has the host that owns this port a stronger one on the channel? A host takes a channel's
/// messages by one port. Where a stronger one is wanted, it opens that beside the first, and takes
/// what waits in that before: so nothing is lost, and nothing comes twice.
fn is_superseded(control: &Control<Mapped>, port: &PortInfo) -> bool {
    port.kind == PortKind::Subscriber
        && is_hosts(control, port)
        && control
            .tables()
            .ports_of_channel(port.channel)
            .any(|other| supersedes(&other, port))
}

/// Does its participant stand for another host?
fn is_hosts(control: &Control<Mapped>, port: &PortInfo) -> bool {
    control.tables().member_kind(port.member) == Some(MemberKind::Host)
}

/// Is it a stronger port of the same participant, for the same?
fn supersedes(other: &PortInfo, port: &PortInfo) -> bool {
    let end = |port: &PortInfo| (port.member, port.session, port.kind, port.channel);
    let (new, old) = (strength(other.policy), strength(port.policy));
    end(other) == end(port)
        && (new, other.depth) != (old, port.depth)
        && new >= old
        && other.depth >= port.depth
}

/// Of a policy: a greater one loses less.
const fn strength(policy: PortPolicy) -> (u8, u32) {
    match policy {
        PortPolicy::DropNewest => (0, 0),
        PortPolicy::EvictOldest => (1, 0),
        PortPolicy::Block { timeout_ms } => (2, timeout_ms),
    }
}

/// Of the targets of a publisher: does it send to a stronger port of the same host as well, or to
/// its receivers themselves? Called when it has looked for new ones.
pub(crate) fn take_superseded(
    control: &Control<Mapped>,
    targets: &mut Vec<StoredTarget>,
) -> Vec<StoredTarget> {
    let hosts: Vec<PortInfo> = targets
        .iter()
        .filter_map(|target| receiver_of(&**target))
        .filter(|port| is_hosts(control, port))
        .copied()
        .collect();
    if hosts.is_empty() || targets.len() < 2 {
        return Vec::new();
    }
    let replaced: Vec<PortIndex> = targets.iter().flat_map(|it| it.replaces()).collect();
    let superseded = |target: &mut StoredTarget| {
        receiver_of(&**target).is_some_and(|port| {
            replaced.contains(&port.index) || hosts.iter().any(|other| supersedes(other, port))
        })
    };
    targets.extract_if(.., superseded).collect()
}

fn find_target(
    find: &FindTargets<'_>,
    receiver: PortInfo,
) -> Result<Option<QueueTarget>, NodeError> {
    let (shared, port) = (find.seeking.shared, find.seeking.port);
    let receivers = find.known.len() + find.found.len() + 1;
    let mut quota = Quota::for_receivers(shared.pool(), receivers);
    let outstanding = Outstanding::for_quota(&quota);
    // What comes in the place of another has had the first messages.
    let mut before = find.known().filter_map(receiver_of);
    let is_successor = is_hosts(shared.pool().control(), &receiver)
        && before.any(|port| supersedes(&receiver, port));
    drop(before);
    connect_with(shared, port, receiver, outstanding, |target| {
        match find.first.filter(|_| !is_successor) {
            Some(first) => first.give(shared, &mut quota, target),
            None => Ok(()),
        }
    })
}
