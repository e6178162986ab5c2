//! All connections and sessions of a server, as one pure state machine.
//!
//! A driver opens and closes connections, hands over what they received, and calls
//! [`Service::next`] until it yields nothing; for each [`Outcome`] it does the actions and has
//! [`Service::reply`] write the answer. [`Service::tick`] ends what is overdue. Times are
//! nanoseconds since any fixed point.
//!
//! What holds between calls: a session outlives the connection that made it (RFC 2326, section
//! 1.3), and only requests from its address touch it. Memory is bounded by [`Limits`].

mod methods;
mod notices;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::catalogue::Catalogue;
use super::connection::{Connection, ConnectionId, Overdue};
use super::limits::{Counters, Limits};
use super::message::{Request, Response};
use super::range;
use super::session::{Action, Session, SessionId, Started};
use super::status::{Refusal, Status};
use methods::{Call, Done, Played};
use notices::Versions;

pub use notices::Notice;

/// A connection is turned away; the counters say how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// There are as many connections as may be.
    #[error("there are {0} connections already")]
    Connections(usize),
    /// The address has as many as it may have.
    #[error("this address has {0} connections already")]
    Address(usize),
}

impl Full {
    /// What the client is told before it is closed out.
    #[must_use]
    pub fn reply(self) -> Vec<u8> {
        Response::from(Refusal::new(Status::Unavailable, self.to_string())).write(None)
    }
}

/// Where numbers come from that nobody can guess; `None` if there are none, which is answered with
/// 500.
pub type Random = Box<dyn FnMut() -> Option<u64> + Send>;

/// What a request comes to: first the actions, in order, then [`Service::reply`].
#[derive(Debug)]
pub struct Outcome {
    /// What the owner of the media has to do.
    pub actions: Vec<Action>,
    /// The connection is closed once the answer is sent.
    pub is_last: bool,
    sequence_number: Option<u32>,
    response: Response,
    played: Option<Played>,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// For the wire.
    pub bytes: Vec<u8>,
    /// Streams to stop again, because another one of the same PLAY did not start.
    pub actions: Vec<Action>,
}

/// What ended because its time was up.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Streams to stop.
    pub actions: Vec<Action>,
    /// Connections to close.
    pub connections: Vec<ConnectionId>,
}

/// Serves presentations to any number of clients, as far as [`Limits`] allow.
pub struct Service {
    limits: Limits,
    counters: Counters,
    sessions: BTreeMap<SessionId, Session>,
    random: Random,
    /// Names the descriptions of this service.
    name: u64,
    versions: Versions,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Service");
        fields
            .field("connections", &self.connections.len())
            .field("sessions", &self.sessions.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// A service without clients.
    #[must_use]
    pub fn new(limits: Limits, mut random: Random) -> Self {
        Self {
            limits,
            counters: Counters::default(),
            sessions: BTreeMap::new(),
            // Players keep it in 63 bits.
            name: random().unwrap_or_default() >> 1,
            random,
            versions: Versions::default(),
            connections: BTreeMap::new(),
            next_connection: 0,
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For the driver to count what only it can see.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Is there neither a connection nor a session, so that no time can be up?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.connections.is_empty() && self.sessions.is_empty()
    }

    /// A client at `peer` has connected to our address `local`.
    ///
    /// # Errors
    ///
    /// [`Full`]: say [`Full::reply`] and close.
    pub fn open(
        &mut self,
        peer: SocketAddr,
        local: SocketAddr,
        now_ns: u64,
    ) -> Result<ConnectionId, Full> {
        let connection = Connection::new(peer, local, now_ns);
        if self.connections.len() >= self.limits.connections {
            self.counters.refused_connections += 1;
            return Err(Full::Connections(self.connections.len()));
        }
        let newcomer = party(connection.peer.ip());
        let others = self.connections.values();
        let count = others
            .filter(|other| party(other.peer.ip()) == newcomer)
            .count();
        if count >= self.limits.connections_per_address {
            self.counters.refused_connections_of_address += 1;
            return Err(Full::Address(count));
        }
        self.counters.connections += 1;
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(id, connection);
        Ok(id)
    }

    /// How many bytes the connection may receive now; 0 for one that is closed.
    #[must_use]
    pub fn free_capacity(&self, connection: ConnectionId) -> usize {
        let connection = self.connections.get(&connection);
        connection.map_or(0, |connection| connection.free_capacity(&self.limits))
    }

    /// Takes what was received, at most [`Self::free_capacity`].
    pub fn receive(&mut self, connection: ConnectionId, bytes: &[u8], now_ns: u64) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.receive(bytes, &self.limits, now_ns);
        }
    }

    /// The connection is gone. Its sessions live on until their time is up: the client may come
    /// back.
    pub fn close(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
    }

    /// Decides about the next whole request of a connection; `None` if there is none.
    pub fn next(
        &mut self,
        id: ConnectionId,
        now_ns: u64,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Option<Outcome> {
        let connection = self.connections.get_mut(&id)?;
        let (peer, local) = (connection.peer, connection.local);
        let message = loop {
            match connection.next(&self.limits, now_ns) {
                Ok(message) => {
                    let message = message?;
                    if !connection.is_answer(&message) {
                        break message;
                    }
                }
                Err(refusal) => {
                    let number = connection.sequence_number();
                    return Some(self.malformed(id, number, refusal));
                }
            }
        };
        let request = match Request::parse(&message, self.limits.headers) {
            Ok(request) => request,
            Err(refusal) => {
                let number = super::message::sequence_number(&message);
                return Some(self.malformed(id, number, refusal));
            }
        };
        self.counters.requests += 1;
        let call = Call {
            request: &request,
            connection: id,
            peer,
            local,
            now_ns,
        };
        let done = self.dispatch(&call, catalogue).unwrap_or_else(Done::from);
        Some(Outcome {
            actions: done.actions,
            is_last: false,
            sequence_number: request.sequence_number(),
            response: done.response,
            played: done.played,
        })
    }

    /// Where the message ends is not known or not to be believed: nothing more is read.
    fn malformed(&mut self, id: ConnectionId, number: Option<u32>, refusal: Refusal) -> Outcome {
        self.counters.malformed_messages += 1;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.end();
        }
        Outcome {
            actions: Vec::new(),
            is_last: true,
            sequence_number: number,
            response: refusal.into(),
            played: None,
        }
    }

