//! What a client asks a server for, and what the answers mean: no connection, no clock.
//!
//! The owner of the connection sends what the functions named like methods return, and hands what
//! comes to [`Dialogue::take`] until that has the answer. Between calls at most one request is
//! without an answer. No word of a server gets into a request but visible characters, so that none
//! can add a header to it; media and reports are only ever exchanged with the host that answers.
//! URLs that it names are those of this host, whatever host stands in them: a server behind a
//! router that translates addresses names the private one.
//! Never here: sockets, waiting.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::Delivery;
use super::answer::{Answer, Inbox, Kind, OVER_TCP, PassedOver, ServerRequest};
use crate::rtsp::{message, transport};
use crate::sdp::{self, Listed, StreamDescription};
use crate::shown::{VALUE, shown, shown_bytes};

/// What may come in vain before an answer; a server that sends more of it is not worth reading.
const PASSED_BYTES_MAX: u64 = 256 << 10;
/// Requests of a server that wait, at most; more are not answered.
const REQUESTS_MAX: usize = 8;
/// Those that are answered, and those that say what becomes of a session.
const ANSWERED: &str = "OPTIONS, ANNOUNCE, TEARDOWN";
const NEWS: [&str; 2] = ["ANNOUNCE", "TEARDOWN"];
/// Of a URL or a session that a server names.
const URL_BYTES_MAX: usize = 2048;
const SESSION_BYTES_MAX: usize = 256;
/// What a server that says nothing else allows (RFC 2326, section 12.37), and what is believed of
/// those that do.
const SESSION_SECONDS: u32 = 60;
const SESSION_SECONDS_MAX: u32 = 3600;

/// One client's side of the talk.
#[derive(Debug)]
pub struct Dialogue {
    /// Of the presentation: visible characters.
    url: String,
    peer: SocketAddr,
    sequence: u32,
    session: Option<String>,
    session_seconds: u32,
    inbox: Inbox,
    /// Of the server, and not taken yet.
    requests: VecDeque<ServerRequest>,
    passed: PassedOver,
    /// Of `passed`, what came since the last request.
    passed_before: u64,
    /// Of requests that say what becomes of the session, since the last request.
    news_bytes: u64,
    /// The server knows no GET_PARAMETER.
    asks_options: bool,
}

impl Dialogue {
    /// About the presentation `url` (`rtsp://HOST...`) with the server at `peer`.
    ///
    /// # Panics
    ///
    /// If `url` has another scheme, or other than visible characters.
    #[must_use]
    pub fn new(url: &str, peer: SocketAddr) -> Self {
        assert!(is_absolute(url) && is_visible(url), "{url:?} is no URL");
        Self {
            url: url.to_owned(),
            peer,
            sequence: 0,
            session: None,
            session_seconds: SESSION_SECONDS,
            inbox: Inbox::default(),
            requests: VecDeque::new(),
            passed: PassedOver::default(),
            passed_before: 0,
            news_bytes: 0,
            asks_options: false,
        }
    }

    /// DESCRIBE, for [`described`](Self::described).
    pub fn describe(&mut self) -> Vec<u8> {
        self.request("DESCRIBE", &self.url.clone(), "Accept: application/sdp\r\n")
    }

    /// SETUP of a stream that [`described`](Self::described) returned, to `rtp_port` and the next
    /// one, for [`is_set_up`](Self::is_set_up).
    pub fn set_up(&mut self, stream: &StreamDescription, rtp_port: u16) -> Vec<u8> {
        let control = stream.attributes.iter().find(|(name, _)| name == "control");
        let control = control.and_then(|(_, value)| value.clone());
        // Whoever did not get the stream from here: a URL, or none.
        let url = control.filter(|url| is_visible(url));
        let url = url.unwrap_or_else(|| self.url.clone());
        let ports = format!("{rtp_port}-{}", u32::from(rtp_port) + 1);
        let profile = if stream.takes_nack || stream.has_avpf {
            "RTP/AVPF"
        } else {
            "RTP/AVP"
        };
        let transport =
            format!("Transport: {profile};unicast;client_port={ports}\r\nPublic: {ANSWERED}\r\n");
        self.request("SETUP", &url, &transport)
    }

