//! The methods of RFC 2326, section 10: what each request does to the sessions, and its answer.
//!
//! [`Service::next`] calls [`Service::dispatch`] for each request that it could read.

use std::net::SocketAddr;

use super::super::catalogue::{Catalogue, Presentation, Stream};
use super::super::connection::ConnectionId;
use super::super::description::{control, description};
use super::super::message::{Request, Response};
use super::super::range::Range;
use super::super::session::{Action, Delivery, Session, SessionId};
use super::super::status::{Refusal, Status};
use super::super::transport::Transport;
use super::super::url::Url;
use super::{Service, party};

/// What is implemented, for Public and Allow.
const METHODS: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
const METHODS_WITHOUT_PAUSE: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
const DESCRIPTION_TYPE: &str = "application/sdp";

/// A request with where and when it came.
pub(super) struct Call<'c> {
    pub(super) request: &'c Request<'c>,
    pub(super) connection: ConnectionId,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) now_ns: u64,
}

/// What a request came to.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) response: Response,
    pub(super) actions: Vec<Action>,
    /// For PLAY, whose answer waits for the starts.
    pub(super) played: Option<Played>,
}

#[derive(Debug)]
pub(super) struct Played {
    pub(super) session: SessionId,
    /// The presentation's URL as the client says it.
    pub(super) base: String,
    /// What is to be started, in the order of the actions.
    pub(super) streams: Vec<usize>,
    /// Where it will end, if that is known.
    pub(super) until_ns: Option<u64>,
}

impl From<Response> for Done {
    fn from(response: Response) -> Self {
        Self {
            response,
            actions: Vec::new(),
            played: None,
        }
    }
}

impl From<Refusal> for Done {
    fn from(refusal: Refusal) -> Self {
        Response::from(refusal).into()
    }
}

impl Service {
    pub(super) fn dispatch(
        &mut self,
        call: &Call<'_>,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Result<Done, Refusal> {
        let request = call.request;
        if request.sequence_number().is_none() {
            return Err(Refusal::new(Status::BadRequest, "it has no CSeq"));
        }
        for name in ["Require", "Proxy-Require"] {
            if let Some(options) = request.header(name).filter(|options| !options.is_empty()) {
                let refusal = Refusal::new(Status::OptionNotSupported, "there are no options");
                return Err(refusal.with_header("Unsupported", options));
            }
        }
        let session = self.touch(call)?;
        let done = match request.method {
            "OPTIONS" => Ok(Response::ok().header("Public", METHODS).into()),
            "GET_PARAMETER" | "SET_PARAMETER" => parameters(request),
            "DESCRIBE" => self.describe(call, catalogue),
            "SETUP" => return self.set_up(call, session, catalogue),
            "PLAY" => self.play(call, session, catalogue),
            "PAUSE" => self.pause(call, session, catalogue),
            "TEARDOWN" => self.tear_down(call, session),
            "ANNOUNCE" | "RECORD" | "REDIRECT" => Err(not_allowed("media is only played", METHODS)),
            _ => Err(Refusal::new(Status::NotImplemented, "no such method")),
        };
        done.map(|mut done| {
            if let Some(session) = session {
                done.response = done.response.header("Session", session.to_string());
            }
            done
        })
    }

    /// The session that the request names, which lives on because of it.
    fn touch(&mut self, call: &Call<'_>) -> Result<Option<SessionId>, Refusal> {
        let Some(value) = call.request.header("Session") else {
            return Ok(None);
        };
        let id = SessionId::parse(value);
        let Some(session) = id.and_then(|id| self.sessions.get_mut(&id)) else {
            return Err(no_session("there is none of that name (any more)"));
        };
        if session.peer != call.peer.ip() {
            self.counters.foreign_sessions += 1;
            return Err(no_session("there is none of that name (any more)"));
        }
        session.last_ns = call.now_ns;
        session.connection = call.connection;
        Ok(id)
    }

    fn describe(
        &mut self,
        call: &Call<'_>,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Result<Done, Refusal> {
        let url = presentation_url(call.request)?;
        if url.stream.is_some() {
            return Err(not_allowed("DESCRIBE is for presentations", METHODS));
        }
        let mut presentation = look_up(catalogue, &url)?;
        let name = (self.name, self.versions.of(&url.path, &presentation));
        if refuses_feedback(call.request) {
            presentation.streams.iter_mut().for_each(leave_out_feedback);
        }
        if !call
            .request
            .header("Accept")
            .is_none_or(accepts_description)
        {
            let why = "descriptions are application/sdp";
            return Err(Refusal::new(Status::NotAcceptable, why));
        }
        let text = description(&presentation, call.local.ip(), name, control);
        let response = Response::ok()
            .header("Content-Base", format!("{}/", url.base))
            .body(DESCRIPTION_TYPE, text);
        Ok(response.into())
    }

