//! `hythe media recv` of a description with several streams, as ffmpeg writes it of a film's
//! picture and sound.
//!
//! Skipped aloud where there is no ffmpeg, or no shared memory.

use std::fs;
use std::path::Path;

use crate::support::Running;
use crate::support::streams::{
    self, Kind, MediaFixture, Sample, assert_same, content, document, ffmpeg,
};
use serde_json::Value;

/// Picture, sound, and a stream that nobody here understands.
const FILM: Sample = Sample {
    name: "film.mkv",
    made_by: "PICTURES TONE -map 0:v -map 1:a -map 1:a -c:v libx264 -preset ultrafast -c:a:0 libopus -b:a:0 32k -c:a:1 aac",
    options: &[],
    kind: Kind::Pictures,
};

/// A film, its description, and the ports of its streams.
struct Scene {
    fixture: MediaFixture,
    film: String,
    sdp: String,
    ports: [u16; 3],
}

impl Scene {
    fn new(left_out: &str) -> Option<Self> {
        let fixture = MediaFixture::new(left_out)?;
        let film = fixture.make(&FILM);
        let scene = Self {
            sdp: fixture.file("film.sdp"),
            ports: [(); 3].map(|()| streams::port()),
            film,
            fixture,
        };
        scene.play(&format!("-t 0.04 -sdp_file {}", scene.sdp));
        Some(scene)
    }

    /// Has ffmpeg send the film, each stream to its port.
    fn play(&self, options: &str) {
        let mut arguments = format!("-re -i {}", self.film);
        for (stream, port) in ["v:0", "a:0", "a:1"].iter().zip(self.ports) {
            arguments += &format!(
                " -map 0:{stream} -c copy {options} -rtpflags send_bye -f rtp rtp://127.0.0.1:{port}"
            );
        }
        ffmpeg(&arguments);
    }

    fn receive(&self, options: &[&str]) -> Running {
        let arguments = ["media", "recv", &self.sdp, "--idle", "25", "--json"];
        self.fixture.root.start(&[&arguments, options].concat())
    }

    /// Packets of the codec in the film, and in a file that was received.
    fn packets(path: &str, map: &str) -> Vec<u8> {
        let listed = ffmpeg(&format!("-i {path} -map 0:{map} -c copy -f framehash -"));
        let packets = streams::packets_of_list(&String::from_utf8_lossy(&listed));
        packets.join("\n").into_bytes()
    }

    fn is_the_sound(&self, out: &str) {
        let sound = Self::packets(&self.film, "a:0");
        assert_same("sound", &Self::packets(out, "a:0"), &sound);
    }
}

fn arrived(document: &Value) {
    assert_eq!(document["ended"], "goodbye", "{document}");
    for count in ["missing", "malformed", "foreign", "kernel_drops"] {
        assert_eq!(document[count], 0, "{count} in {document}");
    }
}

#[test]
fn one_of_several_is_received_by_its_kind_or_number() {
    let Some(scene) = Scene::new("one of several streams") else {
        return;
    };
    let [by_kind, by_number] = ["kind.h264", "number.opus"].map(|name| scene.fixture.file(name));
    let receivers = [
        scene.receive(&["--stream", "video", "--out", &by_kind]),
        scene.receive(&["--stream", "2", "--out", &by_number]),
    ];
    for port in &scene.ports[..2] {
        streams::wait_until_listening(*port);
    }
    scene.play("");
    let [picture, sound] = receivers.map(|receiver| document(&receiver.end()));
    for (document, number, payload) in [(&picture, 1, "H264"), (&sound, 2, "opus")] {
        arrived(document);
        assert_eq!(
            (&document["stream"], &document["payload"]),
            (&number.into(), &payload.into())
        );
    }
    let film = content(Kind::Pictures, &scene.film);
    assert_same("pictures", &content(Kind::Pictures, &by_kind), &film);
    scene.is_the_sound(&by_number);
}

#[test]
fn all_are_received_each_to_a_file_of_its_own() {
    let Some(scene) = Scene::new("all of several streams") else {
        return;
    };
    let out = scene.fixture.file("copy.mkv");
    let receiver = scene.receive(&["--stream", "all", "--out", &out]);
    for port in &scene.ports[..2] {
        streams::wait_until_listening(*port);
    }
    scene.play("");
    let ended = receiver.end();
    let all = document(&ended);
    let left_out = "film.sdp: left out stream 3: audio, not understood: its encoding MPEG4-GENERIC";
    assert!(ended.errors.contains(left_out), "{}", ended.errors);
    let files = ["copy-1.h264", "copy-2.opus"].map(|name| scene.fixture.file(name));
    let streams = all["streams"].as_array().expect("a list");
    assert_eq!(streams.len(), 2, "{all}");
    for (index, (stream, file)) in streams.iter().zip(&files).enumerate() {
        arrived(stream);
        assert_eq!(stream["out"], file.as_str());
        assert_eq!(stream["stream"], index + 1);
    }
    let film = content(Kind::Pictures, &scene.film);
    assert_same("pictures", &content(Kind::Pictures, &files[0]), &film);
    scene.is_the_sound(&files[1]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn who_has_to_choose_is_told_what_there_is() {
    let Some(scene) = Scene::new("choosing a stream") else {
        return;
    };
    let out = scene.fixture.file("out");
    let out = ["--out", &out[..]];
    let said = |options: &[&str], words: &[&str]| {
        let ended = scene.receive(&[&out, options].concat()).end();
        let listed = [
            format!(
                "stream 1: video, H264/90000, to 127.0.0.1:{}",
                scene.ports[0]
            ),
            format!(
                "stream 2: audio, opus/48000, to 127.0.0.1:{}",
                scene.ports[1]
            ),
            "stream 3: audio, not understood".to_owned(),
        ];
        let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
        ended.failed(1, &[words, &listed].concat());
    };
    said(
        &[],
        &[
            "film.sdp has 2 streams",
            "--stream",
            "audio",
            "video",
            "all",
        ],
    );
    said(
        &["--stream", "3"],
        &["stream 3 that is not understood", "MPEG4-GENERIC"],
    );
    said(&["--stream", "4"], &["no stream 4"]);
    let refused = scene.receive(&["--stream", "sound", "--out", "x"]).end();
    refused.failed(2, &["--stream", "sound", "audio, video or all"]);
    let channel = ["--stream", "all", "--channel", "camera"];
    scene
        .receive(&channel)
        .end()
        .failed(2, &["--stream all", "--out FILE"]);
    // Nothing comes of any: that is a failure, and it is said where nothing came.
    let arguments = [
        "media", "recv", &scene.sdp, "--idle", "0.2", "--stream", "all",
    ];
    let nothing = scene.fixture.root.run(&[&arguments[..], &out].concat());
    let address = format!("127.0.0.1:{}", scene.ports[0]);
    nothing.failed(1, &["no packet", &address, "--idle"]);
    assert!(fs::exists(scene.fixture.file("out-1.h264")).expect("a folder"));
}
