//! Events between the two hosts: what notifiers here raise goes over the control connection, what
//! comes from there is raised at the listeners here. Both coalesce on every way they wait.
//!
//! One thread for each session, once there is something to do: it waits on the listeners that stand
//! for the other host, and raises what has come. Never queues: an event that waits is one bit.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hythe_node::hop::HopNode as _;
use hythe_node::{EventSet, Listener, Node, NodeError, Notifier};

use super::{Session, lock, share};
use crate::error::ClusterError;

/// Waits end by bells; this only bounds one that was lost, and is when what failed is tried again.
const NAP: Duration = Duration::from_secs(1);

/// What is known of the events of a session.
#[derive(Debug, Default)]
pub(super) struct Events {
    state: Mutex<State>,
    is_running: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Channels whose events go to the other host.
    sent: BTreeSet<String>,
    /// Channels whose events are wanted here.
    wanted: BTreeSet<String>,
    /// Came, and are not raised yet.
    came: BTreeMap<String, u64>,
    /// How often something was sent, and raised.
    counts: BTreeMap<String, Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) raised: u64,
}

impl Events {
    /// The events of these channels go there, and of those are wanted here.
    pub(super) fn set(
        session: &Arc<Session>,
        sent: BTreeSet<String>,
        wanted: BTreeSet<String>,
    ) -> Result<(), ClusterError> {
        {
            let mut state = lock(&session.events.state);
            if (&state.sent, &state.wanted) == (&sent, &wanted) {
                return Ok(());
            }
            state.came.retain(|channel, _| wanted.contains(channel));
            let is_known = |channel: &String| sent.contains(channel) || wanted.contains(channel);
            state.counts.retain(|channel, _| is_known(channel));
            (state.sent, state.wanted) = (sent, wanted);
        }
        Self::run(session)
    }

    /// Events came from the other side. Those of a channel that nobody wants are passed over: the
    /// word that it is not wanted any more crosses with them.
    pub(super) fn came(session: &Arc<Session>, channel: &str, events: u64) {
        let mut state = lock(&session.events.state);
        if state.wanted.contains(channel) {
            *state.came.entry(channel.to_owned()).or_default() |= events;
            drop(state);
            session.wake();
        }
    }

    pub(super) fn counts(&self, channel: &str) -> Counts {
        lock(&self.state)
            .counts
            .get(channel)
            .copied()
            .unwrap_or_default()
    }

    /// Has the thread look: starts it the first time.
    fn run(session: &Arc<Session>) -> Result<(), ClusterError> {
        if session.events.is_running.swap(true, Ordering::AcqRel) {
            session.wake();
            return Ok(());
        }
        let (running, member) = (Arc::clone(session), session.threads.enter());
        hythe_sys::wait::spawn("hythe-host-events", move || {
            if let Err(error) = carry(&running) {
                running.end(&error.to_string());
            }
            drop(member);
        })?;
        Ok(())
    }
}

/// The ports of the thread.
#[derive(Debug, Default)]
struct Ports {
    listeners: BTreeMap<String, Listener>,
    notifiers: BTreeMap<String, Notifier>,
    /// What listeners were last opened for.
    tried: BTreeSet<String>,
}

fn carry(session: &Session) -> Result<(), ClusterError> {
    let node = session.node()?;
    let mut ports = Ports::default();
    loop {
        ports.sync(session, &node);
        node.wait_until(NAP, NAP, || {
            let is_done = session.is_over() || !ports.are_current(session);
            Ok((is_done || ports.look(session)?).then_some(()))
        })?;
        if session.is_over() {
            return Ok(());
        }
    }
}

impl Ports {
    fn are_current(&self, session: &Session) -> bool {
        let state = lock(&session.events.state);
        self.tried == state.sent
            && self
                .notifiers
                .keys()
                .all(|channel| state.wanted.contains(channel))
    }

    /// Opens and closes ports. What cannot be opened is tried again.
    fn sync(&mut self, session: &Session, node: &Node) {
        let (sent, wanted) = {
            let state = lock(&session.events.state);
            (state.sent.clone(), state.wanted.clone())
        };
        for (channel, mut listener) in self
            .listeners
            .extract_if(.., |channel, _| !sent.contains(channel))
        {
            // What its notifiers raised before they left.
            if let Ok(heard) = listener.try_take() {
                send(session, &channel, heard);
            }
        }
        self.notifiers.retain(|channel, _| wanted.contains(channel));
        self.tried.clone_from(&sent);
        for channel in sent {
            if let Entry::Vacant(vacant) = self.listeners.entry(channel) {
                let opened = share::check(node, 0).and_then(|()| Ok(node.listener(vacant.key())?));
                match opened {
                    Ok(listener) => drop(vacant.insert(listener)),
                    Err(error) => {
                        session.record.losses.note_refusal(&error);
                        tracing::warn!(channel = vacant.key(), %error, "its events are not heard");
                    }
                }
            }
        }
    }

    /// Sends what is heard, and raises what has come. True: there was something.
    fn look(&mut self, session: &Session) -> Result<bool, NodeError> {
        let mut found = false;
        for (channel, listener) in &mut self.listeners {
            found |= send(session, channel, listener.try_take()?);
        }
        let came = std::mem::take(&mut lock(&session.events.state).came);
        for (channel, events) in came {
            found = true;
            self.raise(session, &channel, events)?;
        }
        Ok(found)
    }

    fn raise(&mut self, session: &Session, channel: &str, events: u64) -> Result<(), NodeError> {
        if !self.notifiers.contains_key(channel) {
            let Some(node) = lock(&session.node).clone() else {
                return Ok(());
            };
            let opened = share::check(&node, 0).and_then(|()| Ok(node.notifier(channel)?));
            match opened {
                Ok(notifier) => drop(self.notifiers.insert(channel.to_owned(), notifier)),
                Err(error) => {
                    session.record.losses.note_refusal(&error);
                    tracing::warn!(channel, %error, "events from the other host are not raised");
                    return Ok(());
                }
            }
        }
        if let Some(notifier) = self.notifiers.get_mut(channel) {
            notifier.notify(EventSet::from_bits(events))?;
            session.events.count(channel, |counts| counts.raised += 1);
        }
        Ok(())
    }
}

/// Sends what was heard. True: there was something.
fn send(session: &Session, channel: &str, heard: EventSet) -> bool {
    if heard.is_empty() {
        return false;
    }
    session.outbox.raise(channel, heard.bits());
    session.events.count(channel, |counts| counts.sent += 1);
    true
}

impl Events {
    fn count(&self, channel: &str, count: impl FnOnce(&mut Counts)) {
        let mut state = lock(&self.state);
        count(state.counts.entry(channel.to_owned()).or_default());
    }
}
