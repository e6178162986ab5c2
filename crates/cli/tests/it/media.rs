//! `hythe media send` and `recv` to each other over loopback: everything that can be sent, from
//! everywhere, and what is refused.
//!
//! Inputs are made by ffmpeg; skipped aloud where there is none, or no shared memory.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::thread;

use crate::support::streams::{
    self, H264, Kind, L16, MediaFixture, PCMU, SAMPLES, Sample, TS, assert_same, content, document,
};
use crate::support::{BOUND, Root, Running, eventually};
use rustix::process::Signal;
use serde_json::Value;

/// Sends a sample and receives it; what is compared of the file that came of it.
fn crosses(fixture: &MediaFixture, sample: &Sample, options: &[&str]) -> Vec<u8> {
    let name = sample.name;
    let input = fixture.make(sample);
    let options = [sample.options, options].concat();
    let port = streams::port();
    let sdp = fixture.describe(&input, &options, port);
    let out = fixture.file(&format!("{port}.out"));
    let receiver = fixture.receiver(&sdp, port, &out);
    let sent = fixture.send_with(&input, port, &options);
    let received = document(&receiver.end());
    assert_eq!(received["ended"], "goodbye", "{name}: {received}");
    assert_eq!(sent["packets"], received["packets"], "{name}: {received}");
    assert_eq!(sent["payload"], received["payload"], "{name}: {received}");
    for count in ["lost", "late", "malformed", "foreign", "kernel_drops"] {
        assert_eq!(received[count], 0, "{name}: {count} in {received}");
    }
    assert_eq!((&sent["lost"], &sent["damaged"]), (&0.into(), &0.into()));
    let [destination] = &sent["destinations"].as_array().expect("a list")[..] else {
        panic!("one destination in {sent}");
    };
    assert_eq!(destination["address"], format!("127.0.0.1:{port}"));
    assert_eq!(destination["packets"], sent["packets"]);
    assert_eq!(destination["state"], "reachable", "{name}");
    assert!(sent["spacing"]["p99_ns"].is_u64(), "{sent}");
    content(received_as(sample.kind), &out)
}

/// What our receiver makes of it: telephone audio becomes a WAV file of linear samples.
fn received_as(kind: Kind) -> Kind {
    match kind {
        Kind::RawSamples(..) => Kind::Samples,
        other => other,
    }
}

#[test]
fn every_payload_arrives_as_it_was() {
    let Some(fixture) = MediaFixture::new("every payload over loopback") else {
        return;
    };
    thread::scope(|scope| {
        for sample in &SAMPLES {
            let fixture = &fixture;
            scope.spawn(move || {
                let received = crosses(fixture, sample, &[]);
                let source = content(sample.kind, &fixture.file(sample.name));
                assert_same(sample.name, &received, &source);
            });
        }
    });
    fixture.is_clean();
}

#[test]
fn every_way_of_sending_carries_the_same_bytes() {
    let Some(fixture) = MediaFixture::new("every way of sending over loopback") else {
        return;
    };
    let source = fs::read(fixture.make(&TS)).expect("made");
    thread::scope(|scope| {
        for method in ["sendfile-gso", "gso", "sendmmsg", "sendto"] {
            let (fixture, source) = (&fixture, &source);
            scope.spawn(move || {
                let received = crosses(fixture, &TS, &["--method", method, "--pace", "8M"]);
                assert_same(method, &received, source);
            });
        }
    });
    fixture.is_clean();
}

#[test]
fn standard_input_is_sent_as_it_comes() {
    let Some(fixture) = MediaFixture::new("standard input over loopback") else {
        return;
    };
    for sample in [&TS, &H264] {
        let input = fixture.make(sample);
        let port = streams::port();
        let sdp = fixture.describe(&input, &[], port);
        let out = fixture.file(&format!("{port}.out"));
        let receiver = fixture.receiver(&sdp, port, &out);
        let to = format!("rtp://127.0.0.1:{port}");
        let bytes = fs::read(&input).expect("made");
        let sent = fixture
            .root
            .feed(&["media", "send", "-", "--to", &to, "--json"], &bytes);
        assert_eq!(document(&sent)["input"], "-");
        document(&receiver.end());
        let source = content(sample.kind, &input);
        assert_same(sample.name, &content(sample.kind, &out), &source);
    }
    fixture.is_clean();
}

