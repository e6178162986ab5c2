//! The programme behind an RTSP server: what it notices of those who watch.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use hythe_media::rtsp::Answer;
use hythe_media::rtsp::server::{Media, Server, Sign};
use hythe_media::serve::{ChannelNews, Programme};
use hythe_media::source::OpenOptions;
use hythe_node::{Node, Pool, PoolOptions, Publisher, PublisherOptions, TrustPeers};
use hythe_rtp::rtsp::{Catalogue, Counters, Limits, Presentation, SessionId, Start};
use rustix::event::{EventfdFlags, eventfd};

/// Ends tests that have failed.
const BOUND: Duration = Duration::from_secs(120);

/// A pool in a directory of its own; it goes with the value.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Option<Self> {
        let root = PathBuf::from(format!(
            "/dev/shm/hythe-serving-{}-{name}",
            std::process::id()
        ));
        if let Err(error) = std::fs::create_dir(&root) {
            eprintln!("SKIPPED (no directory in /dev/shm: {error}): serving, {name}");
            return None;
        }
        Some(Self(root))
    }

    fn node(&self, name: &str) -> Node {
        let options = PoolOptions::new("test").root(&self.0).bytes(48 << 20);
        Node::join(&Pool::open_or_create(&options).unwrap(), name).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A programme whose signs the test sees, too.
struct Seen(Programme, Sender<Sign>);

impl Catalogue for Seen {
    fn describe(&self, path: &str) -> Option<Presentation> {
        self.0.describe(path)
    }

    fn why_not_yet(&self, path: &str) -> Option<String> {
        self.0.why_not_yet(path)
    }
}

impl Media for Seen {
    fn start(&mut self, start: &Start, answer: Answer) {
        self.0.start(start, answer);
    }

    fn pause(&mut self, session: SessionId, stream: usize) {
        self.0.pause(session, stream);
    }

    fn stop(&mut self, session: SessionId, stream: usize) {
        self.0.stop(session, stream);
    }

    fn look(&mut self, counters: &Counters) -> Vec<Sign> {
        let signs = self.0.look(counters);
        for sign in &signs {
            let _ = self.1.send(sign.clone()); // the test may be over
        }
        signs
    }
}

/// A minute of silence.
fn wav() -> Vec<u8> {
    let bytes = 60 * 16_000_u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(8000_u32.to_le_bytes());
    file.extend(16_000_u32.to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend(bytes.to_le_bytes());
    file.resize(44 + bytes as usize, 0);
    file
}

/// A player without keep-alives.
struct Client {
    control: TcpStream,
    rtcp: UdpSocket,
    _rtp: UdpSocket,
    session: String,
    url: String,
}

impl Client {
    /// Plays, with that header line in its SETUP.
    fn play(server: SocketAddr, path: &str, header: &str) -> Self {
        let control = TcpStream::connect(server).unwrap();
        control.set_read_timeout(Some(BOUND)).unwrap();
        let pair = (0..200).find_map(|_| {
            let rtp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let port = rtp.local_addr().unwrap().port();
            let rtcp = UdpSocket::bind(("127.0.0.1", port.checked_add(1)?)).ok()?;
            port.is_multiple_of(2).then_some((rtp, rtcp, port))
        });
        let (rtp, rtcp, port) = pair.unwrap();
        let mut client = Self {
            control,
            rtcp,
            _rtp: rtp,
            session: String::new(),
            url: format!("rtsp://{server}/{path}"),
        };
        let transport = format!(
            "Transport: RTP/AVP;unicast;client_port={port}-{}\r\n{header}",
            port + 1
        );
        let set_up = client.ask("SETUP", &transport);
        let value = |name: &str| {
            let behind = set_up.split_once(name).unwrap().1;
            behind.split([';', '\r']).next().unwrap().to_owned()
        };
        client.session = value("Session: ");
        let ports = value("server_port=");
        let to: u16 = ports.split_once('-').unwrap().1.parse().unwrap();
        client.rtcp.connect((server.ip(), to)).unwrap();
        client.ask("PLAY", "");
        client
    }

    fn ask(&mut self, method: &str, headers: &str) -> String {
        let answer = self.request(method, headers);
        assert!(answer.starts_with("RTSP/1.0 200"), "{method}: {answer}");
        answer
    }

    /// The answer to a request, with its body.
    fn request(&mut self, method: &str, headers: &str) -> String {
        let session = match &self.session[..] {
            "" => String::new(),
            session => format!("Session: {session}\r\n"),
        };
        let url = &self.url;
        let request = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{session}{headers}\r\n");
        self.control.write_all(request.as_bytes()).unwrap();
        self.message()
    }

    /// What the server sends next, with its body.
    fn message(&mut self) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.control.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        let mut answer = String::from_utf8(answer).unwrap();
        let length = answer.split_once("Content-Length: ").map(|(_, rest)| rest);
        let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.control.read_exact(&mut body).unwrap();
        answer += &String::from_utf8(body).unwrap();
        answer
    }

    /// Answers a request of the server.
    fn reply(&mut self) {
        let answer = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n";
        self.control.write_all(answer).unwrap();
    }

    /// Waits for an RTCP BYE.
    fn wait_for_goodbye(&self) {
        self.rtcp.set_read_timeout(Some(BOUND)).unwrap();
        loop {
            let mut datagram = [0; 2048];
            let bytes = self.rtcp.recv(&mut datagram).unwrap();
            let mut rest = &datagram[..bytes];
            while let [_, kind, high, low, ..] = *rest {
                if kind == 203 {
                    return;
                }
                let words = usize::from(u16::from_be_bytes([high, low]));
                rest = &rest[4 * words + 4..];
            }
        }
    }

    /// Sends an empty receiver report.
    fn report(&self) {
        self.rtcp.send(&[0x80, 201, 0, 1, 9, 9, 9, 9]).unwrap();
    }

    fn id(&self) -> SessionId {
        SessionId(u64::from_str_radix(&self.session, 16).unwrap())
    }
}

/// Ends the server, also when the test fails.
struct Ending<'e>(&'e OwnedFd);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let _ = rustix::io::write(self.0, &1_u64.to_ne_bytes());
    }
}

