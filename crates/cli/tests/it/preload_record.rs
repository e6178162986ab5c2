//! `hythe preload record`: exactly what was needed, and everything as before whatever ends it.
//!
//! Read-ahead and caches belong to the whole machine: these tests run one at a time, and record
//! again when somebody else got in between, which the recorder tells. They need root, a C compiler,
//! and a build directory on storage.

use crate::support;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::place::{FILE_PAGES, Place, text};
use crate::support::{Root, Running, eventually};
use rustix::process::{Signal, geteuid};
use serde_json::Value;

/// What read-ahead is set to, by file.
fn read_ahead() -> BTreeMap<PathBuf, String> {
    let devices = fs::read_dir("/sys/class/bdi").expect("sysfs").flatten();
    let files = devices.map(|device| device.path().join("read_ahead_kb"));
    files
        .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
        .collect()
}

fn is_off(values: &BTreeMap<PathBuf, String>) -> bool {
    values.values().all(|value| value.trim() == "0")
}

/// The processes whose command line ends with these words.
fn processes_with(words: &str) -> usize {
    let end: Vec<u8> = words
        .split(' ')
        .flat_map(|word| [word.as_bytes(), b"\0"].concat())
        .collect();
    let all = fs::read_dir("/proc").expect("proc").flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.ends_with(&end)).count()
}

#[test]
fn pack_that_cannot_be_written_keeps_the_command_from_running() {
    let (root, folder) = (Root::new(), tempfile::tempdir().expect("made"));
    let ran = folder.path().join("ran");
    let missing = folder.path().join("missing/x.pack");
    for output in [missing.as_path(), Path::new("/proc/x.pack"), folder.path()] {
        let command = ["--force", "-o", text(output), "--", "touch", text(&ran)];
        let ended = root.run(&[&["preload", "record"], &command[..]].concat());
        ended.failed(1, &["cannot write", text(output)]);
        assert!(!ran.exists(), "{output:?}");
    }
    let left = fs::read_dir(folder.path()).expect("read").count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn exactly_the_pages_that_were_used_are_in_the_pack_each_time() {
    let Some(place) = Place::new() else { return };
    let before = read_ahead();
    let (file, program) = (place.file("data"), place.touch_program());
    let uses = "r 5 1 m 300 2 m 700 40 r 303 3 r 1023 1 m 400 3 o 400 3".split(' ');
    let command: Vec<&str> = [text(&program), text(&file)]
        .into_iter()
        .chain(uses)
        .collect();
    let mut first: Option<Vec<_>> = None;
    for _ in 0..2 {
        let document = place.record(&["--scratch-limit", "256M"], &command);
        assert_eq!(document["command"]["exit_code"], 0);
        let mut expected = vec![(5, 1), (300, 2), (303, 3), (400, 3), (700, 40), (1023, 1)];
        if document["evictions_told"] == false {
            println!("skipped: what was thrown out of memory again cannot be found by this kernel");
            expected.remove(3);
        }
        let mut found = place.pages_of(&file).expect("recorded");
        // Where tracefs is mounted, they stand in the order of their use.
        found.sort_unstable();
        assert_eq!(found, expected);
        assert!(place.pages_of(&program).is_some(), "the program itself");
        let pack = place.pack();
        let libc = pack
            .files
            .iter()
            .position(|found| text(&found.path).contains("/libc.so"));
        let libc = libc.expect("the C library") as u32;
        let of_libc: u64 = pack
            .extents
            .iter()
            .filter(|extent| extent.file == libc)
            .map(|extent| u64::from(extent.pages))
            .sum();
        // Every program has it in memory, and yet the recorder knows what of it was needed here.
        assert!(document["copied"]["files"].as_u64() > Some(0), "{document}");
        assert!(
            of_libc < pack.files[libc as usize].size / 4096 / 2,
            "{of_libc} pages"
        );
        // What else runs on this machine may use other files.
        let found: Vec<_> = [pack.files[libc as usize].path.clone(), program.clone()]
            .iter()
            .map(|path| place.pages_of(path))
            .collect();
        assert_eq!(*first.get_or_insert(found.clone()), found);
    }
    assert_eq!(read_ahead(), before);
}

#[test]
fn pack_omits_linker_cache_reads_of_other_programs() {
    let Some(place) = Place::new() else { return };
    let cache = Path::new("/etc/ld.so.cache");
    let pages = fs::metadata(cache).map_or(0, |found| found.len().div_ceil(4096));
    if pages < 8 {
        println!("skipped: {} is too small to tell", cache.display());
        return;
    }
    let (file, program) = (place.file("data"), place.touch_program());
    let over = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                fs::read(cache).expect("there");
            }
        });
        let command = [text(&program), text(&file), "r", "5", "1"];
        place.record(&["--scratch-limit", "256M"], &command);
        over.store(true, Ordering::Relaxed);
        place.pages_of(cache).expect("the dynamic linker reads it")
    });
    let found: u64 = found.iter().map(|(_, pages)| u64::from(*pages)).sum();
    assert!(found < pages, "all {pages} pages are in the pack");
}

