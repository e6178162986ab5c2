//! `hythe media serve`, watched by ffmpeg: films by several clients at once, a channel by all together.
//!
//! Skipped aloud where there is no ffmpeg or no shared memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{BOUND, Root, Running};

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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
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
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < BOUND, "nobody listens on {port}");
        std::thread::sleep(Duration::from_millis(10));
    }
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
    let port = free_port();
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
fn a_channel_is_watched_together_from_now_on() {
    let Some(root) = Root::on_shared_memory("serving a channel").filter(|_| has_ffmpeg()) else {
        return;
    };
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let server = root.start(&["media", "serve", "channel:microphone", "--listen", &listen]);
    let began = Instant::now();
    while root.subscribers("microphone") == 0 {
        assert!(began.elapsed() < BOUND, "the server does not subscribe");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A WAV file without end, whose samples count up: a player that comes late hears from somewhere on.
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
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    wait_for_port(port);
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
fn our_own_receiver_opens_what_we_serve() {
    let Some(root) = Root::on_shared_memory("receiving what is served") else {
        return;
    };
    std::fs::write(root.path().join("tone.wav"), wav()).unwrap();
    let port = free_port();
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
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn what_cannot_be_served_is_named() {
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
fn a_conference_forwards_and_says_who_took_part() {
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
    let port = free_port() & !1;
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
