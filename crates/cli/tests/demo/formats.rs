//! Other rates, mono and stereo, VBR, tags.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::world::{World, exact};

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
fn a_name_that_looks_like_an_option_and_is_no_utf8() {
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
