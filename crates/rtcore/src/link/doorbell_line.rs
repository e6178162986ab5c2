//! Which way the rings of an attachment go: by the core's eventfds, or through its agent.
//!
//! Asked for when an attachment begins, known before its session does; all attachments of a process
//! to one life of a core share the two eventfds. Never waits.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::RegionIndex;
use hythe_node::hop::{Doorbell, DoorbellKey, Participant};

use super::map::Life;
use crate::eventfds::{Answer, Request};

/// The way of the rings of one attachment.
#[derive(Debug)]
pub(super) struct DoorbellLine {
    shared: Arc<Participant>,
    key: DoorbellKey,
    state: State,
}

#[derive(Debug)]
enum State {
    Asked(Request),
    /// `None`: through the agent.
    Settled(Option<Arc<Doorbell>>),
}

impl DoorbellLine {
    /// Asks the agent for the eventfds of the core, unless this process has them. An agent that has
    /// not answered within `bound` is rung through.
    pub(super) fn ask(
        shared: &Arc<Participant>,
        region: RegionIndex,
        life: Life,
        bound: Duration,
    ) -> Self {
        let key = DoorbellKey {
            region,
            session: life.linux,
        };
        let doorbells = shared.doorbells();
        let state = if doorbells.are_refused() {
            State::Settled(None)
        } else if let Some(known) = doorbells.get(key) {
            State::Settled(Some(known))
        } else {
            let asked = Request::begin(&shared.pool().path(), region, key.session, bound);
            asked.map_or(State::Settled(None), State::Asked)
        };
        Self {
            shared: Arc::clone(shared),
            key,
            state,
        }
    }

    /// Looks for the agent's answer. True: it is known.
    pub(super) fn settle(&mut self) -> bool {
        let State::Asked(request) = &self.state else {
            return true;
        };
        let granted = match request.look() {
            Answer::Pending => return false,
            Answer::Refused => None,
            Answer::Granted(ring, rung) => {
                let added = self.shared.doorbells().add(self.key, (ring, rung));
                let added = added.inspect_err(|error| {
                    tracing::warn!(%error, "cannot wait for the doorbell of a core");
                });
                added.ok()
            }
        };
        self.state = State::Settled(granted);
        true
    }

    /// The core's doorbell. `None`: rings pass through the agent.
    pub(super) fn get(&self) -> Option<&Doorbell> {
        match &self.state {
            State::Settled(doorbell) => doorbell.as_deref(),
            State::Asked(_) => None,
        }
    }
}