    fn set_up(
        &mut self,
        call: &Call<'_>,
        id: Option<SessionId>,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Result<Done, Refusal> {
        let url = presentation_url(call.request)?;
        let presentation = look_up(catalogue, &url)?;
        let index = match url.stream {
            Some(index) => index,
            None if presentation.streams.len() == 1 => 0,
            None => {
                let why = "SETUP is for one stream: use the URLs of the description";
                return Err(Refusal::new(Status::AggregateNotAllowed, why));
            }
        };
        let stream = presentation
            .streams
            .get(index)
            .ok_or_else(|| Refusal::new(Status::NotFound, "there is no such stream"))?;
        let header = call.request.header("Transport");
        let header =
            header.ok_or_else(|| Refusal::new(Status::BadRequest, "it has no Transport"))?;
        let mut foreign = false;
        let chosen = Transport::choose(header, call.peer.ip(), stream, &mut foreign);
        self.counters.foreign_destinations += u64::from(foreign);
        let transport = chosen?;
        let ssrc = match stream.ssrc.or_else(|| self.sessions.get(&id?)?.ssrc(index)) {
            Some(ssrc) => ssrc,
            None => self.number()? as u32,
        };
        let delivery = Delivery {
            destination: transport.destination(call.peer),
            ttl: transport.ttl(),
            ssrc,
        };
        let id = match id {
            Some(id) => id,
            None => self.new_session(call, &url.path)?,
        };
        let session = self.session_of(Some(id), &url)?;
        session.set_up(index, delivery)?;
        session.base = url.base.to_owned();
        session.takes_announce = takes_announce(call.request);
        let timeout = self.limits.session_seconds();
        let response = Response::ok()
            .header("Session", format!("{id};timeout={timeout}"))
            .header("Transport", transport.answer(stream, ssrc));
        Ok(response.into())
    }

    /// Frees capacity for one more session, if there is.
    fn new_session(&mut self, call: &Call<'_>, path: &str) -> Result<SessionId, Refusal> {
        let unavailable = |why: String| Refusal::new(Status::Unavailable, why);
        if self.sessions.len() >= self.limits.sessions {
            self.counters.refused_sessions += 1;
            return Err(unavailable(format!(
                "there are {} sessions already",
                self.sessions.len()
            )));
        }
        let party_of = |session: &&Session| party(session.peer) == party(call.peer.ip());
        let count = self.sessions.values().filter(party_of).count();
        if count >= self.limits.sessions_per_address {
            self.counters.refused_sessions_of_address += 1;
            return Err(unavailable(format!(
                "this address has {count} sessions already"
            )));
        }
        let id = SessionId(self.number()?);
        if self.sessions.contains_key(&id) {
            return Err(Refusal::new(Status::InternalError, "random numbers repeat"));
        }
        let session = Session::new(id, call.peer.ip(), call.connection, path, call.now_ns);
        self.sessions.insert(id, session);
        self.counters.sessions += 1;
        Ok(id)
    }

    fn number(&mut self) -> Result<u64, Refusal> {
        let none = || Refusal::new(Status::InternalError, "there are no random numbers");
        (self.random)().ok_or_else(none)
    }

    /// The session of a request that needs one, if it is of the presentation that the URL names.
    fn session_of(
        &mut self,
        id: Option<SessionId>,
        url: &Url<'_>,
    ) -> Result<&mut Session, Refusal> {
        let session = id.and_then(|id| self.sessions.get_mut(&id));
        let session = session.ok_or_else(|| no_session("SETUP comes first"))?;
        if session.path != url.path {
            let why = "the session is of another presentation";
            return Err(Refusal::new(Status::AggregateNotAllowed, why));
        }
        Ok(session)
    }

    fn play(
        &mut self,
        call: &Call<'_>,
        id: Option<SessionId>,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Result<Done, Refusal> {
        let url = presentation_url(call.request)?;
        let session = self.session_of(id, &url)?;
        let presentation = look_up(catalogue, &url)?;
        let range = call.request.header("Range").map(Range::parse);
        let range = range.transpose()?.unwrap_or_default();
        let range = range.within(&presentation)?;
        let starts = session.play(url.stream, range)?;
        let mut response = Response::ok();
        if call.request.header("Scale").is_some() {
            // Section 12.34: the answer says what was chosen instead.
            response = response.header("Scale", "1.0");
        }
        let played = Played {
            session: session.id,
            base: url.base.to_owned(),
            streams: starts.iter().map(|start| start.stream).collect(),
            until_ns: range.until_ns.or(presentation.duration_ns),
        };
        Ok(Done {
            response,
            actions: starts.into_iter().map(Action::Start).collect(),
            played: Some(played),
        })
    }

    fn pause(
        &mut self,
        call: &Call<'_>,
        id: Option<SessionId>,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Result<Done, Refusal> {
        let url = presentation_url(call.request)?;
        let session = self.session_of(id, &url)?;
        if !look_up(catalogue, &url)?.can_pause {
            return Err(not_allowed(
                "this media cannot be paused",
                METHODS_WITHOUT_PAUSE,
            ));
        }
        if call.request.header("Range").is_some() {
            let why = "Range: pausing at a place to come is not done here";
            return Err(Refusal::new(Status::NotImplemented, why));
        }
        let mut done = Done::from(Response::ok());
        done.actions = session.pause(url.stream)?;
        Ok(done)
    }

    fn tear_down(&mut self, call: &Call<'_>, id: Option<SessionId>) -> Result<Done, Refusal> {
        let url = presentation_url(call.request)?;
        let session = self.session_of(id, &url)?;
        let mut done = Done::from(Response::ok());
        done.actions = session.tear_down(url.stream);
        if session.is_empty() {
            let id = session.id;
            self.sessions.remove(&id);
        }
        Ok(done)
    }
}

/// GET_PARAMETER and SET_PARAMETER keep a session alive; parameters there are none.
fn parameters(request: &Request<'_>) -> Result<Done, Refusal> {
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Response::ok().into());
    }
    let why = "there are no parameters";
    Err(Refusal::new(Status::ParameterNotUnderstood, why))
}

fn presentation_url<'c>(request: &Request<'c>) -> Result<Url<'c>, Refusal> {
    if request.target == "*" {
        return Err(not_allowed(
            "it needs a URL",
            "OPTIONS, GET_PARAMETER, SET_PARAMETER",
        ));
    }
    Url::parse(request.target)
}

