//! `hythe play --rtp`: the movie is received as it is played, by our receiver and by ffmpeg.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::demo::world::{World, end_of};
use crate::play::movie::{self, Movie, NEVER};
use crate::support::streams::wait_until_listening;

/// A movie that is sent to ports of its own, and its description.
struct Sending {
    world: World,
    movie: Movie,
    port: u16,
    sdp: PathBuf,
}

impl Sending {
    fn new(seconds: u32) -> Self {
        let world = World::new();
        Self {
            movie: Movie::new(&world, "film.mp4", seconds, &[]),
            sdp: world.path("film.sdp"),
            port: hythe_testing::reserve_ports(4),
            world,
        }
    }

    fn play(&self, options: &[&str]) -> Value {
        let to = format!("127.0.0.1:{}", self.port);
        let base = ["--board", "hosted", "--rtp", &to, "--sdp"];
        let rest = [movie::text(&self.sdp), self.movie.file()];
        movie::play(&self.world, &[&base[..], &rest, options].concat())
    }

    /// Waits until somebody listens to both streams.
    fn wait_until_heard(&self) {
        for port in [self.port, self.port + 2] {
            wait_until_listening(port);
        }
    }
}

/// The stream with this payload in the result.
fn stream<'p>(played: &'p Value, payload: &str) -> &'p Value {
    let streams = played["rtp"].as_array().expect("streams");
    let mut found = streams.iter().filter(|stream| stream["payload"] == payload);
    found.next().expect("the stream")
}

fn samples(wav: &Path) -> Vec<u8> {
    fs::read(wav).expect("the sound").split_off(44)
}

#[test]
fn what_is_received_is_what_was_heard_and_the_film_itself() {
    let sending = Sending::new(2);
    // Nobody is there: it plays all the same.
    let played = sending.play(&["--stall", NEVER]);
    assert_eq!(played["frames_dropped"], 0, "{played}");
    assert!(stream(&played, "L16")["refused"].as_u64() > Some(0));
    let world = &sending.world;
    let (out, heard) = (world.path("copy.mkv"), world.path("heard.wav"));
    let sdp = movie::text(&sending.sdp);
    let receive = ["media", "recv", sdp, "--stream", "all", "--json"];
    let options = ["--idle", "250", "--out", movie::text(&out)];
    let mut receiver = world.command(&[&receive[..], &options].concat());
    receiver.stdout(Stdio::piped()).stderr(Stdio::piped());
    let receiver = receiver.spawn().expect("the program runs");
    sending.wait_until_heard();
    let played = sending.play(&["--stall", NEVER, "--audio-out", movie::text(&heard)]);
    let received = end_of(receiver);
    assert!(received.status.success(), "{received:?}");
    let document: Value = serde_json::from_slice(&received.stdout).expect("a document");
    let streams = document["streams"].as_array().expect("streams");
    assert_eq!(streams.len(), 2, "{document}");
    for (received, payload) in streams.iter().zip(["L16", "H264"]) {
        let sent = stream(&played, payload);
        assert_eq!(received["ended"], "goodbye", "{received}");
        assert_eq!(received["packets"], sent["packets"], "{received} {sent}");
        assert_eq!((&sent["lost"], &sent["dropped"]), (&0.into(), &0.into()));
    }
    let same = samples(&heard) == samples(&world.path("copy-1.wav"));
    assert!(same, "other samples");
    let pictures = movie::pictures(&world.path("copy-2.h264"));
    assert!(pictures == sending.movie.pictures(), "other pictures");
    let hops = played["hops"].as_array().expect("hops");
    let media = hops.iter().find(|hop| hop["name"] == "media");
    let media = media.expect("the hop");
    assert_eq!(media["cpu_copies"], 1);
    assert_eq!(media["buffers"], stream(&played, "L16")["packets"]);
    world.is_clean();
}

#[test]
fn ffmpeg_plays_the_description() {
    let sending = Sending::new(4);
    sending.play(&[]);
    let out = sending.world.path("copy.mkv");
    let ffmpeg = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y"])
        .args(["-protocol_whitelist", "file,udp,rtp", "-i"])
        .arg(&sending.sdp)
        .args(["-map", "0", "-c", "copy", "-flush_packets", "1"])
        .arg(&out)
        .stderr(Stdio::piped())
        .spawn()
        .expect("ffmpeg runs: `make setup` installs it");
    sending.wait_until_heard();
    sending.play(&[]);
    // It ends at the goodbye.
    let ended = end_of(ffmpeg);
    assert!(ended.status.success(), "{ended:?}");
    for (map, codec) in [("0:a", "pcm_s16be"), ("0:v", "h264")] {
        let list = sending.world.path("list");
        let options = ["-i", movie::text(&out), "-map", map, "-c", "copy"];
        movie::ffmpeg(&[&options[..], &["-f", "framehash"]].concat(), &list);
        let text = fs::read_to_string(list).expect("a list");
        let packets = text.lines().filter(|line| !line.starts_with('#'));
        assert!(text.contains(codec), "{text}");
        assert!(packets.count() > 10, "{text}");
    }
    sending.world.is_clean();
}

#[test]
fn player_refuses_unusable_addresses_before_start() {
    let sending = Sending::new(1);
    let file = sending.movie.file();
    for (address, named) in [("127.0.0.1:5005", "5005"), ("127.0.0.1:65534", "port")] {
        let arguments = ["--board", "hosted", "--rtp", address, file];
        let said = movie::refusal(&sending.world, &arguments);
        assert!(said.contains(named), "{said}");
    }
    let nowhere = ["play", "--rtp", "nonsense", file];
    let output = sending.world.run(&nowhere);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = sending.world.run(&["play", "--sdp", "film.sdp", file]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    sending.world.is_clean();
}
