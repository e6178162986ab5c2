//! Files named by a user that are no regular files, or larger than their format allows: refused at
//! once, never waited for.

use crate::support;

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::support::{Root, eventually};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Commands that read a file whose name stands for `FILE`.
const READERS: &[&str] = &[
    "preload show FILE",
    "preload report FILE",
    "preload sort-list FILE",
    "preload replay FILE",
    "preload finish FILE",
    "replay FILE",
    "replay FILE --list",
    "report FILE -o OUT",
    "latency compare FILE FILE",
    "media send FILE --to rtp://127.0.0.1:9998",
    "media send m3u/list.m3u --to rtp://127.0.0.1:9998",
    "media send /dev/null --to-file FILE",
    "media recv FILE --out OUT",
    "media serve FILE",
    "demo FILE",
];

fn run(root: &Root, command: &str, file: &Path) -> support::Ended {
    let out = root.path().join("out");
    let words: Vec<String> = command
        .split(' ')
        .map(|word| {
            word.replace("FILE", file.to_str().expect("plain"))
                .replace("OUT", out.to_str().expect("plain"))
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = root.command(&words);
    command.current_dir(root.path());
    support::Running::new(command).end()
}

/// Opening a pipe to write waits for its reader, and a file that replaces a pipe or a device takes
/// it away from all others.
#[test]
fn output_replaces_only_regular_files_and_never_waits() {
    let root = Root::new();
    let pipe = root.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("own");
    fs::write(root.path().join("tone.ulaw"), [0xff; 800]).expect("own");
    let address = format!("rtp://127.0.0.1:{}", hythe_testing::reserve_ports(2));
    let sending = format!("media send tone.ulaw --raw pcmu:8000:1 --to {address} --sdp FILE");
    let receiving = format!("media recv {address} --payload pcmu --out FILE --idle 0.1");
    for (command, reason) in [
        (
            "record data --force --output FILE",
            "it is a pipe that nobody reads",
        ),
        (&receiving, "it is a pipe that nobody reads"),
        (&sending, "it is a pipe, not a regular file"),
    ] {
        run(&root, command, &pipe).failed(1, &["pipe: ", reason]);
        let found = fs::metadata(&pipe).expect("there");
        assert!(!found.is_file(), "{command} has replaced the pipe");
    }
    let (target, link) = (root.path().join("target.sdp"), root.path().join("link.sdp"));
    fs::write(&target, "old").expect("own");
    std::os::unix::fs::symlink(&target, &link).expect("own");
    run(&root, &sending, &link);
    let written = fs::read_to_string(&target).expect("there");
    assert!(written.starts_with("v=0"), "{written}");
    assert!(link.is_symlink());
}

#[test]
fn what_is_no_regular_file_is_refused_and_not_waited_for() {
    let root = Root::new();
    let pipe = root.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("own");
    let socket = root.path().join("socket");
    let _listener = UnixListener::bind(&socket).expect("own");
    let device = Path::new("/dev/zero");
    fs::create_dir(root.path().join("m3u")).expect("own");
    let list = root.path().join("m3u/list.m3u");
    for (file, kind) in [
        (&*pipe, "a pipe"),
        (&socket, "a socket"),
        (device, "a device"),
    ] {
        fs::write(&list, format!("{}\n", file.display())).expect("own");
        for command in READERS {
            // The end of a run, or a mark, is looked for first.
            if command.contains("finish") || command.contains("preload report") {
                assert!(run(&root, command, file).code.is_some());
                continue;
            }
            let ended = run(&root, command, file);
            assert_eq!(ended.code, Some(1), "{command} of {kind}: {}", ended.errors);
            assert!(
                ended
                    .errors
                    .contains(&format!("it is {kind}, not a regular file")),
                "{command} of {kind}: {}",
                ended.errors
            );
        }
    }
}

#[test]
fn file_larger_than_its_format_is_refused_before_it_is_read() {
    let root = Root::new();
    let file = root.path().join("large");
    // Without bytes behind it: whoever reads it all runs out of memory, or out of the test's time.
    fs::File::create(&file)
        .expect("own")
        .set_len(1 << 40)
        .expect("sparse");
    for command in [
        "preload show FILE",
        "report FILE -o OUT",
        "latency compare FILE FILE",
        "media send /dev/null --to-file FILE",
        "media recv FILE --out OUT",
    ] {
        let ended = run(&root, command, &file);
        assert_eq!(ended.code, Some(1), "{command}: {}", ended.errors);
        assert!(
            ended.errors.contains("1099511627776 bytes, and at most"),
            "{command}: {}",
            ended.errors
        );
    }
    let list = root.path().join("large.m3u");
    fs::rename(&file, &list).expect("own");
    let ended = run(&root, "media send FILE --to rtp://127.0.0.1:9998", &list);
    ended.failed(1, &["1099511627776 bytes, and at most"]);
}

#[test]
fn what_stands_beside_a_pack_is_not_waited_for() {
    let root = Root::new();
    let pack = root.path().join("x.pack");
    hythe_preload::pack::Pack::default()
        .write(&pack)
        .expect("written");
    for ending in ["off", "runs"] {
        let beside = root.path().join(format!("x.pack.{ending}"));
        mknodat(CWD, &beside, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("own");
        for command in [
            "preload report FILE",
            "preload replay FILE",
            "preload show FILE",
        ] {
            assert!(
                run(&root, command, &pack).code.is_some(),
                "{command}, {ending}"
            );
        }
        let ended = run(&root, "preload report FILE", &pack);
        if ending == "runs" {
            ended.failed(1, &["x.pack.runs", "it is a pipe"]);
        }
        fs::remove_file(&beside).expect("own");
    }
}

#[test]
fn publisher_waits_for_a_pipe_where_it_can_be_interrupted() {
    let root = Root::new();
    let pipe = root.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("own");
    let path = pipe.to_str().expect("plain");
    for more in [&["--lines"][..], &["--size", "4"], &[]] {
        let waiting = root.start(&[&["pub", "x", path], more].concat());
        eventually("it takes part", || {
            let shown = root.run(&["list"]);
            shown.text().contains("hythe pub")
        });
        // Nobody has opened the other end yet.
        waiting.interrupt();
        let ended = waiting.end();
        assert_eq!(ended.code, Some(0), "{more:?}: {}", ended.errors);

        let reading = root.start(&[&["pub", "x", path, "--json"], more].concat());
        fs::write(&pipe, "text\n").expect("own");
        let ended = reading.end();
        let document: serde_json::Value =
            serde_json::from_slice(&ended.output).expect("a document");
        assert!(
            document["messages"].as_u64() >= Some(1),
            "{more:?}: {document}"
        );
    }
}