/// A file goes through a pool of the command alone.
#[test]
fn sending_a_file_leaves_nothing_in_memory() {
    let Some(fixture) = MediaFixture::new("a private pool") else {
        return;
    };
    let root = &fixture.root;
    let input = fixture.make(&PCMU);
    let port = streams::port();
    // Somebody has to be there: else the sender says that nobody received it.
    let _receiver = UdpSocket::bind(("127.0.0.1", port)).expect("reserved");
    let to = format!("rtp://127.0.0.1:{port}");
    let once = ["media", "send", &input, "--to", &to, "--pace", "max"];
    let once = [&once, PCMU.options].concat();
    let for_ever = [&once[..5], &["--loop", "0"], PCMU.options].concat();
    let ended = root.run(&once);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(!ended.errors.contains("made pool"), "{}", ended.errors);
    assert!(root.traces().is_empty(), "{:?}", root.traces());
    let started = |number: usize| {
        let sender = root.start(&for_ever);
        eventually("it has a pool, and sends from it", || {
            let regions = root.traces();
            let is_wire = |path: &&PathBuf| path.ends_with("region.1");
            regions.iter().filter(is_wire).count() == number
        });
        sender
    };
    for signal in [Signal::INT, Signal::TERM] {
        let sender = started(1);
        sender.signal(signal);
        sender.end().succeeded();
        assert!(root.traces().is_empty(), "{signal:?}: {:?}", root.traces());
    }
    // What a killed one left goes with the next start, and what a living one has stays.
    let killed = started(1);
    let living = started(2);
    killed.signal(Signal::KILL);
    assert_eq!(killed.end().code, None);
    assert_eq!(root.hidden().len(), 2, "{:?}", root.hidden());
    assert_eq!(root.run(&once).code, Some(0));
    assert_eq!(root.hidden().len(), 1, "{:?}", root.hidden());
    living.interrupt();
    living.end().succeeded();
    assert!(root.traces().is_empty(), "{:?}", root.traces());
    // Unless a pool is named.
    root.ok(&["pool", "create", "--size", "16M"]);
    let named = root.run(&[&once[..], &["--pool", "default"]].concat());
    assert_eq!(named.code, Some(0), "{}", named.errors);
    assert_eq!(root.json(&["pool", "show"])["tables"][0]["highest"], 1);
}

#[test]
fn channel_is_sent_and_another_filled() {
    let Some(fixture) = MediaFixture::new("channels over loopback") else {
        return;
    };
    let root = &fixture.root;
    let input = fixture.make(&PCMU);
    let port = streams::port();
    let sdp = fixture.describe(&input, PCMU.options, port);
    let filled = subscribed(root, "heard");
    let receiver = root.start(&["media", "recv", &sdp, "--channel", "heard", "--json"]);
    streams::wait_until_listening(port);
    let to = format!("rtp://127.0.0.1:{port}");
    let arguments = ["media", "send", "channel:spoken", "--to", &to, "--json"];
    let sender = root.start(&[&arguments, PCMU.options].concat());
    eventually("the sender subscribes", || root.subscribers("spoken") == 1);
    root.ok(&["pub", "spoken", &input, "--size", "1600"]);
    // 8,000 samples in packets of 160, ten from each message; each becomes a message.
    let filled = filled.end();
    assert_eq!(filled.code, Some(0), "{}", filled.errors);
    assert_same("samples", &filled.output, &fs::read(&input).expect("made"));
    sender.interrupt();
    assert_eq!(document(&sender.end())["packets"], 50);
    let received = document(&receiver.end());
    assert_eq!(received["ended"], "goodbye");
    // Each where the kernel wrote it.
    let channel = &received["channel"];
    assert_eq!(
        (&channel["in_place"], &channel["copied"]),
        (&50.into(), &0.into())
    );
    fixture.is_clean();
}

