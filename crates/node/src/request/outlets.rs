//! The targets of a server: one for each client that has sent a request.
//!
//! The server and its open requests share them, so a reply can be sent from any thread, also after
//! the server has closed. Such a reply is counted and dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hythe_abi::RegionIndex;
use hythe_abi::request::Header;
use hythe_pool::{PortIndex, PortStatistics};

use crate::NodeError;
use crate::buffer::Reference;
use crate::participant::Participant;
use crate::quota::Quota;
use crate::sources::Sources;
use crate::transport::{Message, Origin, Sent, Target, TargetState};

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
    /// Where the requests come from that are answered here.
    requests: Origin,
    replies: Box<dyn Target>,
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
    pub(super) fn count(&self, shared: &Participant, count: impl FnOnce(&mut PortStatistics)) {
        let mut state = self.lock();
        count(&mut state.statistics);
        if !state.closed {
            let control = shared.pool().control();
            control.tables().set_statistics(self.port, state.statistics);
        }
    }

    /// Leaves clients that are gone, and connects to those whose requests arrive. False: some could
    /// not be connected to.
    pub(super) fn update(&self, sources: &Sources) -> Result<bool, NodeError> {
        let mut state = self.lock();
        let gone = |outlet: &mut Outlet| outlet.replies.state() != TargetState::Open;
        let left = state.outlets.extract_if(.., gone);
        left.map(|outlet| outlet.replies.disconnect())
            .fold(Ok(()), Result::and)?;
        let mut all = true;
        for source in sources.iter() {
            let requests = source.origin();
            if state
                .outlets
                .iter()
                .any(|outlet| outlet.requests == requests)
            {
                continue;
            }
            match source.connect_back(self.port) {
                Ok(found) => {
                    let outlet = found.map(|replies| Outlet { requests, replies });
                    state.outlets.extend(outlet);
                }
                Err(error) => {
                    tracing::warn!(%error, "could not connect back to a client: replies to it are dropped");
                    all = false;
                }
            }
        }
        Ok(all)
    }

    /// The region that a reply to this client must be in; without one, to any client. `None`: any
    /// region will do.
    pub(super) fn region(&self, requests: Option<Origin>) -> Option<RegionIndex> {
        let state = self.lock();
        let outlets = state.outlets.iter();
        let mut asked =
            outlets.filter(|outlet| requests.is_none_or(|from| outlet.requests == from));
        asked.find_map(|outlet| outlet.replies.region())
    }

    /// A request gets no reply, and its client could not be told.
    pub(super) fn abandon(&self, requests: Origin, number: u64) {
        let mut state = self.lock();
        let mut outlets = state.outlets.iter_mut();
        if let Some(outlet) = outlets.find(|outlet| outlet.requests == requests) {
            outlet.replies.abandon_reply(number);
        }
    }

    /// Sends a reply to the client that asked. False: the client is gone, or its queue is full; the
    /// reply is counted.
    pub(super) fn send(
        &self,
        shared: &Arc<Participant>,
        requests: Origin,
        reference: Reference,
        header: Header,
    ) -> Result<bool, NodeError> {
        let sent = self.try_send(shared, requests, reference, header);
        if !matches!(sent, Ok(true)) {
            self.count(shared, |statistics| statistics.dropped += 1);
        }
        sent
    }

    fn try_send(
        &self,
        shared: &Arc<Participant>,
        requests: Origin,
        mut reference: Reference,
        header: Header,
    ) -> Result<bool, NodeError> {
        let mut state = self.lock();
        let mut outlets = state.outlets.iter();
        let Some(index) = outlets.position(|outlet| outlet.requests == requests) else {
            return Ok(false);
        };
        reference.write_headroom(&header.to_bytes())?;
        let State { outlets, quota, .. } = &mut *state;
        let parcel = quota.parcel(shared, &reference)?;
        let mut message = Message::new(shared, &self.channel, &reference, (quota, parcel));
        let replies = &mut outlets[index].replies;
        let is_broken = replies.examine() == TargetState::Broken;
        let pushed = !is_broken
            && match replies.send_reply(&mut message, header) {
                Sent::Delivered => true,
                Sent::Dropped | Sent::Absent | Sent::Full => false,
                Sent::Failed(error) => return Err(*error),
            };
        if pushed {
            reference.moved_from(shared);
        }
        // Behind the sending, as a publisher does: what crossed with the client's closing is
        // released by whoever leaves last.
        hythe_memory::full_barrier();
        let now = if pushed {
            replies.wake()
        } else {
            replies.state()
        };
        if now != TargetState::Open {
            let outlet = state.outlets.swap_remove(index);
            state.statistics.violations += u64::from(now == TargetState::Broken);
            outlet.replies.disconnect()?;
        }
        Ok(pushed && now == TargetState::Open)
    }

    /// No reply goes anywhere from now on, and nothing is shown. Returns the targets that are to be
    /// left.
    pub(super) fn close(&self) -> impl Iterator<Item = Box<dyn Target>> {
        let mut state = self.lock();
        state.closed = true;
        let outlets = std::mem::take(&mut state.outlets).into_iter();
        outlets.map(|outlet| outlet.replies)
    }
}