#[test]
fn receiver_reports_keep_a_session_alive() {
    let Some(place) = Place::new("reports") else {
        return;
    };
    let film = place.0.join("tone.wav");
    std::fs::write(&film, wav()).unwrap();
    let node = place.node("server");
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let mut programme = Programme::new(&node, trust, OpenOptions::default()).unwrap();
    programme.add_film("tone", &film).unwrap();
    let (sender, signs) = channel();
    let server = Server::bind(&["127.0.0.1:0".parse().unwrap()], Limits::default()).unwrap();
    let address = server.addresses()[0];
    let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut seen = Seen(programme, sender);
            server.run(&mut seen, stop.as_fd()).unwrap();
        });
        let _ending = Ending(stop);
        let silent = Client::play(address, "tone", "");
        let mut client = Client::play(address, "tone", "");
        for paused in [false, true] {
            if paused {
                client.ask("PAUSE", "");
            }
            client.report();
            let sign = signs.recv_timeout(BOUND).unwrap();
            assert_eq!(sign, Sign::Alive(client.id()), "not {:?}", silent.id());
        }
    });
}

/// A black picture of 16x16 by x264, and one of 32x16.
const SMALL: &[u8] =
    b"\0\0\0\x01\x67\x42\xc0\x0a\xdd\xec\x04\x40\0\0\x03\0\x40\0\0\x0c\x83\xc4\x89\xe0\
    \0\0\0\x01\x68\xce\x0f\x2c\x80\0\0\x01\x65\x88\x84\x04\xbc\x98\xa0\0\x38\xa3\x80";
const LARGE: &[u8] =
    b"\0\0\0\x01\x67\x42\xc0\x0a\xdc\xbb\x01\x10\0\0\x03\0\x10\0\0\x03\x03\x20\xf1\x22\x78\
    \0\0\0\x01\x68\xce\x0f\x2c\x80\0\0\x01\x65\x88\x84\x04\xbc\x98\xa0\0\x38\xa3\x27\x80";
/// Their sequence parameter sets in base64, as far as they differ.
const SMALL_SET: &str = "Z0LACt3s";
const LARGE_SET: &str = "Z0LACty7";

