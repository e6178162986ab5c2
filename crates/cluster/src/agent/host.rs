//! Another host: its sessions, one after the other, and the thread that dials it.
//!
//! Of two hosts the one whose name is less dials; the other waits for its connection, and calls it
//! now and then to find out why there is none ([`Host::probe`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::context::{Context, Group, HostRecord, Member, Signal, lock};
use super::link::{MessageReader, send_first};
use super::session::{Numbers, Session};
use crate::Connection;
use crate::HostName;
use crate::error::ClusterError;
use crate::frame::{Answer, Hello, Purpose};
use crate::status::{HostState, HostStatus};

/// Between two attempts to dial: what fails at once is not tried without end.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest such pause; a host that the directory shows anew is dialled at once.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a call may take that asks nothing.
const PROBING: Duration = Duration::from_secs(1);
/// For how long one attempt to connect may last, however long the lease is: who is called may have
/// been started anew and not know of it, and an agent that stops waits for the end of an attempt.
const DIALLING: Duration = Duration::from_secs(10);

/// Another host.
#[derive(Debug)]
pub(crate) struct Host {
    context: Arc<Context>,
    pub(crate) record: Arc<HostRecord>,
    current: Mutex<Current>,
    /// A session has ended.
    ended: Condvar,
    /// It is to be dialled at once.
    dial: Signal,
    is_seen: AtomicBool,
    /// It should be there.
    is_listed: AtomicBool,
    /// Another took its place in the table: it is not dialled any more.
    is_forgotten: AtomicBool,
    is_dialled: AtomicBool,
    /// Connections that it makes and that have not said what for.
    pub(crate) greeting: Arc<Group>,
}

#[derive(Debug, Default)]
struct Current {
    session: Option<Arc<Session>>,
    /// How many there were, with this one.
    sessions: u64,
    /// What ended the last one, or why there is none.
    reason: String,
}