fn look_up(catalogue: &(impl Catalogue + ?Sized), url: &Url<'_>) -> Result<Presentation, Refusal> {
    let presentation = catalogue.describe(&url.path);
    presentation.ok_or_else(|| match catalogue.why_not_yet(&url.path) {
        Some(why) => Refusal::new(Status::Unavailable, why),
        None => Refusal::new(Status::NotFound, "there is nothing of that name"),
    })
}

/// Does the client answer ANNOUNCE, as it says itself?
fn takes_announce(request: &Request<'_>) -> bool {
    let methods = request.header("Public").unwrap_or_default();
    methods.split(',').any(|method| method.trim() == "ANNOUNCE")
}

/// live555, and so VLC, takes a description with RTP/AVPF for damaged, and never comes to set up
/// RTP/AVP instead.
fn refuses_feedback(request: &Request<'_>) -> bool {
    request
        .header("User-Agent")
        .is_some_and(|agent| agent.contains("LIVE555"))
}

fn leave_out_feedback(stream: &mut Stream) {
    stream.takes_nack = false;
    stream.retransmission = None;
}

/// Does an Accept header (RFC 2326, section 12.1, as HTTP/1.1's) allow SDP?
fn accepts_description(value: &str) -> bool {
    value.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let kinds = [DESCRIPTION_TYPE, "application/*", "*/*"];
        let fits = kinds.iter().any(|known| known.eq_ignore_ascii_case(kind));
        // A quality of 0, however many digits it has, means: not this.
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        fits && quality
            .is_none_or(|quality| quality.bytes().any(|byte| (b'1'..=b'9').contains(&byte)))
    })
}

fn no_session(why: &'static str) -> Refusal {
    Refusal::new(Status::SessionNotFound, why)
}

fn not_allowed(why: &'static str, allowed: &str) -> Refusal {
    Refusal::new(Status::MethodNotAllowed, why).with_header("Allow", allowed)
}
