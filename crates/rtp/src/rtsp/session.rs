//! One session: the streams that a client has set up, and the state machine of RFC 2326, appendix
//! A.2.
//!
//! The service finds the session of a request and calls here. A stream that was not set up, or was
//! torn down, is in the state Init: it is not here. What has to be done is returned as [`Action`]s;
//! a stream only counts as playing once its start has succeeded.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::connection::ConnectionId;
use super::range::Range;
use super::status::{Refusal, Status};

/// Names a session: 64 random bits, so that nobody guesses another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016X}", self.0)
    }
}

impl SessionId {
    /// Reads the value of a Session header; what follows a semicolon is repeated by some clients
    /// and means nothing.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let id = value.split(';').next()?.trim();
        let plain = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| u64::from_str_radix(id, 16).ok().map(Self))?
    }
}

/// What the owner of the media has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send; also to a stream that is being sent already, from another place on. Those of one
    /// request begin together.
    Start(Start),
    /// Stop sending, remember the place.
    Pause {
        /// Whose.
        session: SessionId,
        /// Which.
        stream: usize,
    },
    /// Stop sending for good. Follows a start, which may not be answered yet, and maybe a pause.
    Stop {
        /// Whose.
        session: SessionId,
        /// Which.
        stream: usize,
    },
}

/// What to send, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// For whom.
    pub session: SessionId,
    /// The presentation's path.
    pub path: String,
    /// Which of its streams.
    pub stream: usize,
    /// Where RTP goes: to the client, or to the group of the stream. Other sessions may have the
    /// same group.
    pub destination: SocketAddr,
    /// Where RTCP goes.
    pub rtcp_destination: SocketAddr,
    /// For a group: how many routers packets may pass, plus one.
    pub ttl: Option<u8>,
    /// The synchronisation source that the client was told.
    pub ssrc: u32,
    /// Where to begin, in nanoseconds from the beginning. `None`: where a pause left off, else at
    /// the beginning, or now if it is live.
    pub from_ns: Option<u64>,
    /// Where to end; `None`: at the end.
    pub until_ns: Option<u64>,
}

/// How a start went: what the first packet has, for the client to know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its sequence number.
    pub sequence: u16,
    /// Its timestamp.
    pub timestamp: u32,
    /// Its place, in nanoseconds from the beginning; `None` for live media.
    pub from_ns: Option<u64>,
}

/// How one stream is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) destination: SocketAddr,
    pub(crate) ttl: Option<u8>,
    pub(crate) ssrc: u32,
}

#[derive(Debug)]
struct Leg {
    delivery: Delivery,
    is_playing: bool,
    /// A start is not answered yet.
    is_starting: bool,
    /// A start has succeeded, so that the owner has to be told of the end.
    was_started: bool,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Who made it; nobody else uses it.
    pub(crate) peer: IpAddr,
    /// Where its last request came from.
    pub(crate) connection: ConnectionId,
    /// The presentation's path.
    pub(crate) path: String,
    /// Its URL, as the client said it last.
    pub(crate) base: String,
    /// The client said that it takes ANNOUNCE.
    pub(crate) takes_announce: bool,
    /// When its client last gave a sign.
    pub(crate) last_ns: u64,
    legs: BTreeMap<usize, Leg>,
}

impl Session {
    pub(crate) fn new(
        id: SessionId,
        peer: IpAddr,
        connection: ConnectionId,
        path: &str,
        now_ns: u64,
    ) -> Self {
        Self {
            id,
            peer,
            connection,
            path: path.to_owned(),
            base: String::new(),
            takes_announce: false,
            last_ns: now_ns,
            legs: BTreeMap::new(),
        }
    }

    /// The synchronisation source of a stream that is set up.
    pub(crate) fn ssrc(&self, stream: usize) -> Option<u32> {
        self.legs.get(&stream).map(|leg| leg.delivery.ssrc)
    }

    /// SETUP: Init or Ready to Ready. A playing stream keeps its way.
    pub(crate) fn set_up(&mut self, stream: usize, delivery: Delivery) -> Result<(), Refusal> {
        let leg = self.legs.entry(stream).or_insert(Leg {
            delivery,
            is_playing: false,
            is_starting: false,
            was_started: false,
        });
        if leg.is_starting {
            return Err(invalid(STARTING));
        }
        if leg.is_playing {
            return Err(invalid("the stream is playing: PAUSE comes first"));
        }
        leg.delivery = delivery;
        Ok(())
    }