    /// PLAY, from the beginning.
    pub fn play(&mut self) -> Vec<u8> {
        self.request("PLAY", &self.url.clone(), "Range: npt=0.000-\r\n")
    }

    /// GET_PARAMETER, or OPTIONS for servers that do not know that.
    pub fn keep_alive(&mut self) -> (&'static str, Vec<u8>) {
        let method = if self.asks_options {
            "OPTIONS"
        } else {
            "GET_PARAMETER"
        };
        (method, self.request(method, &self.url.clone(), ""))
    }

    /// TEARDOWN. Nothing is asked for in this session any more.
    pub fn tear_down(&mut self) -> Vec<u8> {
        let request = self.request("TEARDOWN", &self.url.clone(), "");
        self.session = None;
        request
    }

    fn request(&mut self, method: &str, url: &str, headers: &str) -> Vec<u8> {
        self.sequence += 1;
        (self.passed_before, self.news_bytes) = (self.passed.bytes, 0);
        let session = self.session.as_ref().map(|id| format!("Session: {id}\r\n"));
        let request = format!(
            "{method} {url} RTSP/1.0\r\nCSeq: {}\r\nUser-Agent: hythe\r\n{}{headers}\r\n",
            self.sequence,
            session.unwrap_or_default()
        );
        request.into_bytes()
    }

