//! A session with one host: from the two hellos to the end of the control connection.
//!
//! `control/` is that connection. `channels` decides from what both sides have and want which
//! streams there are, `sending/` and `receiving/` carry them. All of it acts in the pool as one
//! participant, `host NAME`, which leaves with the session.

mod channels;
mod control;
mod ends;
mod events;
mod flows;
mod outbox;
mod receiving;
mod requests;
mod sending;
mod share;
mod window;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hythe_node::{MemberIndex, Node, NodeError, hop};

use self::channels::Channels;
use self::ends::HostEnds;
use self::events::Events;
use self::outbox::Outbox;
use self::requests::Requests;
use super::context::{Context, Group, HostRecord, Member, lock};
use super::flows::{FlowSession, Link, Pause};
use super::kept_connections::KeptConnections;
use super::link::send_first;
use super::local::LocalEnds;
use crate::error::ClusterError;
use crate::frame::{Answer, Opening};
use crate::status::{Copies, Credit, SessionStatus};
use crate::{Connection, ConnectionAbout};

/// The most publishers of one stream.
const PUBLISHERS_MAX: usize = 1024;
/// How long a refusal may take.
const ANSWERING: Duration = Duration::from_secs(1);
/// No round trip is known.
const NONE: u64 = u64::MAX;

/// A session with one host.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) context: Arc<Context>,
    pub(crate) record: Arc<HostRecord>,
    /// Chosen here; data connections of the other side name it.
    pub(crate) number: u64,
    /// Chosen there.
    pub(crate) their_number: u64,
    about: ConnectionAbout,
    /// The link of the control connection.
    pub(crate) link: Link,
    /// After flows that failed.
    pause: Mutex<Pause>,
    /// The participant of the host.
    pub(crate) member: MemberIndex,
    began: Instant,
    /// `None` once the session is over.
    node: Mutex<Option<Node>>,
    is_over: AtomicBool,
    /// It ended because its connection did, and nobody here meant it to.
    is_broken: AtomicBool,
    /// What it wants or carries has changed since the pool was last looked at.
    is_changed: AtomicBool,
    reason: Mutex<String>,
    outbox: Outbox,
    channels: Mutex<Channels>,
    requests: Requests,
    events: Events,
    ends: Mutex<HostEnds>,
    /// Connections about tasks that carry nothing at present.
    pub(crate) kept_connections: KeptConnections,
    round_trip_ns: AtomicU64,
    /// The threads of its streams and connections.
    threads: Arc<Group>,
}

/// Both sides' numbers of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) ours: u64,
    pub(crate) theirs: u64,
}

impl Session {
    /// Begins a session: its participant joins the pool.
    ///
    /// # Errors
    /// The pool has no place for one more participant.
    pub(crate) fn begin(
        context: &Arc<Context>,
        record: &Arc<HostRecord>,
        numbers: Numbers,
        connection: &Connection,
    ) -> Result<Arc<Self>, NodeError> {
        let options = &context.options;
        let node = (options.join)(&options.pool, record.name.as_str())?;
        Ok(Arc::new(Self {
            context: Arc::clone(context),
            record: Arc::clone(record),
            number: numbers.ours,
            their_number: numbers.theirs,
            about: connection.about.clone(),
            link: Link::of(
                (&options.trusted, options.allows_frames),
                connection.path,
                |address| context.carrier.interface_of(address),
            ),
            pause: Mutex::default(),
            member: node.index(),
            began: Instant::now(),
            node: Mutex::new(Some(node)),
            is_over: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_changed: AtomicBool::new(false),
            reason: Mutex::default(),
            outbox: Outbox::default(),
            channels: Mutex::default(),
            requests: Requests::default(),
            events: Events::default(),
            ends: Mutex::default(),
            kept_connections: KeptConnections::default(),
            round_trip_ns: AtomicU64::new(NONE),
            threads: Arc::default(),
        }))
    }

    /// Carries the session until it ends, and cleans up behind it: when this returns, nobody in the
    /// pool stands for the host any more. Says why it ended.
    pub(crate) fn run(self: &Arc<Self>, connection: Connection) -> String {
        self.tell_trust();
        self.note_change();
        let error = control::run(self, connection);
        self.end_by(&error);
        let is_broken = self.is_broken.load(Ordering::Acquire);
        let by_flows = self.context.flows.session_over(&**self, is_broken);
        self.threads.wait_until_empty();
        let interrupted = lock(&self.channels).interrupted(&by_flows);
        self.record.note_interrupted(interrupted, self.their_number);
        drop(lock(&self.node).take());
        lock(&self.reason).clone()
    }