#[test]
fn receiver_that_is_killed_leaves_nothing_held() {
    let Some(fixture) = MediaFixture::new("a receiver that is killed") else {
        return;
    };
    let root = &fixture.root;
    // Received into slots, and put together in them.
    for sample in [&PCMU, &H264] {
        let input = fixture.make(sample);
        let port = streams::port();
        let sdp = fixture.describe(&input, sample.options, port);
        let counting = ["sub", "heard", "--timeout", "100", "--raw", "--count"];
        let first = root.start(&[&counting[..], &["20"]].concat());
        let other = root.start(&[&counting[..], &["1000000"]].concat());
        eventually("they subscribe", || root.subscribers("heard") == 2);
        let receiver = root.start(&["media", "recv", &sdp, "--channel", "heard"]);
        streams::wait_until_listening(port);
        let to = format!("rtp://127.0.0.1:{port}");
        let arguments = ["media", "send", &input, "--to", &to, "--loop", "0"];
        let sender = root.start(&[&arguments, sample.options].concat());
        // It is in the middle of the stream.
        first.end().succeeded();
        receiver.signal(Signal::KILL);
        assert_eq!(receiver.end().code, None);
        sender.interrupt();
        other.interrupt();
        // Where it was told before the signal that nobody listens any more, it says so.
        let sender = sender.end();
        if sender.code != Some(0) {
            sender.failed_naming(1, &["nobody listens there"]);
        }
        other.end();
        fixture.is_clean();
    }
}

/// A subscriber that takes 50 messages.
fn subscribed(root: &Root, channel: &str) -> Running {
    let running = root.start(&["sub", channel, "--count", "50", "--timeout", "100", "--raw"]);
    eventually("it subscribes", || root.subscribers(channel) == 1);
    running
}

#[test]
fn playlist_and_a_loop_play_on_without_a_gap() {
    let Some(fixture) = MediaFixture::new("playlists over loopback") else {
        return;
    };
    let wav = fixture.make(&Sample {
        name: "short.wav",
        made_by: "-f lavfi -i sine=duration=0.31 -ar 8000 -c:a pcm_s16le",
        ..L16
    });
    let once = content(Kind::Samples, &wav);
    let directory = fixture.file("playlist");
    fs::create_dir(&directory).expect("fresh");
    for name in ["1.wav", "2.wav"] {
        fs::copy(&wav, format!("{directory}/{name}")).expect("copied");
    }
    thread::scope(|scope| {
        for (input, plays, times) in [(&directory, "2", 4), (&wav, "3", 3)] {
            let (fixture, once) = (&fixture, &once);
            scope.spawn(move || {
                let port = streams::port();
                let options = ["--loop", plays];
                let sdp = fixture.describe(input, &options, port);
                let out = fixture.file(&format!("{port}.wav"));
                let receiver = fixture.receiver(&sdp, port, &out);
                fixture.send_with(input, port, &options);
                document(&receiver.end());
                let received = content(Kind::Samples, &out);
                assert_same(input, &received, &once.repeat(times));
            });
        }
    });
    fixture.is_clean();
}

