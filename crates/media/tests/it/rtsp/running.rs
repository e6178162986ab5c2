//! A server on a thread of its own, the owner of its media, and clients that talk to it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hythe_media::MediaError;
use hythe_media::rtsp::Answer;
use hythe_media::rtsp::server::{Media, Server, Sign};
use hythe_rtp::rtsp::{Catalogue, Counters, Limits, Presentation, SessionId, Start, Started};
use hythe_testing::eventually;
use rustix::event::{EventfdFlags, eventfd};

use super::catalogue::TestCatalogue;

/// Ends tests that have failed.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Which streams are sent now, and how often something was started and stopped.
#[derive(Default)]
pub(crate) struct Playing {
    pub(crate) streams: BTreeMap<(SessionId, usize), Start>,
    pub(crate) starts: usize,
    pub(crate) pauses: usize,
    pub(crate) stops: usize,
    /// How often the owner was asked for signs, and whether it has one of everybody who plays.
    pub(crate) looks: usize,
    pub(crate) are_alive: bool,
    /// Answers that are not given yet, if starts are to be answered later.
    pub(crate) withheld: Option<Vec<Answer>>,
}

/// The owner of the media in tests: notes what plays, for whoever sends it.
pub(crate) struct Owner {
    pub(crate) catalogue: TestCatalogue,
    pub(crate) playing: Arc<Mutex<Playing>>,
    /// The numbers of what is started.
    pub(crate) started: Started,
}

impl Owner {
    pub(crate) fn new() -> Self {
        Self {
            catalogue: TestCatalogue::new(),
            playing: Arc::default(),
            started: super::fixture::STARTED,
        }
    }
}

impl Catalogue for Owner {
    fn describe(&self, path: &str) -> Option<Presentation> {
        self.catalogue.describe(path)
    }
}

impl Media for Owner {
    fn start(&mut self, start: &Start, answer: Answer) {
        let mut playing = self.playing.lock().unwrap();
        playing.starts += 1;
        let key = (start.session, start.stream);
        playing.streams.insert(key, start.clone());
        match playing.withheld.as_mut() {
            Some(withheld) => withheld.push(answer),
            None => answer.give(Ok(self.started)),
        }
    }

    fn pause(&mut self, session: SessionId, stream: usize) {
        let mut playing = self.playing.lock().unwrap();
        playing.pauses += 1;
        assert!(playing.streams.remove(&(session, stream)).is_some());
    }

    fn stop(&mut self, session: SessionId, stream: usize) {
        let mut playing = self.playing.lock().unwrap();
        playing.stops += 1;
        playing.streams.remove(&(session, stream));
    }

    fn look(&mut self, counters: &Counters) -> Vec<Sign> {
        let mut playing = self.playing.lock().unwrap();
        playing.looks += 1;
        assert!(playing.streams.is_empty() || counters.sessions > 0);
        let sessions = playing.streams.keys();
        let signs = sessions.map(|(session, _)| Sign::Alive(*session));
        signs.filter(|_| playing.are_alive).collect()
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) playing: Arc<Mutex<Playing>>,
    stop: Arc<OwnedFd>,
    thread: JoinHandle<Result<Counters, MediaError>>,
}

impl Running {
    pub(crate) fn start(host: &str, limits: Limits, mut owner: Owner) -> Self {
        let server = Server::bind(&[host.parse().unwrap()], limits).unwrap();
        let address = server.addresses()[0];
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let playing = Arc::clone(&owner.playing);
        let stop_there = Arc::clone(&stop);
        let thread = thread::spawn(move || server.run(&mut owner, stop_there.as_fd()));
        Self {
            address,
            playing,
            stop,
            thread,
        }
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Client { stream, reader }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("rtsp://{}/{path}", self.address)
    }

    /// Waits until it is so.
    pub(crate) fn until(&self, condition: impl Fn(&Playing) -> bool) {
        eventually("what the client plays", || {
            condition(&self.playing.lock().unwrap())
        });
    }

    pub(crate) fn stop(self) -> Counters {
        rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).unwrap();
        self.thread.join().unwrap().unwrap()
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn say(&mut self, method: &str, url: &str, headers: &[&str]) {
        let mut text = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next answer, without its body.
    pub(crate) fn hear(&mut self) -> String {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            assert_ne!(self.reader.read_line(&mut text).unwrap(), 0, "closed");
        }
        if let Some(length) = header(&text, "Content-Length") {
            let mut body = vec![0; length.parse().unwrap()];
            self.reader.read_exact(&mut body).unwrap();
        }
        text
    }

    pub(crate) fn ask(&mut self, method: &str, url: &str, headers: &[&str]) -> String {
        self.say(method, url, headers);
        let answer = self.hear();
        assert!(
            answer.starts_with("RTSP/1.0 200 OK\r\n"),
            "{method}: {answer}"
        );
        answer
    }

    /// SETUP of the presentation's one stream at `port`; the header line of its session.
    pub(crate) fn set_up(&mut self, url: &str, port: u16) -> String {
        let next = port + 1;
        let transport = format!("Transport: RTP/AVP;unicast;client_port={port}-{next}");
        let answer = self.ask("SETUP", url, &[&transport]);
        session(&answer)
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> String {
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        text
    }
}

pub(crate) fn session(answer: &str) -> String {
    let id = header(answer, "Session").unwrap();
    format!("Session: {}", id.split(';').next().unwrap())
}

pub(crate) fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = answer.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Sockets on an even port and the next one.
pub(crate) fn socket_pair(host: &str) -> (UdpSocket, UdpSocket) {
    let pair = (0..200).find_map(|_| {
        let socket = UdpSocket::bind((host, 0)).ok()?;
        let port = socket.local_addr().ok()?.port();
        let next = UdpSocket::bind((host, port.checked_add(1)?)).ok()?;
        port.is_multiple_of(2).then_some((socket, next))
    });
    let (rtp, rtcp) = pair.unwrap();
    rtp.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    (rtp, rtcp)
}
