//! Making a connection between two ports.
//!
//! A port that closes meanwhile sees the connection, or the sender sees the closed port: each looks
//! behind a full barrier.

use std::sync::Arc;

use hythe_pool::{ConnectionInfo, PortIndex, PortInfo, PortPolicy, QueuePlan};

use super::queue_target::QueueTarget;
use crate::NodeError;
use crate::participant::Participant;
use crate::quota::Outstanding;
use crate::wait::ring_port;

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
pub(super) fn connect_with(
    shared: &Arc<Participant>,
    port: PortIndex,
    receiver: PortInfo,
    outstanding: Outstanding,
    begin: impl FnOnce(&mut QueueTarget) -> Result<(), NodeError>,
) -> Result<Option<QueueTarget>, NodeError> {
    let control = shared.pool().control();
    let queue = QueuePlan {
        capacity: receiver.depth,
        evicts_oldest: receiver.policy == PortPolicy::EvictOldest,
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
    if !control.tables().takes_connections(&receiver) {
        // It closes while we connect, and may have looked before there was something to see.
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
