//! The other side: opening `rtsp://…` to receive one stream of a presentation over UDP.
//!
//! `hythe media recv` describes, sets up with the ports that it listens on, plays, and keeps the session alive from a thread of its own
//! while it receives. Every wait is bounded; what a server sends is bounded and never trusted. Never here: packets of media,
//! authentication, RTP over the RTSP connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use url::Url;

use crate::MediaError;
use crate::sdp::{self, Listed, StreamDescription};

/// How long a server may take to connect, or to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Headers and body of an answer, at most.
const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 1 << 20;
const PORT: u16 = 554;
/// What a server that says nothing else allows (RFC 2326, section 12.37).
const SESSION_SECONDS: u64 = 60;

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    url: String,
    sequence: u32,
    session: Option<String>,
    session_seconds: u64,
}

/// How the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its host.
    pub host: IpAddr,
    /// Where it takes RTCP, if it said.
    pub rtcp: Option<SocketAddr>,
    /// The synchronisation source, if it said.
    pub ssrc: Option<u32>,
}

/// An answer, as far as it was asked for.
#[derive(Debug)]
struct Answer {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl Client {
    /// Connects to the server of `url`.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for an URL that is none, or a server that is not there.
    pub fn connect(url: &str) -> Result<Self, MediaError> {
        let failed = |reason: String| rtsp_error(url, reason);
        let parsed = Url::parse(url).map_err(|error| failed(error.to_string()))?;
        if parsed.scheme() != "rtsp" {
            return Err(failed(format!(
                "the scheme is {}, not rtsp",
                parsed.scheme()
            )));
        }
        if !parsed.username().is_empty() {
            return Err(failed(
                "servers that want a password are not supported".to_owned(),
            ));
        }
        let host = parsed
            .host_str()
            .ok_or_else(|| failed("it names no host".to_owned()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut addresses = (host, parsed.port().unwrap_or(PORT))
            .to_socket_addrs()
            .map_err(|error| failed(error.to_string()))?;
        let address = addresses
            .next()
            .ok_or_else(|| failed("the name has no address".to_owned()))?;
        let connected = TcpStream::connect_timeout(&address, PATIENCE).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        Ok(Self {
            stream: connected.map_err(|error| failed(format!("{address}: {error}")))?,
            url: url.to_owned(),
            sequence: 0,
            session: None,
            session_seconds: SESSION_SECONDS,
        })
    }

    /// The server's host, in whose address family media will come.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] if the connection is gone.
    pub fn host(&self) -> Result<IpAddr, MediaError> {
        Ok(self.peer()?.ip())
    }

    fn peer(&self) -> Result<SocketAddr, MediaError> {
        let peer = self.stream.peer_addr();
        peer.map_err(|error| self.error(error.to_string()))
    }

    /// All that the presentation consists of. Each stream's attribute `control` is its URL now.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for a refusal, or a description that is not understood.
    pub fn describe(&mut self) -> Result<Vec<Listed>, MediaError> {
        let url = self.url.clone();
        let answer = self.ask("DESCRIBE", &url, "Accept: application/sdp\r\n")?;
        let mut listed = sdp::list(&answer.body)
            .map_err(|reason| self.error(format!("its description: {reason}")))?;
        let base = answer
            .header("Content-Base")
            .or(answer.header("Content-Location"));
        let base = base.unwrap_or(&url).trim().trim_end_matches('/').to_owned();
        for stream in listed.iter_mut().filter_map(|one| one.stream.as_mut().ok()) {
            let control = stream
                .attributes
                .iter_mut()
                .find(|(name, _)| name == "control");
            let control = control.and_then(|(_, value)| value.as_mut());
            if let Some(control) = control.filter(|control| !control.starts_with("rtsp://")) {
                *control = match &control[..] {
                    "*" => base.clone(),
                    relative => format!("{base}/{relative}"),
                };
            }
        }
        Ok(listed)
    }

    /// Has a stream sent to `rtp_port` of this host, RTCP to the next one, from [`play`](Self::play) on.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for a refusal, or an answer without session or over another transport.
    pub fn set_up(
        &mut self,
        stream: &StreamDescription,
        rtp_port: u16,
    ) -> Result<Delivery, MediaError> {
        let control = stream.attributes.iter().find(|(name, _)| name == "control");
        let url = control
            .and_then(|(_, value)| value.clone())
            .unwrap_or_else(|| self.url.clone());
        let ports = format!("{rtp_port}-{}", u32::from(rtp_port) + 1);
        let profile = if stream.takes_nack {
            "RTP/AVPF"
        } else {
            "RTP/AVP"
        };
        let transport = format!("Transport: {profile};unicast;client_port={ports}\r\n");
        let answer = self.ask("SETUP", &url, &transport)?;
        let session = answer.header("Session").unwrap_or_default();
        let mut parts = session.split(';').map(str::trim);
        let id = parts.next().filter(|id| !id.is_empty() && id.len() <= 256);
        self.session = Some(
            id.ok_or_else(|| self.error("it gave no session".to_owned()))?
                .to_owned(),
        );
        let timeout = parts.find_map(|part| part.strip_prefix("timeout="));
        let seconds = timeout.and_then(|seconds| seconds.parse().ok());
        self.session_seconds = seconds.unwrap_or(SESSION_SECONDS).clamp(2, 3600);
        self.delivery(answer.header("Transport").unwrap_or_default())
    }

    fn delivery(&self, transport: &str) -> Result<Delivery, MediaError> {
        if !transport.starts_with("RTP/AVP") || transport.contains("interleaved") {
            return Err(self.error(format!("it answered with the transport `{transport}`")));
        }
        let value = |name: &str| {
            let mut parts = transport.split(';').map(str::trim);
            parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        // Only its own host: nobody has us send reports to somebody else.
        let peer = self.peer()?;
        let rtcp = value("server_port").and_then(|ports| {
            let (first, second) = ports.split_once('-').unwrap_or((ports, ""));
            let rtcp = second
                .parse()
                .ok()
                .or(first.parse::<u16>().ok()?.checked_add(1));
            let mut to = peer; // keeps the scope of a link-local address
            to.set_port(rtcp?);
            Some(to)
        });
        Ok(Delivery {
            host: peer.ip(),
            rtcp,
            ssrc: value("ssrc").and_then(|ssrc| u32::from_str_radix(ssrc.trim(), 16).ok()),
        })
    }

    /// Begins. The session is kept alive until the value returned is dropped, which ends it.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtsp`] for a refusal, [`MediaError::System`] if there is no thread to be had.
    pub fn play(mut self) -> Result<Playing, MediaError> {
        let url = self.url.clone();
        self.ask("PLAY", &url, "Range: npt=0.000-\r\n")?;
        let (stop, stopped) = channel::<()>();
        let apart = Duration::from_secs((self.session_seconds / 2).max(1));
        let named = thread::Builder::new().name("rtsp session".into());
        let keeping = named.spawn(move || {
            while stopped.recv_timeout(apart) == Err(RecvTimeoutError::Timeout) {
                if self.ask("GET_PARAMETER", &url, "").is_err() {
                    return; // The server went, and its goodbye or silence ends the stream.
                }
            }
            let _ = self.ask("TEARDOWN", &url, "");
        });
        let thread = keeping.map_err(|source| MediaError::System {
            what: "start a thread",
            source,
        })?;
        Ok(Playing {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// One request and its answer, which has to be 200.
    fn ask(&mut self, method: &str, url: &str, headers: &str) -> Result<Answer, MediaError> {
        self.sequence += 1;
        let session = self.session.as_ref().map(|id| format!("Session: {id}\r\n"));
        let request = format!(
            "{method} {url} RTSP/1.0\r\nCSeq: {}\r\nUser-Agent: hythe\r\n{}{headers}\r\n",
            self.sequence,
            session.unwrap_or_default()
        );
        let answered = self
            .stream
            .write_all(request.as_bytes())
            .and_then(|()| self.read_answer());
        let (status, answer) =
            answered.map_err(|error| self.error(format!("{method}: {error}")))?;
        if status.split(' ').nth(1) != Some("200") {
            return Err(self.error(format!("{method}: {status}")));
        }
        Ok(answer)
    }

    fn read_answer(&mut self) -> io::Result<(String, Answer)> {
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == HEAD_BYTES_MAX {
                return Err(bad("the answer's headers do not end"));
            }
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines();
        let status = lines.next().filter(|line| line.starts_with("RTSP/1."));
        let status = status.ok_or_else(|| bad("this is no RTSP"))?.to_owned();
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        });
        let mut answer = Answer {
            headers: headers.collect(),
            body: Vec::new(),
        };
        let length = answer.header("Content-Length").map_or(Ok(0), str::parse);
        let length: usize = length.map_err(|_| bad("its Content-Length is no number"))?;
        if length > BODY_BYTES_MAX {
            return Err(bad("its body is larger than 1 MiB"));
        }
        answer.body = vec![0; length];
        self.stream.read_exact(&mut answer.body)?;
        Ok((status, answer))
    }

    fn error(&self, reason: String) -> MediaError {
        rtsp_error(&self.url, reason)
    }
}

fn rtsp_error(url: &str, reason: String) -> MediaError {
    MediaError::Rtsp {
        url: url.to_owned(),
        reason,
    }
}

/// A session that is played. Dropped, it is torn down.
#[derive(Debug)]
pub struct Playing {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Playing {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It panics as little as anything here, and there would be nobody to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that gives these answers, one to each request.
    fn server(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("rtsp://{}/film", listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut requests = Vec::new();
            for answer in answers {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).is_err() {
                        return requests;
                    }
                    request.push(byte[0]);
                }
                requests.push(String::from_utf8(request).unwrap());
                let _ = stream.write_all(answer.as_bytes());
            }
            requests
        });
        (url, serving)
    }

    fn ok(headers: &str, body: &str) -> String {
        let length = body.len();
        format!("RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
    }

    const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
                       m=audio 0 RTP/AVP 0\r\na=control:track1\r\n";

    #[test]
    fn a_stream_is_described_set_up_played_and_torn_down() {
        let (url, serving) = server(vec![
            ok("Content-Base: rtsp://h/film/\r\n", SDP),
            ok(
                "Session: abc;timeout=60\r\nTransport: RTP/AVP;unicast;client_port=6000-6001;server_port=7000-7001;ssrc=0000002A\r\n",
                "",
            ),
            ok("", ""),
            ok("", ""),
        ]);
        let mut client = Client::connect(&url).unwrap();
        let streams = client.describe().unwrap();
        let stream = streams[0].stream.as_ref().unwrap();
        let delivery = client.set_up(stream, 6000).unwrap();
        assert_eq!(delivery.rtcp, Some("127.0.0.1:7001".parse().unwrap()));
        assert_eq!(delivery.ssrc, Some(42));
        drop(client.play().unwrap());
        let requests = serving.join().unwrap();
        let expected = [
            "DESCRIBE rtsp://127",
            "SETUP rtsp://h/film/track1 ",
            "PLAY ",
            "TEARDOWN ",
        ];
        for (request, expected) in requests.iter().zip(expected) {
            assert!(request.starts_with(expected), "{request}");
        }
        assert!(requests[1].contains("client_port=6000-6001"));
        assert!(requests[2].contains("Session: abc\r\n") && requests.len() == 4);
    }

    #[test]
    fn several_streams_are_set_up_in_one_session_and_played_at_once() {
        let picture = "m=video 0 RTP/AVP 33\r\na=control:rtsp://h/film/track2\r\n";
        let transport = |port: u16| {
            let header =
                format!("Session: abc\r\nTransport: RTP/AVP;unicast;server_port={port}\r\n");
            ok(&header, "")
        };
        let (url, serving) = server(vec![
            ok(
                "Content-Base: rtsp://h/film/\r\n",
                &(SDP.to_owned() + picture),
            ),
            transport(7000),
            transport(7002),
            ok("", ""),
            ok("", ""),
        ]);
        let mut client = Client::connect(&url).unwrap();
        let listed = client.describe().unwrap();
        for (one, port) in listed.iter().zip([6000, 6002]) {
            let stream = one.stream.as_ref().unwrap();
            let delivery = client.set_up(stream, port).unwrap();
            assert_eq!(delivery.rtcp.unwrap().port(), port + 1001);
        }
        drop(client.play().unwrap());
        let requests = serving.join().unwrap();
        assert!(requests[1].starts_with("SETUP rtsp://h/film/track1 "));
        assert!(!requests[1].contains("Session:"), "{}", requests[1]);
        assert!(requests[2].starts_with("SETUP rtsp://h/film/track2 "));
        assert!(requests[2].contains("Session: abc\r\n"), "{}", requests[2]);
        let played = requests
            .iter()
            .filter(|request| request.starts_with("PLAY "));
        assert_eq!((played.count(), requests.len()), (1, 5));
    }

    #[test]
    fn refusals_and_nonsense_are_errors_that_name_the_server() {
        for (answer, reason) in [
            ("RTSP/1.0 404 Not Found\r\n\r\n".to_owned(), "404 Not Found"),
            ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), "no RTSP"),
            (
                "RTSP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_owned(),
                "1 MiB",
            ),
            (
                "RTSP/1.0 200 OK\r\nContent-Length: x\r\n\r\n".to_owned(),
                "no number",
            ),
            ("x".repeat(HEAD_BYTES_MAX + 1), "do not end"),
            (ok("", "v=0\r\n"), "description"),
        ] {
            let (url, serving) = server(vec![answer]);
            let mut client = Client::connect(&url).unwrap();
            let error = client.describe().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(&url), "{error}");
            drop(client);
            serving.join().unwrap();
        }
    }

    #[test]
    fn urls_that_are_none_are_refused() {
        for (url, reason) in [
            ("film.sdp", "relative"),
            ("http://h/x", "the scheme is http"),
            ("rtsp://me:secret@h/x", "password"),
            ("rtsp://127.0.0.1:1/x", "127.0.0.1:1"),
        ] {
            let error = Client::connect(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