#[test]
fn destinations_come_and_go_while_the_others_hear_everything() {
    let Some(fixture) = MediaFixture::new("changing destinations over loopback") else {
        return;
    };
    // Noise: no part of it is like another.
    let input = fixture.make(&Sample {
        name: "noise.ulaw",
        made_by: "-f lavfi -i anoisesrc=duration=3:seed=7 -ar 8000 -f mulaw",
        ..PCMU
    });
    let stays = streams::port();
    let visitor = Visitor::new();
    let [one, both] = [vec![stays], vec![stays, visitor.port]].map(|ports| {
        let lines = ports.iter().map(|port| format!("rtp://127.0.0.1:{port}\n"));
        format!("# players\n\n{}", lines.collect::<String>())
    });
    let list = fixture.file("destinations");
    fs::write(&list, &one).expect("written");
    let sdp = fixture.describe(&input, PCMU.options, stays);
    let out = fixture.file(&format!("{stays}.wav"));
    let stayed = fixture.receiver(&sdp, stays, &out);
    fixture.root.ok(&["pool", "create", "--size", "16M"]);
    // In a pool that can be looked at.
    let arguments = [
        "--to-file",
        &list,
        "--loop",
        "0",
        "--json",
        "--pool",
        "default",
    ];
    let arguments = [&["media", "send", &input][..], &arguments].concat();
    let sender = fixture.root.start(&[&arguments, PCMU.options].concat());
    let members = || fixture.root.json(&["pool", "show"])["tables"][0]["used"].clone();
    // From then on SIGHUP is heard.
    eventually("it is in the pool", || members() == 1);
    let change = |text: &str, answer: &str| {
        fs::write(&list, text).expect("written");
        sender.signal(Signal::HUP);
        sender.wait_until_said(answer);
    };
    change(&both, "2 destinations");
    let mut heard = visitor.hear(10);
    change("nonsense", "line 1: nonsense");
    heard.extend(visitor.hear(10));
    change(&one, "1 destination\n");
    heard.extend(visitor.hear_what_waits());
    sender.interrupt();
    let sent = document(&sender.end());
    assert_eq!(document(&stayed.end())["packets"], sent["packets"]);
    assert!(visitor.hear_what_waits().is_empty(), "it was sent on");
    // One packet after the other, of the middle of what the other one heard.
    let numbers: Vec<u16> = heard.iter().map(|(number, _)| *number).collect();
    let follow = |pair: &[u16]| pair[1] == pair[0].wrapping_add(1);
    assert!(numbers.windows(2).all(follow), "{numbers:?}");
    let heard: Vec<u8> = heard.into_iter().flat_map(|(_, payload)| payload).collect();
    let noise = fs::read(&input).expect("made");
    let again = noise.repeat(2 + heard.len() / noise.len());
    let places = again[..noise.len() + heard.len() - 1].windows(heard.len());
    assert_eq!(places.filter(|place| *place == heard).count(), 1);
    let source = content(PCMU.kind, &input);
    let all = content(Kind::Samples, &out);
    let played = source.repeat(1 + all.len() / source.len());
    assert_same("who stays", &all, &played[..all.len()]);
    fixture.is_clean();
}

/// A player by hand.
struct Visitor {
    port: u16,
    rtp: UdpSocket,
    /// What comes there is not read.
    _rtcp: UdpSocket,
}

impl Visitor {
    fn new() -> Self {
        let port = streams::port();
        let [rtp, rtcp] =
            [port, port + 1].map(|port| UdpSocket::bind(("127.0.0.1", port)).expect("free"));
        rtp.set_read_timeout(Some(BOUND)).expect("a socket");
        Self {
            port,
            rtp,
            _rtcp: rtcp,
        }
    }

    /// The next packets: number and payload of each.
    fn hear(&self, packets: usize) -> Vec<(u16, Vec<u8>)> {
        let heard = (0..packets).map(|_| self.receive().expect("it is sent to"));
        heard.collect()
    }

    fn hear_what_waits(&self) -> Vec<(u16, Vec<u8>)> {
        self.rtp.set_nonblocking(true).expect("a socket");
        std::iter::from_fn(|| self.receive().ok()).collect()
    }

    fn receive(&self) -> std::io::Result<(u16, Vec<u8>)> {
        let mut packet = [0; 2048];
        let bytes = self.rtp.recv(&mut packet)?;
        assert!(bytes > 12, "a packet of {bytes} bytes");
        let number = u16::from_be_bytes([packet[2], packet[3]]);
        Ok((number, packet[12..bytes].to_vec()))
    }
}

