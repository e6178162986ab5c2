//! Flows of this host that go on though the session that they began in is over: the other agent was
//! killed, or the connection with it broke.
//!
//! Their processes look after them, and end them when the hosts have met again. The agent still
//! goes by rights, link and realm: what may not be any more ends at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use hythe_flows::message::{FromAgent, Transport};

use super::processes::{Ask, ProcessId, Processes};
use super::{FLOWS_MAX, FlowSession};

/// All of them, by what their processes know them by.
#[derive(Debug, Default)]
pub(super) struct Alone(BTreeMap<(ProcessId, u32), Flow>);

/// One.
#[derive(Debug)]
pub(super) struct Flow {
    /// That it began in.
    pub(super) session: Arc<dyn FlowSession>,
    pub(super) channel: String,
    pub(super) transport: Transport,
    /// Of a publisher here; else it is of a subscriber.
    pub(super) ask: Option<Ask>,
}

impl Flow {
    /// Why it may not go on, if so.
    pub(super) fn check(&self) -> Result<(), String> {
        self.session.look_at_link();
        self.session.link().path_for(self.transport)?;
        match self.ask {
            Some(_) => self.session.may_send(&self.channel),
            None => self.session.may_receive(&self.channel),
        }
    }
}

impl Alone {
    /// As many as that may be added.
    pub(super) fn free_places(&self) -> usize {
        FLOWS_MAX.saturating_sub(self.0.len())
    }

    /// One more: its process is told.
    pub(super) fn add(&mut self, processes: &Processes, who: (ProcessId, u32), flow: Flow) {
        processes.tell(who.0, &FromAgent::Alone { flow: who.1 });
        self.0.insert(who, flow);
    }

    /// Has the publisher one with that host? Another would come beside it.
    pub(super) fn has(&self, process: ProcessId, ask: Ask, host: &str) -> bool {
        let flows = self.0.range((process, 0)..=(process, u32::MAX));
        let mut with_host = flows.filter(|(_, flow)| flow.session.host() == host);
        with_host.any(|(_, flow)| flow.ask.is_some_and(|own| own.port == ask.port))
    }

    /// Ends those that may not go on.
    pub(super) fn update(&mut self, processes: &Processes) {
        self.end(processes, Flow::check);
    }

    /// Ends all of them: the agent stops.
    pub(super) fn end_all(&mut self, processes: &Processes) {
        self.end(processes, |_| Err("the agent stops".to_owned()));
    }

    fn end(&mut self, processes: &Processes, check: impl Fn(&Flow) -> Result<(), String>) {
        self.0.retain(|(process, number), flow| {
            let Err(reason) = check(flow) else {
                return true;
            };
            let number = *number;
            let end = FromAgent::End {
                flow: number,
                reason,
            };
            processes.tell(*process, &end);
            // Nobody there could be overtaken: the hosts have not met.
            processes.tell(*process, &FromAgent::Return { flow: number });
            false
        });
    }

    /// It is over in its process. False: it is none of these.
    pub(super) fn ended_here(
        &mut self,
        processes: &mut Processes,
        who: (ProcessId, u32),
        unconfirmed: u32,
    ) -> bool {
        let Some(flow) = self.0.remove(&who) else {
            return false;
        };
        let Some(ask) = flow.ask else {
            return true;
        };
        processes.tell(who.0, &FromAgent::Return { flow: who.1 });
        processes.retry(who.0, ask, Instant::now());
        if processes
            .publisher(who.0, ask.port, flow.session.pool())
            .is_none()
        {
            // Else it tells them itself, to the port that it goes back to.
            flow.session.note_unconfirmed(unconfirmed, None);
        }
        true
    }

    pub(super) fn process_gone(&mut self, process: ProcessId) {
        self.0.retain(|(owner, _), _| *owner != process);
    }

    /// How many there are with such hosts.
    pub(super) fn count(&self, which: impl Fn(&str) -> bool) -> usize {
        let flows = self.0.values();
        flows.filter(|flow| which(flow.session.host())).count()
    }
}