    /// Takes bytes that came, and returns the answer to the last request once it is whole.
    ///
    /// # Errors
    ///
    /// What is wrong. Nothing behind it is understood: [`forget`](Self::forget) it, and connect
    /// again.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Answer>, String> {
        self.inbox.push(bytes);
        while let Some(message) = self.inbox.next()? {
            match message.kind {
                Kind::Answer(answer) if self.is_awaited(&answer)? => return Ok(Some(answer)),
                Kind::Answer(_) => self.passed.answers += 1,
                Kind::Request(request) => {
                    let is_news = NEWS.contains(&&request.method[..]) && self.is_ours(&request);
                    if self.requests.len() < REQUESTS_MAX {
                        self.requests.push_back(request);
                    }
                    if is_news {
                        self.news_bytes += message.bytes as u64;
                        self.in_vain()?;
                        continue;
                    }
                    self.passed.requests += 1;
                }
                Kind::Frame => self.passed.frames += 1,
                Kind::LineBreak => {}
            }
            self.passed.bytes += message.bytes as u64;
            self.in_vain()?;
        }
        Ok(None)
    }

    /// Refuses more than may come in vain.
    fn in_vain(&self) -> Result<(), String> {
        let in_vain = self.passed.bytes - self.passed_before + self.news_bytes;
        match in_vain > PASSED_BYTES_MAX {
            true => Err(format!("it sent {in_vain} bytes that answer nothing")),
            false => Ok(()),
        }
    }

    /// The next request of the server that came, to be [answered](Self::reply).
    pub fn next_request(&mut self) -> Option<ServerRequest> {
        self.requests.pop_front()
    }

    /// Is a request about the session that there is?
    #[must_use]
    pub fn is_ours(&self, request: &ServerRequest) -> bool {
        let named = request.header("Session").unwrap_or_default();
        let named = named.split(';').next().unwrap_or_default().trim();
        self.session.as_deref() == Some(named)
    }

    /// The answer to a request of the server. A TEARDOWN ends the session.
    pub fn reply(&mut self, request: &ServerRequest) -> Vec<u8> {
        let number = request.header("CSeq").and_then(message::decimal);
        let number = number.map_or_else(String::new, |number| format!("CSeq: {number}\r\n"));
        let line = match &request.method[..] {
            "TEARDOWN" | "ANNOUNCE" if !self.is_ours(request) => "454 Session Not Found",
            "OPTIONS" | "TEARDOWN" | "ANNOUNCE" => "200 OK",
            _ => "501 Not Implemented",
        };
        if request.method == "TEARDOWN" && self.is_ours(request) {
            self.session = None;
        }
        format!("RTSP/1.0 {line}\r\n{number}Public: {ANSWERED}\r\n\r\n").into_bytes()
    }

    /// Is it the one to the last request? An earlier one may come late.
    fn is_awaited(&self, answer: &Answer) -> Result<bool, String> {
        let awaited = self.sequence;
        // Servers that could not read a request leave out its number.
        let number = answer.header("CSeq").map(|text| {
            let number = message::decimal(text).filter(|number| *number <= awaited);
            number.ok_or_else(|| {
                format!(
                    "it answers request `{}` (CSeq), not {awaited}",
                    shown(text, VALUE)
                )
            })
        });
        let number = number.transpose()?.unwrap_or(awaited);
        Ok(number == awaited && answer.status >= 200)
    }

    /// Of what came and is no answer yet: how many bytes, and how they begin.
    #[must_use]
    pub fn unfinished(&self) -> (usize, String) {
        let waiting = self.inbox.waiting();
        (waiting.len(), shown_bytes(waiting))
    }

    /// The connection is another one: what came on the last one is void.
    pub fn forget(&mut self) {
        self.inbox = Inbox::default();
    }

    /// What was passed over so far.
    #[must_use]
    pub fn passed_over(&self) -> PassedOver {
        self.passed
    }

    /// How long the server keeps the session without a sign of us.
    #[must_use]
    pub fn session_time(&self) -> Duration {
        Duration::from_secs(self.session_seconds.into())
    }

    /// Is there a session to end?
    #[must_use]
    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// A refused keep-alive: the next one is by the method that every server has. Is that another
    /// one?
    pub fn knows_no_parameters(&mut self) -> bool {
        !std::mem::replace(&mut self.asks_options, true)
    }

    /// What the presentation consists of, by the answer to DESCRIBE. Each stream's attribute
    /// `control` is its URL now; a stream whose URL is none is not understood.
    ///
    /// # Errors
    ///
    /// What is wrong with the description as a whole.
    pub fn described(&self, answer: &Answer) -> Result<Vec<Listed>, String> {
        let kind = answer.header("Content-Type").unwrap_or("application/sdp");
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/sdp") {
            let kind = shown(kind, VALUE);
            return Err(format!("it describes as `{kind}`, not as application/sdp"));
        }
        let mut listed =
            sdp::list(&answer.body).map_err(|reason| format!("its description: {reason}"))?;
        let base = self.base(answer);
        let base = base.trim_end_matches('/');
        for one in &mut listed {
            if let Ok(stream) = &mut one.stream
                && let Err(reason) = self.resolve(stream, base)
            {
                one.stream = Err(reason);
            }
        }
        Ok(listed)
    }

    /// What relative URLs of a description begin with: as the answer says, if that is a URL or a
    /// path, else as the presentation was asked for.
    fn base(&self, answer: &Answer) -> String {
        let named = ["Content-Base", "Content-Location"];
        let named = named.iter().find_map(|name| answer.header(name));
        match named {
            Some(url) if is_url(url) => self.at_this_host(url),
            Some(path) if path.starts_with('/') && is_visible(path) => {
                format!("{}{path}", self.host())
            }
            _ => self.url.clone(),
        }
    }

    /// The presentation's URL up to its path.
    fn host(&self) -> &str {
        &self.url[..path_at(&self.url)]
    }

    /// A URL of the server that is asked, whatever host it names.
    fn at_this_host(&self, url: &str) -> String {
        format!("{}{}", self.host(), &url[path_at(url)..])
    }

    /// Makes `control` a URL.
    fn resolve(&self, stream: &mut StreamDescription, base: &str) -> Result<(), String> {
        let mut attributes = stream.attributes.iter_mut();
        let control = attributes.find(|(name, _)| name == "control");
        let Some(control) = control.and_then(|(_, value)| value.as_mut()) else {
            return Ok(());
        };
        let url = match &control[..] {
            "*" => base.to_owned(),
            url if is_absolute(url) => self.at_this_host(url),
            // As other players join them, where there are two slashes.
            relative => format!("{base}/{}", relative.trim_start_matches('/')),
        };
        if !is_url(&url) {
            let (control, bytes) = (shown(control, VALUE), url.len());
            return Err(format!(
                "its URL has {bytes} bytes or other than visible characters: a=control:{control}"
            ));
        }
        *control = url;
        Ok(())
    }

    /// How a stream will be sent, by the answer to SETUP with `rtp_port`.
    ///
    /// # Errors
    ///
    /// What is wrong: no session, another one than before, another transport than asked for.
    pub fn is_set_up(&mut self, answer: &Answer, rtp_port: u16) -> Result<Delivery, String> {
        let named = answer.header("Session").unwrap_or_default();
        let mut parts = named.split(';').map(str::trim);
        let id = parts.next().unwrap_or_default();
        if id.is_empty() {
            return Err("it gave no session".to_owned());
        }
        if id.len() > SESSION_BYTES_MAX || !is_visible(id) {
            let (id, bytes) = (shown(id, VALUE), id.len());
            return Err(format!(
                "it gave a session of {bytes} bytes: `{id}`; up to {SESSION_BYTES_MAX} visible characters are taken"
            ));
        }
        if let Some(known) = self.session.as_ref().filter(|known| *known != id) {
            let id = shown(id, VALUE);
            return Err(format!("it gave the session `{id}`, but this is `{known}`"));
        }
        self.session = Some(id.to_owned());
        let timeout = parts.find_map(|part| part.strip_prefix("timeout="));
        let seconds = timeout.and_then(message::decimal);
        self.session_seconds = seconds
            .unwrap_or(SESSION_SECONDS)
            .clamp(1, SESSION_SECONDS_MAX);
        self.delivery(answer.header("Transport").unwrap_or_default(), rtp_port)
    }

    fn delivery(&self, header: &str, rtp_port: u16) -> Result<Delivery, String> {
        let wrong = |what: &str| {
            let header = shown(header, VALUE);
            Err(format!("it answered with the transport `{header}`: {what}"))
        };
        let mut ways = transport::split(header, ',');
        let mut parts = ways.next().unwrap_or_default().split(';').map(str::trim);
        let profile = parts.next().unwrap_or_default();
        let mut known = transport::PROFILES.iter();
        if ways.next().is_some() || !known.any(|known| known.eq_ignore_ascii_case(profile)) {
            return wrong(&format!("only RTP over UDP is received; {OVER_TCP}"));
        }
        let named: Vec<(&str, &str)> = parts
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .collect();
        let value = |name: &str| {
            let mut named = named.iter();
            let found = named.find(|(found, _)| found.trim().eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().trim_matches('"'))
        };
        if value("interleaved").is_some() || value("multicast").is_some() {
            return wrong(&format!("unicast over UDP was asked for; {OVER_TCP}"));
        }
        let pair = |name| value(name).map(|text| (text, ports(text)));
        if let Some((_, found)) = pair("client_port")
            && found.is_none_or(|(rtp, _)| rtp != rtp_port)
        {
            return wrong(&format!("port {rtp_port} was asked for"));
        }
        // Only its own host: nobody has us send reports to somebody else.
        let rtcp = match pair("server_port") {
            None => None,
            Some((_, Some((_, rtcp)))) => {
                let mut to = self.peer; // keeps the scope of a link-local address
                to.set_port(rtcp);
                Some(to)
            }
            Some((text, None)) => {
                let text = shown(text, VALUE);
                return wrong(&format!("server_port is no pair of ports: `{text}`"));
            }
        };
        Ok(Delivery {
            host: self.peer.ip(),
            rtcp,
            ssrc: value("ssrc").and_then(hexadecimal),
        })
    }
}

/// Two ports, or one and the next.
fn ports(text: &str) -> Option<(u16, u16)> {
    let port = |text| transport::port(text).filter(|port| *port > 0);
    match text.split_once('-') {
        Some((first, second)) => Some((port(first)?, port(second)?)),
        None => port(text).and_then(|first| Some((first, first.checked_add(1)?))),
    }
}

fn hexadecimal(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(text, 16).ok())?
}

fn is_absolute(url: &str) -> bool {
    let scheme = url.as_bytes().get(.."rtsp://".len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"rtsp://"))
}

/// Where the path of an absolute URL begins, or its query.
fn path_at(url: &str) -> usize {
    let scheme = "rtsp://".len().min(url.len());
    let end = url[scheme..].find(['/', '?', '#']);
    end.map_or(url.len(), |end| scheme + end)
}

/// Visible characters cannot end a word or a line of a request.
fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_url(text: &str) -> bool {
    is_absolute(text) && is_visible(text) && text.len() <= URL_BYTES_MAX
}