#[test]
fn pool_that_cannot_lend_its_pages_is_sent_from_by_copying() {
    let left_out = "sending from a pool outside of shared memory";
    if MediaFixture::new(left_out).is_none() {
        return;
    }
    let root = Root::new();
    /// Of tmpfs, as linux/magic.h has it.
    const TMPFS: u64 = 0x0102_1994;
    let system = rustix::fs::statfs(root.path()).expect("a directory");
    if system.f_type as u64 == TMPFS {
        eprintln!("SKIPPED ({} is a tmpfs): {left_out}", root.path().display());
        return;
    }
    let fixture = MediaFixture { root };
    let input = fixture.make(&L16);
    let port = streams::port();
    let sdp = fixture.describe(&input, &[], port);
    let out = fixture.file("out.wav");
    let receiver = fixture.receiver(&sdp, port, &out);
    // So many that it would be worth while to lend.
    let mut arguments = vec!["media".to_owned(), "send".to_owned(), input.clone()];
    for port in std::iter::once(port).chain((1..16).map(|_| streams::port())) {
        arguments.extend(["--to".to_owned(), format!("rtp://127.0.0.1:{port}")]);
    }
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.push("--json");
    let sent = fixture.root.run(&arguments);
    let said = sent.errors.matches("copied when they are sent").count();
    assert_eq!(said, 1, "{}", sent.errors);
    assert!(sent.errors.contains("/dev/shm"), "{}", sent.errors);
    let sent = document(&sent);
    assert_eq!(sent["destinations"][0]["method"], "gso", "{sent}");
    assert_eq!(document(&receiver.end())["packets"], sent["packets"]);
    let source = content(L16.kind, &input);
    assert_same("samples", &content(L16.kind, &out), &source);
    arguments.extend(["--method", "sendfile-gso"]);
    let refused = fixture.root.run(&arguments);
    refused.failed(1, &["--method sendfile-gso", "tmpfs", "/dev/shm"]);
    fixture.is_clean();
}

/// Its entries are opened ahead of time: a bad one takes nothing from the good ones before it.
#[test]
fn bad_entry_of_a_playlist_is_named_and_the_others_are_sent() {
    let Some(fixture) = MediaFixture::new("bad entries of a playlist") else {
        return;
    };
    let good = fixture.make(&Sample {
        name: "good.wav",
        made_by: "-f lavfi -i sine=duration=2 -ar 8000 -c:a pcm_s16le",
        ..L16
    });
    let whole = fs::read(&good).expect("made");
    let header = whole.len() - 2 * 16_000;
    fs::write(fixture.file("empty.wav"), &whole[..header]).expect("written");
    let list = fixture.file("list.m3u");
    let names = "empty.wav\ngood.wav\ngone.wav\ngood.wav\n";
    fs::write(&list, names).expect("written");
    let port = streams::port();
    let sdp = fixture.describe(&good, &[], port);
    let out = fixture.file("out.wav");
    let receiver = fixture.receiver(&sdp, port, &out);
    let to = format!("rtp://127.0.0.1:{port}");
    let send = ["media", "send", &list, "--to", &to, "--json"];
    let sent = fixture.root.run(&send);
    assert_eq!(sent.code, Some(1), "{}", sent.errors);
    for part in [
        "empty.wav, byte",
        "holds no samples",
        "gone.wav: No such file",
        "list.m3u could not be sent whole: 2 parts passed over",
    ] {
        assert!(sent.errors.contains(part), "{part}: {}", sent.errors);
    }
    let said: Value = serde_json::from_slice(&sent.output).expect("one document");
    assert_eq!(said["skipped"], 2, "{said}");
    document(&receiver.end());
    let received = content(Kind::Samples, &out);
    assert_same(
        "out.wav",
        &received,
        &content(Kind::Samples, &good).repeat(2),
    );
    fixture.is_clean();
}

