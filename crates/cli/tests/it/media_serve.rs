//! `hythe media serve`, watched by ffmpeg: films by several clients at once, a channel by all
//! together.
//!
//! Skipped aloud where there is no ffmpeg or no shared memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{BOUND, Root, Running};
use hythe_testing::{eventually, let_time_pass};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// A third of a second at 8 kHz.
const PROMPT_SAMPLES: i16 = 8000 / 3;

/// A WAV file of samples that tell where they stand.
fn wav() -> Vec<u8> {
    let data: Vec<u8> = (0..PROMPT_SAMPLES)
        .flat_map(|sample| (sample * 11).to_le_bytes())
        .collect();
    let bytes = data.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(8000_u32.to_le_bytes());
    file.extend(16_000_u32.to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend(bytes.to_le_bytes());
    file.extend(data);
    file
}

fn has_ffmpeg() -> bool {
    let found = Command::new("ffmpeg")
        .arg("-version")
        .stdout(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("SKIPPED (no ffmpeg): watching what is served");
    }
    found.is_ok()
}

/// ffmpeg, which writes what it was sent as samples in network byte order.
fn watch(url: &str, out: &Path, seconds: Option<&str>) -> Running {
    let mut command = Command::new("ffmpeg");
    command.args([
        "-v",
        "error",
        "-nostdin",
        "-rtsp_transport",
        "udp",
        "-i",
        url,
    ]);
    command.args(seconds.map(|seconds| ["-t", seconds]).iter().flatten());
    command.args(["-c", "copy", "-f", "s16be", "-y"]).arg(out);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::new(command)
}

fn wait_for_port(port: u16) {
    eventually(&format!("a listener on {port}"), || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
}

fn samples(file: &Path) -> Vec<i16> {
    let bytes = std::fs::read(file).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|sample| i16::from_be_bytes(*sample))
        .collect()
}

#[test]
fn each_client_sees_a_film_from_its_beginning() {
    let Some(root) = Root::on_shared_memory("serving films").filter(|_| has_ffmpeg()) else {
        return;
    };
    std::fs::write(root.path().join("tone.wav"), wav()).unwrap();
    std::fs::write(root.path().join("notes.txt"), "nothing to hear").unwrap();
    let port = hythe_testing::reserve_ports(1);
    let (listen, folder) = (
        format!("127.0.0.1:{port}"),
        root.path().display().to_string(),
    );
    let server = root.start(&["media", "serve", &folder, "--listen", &listen]);
    wait_for_port(port);
    let url = format!("rtsp://{listen}/tone.wav");
    let outputs: Vec<PathBuf> = (0..3)
        .map(|client| root.path().join(format!("{client}.pcm")))
        .collect();
    let clients: Vec<Running> = outputs.iter().map(|out| watch(&url, out, None)).collect();
    for (client, out) in clients.into_iter().zip(&outputs) {
        let ended = client.end();
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        let expected: Vec<i16> = (0..PROMPT_SAMPLES).map(|sample| sample * 11).collect();
        assert_eq!(samples(out), expected);
    }
    server.interrupt();
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(ended.errors.contains("left out") && ended.errors.contains("notes.txt"));
    assert!(ended.text().contains("3 sessions"), "{}", ended.text());
}

#[test]
fn channel_is_watched_together_from_now_on() {
    let Some(root) = Root::on_shared_memory("serving a channel").filter(|_| has_ffmpeg()) else {
        return;
    };
    let port = hythe_testing::reserve_ports(1);
    let listen = format!("127.0.0.1:{port}");
    let server = root.start(&["media", "serve", "channel:microphone", "--listen", &listen]);
    eventually("the server subscribes", || {
        root.subscribers("microphone") > 0
    });
    // A WAV file without end, whose samples count up: a player that comes late hears from somewhere
    // on.
    let mut publishing = root.command(&["pub", "microphone", "--size", "1600"]);
    publishing.stdin(Stdio::piped());
    let mut publisher = Running::new(publishing);
    let mut microphone = publisher.child.stdin.take().unwrap();
    let speaking = std::thread::spawn(move || {
        let mut header = wav()[..44].to_vec();
        header[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut said = microphone.write_all(&header);
        let mut next = 0_i16;
        // Until nobody listens any more: twice as fast as it is played, so that nobody starves.
        while said.is_ok() {
            let block: Vec<u8> = (0..800)
                .flat_map(|_| {
                    next = next.wrapping_add(1);
                    next.to_le_bytes()
                })
                .collect();
            said = microphone.write_all(&block);
            let_time_pass(Duration::from_millis(50), "the pace of a microphone");
        }
    });
    server.wait_until_said("channel microphone is served from now on, as L16");
    let url = format!("rtsp://{listen}/microphone");
    let outputs = [root.path().join("a.pcm"), root.path().join("b.pcm")];
    let clients: Vec<Running> = outputs
        .iter()
        .map(|out| watch(&url, out, Some("1")))
        .collect();
    for (client, out) in clients.into_iter().zip(&outputs) {
        let ended = client.end();
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        let heard = samples(out);
        assert!(heard.len() >= 7000, "{}", heard.len());
        let counts_up = heard
            .windows(2)
            .all(|pair| pair[1] == pair[0].wrapping_add(1));
        assert!(counts_up, "samples are missing");
    }
    server.interrupt();
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    drop(publisher);
    speaking.join().unwrap();
}

#[test]
fn silent_or_malformed_channel_leaves_others_served() {
    let Some(root) = Root::on_shared_memory("serving beside a silent channel") else {
        return;
    };
    let film = root.path().join("tone.wav");
    std::fs::write(&film, wav()).unwrap();
    let film = film.display().to_string();
    let port = hythe_testing::reserve_ports(1);
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["media", "serve", &film, "channel:camera"];
    let server = root.start(&[&arguments[..], &["--listen", &listen]].concat());
    wait_for_port(port);
    let out = root.path().join("heard.wav").display().to_string();
    let [tone, camera, nothing] =
        ["tone.wav", "camera", "nothing"].map(|path| format!("rtsp://{listen}/{path}"));
    let receive = |url: &str| root.run(&["media", "recv", url, "--out", &out]);
    assert_eq!(receive(&tone).code, Some(0));
    receive(&camera).failed(1, &["503", &camera]);
    receive(&nothing).failed(1, &["404", &nothing]);
    assert!(
        server
            .said()
            .contains("channel camera is served from its first message on")
    );
    // More than is looked at to find out what it is.
    let nonsense = [b'x'; 256 << 10];
    let publish = ["pub", "camera", "--size", "4K"];
    root.feed(&publish, &nonsense);
    server.wait_until_said("channel camera is not served: channel:camera");
    server.wait_until_said("it is looked at again, with growing pauses");
    receive(&camera).failed(1, &["503", &camera]);
    assert_eq!(receive(&tone).code, Some(0));
    // Whoever publishes something else later is served.
    let header = [&wav()[..40], &u32::MAX.to_le_bytes()].concat();
    let stream = [header, vec![0; 64 << 10]].concat();
    let began = Instant::now();
    while !server
        .said()
        .contains("channel camera is served from now on, as L16")
    {
        assert!(began.elapsed() < BOUND, "{}", server.said());
        root.feed(&["pub", "camera", "--size", "4K"], &stream);
    }
    server.interrupt();
    server.end().succeeded();
}

/// A WAV file of so many seconds of silence.
fn silence(seconds: u32) -> Vec<u8> {
    let bytes = 16_000 * seconds;
    let mut file = wav()[..44].to_vec();
    file[4..8].copy_from_slice(&(36 + bytes).to_le_bytes());
    file[40..44].copy_from_slice(&bytes.to_le_bytes());
    file.resize(44 + bytes as usize, 0);
    file
}

#[test]
fn file_that_became_a_fifo_is_refused_and_nobody_else_notices() {
    let Some(root) = Root::on_shared_memory("serving beside a FIFO") else {
        return;
    };
    for name in ["tone.wav", "other.wav"] {
        std::fs::write(root.path().join(name), wav()).unwrap();
    }
    let (port, folder) = (
        hythe_testing::reserve_ports(1),
        root.path().display().to_string(),
    );
    let listen = format!("127.0.0.1:{port}");
    let server = root.start(&["media", "serve", &folder, "--listen", &listen]);
    // All files were looked at.
    server.wait_until_said(&format!("rtsp://{listen}/tone.wav"));
    let tone = root.path().join("tone.wav");
    std::fs::remove_file(&tone).unwrap();
    let made = Command::new("mkfifo").arg(&tone).status().unwrap();
    assert!(made.success());
    let mut client = Client::connect(port);
    let refused = client.try_play(&format!("rtsp://{listen}/tone.wav"), "RTP/AVP");
    assert!(refused.starts_with("RTSP/1.0 503"), "{refused}");
    assert!(refused.contains("a pipe, not a regular file"), "{refused}");
    let out = root.path().join("heard.wav").display().to_string();
    let other = format!("rtsp://{listen}/other.wav");
    assert_eq!(
        root.run(&["media", "recv", &other, "--out", &out]).code,
        Some(0)
    );
    server.interrupt();
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(
        ended.text().contains("refused: 1 PLAY\n"),
        "{}",
        ended.text()
    );
}

#[test]
fn client_with_hundreds_of_sessions_leaves_slots() {
    let Some(root) = Root::on_shared_memory("serving beside a greedy client") else {
        return;
    };
    std::fs::write(root.path().join("long.wav"), silence(120)).unwrap();
    let (port, folder) = (
        hythe_testing::reserve_ports(1),
        root.path().display().to_string(),
    );
    let listen = format!("127.0.0.1:{port}");
    let server = root.start(&["media", "serve", &folder, "--listen", &listen]);
    wait_for_port(port);
    let url = format!("rtsp://{listen}/long.wav");
    let mut greedy = Client::connect(port);
    let mut served = 0;
    for _ in 0..256 {
        served += u32::from(greedy.try_play(&url, "RTP/AVP").starts_with("RTSP/1.0 200"));
    }
    assert_eq!(served, 16);
    // Others, each with as many as it may have, until there is nothing left: who is told 200 gets
    // packets, whoever came before.
    let mut players = Vec::new();
    let mut refused = String::new();
    for host in 2..8 {
        for _ in 0..16 {
            let mut player = Client::connect_from([127, 0, 0, host], port);
            let answer = player.try_play(&url, "RTP/AVP");
            if answer.starts_with("RTSP/1.0 200") {
                players.push(player);
            } else {
                refused = answer;
            }
        }
    }
    assert!(players.len() >= 16, "{}: {refused}", players.len());
    assert!(refused.starts_with("RTSP/1.0 503"), "{refused}");
    assert!(refused.contains("no slots for one more"), "{refused}");
    for player in players.iter().chain([&greedy]) {
        assert!(!player.packet(97).is_empty());
    }
    server.interrupt();
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let lines = ended.errors.lines().count();
    assert!(lines < 40, "{lines} lines: {}", ended.errors);
}

#[test]
fn server_without_descriptors_refuses_clients() {
    let Some(root) = Root::on_shared_memory("serving with few descriptors") else {
        return;
    };
    std::fs::write(root.path().join("tone.wav"), wav()).unwrap();
    let (port, folder) = (
        hythe_testing::reserve_ports(1),
        root.path().display().to_string(),
    );
    let listen = format!("127.0.0.1:{port}");
    let program = root.command(&["media", "serve", &folder, "--listen", &listen, "--json"]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let server = Running::new(limited);
    wait_for_port(port);
    let url = format!("rtsp://{listen}/tone.wav");
    let mut clients: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    let answers: Vec<String> = clients
        .iter_mut()
        .map(|client| {
            client.set_read_timeout(Some(BOUND)).unwrap();
            let request = format!("OPTIONS {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n");
            let _ = client.write_all(request.as_bytes()); // refused already, it may be closed
            let mut status = [0; 12];
            client.read_exact(&mut status).unwrap();
            String::from_utf8_lossy(&status).into_owned()
        })
        .collect();
    let served = answers
        .iter()
        .filter(|text| *text == "RTSP/1.0 200")
        .count();
    let refused = answers
        .iter()
        .filter(|text| *text == "RTSP/1.0 503")
        .count();
    assert!(served >= 5 && served + refused == 100, "{answers:?}");
    drop(clients);
    // Then there is room again, and enough to play.
    let out = root.path().join("heard.wav").display().to_string();
    let began = Instant::now();
    while root.run(&["media", "recv", &url, "--out", &out]).code != Some(0) {
        assert!(began.elapsed() < BOUND, "nobody is served any more");
    }
    server.interrupt();
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let document: serde_json::Value = serde_json::from_str(&ended.text()).unwrap();
    let refusals = document["refused_connections"].as_u64().unwrap();
    assert!(refusals >= refused as u64, "{document}");
}

#[test]
fn names_are_printed_as_urls_that_can_be_opened() {
    let Some(root) = Root::on_shared_memory("serving odd names") else {
        return;
    };
    for name in ["50% of it?.wav", "#1 Straße.wav", "bell\u{7}.wav"] {
        std::fs::write(root.path().join(name), wav()).unwrap();
    }
    let (port, folder) = (
        hythe_testing::reserve_ports(1),
        root.path().display().to_string(),
    );
    let listen = format!("127.0.0.1:{port}");
    let server = root.start(&["media", "serve", &folder, "--listen", &listen, "--json"]);
    wait_for_port(port);
    let said = server.said();
    let out = root.path().join("heard.wav").display().to_string();
    for name in ["50%25%20of%20it%3F.wav", "%231%20Stra%C3%9Fe.wav"] {
        let url = format!("rtsp://{listen}/{name}");
        server.wait_until_said(&url);
        assert_eq!(
            root.run(&["media", "recv", &url, "--out", &out]).code,
            Some(0)
        );
    }
    assert!(!said.contains('\u{7}'), "{said}");
    server.interrupt();
    let ended = server.end();
    assert!(
        ended
            .errors
            .contains("bell\\u{7}.wav: its name has control"),
        "{}",
        ended.errors
    );
    let document: serde_json::Value = serde_json::from_str(&ended.text()).unwrap();
    assert_eq!(document["urls"].as_array().unwrap().len(), 2);
}

#[test]
fn help_says_who_can_play_what_is_served() {
    let root = Root::new();
    let help = root.ok(&["media", "serve", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in ["no authentication", "this host only", "127.0.0.1:8554"] {
        assert!(help.contains(text), "{text} in {help}");
    }
}

/// A client by hand: one connection, and ports of its own.
struct Client {
    stream: TcpStream,
    rtp: UdpSocket,
    rtcp: UdpSocket,
}

impl Client {
    fn connect(port: u16) -> Self {
        let own = support::streams::port();
        let [rtp, rtcp] = [own, own + 1].map(|port| {
            let socket = UdpSocket::bind(("127.0.0.1", port)).unwrap();
            socket.set_read_timeout(Some(BOUND)).unwrap();
            socket
        });
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        Self { stream, rtp, rtcp }
    }

    /// From another address of this host, with ports there that nobody else can have.
    fn connect_from(host: [u8; 4], port: u16) -> Self {
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&stream, &SocketAddr::from((host, 0))).unwrap();
        connect(&stream, &SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let stream = TcpStream::from(stream);
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let pair = (0..500).find_map(|_| {
            let rtp = UdpSocket::bind((IpAddr::from(host), 0)).ok()?;
            let own = rtp.local_addr().ok()?.port();
            let rtcp = UdpSocket::bind((IpAddr::from(host), own.checked_add(1)?)).ok()?;
            own.is_multiple_of(2).then_some((rtp, rtcp))
        });
        let (rtp, rtcp) = pair.unwrap();
        rtp.set_read_timeout(Some(BOUND)).unwrap();
        Self { stream, rtp, rtcp }
    }

    /// The answer, its body included.
    fn ask(&mut self, method: &str, url: &str, headers: &str) -> String {
        let request = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{headers}\r\n");
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut left = usize::MAX;
        while left > 0 {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
            left -= 1;
            if left > 1 << 20 && answer.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&answer);
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("Content-Length: "));
                left = length.map_or(0, |length| length.parse().unwrap());
            }
        }
        String::from_utf8(answer).unwrap()
    }

    /// Sets up and plays; the answer that refused it, or the last one.
    fn try_play(&mut self, url: &str, profile: &str) -> String {
        let answer = self.set_up(url, profile);
        let session = answer
            .lines()
            .find_map(|line| line.strip_prefix("Session: "));
        let Some(session) = session.and_then(|session| session.split(';').next()) else {
            return answer;
        };
        self.ask("PLAY", url, &format!("Session: {session}\r\n"))
    }

    fn set_up(&mut self, url: &str, profile: &str) -> String {
        let own = self.rtp.local_addr().unwrap().port();
        let transport = format!(
            "Transport: {profile};unicast;client_port={own}-{}\r\n",
            own + 1
        );
        self.ask("SETUP", &format!("{url}/stream=0"), &transport)
    }

    /// Sets up and plays, and returns how the server sends.
    fn play(&mut self, url: &str, profile: &str) -> String {
        let answer = self.set_up(url, profile);
        let header = |name: &str| {
            let found = answer.lines().find_map(|line| line.strip_prefix(name));
            found
                .unwrap_or_else(|| panic!("no {name} in {answer}"))
                .to_owned()
        };
        let (session, transport) = (header("Session: "), header("Transport: "));
        let session = session.split(';').next().unwrap();
        let played = self.ask("PLAY", url, &format!("Session: {session}\r\n"));
        assert!(played.starts_with("RTSP/1.0 200"), "{played}");
        transport
    }

    /// The next packet of a payload type.
    fn packet(&self, payload_type: u8) -> Vec<u8> {
        loop {
            let mut packet = vec![0; 2048];
            let bytes = self.rtp.recv(&mut packet).unwrap();
            packet.truncate(bytes);
            if packet[1] & 0x7f == payload_type {
                return packet;
            }
        }
    }
}

#[test]
fn server_offers_repair_to_clients_that_want_it() {
    let Some(root) = Root::on_shared_memory("repairing what is served") else {
        return;
    };
    std::fs::write(root.path().join("tone.wav"), wav()).unwrap();
    let port = hythe_testing::reserve_ports(1);
    let (listen, folder) = (
        format!("127.0.0.1:{port}"),
        root.path().display().to_string(),
    );
    let arguments = ["media", "serve", &folder, "--listen", &listen];
    let server = root.start(&[&arguments[..], &["--repair-window", "300"]].concat());
    wait_for_port(port);
    let url = format!("rtsp://{listen}/tone.wav");
    let mut client = Client::connect(port);
    let described = client.ask("DESCRIBE", &url, "");
    for line in [
        "m=audio 0 RTP/AVPF 97 98\r\n",
        "a=rtcp-fb:97 nack\r\n",
        "a=rtpmap:98 rtx/8000\r\n",
        "a=fmtp:98 apt=97;rtx-time=300\r\n",
    ] {
        assert!(described.contains(line), "{line} in {described}");
    }
    let transport = client.play(&url, "RTP/AVPF");
    assert!(transport.starts_with("RTP/AVPF;unicast"), "{transport}");
    // Asked for again, as RFC 4585 says, from the port that its reports come from.
    let first = client.packet(97);
    let mut request = vec![0x80, 201, 0, 1, 9, 9, 9, 9, 0x81, 205, 0, 3, 9, 9, 9, 9];
    request.extend(&first[8..12]);
    request.extend(&first[2..4]);
    request.extend([0, 0]);
    let ports = transport.split("server_port=").nth(1).unwrap();
    let ports = ports.split(';').next().unwrap();
    let rtcp: u16 = ports.split_once('-').unwrap().1.parse().unwrap();
    client.rtcp.send_to(&request, ("127.0.0.1", rtcp)).unwrap();
    let again = client.packet(98);
    // Its number in front of the same payload (RFC 4588, section 4).
    assert_eq!((&again[12..14], &again[14..]), (&first[2..4], &first[12..]));
    assert_ne!(again[8..12], first[8..12]);

    let mut plain = Client::connect(port);
    let transport = plain.play(&url, "RTP/AVP");
    assert!(transport.starts_with("RTP/AVP;unicast"), "{transport}");
    assert!(!plain.packet(97).is_empty());
    let out = root.path().join("heard.wav").display().to_string();
    let document = root.json(&["media", "recv", &url, "--out", &out]);
    assert_eq!(
        (document["delay_ns"].as_u64(), document["missing"].as_u64()),
        (Some(300_000_000), Some(0))
    );
    let heard = std::fs::read(&out).unwrap();
    assert_eq!(
        heard[heard.len() - 2 * PROMPT_SAMPLES as usize..],
        wav()[44..]
    );
    if has_ffmpeg() {
        let out = root.path().join("heard.pcm");
        watch(&url, &out, None).end().succeeded();
        assert_eq!(samples(&out).len(), PROMPT_SAMPLES as usize);
    }
    server.interrupt();
    server.end().succeeded();
    root.run(&["media", "serve", &folder, "--repair-window", "1"])
        .failed(2, &["--repair-window", "20..=10000"]);
}

#[test]
fn our_own_receiver_opens_what_we_serve() {
    let Some(root) = Root::on_shared_memory("receiving what is served") else {
        return;
    };
    std::fs::write(root.path().join("tone.wav"), wav()).unwrap();
    let port = hythe_testing::reserve_ports(1);
    let (listen, folder) = (
        format!("127.0.0.1:{port}"),
        root.path().display().to_string(),
    );
    let server = root.start(&["media", "serve", &folder, "--listen", &listen]);
    wait_for_port(port);
    let out = root.path().join("heard.wav").display().to_string();
    let url = format!("rtsp://{listen}/tone.wav");
    let document = root.json(&["media", "recv", &url, "--out", &out]);
    assert_eq!(
        (document["ended"].as_str(), document["lost"].as_u64()),
        (Some("goodbye"), Some(0))
    );
    let heard = std::fs::read(&out).unwrap();
    assert_eq!(
        heard[heard.len() - 2 * PROMPT_SAMPLES as usize..],
        wav()[44..]
    );
    let nothing = format!("rtsp://{listen}/nothing");
    let refused = root.run(&["media", "recv", &nothing, "--out", &out]);
    refused.failed(1, &["404", &nothing]);
    server.interrupt();
    server.end().succeeded();
}

#[test]
fn of_a_movie_with_sound_it_is_said_what_is_not_served() {
    let Some(root) = Root::on_shared_memory("serving a movie with sound").filter(|_| has_ffmpeg())
    else {
        return;
    };
    let film = root.path().join("film.mp4").display().to_string();
    support::streams::ffmpeg(&format!(
        "-f lavfi -i testsrc=size=64x64:rate=25:duration=0.4 -f lavfi -i sine=duration=0.4 \
         -c:v libx264 -preset ultrafast -c:a aac {film}"
    ));
    let port = hythe_testing::reserve_ports(1);
    let listen = format!("127.0.0.1:{port}");
    let server = root.start(&["media", "serve", &film, "--listen", &listen]);
    wait_for_port(port);
    let url = format!("rtsp://{listen}/film.mp4");
    let described = Client::connect(port).ask("DESCRIBE", &url, "");
    assert_eq!(described.matches("\r\nm=").count(), 1, "{described}");
    assert!(
        described.contains("a=rtpmap:96 H264/90000\r\n"),
        "{described}"
    );
    server.interrupt();
    let served = server.end();
    let sent = root.run(&["media", "send", &film, "--to", "rtp://127.0.0.1:19998"]);
    // Nobody listens there.
    for (ended, code) in [(served, 0), (sent, 1)] {
        assert_eq!(ended.code, Some(code), "{}", ended.errors);
        let said = format!("{film}: one stream of a file is sent; left out: sound (mp4a)");
        assert_eq!(ended.errors.matches(&said).count(), 1, "{}", ended.errors);
    }
}

#[test]
fn server_names_what_it_cannot_serve() {
    let Some(root) = Root::on_shared_memory("refusals of serving") else {
        return;
    };
    let notes = root.path().join("notes.txt");
    std::fs::write(&notes, "nothing to hear").unwrap();
    let notes = notes.display().to_string();
    let listen = ["--listen", "127.0.0.1:0"];
    let refused = root.run(&[&["media", "serve", &notes][..], &listen].concat());
    refused.failed(1, &["notes.txt", "no format"]);
    let refused = root.run(&[&["media", "serve", "/nowhere.ts"][..], &listen].concat());
    refused.failed(1, &["/nowhere.ts", "No such file"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    std::fs::write(root.path().join("tone.wav"), wav()).unwrap();
    let folder = root.path().display().to_string();
    let refused = root.run(&["media", "serve", &folder, "--listen", &address]);
    refused.failed(1, &["listen", &address]);
}

#[test]
fn conference_forwards_and_says_who_took_part() {
    let root = Root::new();
    let phones = [(); 2].map(|()| {
        loop {
            let phone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            if phone.local_addr().unwrap().port().is_multiple_of(2) {
                break phone;
            }
        }
    });
    let urls = phones
        .each_ref()
        .map(|phone| format!("rtp://{}", phone.local_addr().unwrap()));
    let port = hythe_testing::reserve_ports(2);
    let relay = root.start(&[
        "media",
        "serve",
        "--json",
        "--relay",
        &port.to_string(),
        "--participant",
        &urls[0],
        "--participant",
        &urls[1],
    ]);
    phones[1]
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let packet = [&[0x80, 0, 0, 1][..], &[0; 8], b"good morning"].concat();
    let mut heard = [0; 100];
    let began = Instant::now();
    // Until the relay is up.
    let length = loop {
        let _ = phones[0].send_to(&packet, ("127.0.0.1", port)); // refused as long as it is not
        if let Ok(length) = phones[1].recv(&mut heard) {
            break length;
        }
        assert!(began.elapsed() < BOUND, "nothing is forwarded");
    };
    assert_eq!(heard[..length], packet);
    relay.interrupt();
    let ended = relay.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let document: serde_json::Value = serde_json::from_str(&ended.text()).unwrap();
    let counts = |index: usize, name: &str| document["participants"][index][name].as_u64().unwrap();
    assert!(counts(0, "received") >= 1 && counts(1, "received") == 0);
    assert!(counts(1, "sent") >= 1 && counts(0, "sent") == 0);

    let refused = root.run(&[
        "media",
        "serve",
        "--relay",
        "5005",
        "--participant",
        &urls[0],
    ]);
    refused.failed(1, &["pair of UDP ports"]);
    root.run(&["media", "serve", "--relay", "5004"])
        .failed(2, &["--participant"]);
}
