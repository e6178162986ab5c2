//! The other side: opening `rtsp://…` to receive streams of a presentation over UDP.
//!
//! `hythe media recv` describes, sets up with the ports that it listens on, plays, and keeps the
//! session alive from a thread of its own while it receives. [`Dialogue`] knows what is asked and
//! what answers mean, and is handed bytes; here they are sent and received.
//!
//! What holds between calls: a request has its whole answer within a time that no server can
//! stretch, or its connection is given up; what a server sends is bounded and never trusted; a
//! session that was made is ended, also when its [`Client`] is dropped early.
//!
//! Never here: packets of media, authentication, redirects, RTP over the RTSP connection.

mod playing;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use url::Url;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::rtsp::client::{Answer, Delivery, Dialogue, PassedOver, ServerRequest};
use hythe_rtp::sdp::{self, Listed, StreamDescription};

use crate::MediaError;
use crate::address::{interface_index, is_of_one_link, without_zone};

pub use playing::{Account, Playing};

/// How long a server may take to connect, or to answer, first byte to last.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// How long the end of a session may take: nothing depends on its answer.
const TIME_LIMIT_AT_END: Duration = Duration::from_secs(1);
const PORT: u16 = 554;
/// Addresses of a name that are tried, at most.
const ADDRESSES_MAX: usize = 8;

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    /// `None` behind a failure, until the next request.
    stream: Option<TcpStream>,
    dialogue: Dialogue,
    /// As it was given, for errors.
    url: String,
    /// The server's end, and ours.
    peer: SocketAddr,
    time_limit: Duration,
    /// Formats of the streams that were set up.
    formats: Vec<StreamFormat>,
}

impl Client {
    /// Connects to the server of `url`. Names are looked up by the system, which has its own bounds
    /// (`resolv.conf`).
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for an URL that is none, or a server that is not there.
    pub fn connect(url: &str) -> Result<Self, MediaError> {
        Self::connect_within(url, TIME_LIMIT)
    }

    /// As [`connect`](Self::connect), to a link-local address on `interface`, if that is given. The
    /// URL may name it itself: `rtsp://[fe80::1%eth0]/film`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and for an interface that is not there or has nothing to do
    /// with the address.
    pub fn connect_on(url: &str, interface: Option<&str>) -> Result<Self, MediaError> {
        Self::begin(url, interface, TIME_LIMIT)
    }