/// What is said to whom asked for what cannot be.
#[test]
fn what_cannot_be_sent_or_received_is_refused_by_name() {
    let Some(fixture) = MediaFixture::new("refusals") else {
        return;
    };
    let film = fixture.make(&TS);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(fixture.file(name), bytes).expect("written");
        fixture.file(name)
    };
    let garbage = write("garbage", b"neither sound nor picture");
    let empty = write("empty", b"");
    let movie = fs::read(fixture.make(&streams::H264_MOVIE)).expect("made");
    let cut = write("cut.mp4", &movie[..movie.len() / 2]);
    let lines = write("lines", b"rtp://127.0.0.1:6000\nrtp://nobody\n");
    let directory = fixture.file("nothing");
    fs::create_dir(&directory).expect("fresh");
    let nowhere = fixture.file("no/where");
    let to = ["--to", "rtp://127.0.0.1:19998"];
    let send = |input: &str, options: &[&str]| {
        let arguments = ["media", "send", input];
        fixture.root.run(&[&arguments, options].concat())
    };
    send(&nowhere, &to).failed(1, &["cannot read", "no/where", "No such file"]);
    send(&garbage, &to).failed(1, &["garbage, byte 0", "MPEG-TS", "say their format"]);
    send(&empty, &to).failed(1, &["empty, byte 0", "no format"]);
    send(&cut, &to).failed(1, &["cut.mp4, byte", "moov", "cut short"]);
    send(&directory, &to).failed(1, &["nothing", "no file is in it"]);
    send(&film, &[]).failed(2, &["--to <URL>"]);
    send(&film, &["--to", "udp://h:6000"]).failed(2, &["the scheme is udp", "rtp://HOST:PORT"]);
    send(&film, &["--to", "rtp://127.0.0.1:6001"]).failed(1, &["127.0.0.1:6001", "even port"]);
    send(&film, &["--to-file", &lines]).failed(1, &["line 2: rtp://nobody", "no port"]);
    send(&film, &["--to-file", &nowhere]).failed(1, &["cannot read", "no/where"]);
    let sdp = [&to[..], &["--sdp", &nowhere]].concat();
    send(&film, &sdp).failed(1, &["session description", "no/where"]);
    for (option, value, hint) in [
        ("--pace", "fast", "8M"),
        ("--raw", "pcmu", "l16:48000:2"),
        ("--frame-rate", "0", "30000/1001"),
        ("--method", "pigeon", "sendfile-gso"),
        ("--burst", "0", "1..=64"),
        ("--payload", "mp3", "pcmu"),
    ] {
        send(&film, &[&to[..], &[option, value]].concat()).failed(2, &[option, value, hint]);
    }
    let receive = |sdp: &str, options: &[&str]| {
        let arguments = ["media", "recv", sdp, "--idle", "20"];
        fixture.root.run(&[&arguments, options].concat())
    };
    let port = streams::port();
    let sdp = fixture.describe(&film, &[], port);
    let out = fixture.file("out.ts");
    let out = ["--out", &out[..]];
    receive(&nowhere, &out).failed(1, &["session description", "no/where"]);
    receive(&garbage, &out).failed(1, &["garbage", "line 1"]);
    receive(&sdp, &[]).failed(2, &["--out <FILE>"]);
    receive(&sdp, &["--out", &nowhere]).failed(1, &["cannot write", "no/where"]);
    let nosuch = ["--payload", "ts", "--interface", "hythe-none"];
    let group = format!("rtp://239.77.1.9:{port}");
    receive(&group, &[&out[..], &nosuch].concat())
        .failed(1, &["no network interface hythe-none", "ip link"]);
    let second = [&out[..], &["--stream", "2"]].concat();
    receive(&sdp, &second).failed(1, &["has no stream 2", "stream 1: video, MP2T/90000"]);
    let _taken = UdpSocket::bind(("127.0.0.1", port)).expect("free");
    receive(&sdp, &out).failed(1, &[&port.to_string(), "taken by another program"]);
    fixture.is_clean();
}

