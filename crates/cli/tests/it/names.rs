//! Names that others chose: none reaches a terminal as it is, whichever command repeats it, in
//! tables, documents, logs and errors.

use crate::support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::support::{Ended, Root, eventually};
use hythe::recording::{Header, Writer};
use hythe_preload::pack::{Extent, Pack, PackFile};
use hythe_terminal::is_control;
use rustix::process::Signal;

/// Begins a line of its own, sets a title, clears the screen in one byte of an 8-bit mode, and
/// turns the text around.
const HOSTILE: &str = "x\nFORGED\r\t\u{1b}]0;t\u{7}\u{9b}2J\u{7f}\u{202e}y\u{2028}z";
/// What of it stands in each escaped form.
const ESCAPED: [&str; 2] = ["\\u{1b}", "\\u001b"];

/// What was printed is safe to look at, whatever came of the command.
fn is_safe(what: &[&str], ended: &Ended) {
    let printed = [ended.text(), ended.errors.clone()];
    assert!(std::str::from_utf8(&ended.output).is_ok(), "{what:?}");
    for text in printed {
        let obeyed = |found: char| found != '\n' && found != '\t' && is_control(found);
        assert!(!text.contains(obeyed), "{what:?}: {text:?}");
        assert!(
            !text.lines().any(|line| line.starts_with("FORGED")),
            "{what:?}: {text}"
        );
        assert!(!text.contains("panicked"), "{what:?}: {text}");
    }
}

/// As [`is_safe`], for people and as a document, with all logs; and the name was repeated.
fn shows(root: &Root, arguments: &[&str]) {
    for more in [&[][..], &["--json"], &["-vvv"]] {
        let all = [arguments, more].concat();
        let ended = root.run(&all);
        is_safe(&all, &ended);
        let text = ended.text() + &ended.errors;
        let is_repeated = ESCAPED.iter().any(|escape| text.contains(escape));
        assert!(is_repeated, "{all:?} does not repeat the name: {text}");
    }
}

/// Writes `name` over each `placeholder` of the pool's tables, as anybody may who takes part.
fn rename(root: &Root, placeholder: &str, name: &str) {
    assert_eq!(placeholder.len(), name.len());
    let user = fs::read_dir(root.pools()).expect("own").next();
    let path = user.expect("a user").expect("read").path();
    let control = path.join("default/control");
    let mut bytes = fs::read(&control).expect("own");
    let mut renamed = 0;
    for at in 0..bytes.len() - name.len() {
        if bytes[at..].starts_with(placeholder.as_bytes()) {
            bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
            renamed += 1;
        }
    }
    assert!(renamed > 0, "{placeholder} is nowhere");
    let file = fs::File::options().write(true).open(&control).expect("own");
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("own");
}

#[test]
fn names_in_a_pool() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "12M"]);
    let channel = "c".repeat(HOSTILE.len());
    let subscriber = root.start(&["sub", &channel]);
    eventually("it subscribes", || root.subscribers(&channel) == 1);
    // It holds nothing and takes nothing from now on: messages wait for it.
    subscriber.signal(Signal::STOP);
    let messages = root.feed(&["pub", &channel, "--lines"], b"a\nb\n");
    assert_eq!(messages.code, Some(0), "{}", messages.errors);
    rename(&root, &channel, HOSTILE);
    // The participant's name, as long as before.
    rename(&root, "hythe sub", "\n\u{1b}[2J\u{9b}1A");
    for command in ["list", "who", "top --once", "pool show"] {
        let arguments: Vec<&str> = command.split(' ').collect();
        for more in [&[][..], &["--json"], &["-vvv"]] {
            let all = [&arguments[..], more].concat();
            is_safe(&all, &root.run(&all));
        }
    }
    shows(&root, &["list"]);
    shows(&root, &["top", "--once"]);
    shows(&root, &["who"]);
    shows(&root, &["pool", "remove"]);
}

#[test]
fn names_of_pools_and_boards() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "12M"]);
    let user = fs::read_dir(root.pools()).expect("own").next();
    let user = user.expect("a user").expect("read").path();
    fs::create_dir(user.join(HOSTILE)).expect("own");
    shows(&root, &["pool", "list"]);
    let boards = root.path().join("boards");
    let board = boards.join(HOSTILE);
    fs::create_dir_all(&board).expect("own");
    fs::write(board.join("board.toml"), format!("{HOSTILE} = ")).expect("own");
    for arguments in [
        &["core", "boards"][..],
        &["core", "boards", "--json"],
        &["core", "run", HOSTILE],
    ] {
        let mut command = root.command(arguments);
        command.env("HYTHE_BOARDS", &boards);
        let ended = support::Running::new(command).end();
        is_safe(arguments, &ended);
        assert!(
            (ended.text() + &ended.errors).contains("FORGED"),
            "{arguments:?}"
        );
    }
}