/// The version of the description in a message.
fn version_of(message: &str) -> u64 {
    let (_, origin) = message.split_once("\r\no=- ").unwrap();
    origin.split(' ').nth(1).unwrap().parse().unwrap()
}

/// What publishes on the channel.
struct Camera(Node, Publisher);

impl Camera {
    fn publish(&mut self, message: &[u8], times: usize) {
        for _ in 0..times {
            let mut lease = self.0.lease(message.len()).unwrap();
            lease.write(0, message);
            self.1.publish(lease, message.len()).unwrap();
        }
    }
}

/// The end of a session whose channel carries another format, and of one whose client takes
/// ANNOUNCE.
fn sees_another_format(mut client: Client, mut told: Client) {
    client.wait_for_goodbye();
    let ended = client.message();
    let reason = "Terminate-Reason: Server-Admin;user-msg=\"it carries something else";
    assert!(
        ended.starts_with("TEARDOWN rtsp://") && ended.contains(reason),
        "{ended}"
    );
    client.reply();
    let refused = client.request("PLAY", "Range: npt=now-\r\n");
    assert!(refused.starts_with("RTSP/1.0 454"), "{refused}");
    let announced = told.message();
    assert!(announced.starts_with("ANNOUNCE rtsp://"), "{announced}");
    assert!(announced.contains("L16/8000"), "{announced}");
    told.reply();
    // Its session lives on, and its stream is another one.
    let refused = told.request("PLAY", "Range: npt=now-\r\n");
    assert!(refused.starts_with("RTSP/1.0 503"), "{refused}");
}

#[test]
fn channel_is_described_as_what_it_carries_now() {
    let Some(place) = Place::new("changes") else {
        return;
    };
    let node = place.node("server");
    let camera = place.node("camera");
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let mut programme = Programme::new(&node, trust, OpenOptions::default()).unwrap();
    let (tell, news) = channel();
    let told = move |news: ChannelNews<'_>| {
        let news = match news {
            ChannelNews::Served(format) => format!("served as {}", format.encoding.name()),
            ChannelNews::Changed(format) => format!("changed to {}", format.parameters),
            other => format!("{other:?}"),
        };
        let _ = tell.send(news); // the test may be over
    };
    programme.add_channel("cam", "cam", told).unwrap();
    let publisher = camera.publisher("cam", &PublisherOptions::default());
    let mut camera = Camera(camera, publisher.unwrap());
    let (sender, _signs) = channel();
    let server = Server::bind(&["127.0.0.1:0".parse().unwrap()], Limits::default()).unwrap();
    let address = server.addresses()[0];
    let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut seen = Seen(programme, sender);
            server.run(&mut seen, stop.as_fd()).unwrap();
        });
        let _ending = Ending(stop);
        let heard = || news.recv_timeout(BOUND).unwrap();
        camera.publish(SMALL, 3);
        assert_eq!(heard(), "served as H264");
        let mut client = Client::play(address, "cam", "");
        let mut told = Client::play(address, "cam", "Public: OPTIONS, ANNOUNCE\r\n");
        let described = client.ask("DESCRIBE", "");
        assert!(described.contains(SMALL_SET));
        let version = version_of(&described);
        // Also long before its turn to be sent.
        camera.publish(SMALL, 100);
        camera.publish(LARGE, 3);
        let changed = heard();
        assert!(
            changed.starts_with("changed to ") && changed.contains(LARGE_SET),
            "{changed}"
        );
        let described = client.ask("DESCRIBE", "");
        assert!(
            described.contains(LARGE_SET) && !described.contains(SMALL_SET),
            "{described}"
        );
        assert!(version_of(&described) > version, "{described}");
        let announced = told.message();
        assert!(announced.starts_with("ANNOUNCE rtsp://"), "{announced}");
        assert!(announced.contains(LARGE_SET), "{announced}");
        assert_eq!(version_of(&announced), version_of(&described));
        told.reply();
        camera.publish(&wav()[..2044], 1);
        camera.publish(&[0; 1600], 3);
        assert_eq!(heard(), "Replaced");
        assert_eq!(heard(), "served as L16");
        sees_another_format(client, told);
        assert!(news.try_recv().is_err(), "all is said once");
    });
}