/// Two ports that nobody else gets, and where datagrams of strangers are refused: each socket takes
/// those of its own port only.
fn refusing() -> (u16, [UdpSocket; 2]) {
    loop {
        let port = streams::port();
        let bind = |port| {
            let socket = UdpSocket::bind(("127.0.0.1", port)).ok()?;
            socket.connect(("127.0.0.1", port)).ok()?;
            Some(socket)
        };
        if let (Some(rtp), Some(rtcp)) = (bind(port), bind(port + 1)) {
            return (port, [rtp, rtcp]);
        }
    }
}

#[test]
fn what_nobody_received_or_could_not_be_read_whole_is_a_failure() {
    let Some(fixture) = MediaFixture::new("failures of sending") else {
        return;
    };
    let film = fixture.make(&TS);
    let (port, _sockets) = refusing();
    let to = format!("rtp://127.0.0.1:{port}");
    let ended = fixture
        .root
        .run(&["media", "send", &film, "--to", &to, "--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    assert!(
        ended.errors.contains("nobody received it"),
        "{}",
        ended.errors
    );
    let document: Value = serde_json::from_slice(&ended.output).expect("one document");
    assert!(document["packets"].as_u64() > Some(0), "{document}");
    assert_eq!(document["destinations"][0]["state"], "nobody listens there");

    // With somebody there, who says nothing: not known, and no failure.
    let visitor = Visitor::new();
    let heard = format!("rtp://127.0.0.1:{}", visitor.port);
    let both = ["media", "send", &film, "--to", &to, "--to", &heard];
    let ended = fixture.root.run(&both);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(ended.text().contains("not known"), "{}", ended.text());

    let mut bytes = fs::read(&film).expect("made");
    let cut = fixture.file("cut.ts");
    fs::write(&cut, &bytes[100..]).expect("own");
    let ended = fixture
        .root
        .run(&["media", "send", &cut, "--to", &heard, "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let sent: Value = serde_json::from_slice(&ended.output).expect("one document");
    let passed_over = (&sent["damaged"], &sent["skipped_at_start"]);
    assert_eq!(passed_over, (&0.into(), &88.into()));

    let middle = bytes.len() / 2;
    bytes[middle..middle + 2000].fill(0);
    let damaged = fixture.file("damaged.ts");
    fs::write(&damaged, bytes).expect("own");
    let ended = fixture
        .root
        .run(&["media", "send", &damaged, "--to", &heard, "--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    assert!(
        ended.errors.contains("could not be read whole"),
        "{}",
        ended.errors
    );
    let document: Value = serde_json::from_slice(&ended.output).expect("one document");
    assert!(document["damaged"].as_u64() > Some(0), "{document}");
}

#[test]
fn who_is_killed_leaves_nothing_behind() {
    let Some(fixture) = MediaFixture::new("killed senders") else {
        return;
    };
    let root = &fixture.root;
    let input = fixture.make(&TS);
    let port = streams::port();
    let sdp = fixture.describe(&input, &[], port);
    let out = fixture.file("out.ts");
    let receiver = fixture.receiver(&sdp, port, &out);
    let visitor = Visitor::new();
    let [to, also_to] = [port, visitor.port].map(|port| format!("rtp://127.0.0.1:{port}"));
    // Somebody who sees the death.
    let witness = subscribed(root, "other");
    let arguments = ["media", "send", &input, "--to", &to, "--to", &also_to];
    // In a pool that others share.
    let more = ["--loop", "0", "--pool", "default"];
    let sender = root.start(&[&arguments[..], &more].concat());
    let members = || root.json(&["pool", "show"])["tables"][0]["used"].clone();
    // The receiver was sent the first of them, too.
    visitor.hear(20);
    sender.signal(Signal::KILL);
    assert_eq!(sender.end().code, None);
    eventually("recovered", || members() == 1);
    witness.interrupt();
    witness.end();
    // Nobody says goodbye: interrupted, it completes its file.
    receiver.interrupt();
    let received = document(&receiver.end());
    assert_eq!(received["ended"], "stopped");
    let kept = fs::read(&out).expect("written");
    let source = fs::read(&input).expect("made");
    assert!(!kept.is_empty() && source.repeat(2).starts_with(&kept));
    fixture.is_clean();
}

#[test]
fn idle_receiver_reports_address_and_wait() {
    let Some(fixture) = MediaFixture::new("idle receivers") else {
        return;
    };
    let port = streams::port();
    let sdp = fixture.describe(&fixture.make(&TS), &[], port);
    let out = fixture.file("out.ts");
    let arguments = ["media", "recv", &sdp, "--out", &out, "--idle", "0.2"];
    let address = format!("127.0.0.1:{port}");
    for json in [&[][..], &["--json"]] {
        let ended = fixture.root.run(&[&arguments, json].concat());
        ended.failed(1, &["no packet", &sdp, &address, "0.2 s", "--idle"]);
    }
}

#[test]
fn address_is_received_from_without_a_description() {
    let Some(fixture) = MediaFixture::new("receiving from an address") else {
        return;
    };
    thread::scope(|scope| {
        for (sample, payload) in [(&TS, "ts"), (&H264, "h264"), (&PCMU, "pcmu")] {
            let fixture = &fixture;
            scope.spawn(move || {
                let (input, port) = (fixture.make(sample), streams::port());
                let (url, out) = (
                    format!("rtp://127.0.0.1:{port}"),
                    fixture.file(&format!("{port}.out")),
                );
                let receive = ["media", "recv", &url, "--payload", payload, "--out", &out];
                let receiver = fixture.root.start(&[&receive[..], &["--json"]].concat());
                streams::wait_until_listening(port);
                fixture.send_with(&input, port, sample.options);
                let received = document(&receiver.end());
                assert_eq!(received["ended"], "goodbye", "{payload}: {received}");
                let received = content(received_as(sample.kind), &out);
                assert_same(payload, &received, &content(sample.kind, &input));
            });
        }
    });
    let out = fixture.file("none");
    let receive = |more: &[&str]| {
        let receive = ["media", "recv", "rtp://127.0.0.1:5004", "--out", &out];
        fixture.root.run(&[&receive[..], more].concat())
    };
    receive(&[]).failed(2, &["without a description", "--payload ts, mpa, h264"]);
    receive(&["--payload", "mp4"]).failed(2, &["mp4 is not ts"]);
    fixture.is_clean();
}

#[test]
fn receiver_refuses_encrypted_and_program_streams() {
    let root = Root::new();
    let sdp = root.path().join("camera.sdp").display().to_string();
    let text = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
        m=video 5004 RTP/SAVP 96\r\na=rtpmap:96 H264/90000\r\n\
        a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    let out = root.path().join("camera.h264").display().to_string();
    for (from, to) in [("RTP/SAVP", "RTP/SAVP"), ("RTP/SAVP", "RTP/AVP")] {
        fs::write(&sdp, text.replace(from, to)).expect("written");
        let refused = root.run(&["media", "recv", &sdp, "--out", &out]);
        refused.failed(1, &["it is encrypted", "not decrypted here"]);
        assert!(!fs::exists(&out).expect("own"));
    }
    let film = root.path().join("film.mpg").display().to_string();
    fs::write(&film, b"\0\0\x01\xba\x44\0\x04\0\x04\x01\0\0\x03\xf8").expect("written");
    let refused = root.run(&["media", "send", &film, "--to", "rtp://127.0.0.1:5004"]);
    refused.failed(1, &["MPEG program stream", "-c copy -f mpegts"]);
}