#[test]
fn names_that_are_refused() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "12M"]);
    let user = format!("{HOSTILE}/x");
    for arguments in [
        &["pub", HOSTILE][..],
        &["sub", HOSTILE, "--timeout", "0.1", "--count", "1"],
        &["hz", HOSTILE],
        &["record", HOSTILE, "-o", "/dev/null"],
        &["pool", "show", HOSTILE],
        &["pool", "create", HOSTILE],
        &["pool", "remove", HOSTILE],
        &["list", "--pool", HOSTILE],
        &["pool", "show", &user],
        &["core", "status", HOSTILE],
        &["core", "stop", HOSTILE],
        &["core", "log", HOSTILE],
        &["media", "send", HOSTILE, "--to", "rtp://127.0.0.1:9"],
        &["media", "send", "channel:x", "--to", HOSTILE],
        &["media", "recv", HOSTILE, "--out", "/dev/null"],
        &["media", "serve", HOSTILE],
        &["preload", "show", HOSTILE],
        &["preload", "report", HOSTILE],
        &["replay", HOSTILE],
        &["report", HOSTILE],
        &["latency", "compare", HOSTILE, HOSTILE],
        &["demo", HOSTILE],
        &["pub", "x", "--rate", HOSTILE],
        &[HOSTILE],
    ] {
        for more in [&[][..], &["-vvv"], &["--json"]] {
            let all = [arguments, more].concat();
            let ended = root.run(&all);
            is_safe(&all, &ended);
            assert!(
                matches!(ended.code, Some(1 | 2)),
                "{all:?}: {:?}",
                ended.code
            );
        }
    }
    let filter = root
        .command(&["list"])
        .env("RUST_LOG", format!("{HOSTILE}=no=filter"))
        .output()
        .expect("run");
    let said = String::from_utf8(filter.stderr).expect("text");
    assert!(
        !said.contains('\u{1b}') && said.contains("RUST_LOG"),
        "{said:?}"
    );
}

/// A path whose last part is hostile, and no text either.
fn hostile_path(root: &Root) -> PathBuf {
    let name = [HOSTILE.as_bytes(), b"\xff\x9b"].concat();
    root.path().join(OsStr::from_bytes(&name))
}

fn plain<'a>(root: &Root, name: &str, kept: &'a mut PathBuf) -> &'a str {
    *kept = root.path().join(name);
    kept.to_str().expect("plain")
}

#[test]
fn names_in_recordings_and_packs() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "12M"]);
    let mut kept = PathBuf::new();
    let recording = plain(&root, "recording", &mut kept);
    let out = fs::File::create_new(recording).expect("own");
    let mut header = Header::raw(HOSTILE);
    header.type_name = HOSTILE.to_owned();
    let mut writer = Writer::new(out, &header).expect("spec/recording.md allows it");
    writer.append(0, b"payload").expect("room");
    writer.finish(0).expect("room");
    shows(&root, &["replay", recording, "--list"]);
    shows(&root, &["replay", recording]);

    let mut kept = PathBuf::new();
    let packed = plain(&root, "pack", &mut kept);
    let file = PackFile {
        path: Path::new("/").join(hostile_path(&root)),
        size: 4096,
        mtime_ns: 0,
        inode: 1,
    };
    let pack = Pack {
        files: vec![file],
        extents: vec![Extent {
            file: 0,
            first_page: 0,
            pages: 1,
        }],
        ..Pack::default()
    };
    pack.write(Path::new(packed)).expect("written");
    for command in ["show", "replay"] {
        let ended = root.run(&["preload", command, packed]);
        is_safe(&[command], &ended);
        let text = ended.text() + &ended.errors;
        assert!(text.contains("\\u{1b}"), "{command}: {text}");
    }
    is_safe(
        &["--json"],
        &root.run(&["preload", "show", packed, "--json"]),
    );
}

#[test]
fn names_in_media_and_results() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "12M"]);
    let mut kept = PathBuf::new();
    let sdp = plain(&root, "sdp", &mut kept);
    let field = HOSTILE.replace(['\n', '\r'], "");
    fs::write(
        sdp,
        format!(
            "v=0\r\no=- 0 0 IN IP4 {field}\r\ns={field}\r\n\
             m={field} 5004 {field} 96\r\na=rtpmap:96 {field}/90000\r\n"
        ),
    )
    .expect("own");
    let ended = root.run(&["media", "recv", sdp, "--out", "/dev/null", "--idle", "0.1"]);
    is_safe(&["recv"], &ended);
    let mut kept = PathBuf::new();
    let list = plain(&root, "list.m3u", &mut kept);
    fs::write(list, format!("{field}\n")).expect("own");
    shows(
        &root,
        &["media", "send", list, "--to", "rtp://127.0.0.1:9998"],
    );
    let mut kept = PathBuf::new();
    let targets = plain(&root, "targets", &mut kept);
    fs::write(targets, format!("rtp://{field}:5004\n")).expect("own");
    shows(&root, &["media", "send", list, "--to-file", targets]);

    let mut kept = PathBuf::new();
    let result = plain(&root, "result.json", &mut kept);
    let document = serde_json::json!({
        "schema": "hythe.result/1", "bench": HOSTILE, "command": HOSTILE, "commit": HOSTILE,
        "machine": {"cpu": HOSTILE, "cpus": 1, "kernel": HOSTILE, "emulated": false},
        "results": [{"case": HOSTILE, "metric": HOSTILE, "unit": "ns", "count": 1,
            "min": 0, "p50": 0, "p99": 0, "p999": 0, "max": 0}], "ratios": [],
    });
    fs::write(result, document.to_string()).expect("own");
    let page = root.path().join("page.html");
    for arguments in [
        &["report", result, "-o", page.to_str().expect("plain")][..],
        &["latency", "compare", result, result],
        &["latency", "compare", result, result, "--force"],
    ] {
        is_safe(arguments, &root.run(arguments));
    }
}

#[test]
fn name_that_is_no_text_is_written_out() {
    let root = Root::new();
    let path = hostile_path(&root);
    fs::write(&path, "neither pack nor recording").expect("own");
    for words in [
        &["preload", "show"][..],
        &["replay"],
        &["report", "-o", "page"],
    ] {
        let mut command = root.command(words);
        command.arg(&path);
        let ended = support::Running::new(command).end();
        is_safe(words, &ended);
        let text = ended.text() + &ended.errors;
        assert!(text.contains("\\xff\\x9b"), "{words:?}: {text}");
    }
}