    /// As [`connect`](Self::connect), with a server that has so much time to connect, and to answer
    /// each request.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_within(url: &str, time_limit: Duration) -> Result<Self, MediaError> {
        Self::begin(url, None, time_limit)
    }

    fn begin(url: &str, interface: Option<&str>, time_limit: Duration) -> Result<Self, MediaError> {
        let failed = |reason: String| rtsp_error(url, reason);
        let (plain, zone) = without_zone(url);
        let interface = match (zone.as_deref(), interface) {
            (Some(zone), Some(named)) if zone != named => {
                let reason = format!("two interfaces are named, {zone} and {named}");
                return Err(failed(reason));
            }
            (zone, named) => zone.or(named),
        };
        let mut parsed = Url::parse(&plain).map_err(|error| failed(error.to_string()))?;
        if parsed.scheme() != "rtsp" {
            let scheme = parsed.scheme();
            return Err(failed(format!("the scheme is {scheme}, not rtsp")));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            let reason = "servers that want a password are not supported";
            return Err(failed(reason.to_owned()));
        }
        parsed.set_fragment(None);
        let (stream, peer) = find(&parsed, interface, time_limit).map_err(failed)?;
        Ok(Self {
            stream: Some(stream),
            dialogue: Dialogue::new(parsed.as_str(), peer),
            url: url.to_owned(),
            peer,
            time_limit,
            formats: Vec::new(),
        })
    }

    /// The server's host, in whose address family media will come.
    #[must_use]
    pub fn host(&self) -> IpAddr {
        self.peer.ip()
    }

    /// All that the presentation consists of. Each stream's attribute `control` is its URL now.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for a refusal, or a description that is not understood.
    pub fn describe(&mut self) -> Result<Vec<Listed>, MediaError> {
        let request = self.dialogue.describe();
        let answer = self.ask("DESCRIBE", &request)?;
        let described = self.dialogue.described(&answer);
        described.map_err(|reason| self.error("DESCRIBE", &reason))
    }

    /// Has a stream sent to `rtp_port` of this host, RTCP to the next one, from
    /// [`play`](Self::play) on.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for a refusal, or an answer without session or over another transport.
    pub fn set_up(
        &mut self,
        stream: &StreamDescription,
        rtp_port: u16,
    ) -> Result<Delivery, MediaError> {
        let request = self.dialogue.set_up(stream, rtp_port);
        let answer = self.ask("SETUP", &request)?;
        let delivery = self.dialogue.is_set_up(&answer, rtp_port);
        self.formats.push(stream.format.clone());
        delivery.map_err(|reason| self.error("SETUP", &reason))
    }

    /// Begins. The session is kept alive until the value returned is dropped, which ends it.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for a refusal, [`MediaError::System`] if there is no thread to be had.
    pub fn play(mut self) -> Result<Playing, MediaError> {
        let request = self.dialogue.play();
        self.ask("PLAY", &request)?;
        Playing::begin(self)
    }

    /// What the server sent that answers nothing.
    #[must_use]
    pub fn passed_over(&self) -> PassedOver {
        self.dialogue.passed_over()
    }

    /// One request and its answer, which has to be 200.
    fn ask(&mut self, method: &str, request: &[u8]) -> Result<Answer, MediaError> {
        let answer = self.exchange(request, self.time_limit);
        let answer = answer.map_err(|reason| self.error(method, &reason))?;
        if !answer.is_ok() {
            return Err(self.error(method, &answer.refusal()));
        }
        Ok(answer)
    }

    /// One request and its answer. Behind a failure the connection is gone, because nobody knows
    /// what comes next on it.
    fn exchange(&mut self, request: &[u8], time_limit: Duration) -> Result<Answer, String> {
        let end = Instant::now() + time_limit;
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.dialogue.forget();
                connect(self.peer, end).map_err(|error| format!("{}: {error}", self.peer))?
            }
        };
        let sent = send(&mut stream, request, end);
        let answer =
            sent.and_then(|()| receive(&mut stream, &mut self.dialogue, time_limit, end))?;
        self.stream = Some(stream);
        Ok(answer)
    }

    /// Reads what the server sent by itself, once; `false`: nothing more is to be read before the
    /// next request, which finds out why.
    fn hear(&mut self) -> bool {
        let Some(stream) = &mut self.stream else {
            return false;
        };
        let mut buffer = [0; 16 << 10];
        match stream.read(&mut buffer) {
            Ok(0) => false,
            // An answer that comes late answers nothing.
            Ok(count) => self.dialogue.take(&buffer[..count]).is_ok(),
            Err(error) => error.kind() == ErrorKind::Interrupted,
        }
    }

    /// Answers what the server asked for; why the session is over, if one of them says so.
    fn answer_requests(&mut self) -> Option<String> {
        let mut over = None;
        while let Some(request) = self.dialogue.next_request() {
            if self.dialogue.is_ours(&request) {
                over = over.or_else(|| self.is_over(&request));
            }
            let reply = self.dialogue.reply(&request);
            let end = Instant::now() + self.time_limit;
            if let Some(stream) = &mut self.stream
                && send(stream, &reply, end).is_err()
            {
                self.stream = None;
            }
        }
        over
    }

    /// Why a session cannot go on, by a request of its server.
    fn is_over(&self, request: &ServerRequest) -> Option<String> {
        match &request.method[..] {
            "TEARDOWN" => Some(request.reason().unwrap_or_else(|| "no reason".to_owned())),
            "ANNOUNCE" => {
                let listed = sdp::list(&request.body).ok()?;
                let is_listed = |format: &StreamFormat| {
                    let mut streams = listed.iter().filter_map(|one| one.stream.as_ref().ok());
                    streams.any(|stream| is_same(&stream.format, format))
                };
                let gone = self.formats.iter().find(|format| !is_listed(format))?;
                Some(format!(
                    "it announces other streams than {} with payload type {}",
                    gone.encoding.name(),
                    gone.payload_type
                ))
            }
            _ => None,
        }
    }

    fn error(&self, method: &str, reason: &str) -> MediaError {
        rtsp_error(&self.url, format!("{method}: {reason}"))
    }
}

/// Are packets of both read in one way? Parameters may differ: they come with the pictures, too.
fn is_same(one: &StreamFormat, other: &StreamFormat) -> bool {
    let way = |format: &StreamFormat| {
        let StreamFormat {
            encoding,
            payload_type,
            clock_hz,
            channels,
            ..
        } = format;
        (*encoding, *payload_type, *clock_hz, *channels)
    };
    way(one) == way(other)
}

impl Drop for Client {
    /// Ends the session, if there is one.
    fn drop(&mut self) {
        if self.dialogue.has_session() {
            let request = self.dialogue.tear_down();
            // Whatever it answers: it is not asked again, and the session ends without a sign of
            // us.
            let _ = self.exchange(&request, TIME_LIMIT_AT_END.min(self.time_limit));
        }
    }
}

fn rtsp_error(url: &str, reason: String) -> MediaError {
    MediaError::Rtsp {
        url: url.to_owned(),
        reason,
    }
}