#[test]
fn pack_lists_hard_links_once_under_first_name() {
    let Some(place) = Place::new() else { return };
    let file = place.file("plain");
    let [hard, soft] = ["hard", "soft"].map(|name| place.path(name));
    fs::hard_link(&file, &hard).expect("linked");
    std::os::unix::fs::symlink(&file, &soft).expect("linked");
    let script = r#"head -c 10 "$1"; tail -c 10 "$2"; head -c 5000 "$3""#;
    let names = [text(&hard), text(&soft), text(&file)];
    place.record(&[], &[&["sh", "-c", script, "sh"][..], &names].concat());
    assert!(place.pages_of(&file).is_none() && place.pages_of(&soft).is_none());
    let pages = place.pages_of(&hard).expect("recorded");
    assert_eq!(pages.first().map(|first| first.0), Some(0));
    let last = FILE_PAGES as u32 - 1;
    assert!(pages.iter().any(|(first, count)| first + count - 1 == last));
    assert!(pages.iter().map(|(_, pages)| pages).sum::<u32>() < 20);
}

#[test]
fn record_counts_written_removed_and_excluded_files() {
    let Some(place) = Place::new() else { return };
    let [kept, grown, rewritten, gone, excluded] =
        ["kept", "grown", "rewritten", "gone", "excluded"].map(|name| place.file(name));
    let script = r#"cd "$1"; cat kept grown rewritten gone excluded >/dev/null; echo more >>grown; : >empty
        cat gone >new; cat new >/dev/null; printf x | dd of=rewritten conv=notrunc 2>/dev/null; touch -d '2001-01-01' rewritten; rm gone"#;
    let command = ["sh", "-c", script, "sh", text(place.directory.path())];
    let document = place.record(&["--exclude", "*/excluded", "--any-inode"], &command);
    assert!(place.pages_of(&kept).is_some());
    for path in [&grown, &rewritten, &gone, &excluded, &place.path("new")] {
        assert!(place.pages_of(path).is_none(), "{}", path.display());
    }
    assert!(place.pack().any_inode);
    let left_out = &document["left_out"];
    // `empty` and `new` were written, too.
    assert_eq!(left_out["written"], 4, "{document}");
    assert_eq!(
        (&left_out["gone"], &left_out["excluded"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn record_includes_children_and_standard_input_only() {
    let Some(place) = Place::new() else { return };
    let [input, deep, foreign] = ["input", "deep", "foreign"].map(|name| place.file(name));
    let output = place.pack_path();
    let script =
        r#"head -c 10 >/dev/null; (setsid sh -c 'head -c 10 "$0" >/dev/null' "$1" &) ; sleep 0.5"#;
    let arguments = Place::arguments(&[], text(&output), &["sh", "-c", script, "sh", text(&deep)]);
    let mut command = place.root.command(&arguments);
    command.stdin(File::open(&input).expect("there"));
    let running = Running::new(command);
    eventually("its read-ahead is off", || is_off(&read_ahead()));
    while read_ahead().values().any(|value| value.trim() == "0") && !output.exists() {
        fs::read(&foreign).expect("there");
    }
    let ended = running.end();
    if ended.errors.contains("dropped the caches") {
        return println!("skipped: somebody dropped the caches meanwhile");
    }
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert_eq!(place.pages_of(&input).expect("recorded")[0].0, 0);
    assert!(place.pages_of(&deep).is_some());
    assert!(place.pages_of(&foreign).is_none());
}

#[test]
fn command_keeps_its_output_and_its_failure_is_told() {
    let Some(place) = Place::new() else { return };
    let plain = place.run(&[], &["echo", "plain"]);
    assert_eq!((plain.code, plain.text().as_str()), (Some(0), "plain\n"));
    assert!(plain.errors.contains("fanotify"), "{}", plain.errors);
    let json = place.run(&["--json"], &["sh", "-c", "echo words; exit 3"]);
    let document: Value = serde_json::from_slice(&json.output).expect("one document");
    assert_eq!(document["command"]["exit_code"], 3);
    assert!(json.errors.contains("words") && json.errors.contains("the pack was written"));
    assert_eq!(json.code, Some(1));
    fs::remove_file(place.pack_path()).expect("written all the same");
    let nothing = place.run(&[], &["/nowhere/program"]);
    nothing.failed(1, &["cannot run /nowhere/program"]);
    assert!(!place.pack_path().exists());
    fs::write(place.pack_path(), "precious").expect("written");
    let output = place.pack_path();
    let refused = place
        .root
        .run(&["preload", "record", "-o", text(&output), "--", "true"]);
    refused.failed(1, &["--force"]);
    assert_eq!(fs::read(&output).expect("there"), b"precious");
    place
        .root
        .run(&["preload", "record", "-o", text(&output)])
        .failed(2, &["--boot"]);
}

#[test]
fn service_is_ended_when_the_time_is_up() {
    let Some(place) = Place::new() else { return };
    let file = place.file("data");
    let script = r#"head -c 10 "$1" >/dev/null; sleep 31547 & trap 'kill $!; exec cat "$1" >/dev/null' TERM; wait"#;
    let command = ["sh", "-c", script, "sh", text(&file)];
    let document = place.record(&["--for", "0.7"], &command);
    assert_eq!(document["command"]["stopped"], true);
    // What it reads in order to end is not what it needs in order to start.
    assert!(
        place
            .pages_of(&file)
            .expect("recorded")
            .iter()
            .all(|(first, _)| *first < 10)
    );
}

#[test]
fn killed_recorder_leaves_everything_as_it_was() {
    let Some(place) = Place::new() else { return };
    let before = read_ahead();
    let scratch = place.path("scratch");
    fs::create_dir(&scratch).expect("made");
    let output = place.pack_path();
    let options = ["--scratch", text(&scratch)];
    let command = ["sleep", "31546"];
    let running = place
        .root
        .start(&Place::arguments(&options, text(&output), &command));
    // The recorder itself, and its command.
    eventually("it records", || {
        is_off(&read_ahead()) && processes_with("sleep 31546") == 2
    });
    assert_ne!(fs::read_dir(&scratch).expect("there").count(), 0);
    let second = place.root.run(&Place::arguments(
        &[],
        text(&place.path("second.pack")),
        &["true"],
    ));
    second.failed(1, &["another recording"]);
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    eventually("the guard is done", || {
        processes_with("preload record-guard") == 0
    });
    assert_eq!(read_ahead(), before);
    assert_eq!(fs::read_dir(&scratch).expect("there").count(), 0);
    eventually("the command is gone", || processes_with("sleep 31546") == 0);
}

#[test]
fn boot_is_recorded_until_a_file_appears() {
    let Some(place) = Place::new() else { return };
    let before = read_ahead();
    let [in_use, opened] = ["in use", "opened"].map(|name| place.file(name));
    let held = File::open(&in_use).expect("there");
    let (output, end) = (place.pack_path(), place.path("the end"));
    let running = place.root.start(&[
        "preload",
        "record",
        "--boot",
        "--json",
        "--force",
        "-o",
        text(&output),
        "--until",
        text(&end),
    ]);
    let recorder = running.child.id();
    eventually("it watches", || watches(recorder));
    let script = r#"head -c 10 "$1"; head -c 10 "$2""#;
    let used = Command::new("sh")
        .args(["-c", script, "sh", text(&opened), text(&in_use)])
        .output()
        .expect("run");
    assert!(used.status.success());
    fs::write(&end, "").expect("written");
    let ended = running.end();
    drop(held);
    if ended.errors.contains("dropped the caches") {
        return println!("skipped: somebody dropped the caches meanwhile");
    }
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let document: Value = serde_json::from_slice(&ended.output).expect("one document");
    assert!(document["found_in_use"].as_u64() > Some(0));
    let pages = place.pages_of(&opened).expect("recorded");
    assert!(pages.iter().all(|(first, _)| *first < 10), "{pages:?}");
    assert!(place.pages_of(&in_use).is_some());
    let own = fs::canonicalize(support::beside("hythe-preload")).expect("there");
    assert!(place.pages_of(&own).is_none(), "the recorder's own pages");
    assert_eq!(read_ahead(), before);
}

/// Does this process have marks?
fn watches(process: u32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{process}/fdinfo"))
        .expect("it runs")
        .flatten();
    let texts = descriptors.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts
        .into_iter()
        .any(|text| text.contains("fanotify mnt_id") || text.contains("fanotify sdev"))
}

#[test]
fn without_privilege_the_refusal_says_what_is_missing() {
    let root = Root::new();
    let folder = root.path().join("writable");
    fs::create_dir(&folder).expect("made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("set");
    let output = folder.join("out.pack");
    let mut command = root.command(&["preload", "record", "-o", text(&output), "--", "true"]);
    if geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let ended = match command.spawn() {
        Ok(mut child) => {
            drop(child.stdin.take());
            let ended = child.wait_with_output().expect("ended");
            (
                ended.status.code(),
                String::from_utf8_lossy(&ended.stderr).into_owned(),
            )
        }
        Err(error) => return println!("skipped: another user cannot run the program: {error}"),
    };
    assert_eq!(ended.0, Some(1));
    assert!(
        ended.1.contains("CAP_SYS_ADMIN") || ended.1.contains("fanotify"),
        "{}",
        ended.1
    );
    assert!(!output.exists());
}