impl Host {
    pub(crate) fn new(context: &Arc<Context>, name: HostName) -> Self {
        Self {
            context: Arc::clone(context),
            record: Arc::new(HostRecord::new(name)),
            current: Mutex::default(),
            ended: Condvar::new(),
            dial: Signal::default(),
            is_seen: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
            is_dialled: AtomicBool::new(false),
            greeting: Arc::default(),
        }
    }

    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        lock(&self.current).session.clone()
    }

    /// The directory shows it there. Its thread counts to `carrying`.
    pub(crate) fn seen(
        self: &Arc<Self>,
        addresses: Vec<std::net::SocketAddr>,
        carrying: &Arc<Group>,
    ) {
        lock(&self.record.addresses).show(addresses);
        self.is_seen.store(true, Ordering::Release);
        self.dial_from_now_on(carrying);
    }

    /// It should be there, at these addresses, or it is not known where. Its thread counts to
    /// `carrying`.
    pub(crate) fn listed(
        self: &Arc<Self>,
        addresses: Result<Vec<std::net::SocketAddr>, String>,
        carrying: &Arc<Group>,
    ) {
        let addresses = addresses.unwrap_or_else(|reason| {
            self.note_trouble(reason);
            Vec::new()
        });
        lock(&self.record.addresses).list(addresses);
        self.is_listed.store(true, Ordering::Release);
        self.dial_from_now_on(carrying);
    }

    /// It need not be there any more.
    pub(crate) fn unlisted(&self) {
        lock(&self.record.addresses).list(Vec::new());
        self.is_listed.store(false, Ordering::Release);
    }

    /// Is this host the one that dials?
    fn dials(&self) -> bool {
        self.context.options.host < self.record.name
    }

    /// Is it seen, or should it be there, and is it known where?
    fn is_sought(&self) -> bool {
        let is_listed = self.is_listed.load(Ordering::Acquire);
        let is_known = || !lock(&self.record.addresses).all().is_empty();
        self.is_seen() || (is_listed && is_known())
    }

    /// Why there is no session, if there is none.
    pub(crate) fn note_trouble(&self, reason: String) {
        let mut current = lock(&self.current);
        if current.session.is_none() {
            current.reason = reason;
        }
    }

    fn dial_from_now_on(self: &Arc<Self>, carrying: &Arc<Group>) {
        if self.dials() && !self.is_dialled.swap(true, Ordering::AcqRel) {
            let (host, member) = (Arc::clone(self), carrying.enter());
            let started = hythe_sys::wait::spawn("hythe-host-dial", move || {
                host.dial_always();
                drop(member);
            });
            if let Err(error) = started {
                tracing::error!(host = %self.record.name, %error, "cannot start its thread");
                self.is_dialled.store(false, Ordering::Release);
            }
        }
        self.dial.raise();
    }

    /// The directory does not show it any more. Whether its session goes on, its lease says.
    pub(crate) fn gone(&self) {
        self.is_seen.store(false, Ordering::Release);
    }

    pub(crate) fn is_seen(&self) -> bool {
        self.is_seen.load(Ordering::Acquire)
    }

    /// No session with it has ever been.
    pub(crate) fn never_connected(&self) -> bool {
        lock(&self.current).sessions == 0
    }

    /// It is not connected, and does not try to be.
    pub(crate) fn is_idle(&self) -> bool {
        self.session().is_none() && self.greeting.count() == 0
    }

    /// Another takes its place: ends the thread that dials it.
    pub(crate) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Release);
        self.dial.raise();
    }

    /// Ends its session and its thread.
    pub(crate) fn stop(&self) {
        if let Some(session) = self.session() {
            session.end("the agent stops");
        }
        self.dial.raise();
    }

    fn dial_always(self: Arc<Self>) {
        let mut pause = PAUSE_MIN;
        while !self.context.stops() && !self.is_forgotten.load(Ordering::Acquire) {
            if !self.is_sought() {
                self.dial.wait(PAUSE_MAX);
                continue;
            }
            match self.dial_once() {
                Ok((connection, numbers)) => {
                    pause = PAUSE_MIN;
                    self.run_session(connection, numbers, self.greeting.enter());
                }
                Err(error) => {
                    self.note_trouble(error.to_string());
                    tracing::debug!(host = %self.record.name, %error, "not connected");
                    // Also where the directory shows something new without end.
                    std::thread::sleep(PAUSE_MIN);
                }
            }
            self.dial.wait(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Is it the one that dials, and has not, though it should be there?
    pub(crate) fn is_awaited(&self) -> bool {
        !self.dials() && self.is_sought() && self.is_idle()
    }

    /// Calls it and asks nothing, to find out why it does not dial this host.
    pub(crate) fn probe(&self) {
        let addresses = lock(&self.record.addresses).next_attempt();
        let timeout = self.context.options.lease.min(PROBING);
        let carrier = &self.context.carrier;
        let reason = match carrier.connect(&self.record.name, &addresses, timeout) {
            Ok(connection) => {
                let address = connection.about.address;
                lock(&self.record.addresses).prove(&address);
                format!(
                    "it can be reached at {address}, and has not connected yet, which is its part: \
                     `hythe host status` on it says why"
                )
            }
            Err(error) => error.to_string(),
        };
        self.note_trouble(reason);
    }

    fn dial_once(&self) -> Result<(Connection, Numbers), ClusterError> {
        let timeout = self.context.options.lease.min(DIALLING);
        let addresses = lock(&self.record.addresses).next_attempt();
        let carrier = &self.context.carrier;
        let mut connection = carrier.connect(&self.record.name, &addresses, timeout)?;
        lock(&self.record.addresses).prove(&connection.about.address);
        let ours = self.context.new_session()?;
        let hello = Hello {
            host: self.context.options.host.clone(),
            purpose: Purpose::Control { session: ours },
        };
        send_first(&mut *connection.sender, &hello, timeout)?;
        let mut reader = MessageReader::new(connection.receiver);
        reader.preamble(timeout)?;
        let theirs = match reader.message(timeout)? {
            Answer::Session { session } => session,
            Answer::Refused { reason } => return Err(ClusterError::Refused(reason)),
            other => return Err(ClusterError::Unexpected(format!("{other:?} to a hello"))),
        };
        connection.receiver = reader.into_receiver();
        Ok((connection, Numbers { ours, theirs }))
    }

    /// Takes a control connection of the other side: ends the session before it, answers, and
    /// carries the new one.
    pub(crate) fn accept(
        self: &Arc<Self>,
        mut connection: Connection,
        theirs: u64,
        greeting: Member,
    ) -> Result<(), ClusterError> {
        if self.context.options.host < self.record.name {
            return Err(ClusterError::Unexpected(format!(
                "host {} dials host {}, because its name is less; not the other way",
                self.context.options.host, self.record.name
            )));
        }
        let ours = self.context.new_session()?;
        self.end_earlier();
        let answer = Answer::Session { session: ours };
        let timeout = self.context.options.lease;
        send_first(&mut *connection.sender, &answer, timeout)?;
        self.run_session(connection, Numbers { ours, theirs }, greeting);
        Ok(())
    }

    /// Nothing of the old session may arrive in the new one: waits until it is cleaned up.
    fn end_earlier(&self) {
        if let Some(earlier) = self.session() {
            earlier.end_for_next();
        }
        let current = lock(&self.current);
        let waited = self
            .ended
            .wait_while(current, |current| current.session.is_some());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Until there is the session, `greeting` says that this host does something: none takes its
    /// place.
    fn run_session(&self, connection: Connection, numbers: Numbers, greeting: Member) {
        let address = connection.about.address.clone();
        let session = Session::begin(&self.context, &self.record, numbers, &connection);
        let session = match session {
            Ok(session) => session,
            Err(error) => {
                lock(&self.current).reason = format!("no participant for it: {error}");
                return;
            }
        };
        {
            let mut current = lock(&self.current);
            if current.session.is_some() {
                // Another connection was quicker; this one closes.
                drop(current);
                session.abandon();
                return;
            }
            current.session = Some(Arc::clone(&session));
            current.sessions += 1;
            current.reason.clear();
        }
        drop(greeting);
        // Whoever stops the agent, or forgets the host, may have looked before.
        if self.context.stops() {
            session.end("the agent stops");
        } else if self.is_forgotten.load(Ordering::Acquire) {
            session.end("another host took its place in the table of hosts");
        }
        tracing::info!(host = %self.record.name, address, "a session begins");
        let reason = session.run(connection);
        tracing::info!(host = %self.record.name, reason, "the session has ended");
        let mut current = lock(&self.current);
        current.session = None;
        current.reason = reason;
        drop(current);
        self.ended.notify_all();
    }

    pub(crate) fn status(&self) -> HostStatus {
        let (session, sessions, mut reason) = {
            let current = lock(&self.current);
            let Current {
                session,
                sessions,
                reason,
            } = &*current;
            (session.clone(), *sessions, reason.clone())
        };
        let alone = self.context.flows.alone_with(self.record.name.as_str());
        if session.is_none() && alone > 0 {
            let flows = match alone {
                1 => "1 flow goes on".to_owned(),
                more => format!("{more} flows go on"),
            };
            reason = format!("{reason}; {flows} without the agents");
        }
        let is_seen = self.is_seen();
        let state = match (&session, is_seen) {
            (Some(_), _) => HostState::Connected,
            (None, true) => HostState::Connecting,
            (None, false) => HostState::Away,
        };
        let addresses = lock(&self.record.addresses).all();
        HostStatus {
            host: self.record.name.clone(),
            state,
            reason,
            addresses: addresses.iter().map(ToString::to_string).collect(),
            session: session.map(|session| session.status()),
            sessions,
            losses: self.record.losses.now(),
        }
    }
}
