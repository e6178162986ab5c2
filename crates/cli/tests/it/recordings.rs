//! `hythe record` and `replay`: there and back, ended in every way, damaged, refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Ended, Root, Running, eventually};
use hythe::recording::{Header, Writer};
use rustix::process::Signal;
use serde_json::Value;

fn path(root: &Root, name: &str) -> PathBuf {
    root.path().join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// A recorder that has subscribed.
fn recorder(root: &Root, channel: &str, file: &Path, more: &[&str]) -> Running {
    let running = root.start(&[&["record", channel, "-o", text(file), "--json"], more].concat());
    eventually("it subscribes", || root.subscribers(channel) == 1);
    running
}

fn document(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    serde_json::from_slice(&ended.output).expect("one document")
}

/// What a subscriber prints of a replay.
fn replayed(root: &Root, file: &Path, count: &str, more: &[&str]) -> (String, Value) {
    let subscriber = root.start(&["sub", "data", "--count", count, "--timeout", "100"]);
    let replay = [&["replay", text(file), "--wait", "20"], more].concat();
    let done = root.json(&replay);
    let received = subscriber.end();
    assert_eq!(received.code, Some(0), "{}", received.errors);
    (received.text(), done)
}

/// A recording of `payloads`, one each millisecond, made without a pool.
fn made(root: &Root, name: &str, header: &Header, payloads: &[&[u8]]) -> PathBuf {
    let file = path(root, name);
    let out = fs::File::create_new(&file).expect("own");
    let mut writer = Writer::new(out, header).expect("good names");
    for (number, payload) in (0..).zip(payloads) {
        writer.append(number * 1_000_000, payload).expect("room");
    }
    writer.finish(0).expect("room");
    file
}

#[test]
fn what_was_recorded_is_replayed() {
    let root = Root::new();
    let file = path(&root, "data.hythe");
    let recorder = recorder(&root, "data", &file, &["--count", "4"]);
    let published = root.feed(
        &["pub", "data", "--lines", "--rate", "40"],
        b"one\ntwo\n\nfour",
    );
    assert_eq!(published.code, Some(0), "{}", published.errors);
    let recorded = document(&recorder.end());
    for (key, value) in [("records", 4), ("payload_bytes", 10), ("dropped", 0)] {
        assert_eq!(recorded[key], value, "{recorded}");
    }
    assert_eq!(
        recorded["file_bytes"],
        fs::metadata(&file).expect("own").len()
    );
    assert_eq!(recorded["type"], "raw bytes");

    let listed = root.json(&["replay", text(&file), "--list"]);
    assert_eq!(
        (&listed["channel"], &listed["records"]),
        (&"data".into(), &4.into())
    );
    assert_eq!(
        (&listed["complete"], &listed["dropped"]),
        (&true.into(), &0.into())
    );
    // From the first message, which a busy machine may be late to take.
    let seconds = listed["seconds"].as_f64().expect("a number");
    assert!(seconds > 0.0, "{listed}");

    let (lines, done) = replayed(&root, &file, "4", &[]);
    assert_eq!(
        lines,
        "#0 3 B \"one\"\n#1 3 B \"two\"\n#2 0 B \"\"\n#3 4 B \"four\"\n"
    );
    assert_eq!(
        (&done["messages"], &done["delivered"]),
        (&4.into(), &4.into())
    );
    assert_eq!(done["timing"]["count"], 4);
    // Nothing is early: the whole takes as long as it took.
    assert!(
        done["seconds"].as_f64().expect("a number") >= seconds,
        "{done}"
    );
    let (_, fast) = replayed(&root, &file, "4", &["--fast"]);
    assert_eq!(fast["timing"], Value::Null);
}

#[test]
fn speed_rounds_start_and_channel_are_as_asked_for() {
    let root = Root::new();
    let file = made(
        &root,
        "made",
        &Header::raw("elsewhere"),
        &[b"a", b"b", b"c"],
    );
    let on = ["--channel", "data"];
    let (lines, done) = replayed(&root, &file, "6", &[&on[..], &["--loop", "2"]].concat());
    assert_eq!(lines.matches("\"c\"").count(), 2, "{lines}");
    assert_eq!(
        (&done["rounds"], &done["channel"]),
        (&2.into(), &"data".into())
    );
    let (lines, _) = replayed(&root, &file, "1", &[&on[..], &["--from", "0.002"]].concat());
    assert_eq!(lines, "#0 1 B \"c\"\n");
    // Half as fast takes at least twice as long.
    let (_, slow) = replayed(&root, &file, "3", &[&on[..], &["--speed", "0.05"]].concat());
    assert!(
        slow["seconds"].as_f64().expect("a number") >= 0.04,
        "{slow}"
    );
    // Without anything behind the moment there is nothing to repeat.
    let none = root.json(&["replay", text(&file), "--from", "5", "--loop", "0"]);
    assert_eq!(none["messages"], 0);
}

#[test]
fn interrupted_recording_is_whole_and_killed_one_readable() {
    let root = Root::new();
    let file = path(&root, "interrupted");
    let running = recorder(&root, "data", &file, &[]);
    assert_eq!(
        root.feed(&["pub", "data", "--lines"], b"one\ntwo").code,
        Some(0)
    );
    running.interrupt();
    let recorded = document(&running.end());
    assert_eq!(
        recorded["records"], 2,
        "what was published before the end is in it"
    );
    assert_eq!(
        root.json(&["replay", text(&file), "--list"])["complete"],
        true
    );

    let file = path(&root, "killed");
    let running = recorder(&root, "data", &file, &[]);
    assert_eq!(
        root.feed(&["pub", "data", "--lines"], b"one\ntwo").code,
        Some(0)
    );
    let records = || root.json(&["replay", text(&file), "--list"])["records"].clone();
    eventually("both are in the file", || {
        fs::metadata(&file).is_ok_and(|found| found.len() > 256) && records() == 2
    });
    running.signal(Signal::KILL);
    drop(running);
    // Cut inside the second record: the first is left.
    let whole = fs::read(&file).expect("own");
    fs::write(&file, &whole[..whole.len() - 6]).expect("own");
    let listed = root.json(&["replay", text(&file), "--list"]);
    assert_eq!(
        (&listed["complete"], &listed["records"], &listed["dropped"]),
        (&false.into(), &1.into(), &Value::Null)
    );
    assert!(
        listed["dropped_bytes"].as_u64().expect("a number") > 0,
        "{listed}"
    );
    let ended = root.run(&["replay", text(&file), "--fast"]);
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    assert!(
        ended.errors.contains("was not replayed whole")
            && ended.errors.contains("not ended in order"),
        "{}",
        ended.errors
    );
    assert!(
        ended.text().contains("replayed 1 message"),
        "{}",
        ended.text()
    );
}

#[test]
fn time_and_a_type_are_kept() {
    let root = Root::new();
    let header = Header {
        type_name: "demo::Frame".to_owned(),
        type_bytes: 8,
        type_align: 4,
        ..Header::raw("frames")
    };
    let file = made(&root, "typed", &header, &[&[1; 8], &[2; 8]]);
    root.ok(&["pool", "create"]);
    let endless = root.start(&["replay", text(&file), "--loop", "0"]);
    eventually("it publishes", || {
        root.json(&["list"])["channels"][0]["name"] == "frames"
    });
    let again = path(&root, "again");
    let recorded = root.json(&["record", "frames", "-o", text(&again), "--count", "2"]);
    assert_eq!(
        recorded["type"],
        "demo::Frame version 0 (8 bytes, aligned to 4)"
    );
    endless.interrupt();
    endless.end().succeeded();
    let listed = root.json(&["replay", text(&again), "--list"]);
    assert_eq!(listed["type"], recorded["type"]);

    // Where the channel carries something else, both are named.
    let raw = root.start(&["sub", "frames"]);
    eventually("it subscribes", || root.subscribers("frames") == 1);
    root.run(&["replay", text(&file)])
        .failed(1, &["demo::Frame", "raw bytes", "frames"]);
    raw.interrupt();
}

#[test]
fn damaged_records_are_left_out_and_told() {
    let root = Root::new();
    let file = made(
        &root,
        "made",
        &Header::raw("data"),
        &[b"first", b"second", b"third"],
    );
    let mut bytes = fs::read(&file).expect("own");
    let at = bytes
        .windows(6)
        .position(|found| found == b"second")
        .expect("in it");
    bytes[at] ^= 1;
    fs::write(&file, bytes).expect("own");
    let subscriber = root.start(&["sub", "data", "--count", "2", "--timeout", "100"]);
    let ended = root.run(&["replay", text(&file), "--wait", "20", "--json"]);
    assert_eq!(
        subscriber.end().text(),
        "#0 5 B \"first\"\n#1 5 B \"third\"\n"
    );
    assert_eq!(ended.code, Some(1), "not all of it was replayed");
    assert!(
        ended.errors.contains("was not replayed whole: 1 record"),
        "{}",
        ended.errors
    );
    let done: Value = serde_json::from_slice(&ended.output).expect("one document");
    assert_eq!(
        (&done["damaged"], &done["messages"]),
        (&1.into(), &2.into())
    );
}

#[test]
fn interrupted_replay_says_so_unless_endless() {
    let root = Root::new();
    let payloads: Vec<&[u8]> = vec![b"x"; 1000];
    let file = made(&root, "made", &Header::raw("data"), &payloads);
    root.ok(&["pool", "create"]);
    for (more, code) in [(&["--loop", "2"], 1), (&["--loop", "0"], 0)] {
        // At a thousandth of the speed, it lasts as long as nobody ends it.
        let replay = ["replay", text(&file), "--speed", "0.001", "--json"];
        let replay = root.start(&[&replay[..], more].concat());
        eventually("it publishes", || {
            root.json(&["list"])["channels"][0]["ports"][0]["messages"].as_u64() > Some(0)
        });
        replay.interrupt();
        let ended = replay.end();
        assert_eq!(ended.code, Some(code), "{more:?}: {}", ended.errors);
        assert_eq!(
            ended.errors.contains("it was interrupted"),
            code == 1,
            "{}",
            ended.errors
        );
        let done: Value = serde_json::from_slice(&ended.output).expect("one document");
        assert_eq!(done["interrupted"], true);
    }
}

#[test]
fn empty_recording_fails_and_says_why_it_waits() {
    let root = Root::new();
    let file = path(&root, "nothing");
    let running = recorder(&root, "silent", &file, &[]);
    running.wait_until_said("nobody publishes on channel `silent`");
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    assert!(
        ended.errors.contains("nothing was recorded"),
        "{}",
        ended.errors
    );
    let done: Value = serde_json::from_slice(&ended.output).expect("one document");
    assert_eq!(done["records"], 0);
    // The file is whole all the same.
    assert_eq!(
        root.json(&["replay", text(&file), "--list"])["complete"],
        true
    );
}

#[test]
fn losses_are_counted() {
    let root = Root::new();
    let (file, source) = (path(&root, "lossy"), path(&root, "source"));
    fs::write(&source, "again").expect("own");
    let running = recorder(&root, "data", &file, &["--depth", "1"]);
    // Stopped, it takes nothing: one waits, the others pass by.
    running.signal(Signal::STOP);
    let publisher = root.start(&[
        "pub",
        "data",
        text(&source),
        "--repeat",
        "0",
        "--rate",
        "50",
    ]);
    eventually("some are dropped", || {
        let list = root.json(&["list"]);
        let ports = list["channels"][0]["ports"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        ports.iter().any(|port| port["dropped"].as_u64() >= Some(2))
    });
    running.signal(Signal::CONT);
    running.interrupt();
    let recorded = document(&running.end());
    publisher.interrupt();
    let (records, dropped) = (&recorded["records"], &recorded["dropped"]);
    assert!(dropped.as_u64() >= Some(2), "{recorded}");
    assert!(records.as_u64() >= Some(1), "{recorded}");
    assert_eq!(
        root.json(&["replay", text(&file), "--list"])["dropped"],
        *dropped
    );
}

/// A disk that stands still, as a pipe that nobody reads; then reads it to its end.
struct StuckDisk {
    path: PathBuf,
    pipe: fs::File,
}

impl StuckDisk {
    fn new(root: &Root) -> Self {
        let path = path(root, "pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, 0o600.into(), 0).expect("made");
        // Nonblocking: a reader without a writer yet.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let pipe = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).expect("opened");
        let pipe = fs::File::from(pipe);
        Self { path, pipe }
    }

    /// What was written while the recorder goes on to its end; a copy is kept as a file.
    fn read_to_the_end(self, root: &Root) -> PathBuf {
        eventually("the recorder writes", || {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let mut asked = [PollFd::new(&self.pipe, PollFlags::IN)];
            let answered = poll(&mut asked, Some(&Timespec::default()));
            answered.is_ok() && asked[0].revents().contains(PollFlags::IN)
        });
        rustix::fs::fcntl_setfl(&self.pipe, rustix::fs::OFlags::empty()).expect("set");
        let (mut pipe, file) = (self.pipe, path(root, "read"));
        let mut copy = fs::File::create_new(&file).expect("own");
        std::io::copy(&mut pipe, &mut copy).expect("read");
        file
    }
}

const LINES: u64 = 60;
/// A pipe and the recorder's buffer take a few of them.
const LINE_BYTES: usize = 50_000;

fn long_lines() -> Vec<u8> {
    let lines = (0..LINES).map(|number| format!("{number:0>LINE_BYTES$}\n"));
    lines.collect::<String>().into_bytes()
}

/// Records from a publisher that is not held up, while the disk stands still. Returns the document
/// and the numbers in the file.
fn on_a_stuck_disk(policy: &[&str]) -> (Value, Vec<u64>) {
    let root = Root::new();
    let disk = StuckDisk::new(&root);
    let options = [&["--force", "--depth", "4"], policy].concat();
    let running = recorder(&root, "data", &disk.path, &options);
    // It leaves before the disk moves on, and takes its counters with it.
    let published = root.feed(&["pub", "data", "--lines", "--rate", "300"], &long_lines());
    assert_eq!(published.code, Some(0), "{}", published.errors);
    running.interrupt();
    let file = disk.read_to_the_end(&root);
    let recorded = document(&running.end());
    let recording = hythe::recording::Reader::open(fs::File::open(&file).expect("own"));
    let mut recording = recording.expect("a recording");
    let mut numbers = Vec::new();
    while let Some(record) = recording.next().expect("readable") {
        let mut payload = vec![0; record.bytes as usize];
        let read = recording.read_payload(&record, &mut payload);
        read.expect("whole");
        let text = String::from_utf8(payload).expect("text");
        numbers.push(text.parse().expect("a number"));
    }
    (recorded, numbers)
}

fn assert_all_are_accounted_for(recorded: &Value, numbers: &[u64]) {
    let count = |key: &str| recorded[key].as_u64().expect("a number");
    assert!(count("dropped") > 0, "{recorded}");
    assert_eq!(count("records"), numbers.len() as u64, "{recorded}");
    assert_eq!(count("records") + count("dropped"), LINES, "{recorded}");
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn slow_disk_holds_nobody_up_and_each_loss_is_counted() {
    let (recorded, numbers) = on_a_stuck_disk(&[]);
    assert_all_are_accounted_for(&recorded, &numbers);
    // Some may be missing before the disk stood still, too, where the recorder had no CPU.
    let last = numbers.last().expect("what the queue held");
    assert!(*last < LINES - 1, "the newest passed by: {numbers:?}");

    let (recorded, numbers) = on_a_stuck_disk(&["--policy", "evict-oldest"]);
    assert_all_are_accounted_for(&recorded, &numbers);
    assert_eq!(numbers.last(), Some(&(LINES - 1)), "the oldest made room");
}

#[test]
fn publishers_wait_for_a_slow_disk_if_told_to() {
    let root = Root::new();
    let disk = StuckDisk::new(&root);
    let options = ["--force", "--depth", "4", "--policy", "block", "--block"];
    let bound = ["20", "--count", &LINES.to_string()];
    let running = recorder(&root, "data", &disk.path, &[&options[..], &bound].concat());
    let publisher = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| root.feed(&["pub", "data", "--lines"], &long_lines()));
        disk.read_to_the_end(&root);
        publisher.join().expect("no panic")
    });
    assert_eq!(publisher.code, Some(0), "{}", publisher.errors);
    let recorded = document(&running.end());
    assert_eq!(
        (&recorded["records"], &recorded["dropped"]),
        (&LINES.into(), &0.into())
    );
    root.run(&[
        "record",
        "data",
        "-o",
        "x",
        "--policy",
        "evict-oldest",
        "--block",
        "1",
    ])
    .failed(2, &["--policy block"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let root = Root::new();
    let there = path(&root, "there");
    fs::write(
        &there,
        "not a recording, but long enough to have a header".repeat(9),
    )
    .expect("own");
    root.run(&["record", "data", "-o", text(&there)])
        .failed(1, &["exists", "--force"]);
    root.run(&["replay", text(&there)])
        .failed(1, &["not a recording", "there"]);
    fs::write(&there, "short").expect("own");
    root.run(&["replay", text(&there), "--list"])
        .failed(1, &["5 bytes"]);
    root.run(&["replay", text(&path(&root, "missing"))])
        .failed(1, &["cannot open", "missing"]);
    root.run(&["record", "data", "-o", text(&path(&root, "no/where"))])
        .failed(1, &["cannot make", "no/where"]);
    for (arguments, word) in [
        (&["record", "data"][..], "--output"),
        (
            &["replay", "x", "--fast", "--speed", "2"],
            "cannot be used with",
        ),
        (&["replay", "x", "--speed", "0"], "factor"),
        (
            &["replay", "x", "--list", "--loop", "2"],
            "cannot be used with",
        ),
    ] {
        root.run(arguments).failed(2, &[word]);
    }
    // A full disk is told, not passed over.
    root.run(&[
        "record",
        "data",
        "-o",
        "/dev/full",
        "--force",
        "--for",
        "0.05",
    ])
    .failed(1, &["cannot write /dev/full", "No space left"]);
    // Forced, the file is replaced.
    let forced = ["record", "data", "-o", text(&there), "--force"];
    let forced = root.run(&[&forced[..], &["--for", "0.05", "--json"]].concat());
    assert_eq!(forced.code, Some(1), "nothing came: {}", forced.errors);
    let done: Value = serde_json::from_slice(&forced.output).expect("one document");
    assert_eq!(done["records"], 0);
    assert_eq!(
        root.json(&["replay", text(&there), "--list"])["complete"],
        true
    );
}

#[test]
fn recorder_counts_its_own_losses_and_marks_them() {
    let root = Root::new();
    let (whole, lossy) = (path(&root, "whole"), path(&root, "lossy"));
    let complete = recorder(&root, "data", &whole, &[]);
    let slow = root.start(&[
        "record",
        "data",
        "-o",
        text(&lossy),
        "--json",
        "--depth",
        "2",
    ]);
    eventually("both subscribe", || root.subscribers("data") == 2);
    slow.signal(Signal::STOP);
    let lines: String = (0..40).map(|number| format!("{number}\n")).collect();
    let sent = root.feed(&["pub", "data", "--lines"], lines.as_bytes());
    assert_eq!(sent.code, Some(0), "{}", sent.errors);
    // Seen while it is stopped, at its own port only.
    let list = root.json(&["list"]);
    let ports = list["channels"][0]["ports"].as_array().expect("a list");
    let mut missed: Vec<_> = ports.iter().map(|port| port["missed"].as_u64()).collect();
    missed.sort_unstable();
    assert_eq!(missed, [Some(0), Some(38)]);
    slow.signal(Signal::CONT);
    eventually("it has taken what waited", || {
        let list = root.json(&["list"]);
        let ports = list["channels"][0]["ports"].as_array().cloned();
        let mut ports = ports.unwrap_or_default().into_iter();
        ports.all(|port| port["messages"].as_u64() >= Some(2))
    });
    let last = root.feed(&["pub", "data"], b"last");
    assert_eq!(last.code, Some(0), "{}", last.errors);
    eventually("the last is taken", || {
        let list = root.json(&["list"]);
        let ports = list["channels"][0]["ports"].as_array().cloned();
        let mut ports = ports.unwrap_or_default().into_iter();
        ports.all(|port| port["messages"].as_u64() >= Some(3))
    });
    for running in [&complete, &slow] {
        running.interrupt();
    }
    let (complete, slow) = (document(&complete.end()), document(&slow.end()));
    assert_eq!(
        (&complete["records"], &complete["dropped"]),
        (&41.into(), &0.into())
    );
    assert_eq!(
        (&slow["records"], &slow["dropped"]),
        (&3.into(), &38.into())
    );
    // Another publisher sent the last: those of the first are missing behind its messages.
    let listed = root.json(&["replay", text(&lossy), "--list"]);
    assert_eq!(listed["dropped"], 38);
    let shown = root.ok(&["replay", text(&whole), "--list"]);
    assert!(
        shown.contains("; 0 missed while it was recorded"),
        "{shown}"
    );
}

#[test]
fn end_of_a_terminal_ends_a_recording_in_order() {
    let root = Root::new();
    let file = path(&root, "data.hythe");
    let running = recorder(&root, "data", &file, &[]);
    root.feed(&["pub", "data", "--lines"], b"one\ntwo")
        .succeeded();
    running.signal(Signal::HUP);
    assert_eq!(document(&running.end())["records"], 2);
    let listed = root.json(&["replay", text(&file), "--list"]);
    assert_eq!(
        (&listed["complete"], &listed["records"]),
        (&true.into(), &2.into())
    );
}

#[test]
fn recording_begins_with_its_first_message() {
    let header = Header::raw("data");
    let root = Root::new();
    // As of before: the first of three comes when the recorder has waited for ten seconds.
    let file = path(&root, "late");
    let mut writer = Writer::new(fs::File::create_new(&file).expect("own"), &header).expect("good");
    for time_ms in [10_000, 10_500, 11_000] {
        writer.append(time_ms * 1_000_000, b"x").expect("room");
    }
    writer.finish(0).expect("room");
    assert_eq!(
        root.json(&["replay", text(&file), "--list"])["messages_per_second"],
        2.0
    );
    // One that was not ended, and has nothing behind its last record.
    let file = path(&root, "cut");
    let mut writer = Writer::new(fs::File::create_new(&file).expect("own"), &header).expect("good");
    writer.append(0, b"x").expect("room");
    drop(writer);
    let listed = root.ok(&["replay", text(&file), "--list"]);
    assert!(
        !listed.contains("0 B") && listed.contains("not ended in order"),
        "{listed}"
    );
    let cut = root.run(&["replay", text(&file), "--fast"]);
    assert!(!cut.errors.contains("0 B"), "{}", cut.errors);
    assert_eq!(cut.code, Some(1));
    assert!(cut.errors.contains("not ended in order"), "{}", cut.errors);
    // And one of now: its first record is its beginning.
    let file = path(&root, "now");
    let running = recorder(&root, "data", &file, &["--count", "1"]);
    root.feed(&["pub", "data"], b"first").succeeded();
    assert_eq!(document(&running.end())["records"], 1);
    assert_eq!(
        root.json(&["replay", text(&file), "--list"])["seconds"],
        0.0
    );
}
