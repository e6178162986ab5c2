//! Other rates, mono and stereo, VBR, tags.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::demo::world::{World, exact};

fn plays(name: &str, options: &[&str], hz: u32, channels: u32) {
    let world = World::new();
    let file = world.recording(name, options);
    let verdict = world.demo(&["--board", "hosted", &file]);
    exact(&verdict);
    assert_eq!(verdict["hz"], hz, "{name}");
    assert_eq!(verdict["channels"], channels, "{name}");
    world.is_clean();
}

#[test]
fn mono_at_22050() {
    plays(
        "mono.mp3",
        &["-t", "2", "-ar", "22050", "-ac", "1"],
        22050,
        1,
    );
}

#[test]
fn stereo_at_48000_with_variable_bit_rate() {
    plays(
        "vbr.mp3",
        &["-t", "2", "-ar", "48000", "-ac", "2", "-q:a", "4"],
        48000,
        2,
    );
}

#[test]
fn low_rate_of_mpeg_2_5() {
    plays(
        "low.mp3",
        &["-t", "2", "-ar", "11025", "-ac", "1"],
        11025,
        1,
    );
}

#[test]
fn tags_before_and_behind() {
    let options = [
        "-t",
        "2",
        "-ar",
        "44100",
        "-ac",
        "2",
        "-id3v2_version",
        "3",
        "-write_id3v1",
        "1",
    ];
    let tags = [
        "-metadata",
        "title=Front Left",
        "-metadata",
        "artist=Debian",
    ];
    plays("tags.mp3", &[&options[..], &tags[..]].concat(), 44100, 2);
}

#[test]
fn garbage_in_the_middle_is_passed_over() {
    let world = World::new();
    let file = world.recording("whole.mp3", &["-t", "3", "-ar", "44100", "-ac", "2"]);
    let mut bytes = fs::read(&file).expect("the recording");
    let middle = bytes.len() / 2;
    bytes.splice(middle..middle, std::iter::repeat_n(0x55, 3000));
    fs::write(&file, bytes).expect("written");
    exact(&world.demo(&["--board", "hosted", &file]));
    world.is_clean();
}

#[test]
fn name_that_looks_like_an_option_and_is_no_utf8() {
    let world = World::new();
    let file = world.recording("short.mp3", &["-t", "1"]);
    let name = OsStr::from_bytes(b"-\xff, $HOME.mp3");
    fs::rename(&file, world.path("").join(name)).expect("renamed");
    let mut command = world.command(&["demo", "--json", "--board", "hosted", "--"]);
    let ran = command.arg(name).current_dir(world.path("")).output();
    let ran = ran.expect("the program runs");
    assert!(ran.status.success(), "{ran:?}");
    exact(&serde_json::from_slice(&ran.stdout).expect("one JSON document"));
    world.is_clean();
}

/// Packets that ffmpeg finds in a file: frames with sound.
fn frames_of_ffmpeg(file: &str) -> u64 {
    let listed = std::process::Command::new("ffmpeg")
        .args([
            "-v", "error", "-i", file, "-map", "0:a", "-c", "copy", "-f", "framecrc", "-",
        ])
        .output()
        .expect("ffmpeg runs");
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8_lossy(&listed.stdout);
    let frames = text.lines().filter(|line| !line.starts_with('#'));
    frames.count() as u64
}

fn ape(version: u32, flags: u32) -> Vec<u8> {
    let mut footer = b"APETAGEX".to_vec();
    for word in [version, 32 + 100, 1, flags, 0, 0] {
        footer.extend(word.to_le_bytes());
    }
    let header = if flags == 0 { vec![] } else { footer.clone() };
    [header, vec![b'a'; 100], footer].concat()
}

#[test]
fn as_many_frames_are_played_as_ffmpeg_finds() {
    let world = World::new();
    let options = ["-t", "2", "-ar", "44100", "-ac", "2"];
    let plain = world.recording("plain.mp3", &options);
    let frames = frames_of_ffmpeg(&plain);
    let bytes = fs::read(&plain).expect("the recording");
    assert!(
        bytes.windows(4).any(|four| four == b"Info"),
        "a frame that describes the others"
    );
    let without = world.recording("bare.mp3", &[&options[..], &["-write_xing", "0"]].concat());
    for (name, behind) in [
        ("plain.mp3", vec![]),
        ("ape1.mp3", ape(1000, 0)),
        ("ape2.mp3", ape(2000, 1 << 31)),
        ("word.mp3", b"garbage".to_vec()),
        ("byte.mp3", vec![0]),
        ("long.mp3", vec![0x55; 100_000]),
    ] {
        let file = world.path(name).display().to_string();
        fs::write(&file, [&bytes[..], &behind].concat()).expect("written");
        let verdict = world.demo(&["--board", "hosted", &file]);
        exact(&verdict);
        assert_eq!(verdict["samples"], frames * 1152, "{name}");
    }
    let verdict = world.demo(&["--board", "hosted", &without]);
    exact(&verdict);
    assert_eq!(verdict["samples"], frames_of_ffmpeg(&without) * 1152);
    world.is_clean();
}