/// The first address of the URL's host where somebody listens.
fn find(
    url: &Url,
    interface: Option<&str>,
    time_limit: Duration,
) -> Result<(TcpStream, SocketAddr), String> {
    let end = Instant::now() + time_limit;
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err("it names no host".to_owned());
    }
    let addresses = (host, url.port().unwrap_or(PORT)).to_socket_addrs();
    let addresses = addresses.map_err(|error| error.to_string())?;
    let mut addresses: Vec<SocketAddr> = addresses.take(ADDRESSES_MAX).collect();
    if let Some(name) = interface {
        addresses = on_interface(&addresses, name)?;
    }
    let is_unscoped =
        |address: &SocketAddr| link_local(*address).is_some_and(|v6| v6.scope_id() == 0);
    if addresses.iter().all(is_unscoped) && !addresses.is_empty() {
        return Err(format!(
            "{host} is on one link only, and no interface is named: write [{host}%NAME], or say --interface NAME"
        ));
    }
    let mut refused = "the name has no address".to_owned();
    for (tried, address) in addresses.iter().enumerate() {
        // One that is silent leaves the others their share.
        let share =
            end.saturating_duration_since(Instant::now()) / (addresses.len() - tried) as u32;
        match connect(*address, Instant::now() + share) {
            Ok(stream) => return Ok((stream, *address)),
            Err(error) => refused = format!("{address}: {error}"),
        }
    }
    Err(refused)
}

/// The addresses that mean something on one link only, on that of `name`.
fn on_interface(addresses: &[SocketAddr], name: &str) -> Result<Vec<SocketAddr>, String> {
    let index = interface_index(name)?;
    let scoped = addresses.iter().filter_map(|address| {
        let mut address = link_local(*address)?;
        address.set_scope_id(index);
        Some(SocketAddr::V6(address))
    });
    let scoped: Vec<SocketAddr> = scoped.collect();
    if scoped.is_empty() {
        return Err(format!(
            "the interface {name} is named, which only a link-local address (fe80::...) needs: the routing table knows the others; leave it out"
        ));
    }
    Ok(scoped)
}

fn link_local(address: SocketAddr) -> Option<SocketAddrV6> {
    match address {
        SocketAddr::V6(address) if is_of_one_link(address.ip()) => Some(address),
        _ => None,
    }
}

fn connect(address: SocketAddr, end: Instant) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, left(end)?)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What is left of a wait.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Sockets say "would block" when a time-out is over.
fn is_over(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn send(stream: &mut TcpStream, request: &[u8], end: Instant) -> Result<(), String> {
    let mut rest = request;
    while !rest.is_empty() {
        let wrote = left(end).and_then(|left| {
            stream.set_write_timeout(Some(left))?;
            stream.write(rest)
        });
        match wrote {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_over(&error) => {
                let (count, of) = (request.len() - rest.len(), request.len());
                return Err(format!(
                    "it does not read: {count} of {of} bytes were sent in time"
                ));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn receive(
    stream: &mut TcpStream,
    dialogue: &mut Dialogue,
    time_limit: Duration,
    end: Instant,
) -> Result<Answer, String> {
    let mut buffer = [0; 16 << 10];
    // What came before it was asked for has its turn first.
    let mut count = 0;
    loop {
        if let Some(answer) = dialogue.take(&buffer[..count])? {
            return Ok(answer);
        }
        let read = left(end).and_then(|left| {
            stream.set_read_timeout(Some(left))?;
            stream.read(&mut buffer)
        });
        count = match read {
            Ok(0) => {
                return Err(match dialogue.unfinished() {
                    (0, _) => "it closed the connection without an answer".to_owned(),
                    (bytes, text) => format!(
                        "it closed the connection behind {bytes} bytes of an answer: `{text}`"
                    ),
                });
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) if is_over(&error) => {
                let seconds = time_limit.as_secs_f32();
                let (bytes, text) = dialogue.unfinished();
                return Err(format!(
                    "it did not answer within {seconds:.1} s; {bytes} bytes of an answer came: `{text}`"
                ));
            }
            Err(error) => return Err(error.to_string()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_are_none_are_refused() {
        for (url, reason) in [
            ("film.sdp", "relative"),
            ("http://h/x", "the scheme is http"),
            ("rtsp://me:secret@h/x", "password"),
            ("rtsp://:secret@h/x", "password"),
            ("rtsp:///x", "no host"),
            ("rtsp:x", "no host"),
            ("rtsp://127.0.0.1:1/x", "127.0.0.1:1"),
            ("rtsp://[fe80::1]:1/x", "no interface is named"),
            (
                "rtsp://[fe80::1%hythe-none]:1/x",
                "the interface hythe-none",
            ),
            ("rtsp://[::1%lo]:1/x", "only a link-local address"),
        ] {
            let error = Client::connect(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        for (url, interface, reason) in [
            ("rtsp://127.0.0.1:1/x", "lo", "only a link-local address"),
            ("rtsp://localhost:1/x", "lo", "leave it out"),
            (
                "rtsp://[fe80::1%eth0]:1/x",
                "lo",
                "two interfaces are named, eth0 and lo",
            ),
        ] {
            let refused = Client::connect_on(url, Some(interface));
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn link_local_addresses_are_those_of_an_interface() {
        let address: SocketAddr = "[fe80::1]:8554".parse().unwrap();
        let other = "[::1]:8554".parse().unwrap();
        let scoped = on_interface(&[other, address], "lo").unwrap();
        assert_eq!(scoped, ["[fe80::1%1]:8554".parse().unwrap()]);
    }
}
