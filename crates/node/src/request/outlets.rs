//! The sending ends of a server: one to each client that has asked. Shared by the server and the requests it has handed out, so
//! that a reply can come from any thread, also after the server closed (then it is counted, and goes nowhere).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hythe_abi::request::Header;
use hythe_pool::{
    ConnectionEnd, ConnectionIndex, ConnectionInfo, PortIndex, PortInfo, PortKind, PortStatistics,
    SendError, Side,
};
use hythe_queue::Producer;

use super::intake::Intake;
use crate::NodeError;
use crate::buffer::Reference;
use crate::node::Shared;
use crate::publisher::{is_gone, leave_side, leave_unattended};
use crate::quota::{Outstanding, Quota};
use crate::wait::{ring, ring_port};

/// The connection that a request came over: its number, and what tells it from earlier ones.
pub(super) type Way = (ConnectionIndex, u32);

pub(super) const fn way_of(info: &ConnectionInfo) -> Way {
    (info.index, info.nonce)
}

#[derive(Debug)]
pub(super) struct Outlets {
    /// Its name, for messages.
    pub(super) channel: String,
    port: PortIndex,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outlets: Vec<Outlet>,
    /// Halves: who asks has a limit for what it asks, and an honest one loses no reply.
    quota: Quota,
    statistics: PortStatistics,
    /// The port's number may be another's by now.
    closed: bool,
}

#[derive(Debug)]
struct Outlet {
    requests: Way,
    replies: ConnectionEnd<Producer>,
    outstanding: Outstanding,
    client: PortInfo,
}

impl Outlets {
    pub(super) fn new(channel: &str, port: PortIndex) -> Self {
        Self {
            channel: channel.to_owned(),
            port,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in between leaves at worst an outlet that is found gone later.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn statistics(&self) -> PortStatistics {
        self.lock().statistics
    }

    /// Counts, and shows what was counted as long as the port is open.
    pub(super) fn count(&self, shared: &Arc<Shared>, count: impl FnOnce(&mut PortStatistics)) {
        let mut state = self.lock();
        count(&mut state.statistics);
        if !state.closed {
            let control = shared.pool().control();
            control.set_statistics(self.port, state.statistics);
        }
    }

    /// Leaves clients that are gone, and connects to those whose requests arrive. False: some could not be connected to.
    pub(super) fn update(&self, shared: &Arc<Shared>, intake: &Intake) -> Result<bool, NodeError> {
        let mut state = self.lock();
        let left = state.outlets.extract_if(.., |outlet| {
            is_gone(shared, &outlet.replies.info, &outlet.client)
        });
        left.map(|outlet| leave_outlet(shared, &outlet))
            .fold(Ok(()), Result::and)?;
        let mut all = true;
        for way in intake.ways() {
            let known = |outlet: &Outlet| outlet.requests == way_of(way);
            if state.outlets.iter().any(known) {
                continue;
            }
            match connect_back(shared, self.port, way) {
                Ok(outlet) => state.outlets.extend(outlet),
                Err(error) => {
                    tracing::warn!(%error, "could not connect back to a client: replies to it are dropped");
                    all = false;
                }
            }
        }
        Ok(all)
    }

    /// Sends a reply over the connection that belongs to the request. False: the client is gone, or has no room; it is counted.
    pub(super) fn send(
        &self,
        shared: &Arc<Shared>,
        way: Way,
        reference: Reference,
        header: Header,
    ) -> Result<bool, NodeError> {
        let sent = self.try_send(shared, way, reference, header);
        if !matches!(sent, Ok(true)) {
            self.count(shared, |statistics| statistics.dropped += 1);
        }
        sent
    }

    fn try_send(
        &self,
        shared: &Arc<Shared>,
        way: Way,
        mut reference: Reference,
        header: Header,
    ) -> Result<bool, NodeError> {
        let (mut state, control) = (self.lock(), shared.pool().control());
        let Some(index) = state
            .outlets
            .iter()
            .position(|outlet| outlet.requests == way)
        else {
            return Ok(false);
        };
        reference.write_headroom(&header.to_bytes())?;
        let State { outlets, quota, .. } = &mut *state;
        let parcel = quota.parcel(shared, &reference)?;
        let outlet = &mut outlets[index];
        let (slot, descriptor) = (reference.slot(), reference.descriptor());
        let (replies, outstanding) = (&mut outlet.replies, &mut outlet.outstanding);
        let (room, position) = (control.room(replies), replies.queue.tail());
        let admitted = outstanding.admits(quota, control, &replies.info, &parcel);
        let sent = match room {
            Ok(1..) if admitted => {
                shared.act(|member| member.send(control, replies, slot, descriptor))
            }
            Ok(_) | Err(_) => Err(SendError::Full),
        };
        if sent.is_ok() {
            outstanding.note(&parcel, position);
        }
        let pushed = match sent {
            Ok(()) => {
                reference.moved();
                ring_port(control, outlet.client.member, outlet.client.index);
                true
            }
            Err(SendError::Full) => false,
            Err(error) => return Err(error.into()),
        };
        // Behind the sending, as a publisher does: what crossed with the client's closing is released by whoever leaves last.
        let gone = is_gone(shared, &outlet.replies.info, &outlet.client);
        if gone || room.is_err() {
            let outlet = state.outlets.swap_remove(index);
            state.statistics.violations += u64::from(room.is_err());
            leave_outlet(shared, &outlet)?;
        }
        Ok(pushed && !gone)
    }

    /// No reply goes anywhere from now on, and nothing is shown. Returns the connections that are to be left.
    pub(super) fn close(&self) -> Vec<ConnectionInfo> {
        let mut state = self.lock();
        state.closed = true;
        let outlets = std::mem::take(&mut state.outlets);
        outlets.iter().map(|outlet| outlet.replies.info).collect()
    }
}

fn leave_outlet(shared: &Arc<Shared>, outlet: &Outlet) -> Result<(), NodeError> {
    leave_side(shared, outlet.replies.info, Side::Producer)?;
    ring(shared.pool().control(), outlet.client.member);
    Ok(())
}

/// Connects to the client that a connection for requests comes from. `None`: it is gone, or no client.
fn connect_back(
    shared: &Arc<Shared>,
    port: PortIndex,
    way: &ConnectionInfo,
) -> Result<Option<Outlet>, NodeError> {
    let control = shared.pool().control();
    let channel = control.port(port).map(|port| port.channel);
    let client = control.port(way.producer_port).filter(|client| {
        client.kind == PortKind::Client
            && client.member == way.producer
            && Some(client.channel) == channel
    });
    // Looked at behind the port: a client leaves its connections before it gives the port's number back, so the port is its own.
    let stays = control
        .connection(way.index)
        .is_some_and(|now| now.nonce == way.nonce && !now.producer_left);
    let Some(client) = client.filter(|_| stays) else {
        return Ok(None);
    };
    let (consumer, to, depth) = (client.member, client.index, client.depth);
    let info = shared.act(|member| member.connect(control, port, consumer, to, depth))?;
    hythe_memory::full_barrier();
    if !control.is_still_open(&client) {
        // It closed while we connected, and may have looked before there was something to see.
        leave_unattended(shared, &info)?;
        return Ok(None);
    }
    Ok(Some(Outlet {
        requests: way_of(way),
        replies: control.producer_end(info),
        outstanding: Outstanding::for_quota(&Quota::default()),
        client,
    }))
}
