//! Movies whose time line does not begin at 0, or is not even: cut without encoding anew, trimmed
//! by an edit list, with a late track, with pictures of unlike durations. Pictures and times are
//! compared with those of ffmpeg.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hythe_testing::{Edit, with_edits};
use serde_json::Value;

use crate::demo::world::World;
use crate::play::movie::{self, Movie, NEVER, ffmpeg, text};

/// Samples of a frame of MP3: what ffmpeg and an edit list may differ in.
const FRAME_SAMPLES: f64 = 1152.0 / 44_100.0;

/// What was played and written.
struct Outcome {
    played: Value,
    pictures: PathBuf,
    sound: PathBuf,
}

fn play(world: &World, file: &Path) -> Outcome {
    let (pictures, sound) = (world.path("out.y4m"), world.path("out.wav"));
    let played = movie::play(
        world,
        &[
            "--board",
            "hosted",
            "--stall",
            NEVER,
            "--video-out",
            text(&pictures),
            "--audio-out",
            text(&sound),
            text(file),
        ],
    );
    assert_eq!(played["frames_dropped"], 0, "{played}");
    assert_eq!(played["sound"]["silent"], 0, "{played}");
    Outcome {
        played,
        pictures,
        sound,
    }
}

fn probe(file: &Path, stream: &str, entries: &str) -> Vec<Vec<f64>> {
    let output = Command::new("ffprobe")
        .args(["-loglevel", "error", "-select_streams", stream])
        .args(["-show_entries", entries, "-of", "csv=p=0"])
        .arg(file)
        .output()
        .expect("ffprobe runs: `make setup` installs it");
    let listing = String::from_utf8(output.stdout).expect("text");
    let numbers = |line: &str| line.split(',').flat_map(str::parse).collect();
    let rows = listing.lines().map(numbers);
    rows.filter(|row: &Vec<f64>| !row.is_empty()).collect()
}

/// When pictures are shown, in seconds, and where the sound begins and ends.
fn times(file: &Path) -> (Vec<f64>, (f64, f64)) {
    let pictures = probe(file, "v", "frame=pts_time").concat();
    let frames = probe(file, "a", "frame=pts_time,nb_samples");
    let samples: f64 = frames.iter().map(|frame| frame[1]).sum();
    (pictures, (frames[0][0], frames[0][0] + samples / 44_100.0))
}

/// All pictures of a file, without those that repeat the one before.
fn distinct(file: &Path) -> Vec<Vec<u8>> {
    let raw = file.with_extension("yuv");
    ffmpeg(
        &[
            "-i",
            text(file),
            "-fps_mode",
            "passthrough",
            "-f",
            "rawvideo",
        ],
        &raw,
    );
    let raw = fs::read(raw).expect("pictures");
    let mut pictures: Vec<Vec<u8>> = raw.chunks(320 * 240 * 3 / 2).map(<[u8]>::to_vec).collect();
    pictures.dedup();
    pictures
}

/// Plays the movie, and compares everything with what ffmpeg makes of it, which may move the
/// pictures by so many seconds.
fn plays_as_ffmpeg_does(world: &World, file: &Path, moved: f64) -> Outcome {
    let outcome = play(world, file);
    let (pictures, (sound_begin, sound_end)) = times(file);
    let begin = pictures[0].min(sound_begin);
    let frames = outcome.played["frames"].as_array().expect("frames");
    let shown = frames
        .iter()
        .map(|frame| frame["time_ns"].as_f64().expect("a number") / 1e9);
    let shown: Vec<f64> = shown.collect();
    assert_eq!(shown.len(), pictures.len(), "{}: {shown:?}", file.display());
    for (shown, expected) in shown.iter().zip(&pictures) {
        let expected = expected - begin + moved;
        assert!((shown - expected).abs() < 1e-5, "{shown}, not {expected}");
    }
    assert!(
        distinct(&outcome.pictures) == distinct(file),
        "other pictures"
    );
    let heard = fs::metadata(&outcome.sound).expect("the sound").len() - 44;
    let heard = heard as f64 / 4.0 / 44_100.0;
    let expected = sound_end - begin;
    assert!(
        (heard - expected).abs() < FRAME_SAMPLES,
        "{heard} s of sound, not {expected}"
    );
    world.is_clean();
    outcome
}