    /// PLAY: starts for what is not playing yet, and for everything if the request says from where
    /// to where.
    pub(crate) fn play(
        &mut self,
        stream: Option<usize>,
        range: Range,
    ) -> Result<Vec<Start>, Refusal> {
        let moves = range != Range::default();
        let (session, path) = (self.id, &self.path);
        let start = |(&stream, leg): (&usize, &mut Leg)| {
            leg.is_starting = true;
            let Delivery {
                destination,
                ttl,
                ssrc,
            } = leg.delivery;
            let mut rtcp_destination = destination;
            rtcp_destination.set_port(destination.port() | 1);
            Start {
                session,
                path: path.clone(),
                stream,
                destination,
                rtcp_destination,
                ttl,
                ssrc,
                from_ns: range.from_ns,
                until_ns: range.until_ns,
            }
        };
        self.settled(stream)?;
        let chosen = self.legs.iter_mut().filter(|(index, leg)| {
            stream.is_none_or(|stream| stream == **index) && (moves || !leg.is_playing)
        });
        Ok(chosen.map(start).collect())
    }

    /// What became of a start; `false`: the stream was torn down before.
    pub(crate) fn started(&mut self, stream: usize, succeeded: bool) -> bool {
        let Some(leg) = self.legs.get_mut(&stream) else {
            return false;
        };
        leg.is_starting = false;
        leg.is_playing = succeeded;
        leg.was_started |= succeeded;
        true
    }

    /// A stream came to its end: Playing to Ready.
    pub(crate) fn ended(&mut self, stream: usize) {
        if let Some(leg) = self.legs.get_mut(&stream) {
            leg.is_playing = false;
        }
    }

    /// PAUSE: Playing to Ready.
    pub(crate) fn pause(&mut self, stream: Option<usize>) -> Result<Vec<Action>, Refusal> {
        let session = self.id;
        let mut actions = Vec::new();
        for stream in self.settled(stream)? {
            if let Some(leg) = self.legs.get_mut(&stream).filter(|leg| leg.is_playing) {
                leg.is_playing = false;
                actions.push(Action::Pause { session, stream });
            }
        }
        if actions.is_empty() {
            return Err(invalid("nothing is playing"));
        }
        Ok(actions)
    }

    /// TEARDOWN, or the end of the session: to Init. A stream that is there already stays there.
    pub(crate) fn tear_down(&mut self, stream: Option<usize>) -> Vec<Action> {
        let session = self.id;
        let gone = self
            .legs
            .extract_if(.., |index, _| stream.is_none_or(|stream| stream == *index));
        gone.filter(|(_, leg)| leg.was_started || leg.is_starting)
            .map(|(stream, _)| Action::Stop { session, stream })
            .collect()
    }

    /// Is every stream in Init?
    pub(crate) fn is_empty(&self) -> bool {
        self.legs.is_empty()
    }

    /// The streams that a request is about, if none of them is being started: another connection
    /// has asked for that.
    fn settled(&self, stream: Option<usize>) -> Result<Vec<usize>, Refusal> {
        let selected = self.selected(stream)?;
        let is_starting = |stream: &usize| self.legs.get(stream).is_some_and(|leg| leg.is_starting);
        if selected.iter().any(is_starting) {
            return Err(invalid(STARTING));
        }
        Ok(selected)
    }

    /// The streams that a request is about.
    fn selected(&self, stream: Option<usize>) -> Result<Vec<usize>, Refusal> {
        match stream {
            None => Ok(self.legs.keys().copied().collect()),
            Some(stream) if self.legs.contains_key(&stream) => Ok(vec![stream]),
            Some(_) => Err(invalid("the stream was not set up")),
        }
    }
}

/// PLAY was asked for on another connection.
const STARTING: &str = "the stream is being started";

fn invalid(why: &'static str) -> Refusal {
    Refusal::new(Status::NotValidInThisState, why)
}