    /// Writes the answer. `started`: how each [`Action::Start`] of the outcome went, in their
    /// order, or why it did not (one line).
    #[must_use]
    pub fn reply(&mut self, outcome: Outcome, started: &[Result<Started, String>]) -> Reply {
        let (response, actions) = match outcome.played {
            None => (outcome.response, Vec::new()),
            Some(played) => self.play_reply(outcome.response, &played, started),
        };
        self.counters.refused_requests += u64::from(!response.is_ok());
        Reply {
            bytes: response.write(outcome.sequence_number),
            actions,
        }
    }

    fn play_reply(
        &mut self,
        response: Response,
        played: &Played,
        started: &[Result<Started, String>],
    ) -> (Response, Vec<Action>) {
        let failure = started.iter().find_map(|result| result.as_ref().err());
        let results: Vec<_> = played.streams.iter().zip(started).collect();
        let mut session = self.sessions.get_mut(&played.session);
        let mut mark = |stream, succeeded| {
            let session = session.as_mut();
            session.is_some_and(|session| session.started(stream, succeeded))
        };
        // What another connection has torn down meanwhile was stopped then.
        let there: Vec<bool> = results
            .iter()
            .map(|(stream, result)| mark(**stream, result.is_ok()))
            .collect();
        let gone = "the session has ended meanwhile".to_owned();
        let gone = there.contains(&false).then_some(&gone);
        let Some(failure) = failure.or(gone) else {
            let starts = results.iter().filter_map(|(stream, result)| {
                let started = result.as_ref().ok()?;
                Some((**stream, *started))
            });
            return (answer_play(response, played, starts.collect()), Vec::new());
        };
        self.counters.failed_starts += 1;
        let why = failure.replace(|character: char| character.is_control(), " ");
        // What did start is paused again: the client will not know of it.
        let running: Vec<Action> = results
            .iter()
            .zip(there)
            .filter(|((_, result), is_there)| result.is_ok() && *is_there)
            .map(|((stream, _), _)| Action::Pause {
                session: played.session,
                stream: **stream,
            })
            .collect();
        if let Some(session) = self.sessions.get_mut(&played.session) {
            for stream in &played.streams {
                let _ = session.started(*stream, false); // what was torn down is stopped
            }
        }
        (Refusal::new(Status::Unavailable, why).into(), running)
    }

    /// Ends what is overdue. To be called about once a second.
    #[must_use]
    pub fn tick(&mut self, now_ns: u64) -> Expired {
        let mut expired = Expired::default();
        let limit_ns = self.limits.session_life_ns();
        let lost = |_: &SessionId, session: &mut Session| {
            now_ns.saturating_sub(session.last_ns) >= limit_ns
        };
        for (_, mut session) in self.sessions.extract_if(.., lost) {
            self.counters.lost_sessions += 1;
            expired.actions.extend(session.tear_down(None));
        }
        let sessions = self.sessions.values();
        let in_use: BTreeSet<ConnectionId> = sessions.map(|session| session.connection).collect();
        for (id, connection) in &self.connections {
            let has_session = in_use.contains(id);
            let Some(overdue) = connection.overdue(&self.limits, now_ns, has_session) else {
                continue;
            };
            match overdue {
                Overdue::Silent => self.counters.silent_connections += 1,
                Overdue::Slow => self.counters.slow_messages += 1,
                Overdue::Idle => self.counters.idle_connections += 1,
            }
            expired.connections.push(*id);
        }
        for id in &expired.connections {
            self.close(*id);
        }
        expired
    }

    /// The client of a session gave a sign elsewhere: an RTCP report, say.
    pub fn alive(&mut self, session: SessionId, now_ns: u64) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.last_ns = session.last_ns.max(now_ns);
        }
    }

    /// A stream came to its end by itself: the next PLAY starts it again.
    pub fn ended(&mut self, session: SessionId, stream: usize) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.ended(stream);
        }
    }

    /// Ends all sessions; what to stop.
    #[must_use]
    pub fn shut_down(&mut self) -> Vec<Action> {
        let mut sessions = std::mem::take(&mut self.sessions);
        sessions
            .values_mut()
            .flat_map(|session| session.tear_down(None))
            .collect()
    }
}

/// RTP-Info (RFC 2326, section 12.33) and the range that is really played.
fn answer_play(response: Response, played: &Played, starts: Vec<(usize, Started)>) -> Response {
    let Some((_, first)) = starts.first() else {
        return response; // it was playing already
    };
    let range = range::write(first.from_ns, played.until_ns);
    let info: Vec<String> = starts
        .iter()
        .map(|(stream, started)| {
            let control = super::control(*stream);
            let (sequence, timestamp) = (started.sequence, started.timestamp);
            format!(
                "url={}/{control};seq={sequence};rtptime={timestamp}",
                played.base
            )
        })
        .collect();
    response
        .header("Range", range)
        .header("RTP-Info", info.join(","))
}

/// Whom an address belongs to, for limits: an IPv6 host has the whole /64.
fn party(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}