fn silence_in_front(sound: &Path) -> f64 {
    let samples = &fs::read(sound).expect("the sound")[44..];
    let loud = samples
        .chunks(2)
        .position(|sample| sample[1] != 0 && sample[1] != 0xff);
    loud.expect("sound") as f64 / 2.0 / 44_100.0
}

#[test]
fn movie_cut_without_encoding_begins_at_its_cut() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 3, &["-g", "250"]);
    let cut = world.path("cut.mp4");
    ffmpeg(&["-ss", "1.1", "-i", movie.file(), "-c", "copy"], &cut);
    // The cut is within a picture: ffmpeg has all behind it begin at the cut, which is too early.
    let outcome = plays_as_ffmpeg_does(&world, &cut, 0.02);
    assert_eq!(outcome.played["frames_shown"], 47, "{}", outcome.played);
}

#[test]
fn sound_or_picture_that_begins_late_is_waited_for_by_the_other() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 2, &[]);
    let late = world.path("late.mp4");
    for (picture, sound) in [("0", "0.6"), ("0.6", "0"), ("0.6", "0.9")] {
        let from = |offset| ["-itsoffset", offset, "-i", movie.file()];
        let streams = ["-map", "0:v", "-map", "1:a", "-c", "copy"];
        ffmpeg(
            &[&from(picture)[..], &from(sound), &streams].concat(),
            &late,
        );
        let outcome = plays_as_ffmpeg_does(&world, &late, 0.0);
        let wait: f64 = match (picture, sound) {
            ("0", "0.6") => 0.6,
            ("0.6", "0.9") => 0.3,
            _ => 0.0,
        };
        let silence = silence_in_front(&outcome.sound);
        assert!(
            (silence - wait).abs() < 2.0 * FRAME_SAMPLES,
            "{silence} s of silence"
        );
        // The file of pictures is as long as the movie.
        let count = outcome.played["video_out"]["frames"]
            .as_u64()
            .expect("a number");
        assert_eq!(
            count,
            if picture == "0.6" && sound == "0" {
                65
            } else {
                50
            }
        );
    }
}

#[test]
fn edit_list_is_followed_wherever_it_cuts() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 3, &[]);
    let whole = fs::read(movie.path()).expect("the movie");
    let cut = world.path("cut.mp4");
    let cuts: [&[Edit]; 5] = [
        &[Edit::Part(1000, 2000)],
        &[Edit::Part(1360, 1000)],
        &[Edit::Part(0, 1480)],
        &[Edit::Part(0, 600), Edit::Part(1200, 800)],
        &[Edit::Empty(400), Edit::Part(0, 1000)],
    ];
    for edits in cuts {
        fs::write(&cut, with_edits(&whole, edits)).expect("space");
        plays_as_ffmpeg_does(&world, &cut, 0.0);
    }
}

#[test]
fn file_of_pictures_keeps_time_where_pictures_last_unlike_long() {
    let world = World::new();
    // Ten pictures a second, then fifty.
    let select = "select='if(lt(t,1),not(mod(n,5)),1)'";
    let movie = world.path("film.mp4");
    ffmpeg(
        &[
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x240:rate=50:duration=2",
            "-f",
            "lavfi",
            "-i",
            "sine=sample_rate=44100:duration=2",
            "-ac",
            "2",
            "-vf",
            select,
            "-fps_mode",
            "vfr",
            "-c:v",
            "libx264",
            "-profile:v",
            "baseline",
            "-pix_fmt",
            "yuv420p",
            "-c:a",
            "libmp3lame",
        ],
        &movie,
    );
    let outcome = plays_as_ffmpeg_does(&world, &movie, 0.0);
    let written = &outcome.played["video_out"];
    assert_eq!(written["rate"], serde_json::json!([50, 1]), "{written}");
    assert_eq!(written["frames"], 100, "{written}");
    assert_eq!(written["repeated"], 40, "{written}");
    assert_eq!(written["left_out"], 0, "{written}");
}
