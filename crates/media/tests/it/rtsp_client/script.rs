//! A server on this host that follows a script: what it says to each request, when, and when it
//! closes.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hythe_media::MediaError;
use hythe_media::rtsp::client::Client;
use hythe_testing::let_time_pass;

/// A script that is not followed for so long is at its end: a test fails instead of hanging.
const BOUND: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(2);

/// Video and audio of two URLs, one relative, one not.
pub(crate) const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
    m=audio 0 RTP/AVP 0\r\na=control:track1\r\nm=video 0 RTP/AVP 33\r\na=control:rtsp://h/film/track2\r\n";
pub(crate) const BASE: &str = "Content-Base: rtsp://h/film/\r\n";
/// To a client that listens on 6000.
pub(crate) const TRANSPORT: &str =
    "Transport: RTP/AVP;unicast;client_port=6000-6001;server_port=7000-7001;ssrc=0000002A\r\n";

/// What a server does next.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Reads a request.
    Hear,
    /// Writes these bytes, in which `NUMBER` stands for the number of the last request.
    Say(Vec<u8>),
    /// Writes them one by one, so far apart.
    Drip(Vec<u8>, Duration),
    /// Writes them over and over, so many times at the most.
    Repeat(Vec<u8>, usize),
    /// Ends the connection. Without it, the server hears on to its end.
    Close,
}

/// Hears, and answers.
pub(crate) fn answer(text: impl Into<Vec<u8>>) -> Vec<Act> {
    vec![Act::Hear, Act::Say(text.into())]
}

pub(crate) fn ok(headers: &str, body: &str) -> String {
    let length = body.len();
    format!("RTSP/1.0 200 OK\r\nCSeq: NUMBER\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
}

pub(crate) fn described() -> String {
    ok(BASE, SDP)
}

pub(crate) fn set_up() -> String {
    ok(&format!("Session: abc;timeout=2\r\n{TRANSPORT}"), "")
}

/// DESCRIBE, SETUP and PLAY, and what comes then.
pub(crate) fn played(then: impl IntoIterator<Item = Vec<Act>>) -> Vec<Act> {
    let begin = [answer(described()), answer(set_up()), answer(ok("", ""))];
    begin.into_iter().chain(then).flatten().collect()
}

pub(crate) struct Server {
    pub(crate) url: String,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Server {
    /// Follows a script for each connection, one behind the other.
    pub(crate) fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("rtsp://{}/film", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let until = Until {
            ended: Arc::clone(&ended),
            at: Instant::now() + BOUND,
        };
        let thread = thread::spawn(move || {
            let mut requests = Vec::new();
            for script in scripts {
                let Some(stream) = accept(&listener, &until) else {
                    break;
                };
                follow(stream, script, &mut requests, &until);
            }
            requests
        });
        Self { url, ended, thread }
    }

    /// Of one connection.
    pub(crate) fn of(script: Vec<Act>) -> Self {
        Self::start(vec![script])
    }

    /// A client that waits for `time_limit`.
    pub(crate) fn client(&self, time_limit: Duration) -> Client {
        Client::connect_within(&self.url, time_limit).unwrap()
    }

    /// What clients asked for. They are gone.
    pub(crate) fn requests(self) -> Vec<String> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// When nobody comes or says anything any more.
struct Until {
    ended: Arc<AtomicBool>,
    at: Instant,
}

impl Until {
    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || Instant::now() > self.at
    }
}

fn accept(listener: &TcpListener, until: &Until) -> Option<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(LOOK)).unwrap();
                stream.set_write_timeout(Some(BOUND)).unwrap();
                return Some(stream);
            }
            Err(_) if until.is_over() => return None,
            Err(_) => let_time_pass(LOOK, "the next poll for a client"),
        }
    }
}

/// Clients may be gone at any time.
fn follow(mut stream: TcpStream, script: Vec<Act>, requests: &mut Vec<String>, until: &Until) {
    let mut number = String::from("0");
    for act in script {
        let is_there = match act {
            Act::Close => return,
            Act::Hear => match hear(&mut stream, until) {
                Some(request) => {
                    let mut lines = request.lines();
                    let found = lines.find_map(|line| line.strip_prefix("CSeq: "));
                    number = found.unwrap_or("0").to_owned();
                    requests.push(request);
                    true
                }
                None => false,
            },
            Act::Say(bytes) => stream.write_all(&numbered(bytes, &number)).is_ok(),
            Act::Drip(bytes, apart) => numbered(bytes, &number).iter().all(|byte| {
                let_time_pass(apart, "bytes come slowly");
                stream.write_all(&[*byte]).is_ok()
            }),
            Act::Repeat(bytes, times) => {
                let bytes = numbered(bytes, &number);
                (0..times).all(|_| stream.write_all(&bytes).is_ok())
            }
        };
        if !is_there {
            return;
        }
    }
    while let Some(request) = hear(&mut stream, until) {
        requests.push(request);
    }
}

/// `bytes` may be no text.
fn numbered(bytes: Vec<u8>, number: &str) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => text.replace("NUMBER", number).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

fn hear(stream: &mut TcpStream, until: &Until) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => request.push(byte[0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if until.is_over() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(String::from_utf8(request).unwrap())
}

/// Checks several servers at once: most of the time is waiting.
pub(crate) fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| check(case));
        }
    });
}

/// What a client says when it could not go on.
pub(crate) fn told<T: std::fmt::Debug>(result: Result<T, MediaError>, url: &str) -> String {
    let told = result.unwrap_err().to_string();
    assert!(told.starts_with(&format!("{url}: ")), "{told}");
    assert!(
        told.len() < 1000 && !told.contains(char::is_control),
        "{told:?}"
    );
    told
}