    /// Another session was quicker: this one was never begun.
    pub(crate) fn abandon(&self) {
        self.end("another session was quicker");
        drop(lock(&self.node).take());
    }

    /// Ends it, from whatever thread. The first reason counts.
    pub(crate) fn end(&self, reason: &str) {
        self.end_with(reason, false);
    }

    /// Its control connection has ended with that.
    fn end_by(&self, error: &ClusterError) {
        let is_broken = matches!(error, ClusterError::Closed | ClusterError::Broken(_));
        self.end_with(&error.to_string(), is_broken);
    }

    /// The other host has begun another.
    pub(crate) fn end_for_next(&self) {
        self.end_with("the other host began a new session", true);
    }

    fn end_with(&self, reason: &str, is_broken: bool) {
        let mut own = lock(&self.reason);
        if self.is_over() {
            return;
        }
        reason.clone_into(&mut own);
        self.is_broken.store(is_broken, Ordering::Release);
        // Last: who sees it asks for the others.
        self.is_over.store(true, Ordering::Release);
        drop(own);
        self.outbox.close();
        lock(&self.channels).close_all();
        self.kept_connections.close_all();
        self.wake();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The participant of the host.
    fn node(&self) -> Result<Node, ClusterError> {
        let node = lock(&self.node);
        let open = node.clone().filter(|_| !self.is_over());
        open.ok_or(ClusterError::Over)
    }

    /// Wakes the threads that wait in the pool as this participant.
    pub(crate) fn wake(&self) {
        if let Some(node) = &*lock(&self.node) {
            hop::wake(node.pool(), node.index());
        }
    }

    /// What is wanted or carried has changed: the thread that looks at the pool sees to it.
    pub(crate) fn note_change(&self) {
        self.is_changed.store(true, Ordering::Release);
        self.context.note_change();
    }

    /// Has it changed since this was last asked?
    pub(crate) fn take_changed(&self) -> bool {
        self.is_changed.swap(false, Ordering::Acquire)
    }

    /// The ends on this host are these now: tells the other side, and opens and closes streams.
    pub(crate) fn update(self: &Arc<Self>, local: &LocalEnds) {
        if self.is_over() {
            return;
        }
        let updated = channels::update(self, local).and_then(|()| ends::update(self, local));
        match updated {
            Ok(()) => {
                let session: Arc<dyn FlowSession> = self.clone();
                self.context.flows.update(&session, local);
            }
            Err(error) => self.end(&error.to_string()),
        }
    }

    /// Has it streams whose ports are open, and that the other side has neither accepted nor
    /// refused yet? Who publishes into one that blocks is held up until then.
    pub(crate) fn has_early_streams(&self) -> bool {
        !self.is_over() && lock(&self.channels).are_early()
    }

    /// A data connection of the other side: carries it until it ends. `greeting` ends when it has
    /// begun.
    pub(crate) fn receive(
        self: &Arc<Self>,
        mut connection: Connection,
        opening: Opening,
        greeting: Member,
    ) {
        let member = self.threads.enter();
        match channels::opened(self, &opening) {
            Ok(stream) => receiving::run(self, &stream, connection, greeting),
            Err(error) => {
                let reason = error.to_string();
                // Who is refused and gone does not need the answer.
                let answer = Answer::Refused { reason };
                let _ = send_first(&mut *connection.sender, &answer, ANSWERING);
            }
        }
        drop(member);
    }

    pub(crate) fn status(&self) -> SessionStatus {
        let round_trip = self.round_trip_ns.load(Ordering::Relaxed);
        let mut channels = lock(&self.channels).status(&self.events);
        let link = self.context.flows.status(self, &mut channels);
        let credits = channels.iter().filter_map(|channel| channel.credit);
        SessionStatus {
            number: format!("{:016x}", self.number),
            // Fits: 64 bits of milliseconds.
            age_ms: self.began.elapsed().as_millis() as u64,
            connection: self.about.clone(),
            link,
            round_trip_ns: (round_trip != NONE).then_some(round_trip),
            credit: credits.fold(Credit::default(), Credit::plus),
            copies: Copies {
                sending: self.about.copies_sending,
                receiving: self.about.copies_receiving + receiving::COPIES,
            },
            channels,
            ends: lock(&self.ends).theirs(),
        }
    }
}
