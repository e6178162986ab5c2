//! Scenario `preload` as a person runs it: one short boot, and what happens when something is
//! missing, broken or stopped.
//!
//! Needs the emulated board that `make setup` prepares; says so and does nothing where it is not
//! there, except in continuous integration (`CI`), where it has to be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hythe_testing::eventually_some;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hythe-bench");

/// Its temporary files go into a directory of the test's own, which shall be empty afterwards.
fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("preload").args(arguments).env("TMPDIR", folder);
    command
}

fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().expect("it runs");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, complaint)
}

/// What of the set-up is missing.
fn missing() -> Option<String> {
    let guest = Path::new(PROGRAM)
        .parent()
        .map(|folder| folder.join("../guest"));
    let guest = guest.expect("a folder");
    let files = ["kernel", "initramfs"].map(|name| guest.join(name));
    let tools = ["qemu-system-x86_64", "mkfs.ubifs", "ubinize"].map(in_path);
    let absent = files.into_iter().find(|path| !path.is_file());
    absent
        .map(|path| path.display().to_string())
        .or_else(|| tools.into_iter().find_map(Result::err))
}

fn in_path(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places
        .find(|place| place.is_file())
        .ok_or_else(|| name.to_owned())
}

/// Whether the test has to be left out, loudly.
fn is_left_out() -> bool {
    let Some(what) = missing() else { return false };
    assert!(
        std::env::var_os("CI").is_none(),
        "{what} is missing: `make setup` failed"
    );
    eprintln!("SKIPPED: {what} is missing: run `make setup`");
    true
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("the folder").next().is_none()
}

#[test]
fn file_is_in_memory_before_the_board_begins_its_work() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "--json", "--boots", "1", "--sizes", "524288", "--ways", "preload",
    ];
    let (output, complaint) = run(&mut bench(folder.path(), &arguments));
    assert!(output.status.success(), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "preload");
    assert_eq!(document["machine"]["emulated"], true);
    assert_eq!(document["conditions"]["invalid"], Value::Null);
    let row = &document["results"][0];
    assert_eq!(row["case"], "preload/ubifs");
    assert_eq!(row["metric"], "start_to_finish");
    assert_eq!(
        (&row["size_bytes"], &row["count"]),
        (&Value::from(524_288), &Value::from(1))
    );
    // `AAA` to `BBB`, with half a MiB from flash of some MB/s in between.
    assert!(row["p50"].as_u64() > Some(10_000_000), "{row}");
    let conditions = &row["conditions"];
    assert_eq!(conditions["pages"], 128);
    assert_eq!(conditions["resident_at_start"], 128, "{row}");
    assert_eq!(conditions["resident_before_use"], 128, "{row}");
    assert!(is_empty(folder.path()));
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn stopped_bench_ends_board_and_shows_results() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "--json", "--boots", "1000", "--sizes", "4096", "--ways", "plain",
    ];
    let bench = bench(folder.path(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let first = eventually_some("the first emulator", || emulator_of(&bench));
    let second = eventually_some("the second emulator", || {
        emulator_of(&bench).filter(|board| *board != first)
    });
    let pid = rustix::process::Pid::from_child(&bench);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("asked to stop");
    let output = bench.wait_with_output().expect("waited");
    assert_eq!(output.status.code(), Some(1));
    assert!(!is_emulator(&second), "process {second} is left over");
    assert!(is_empty(folder.path()));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert!(
        document["results"][0]["count"].as_u64() >= Some(1),
        "{document}"
    );
    let invalid = document["conditions"]["invalid"].as_str();
    assert!(
        invalid.is_some_and(|why| why.contains("stopped by a signal")),
        "{document}"
    );
}

/// The child that is QEMU already, not only about to be.
fn emulator_of(bench: &Child) -> Option<String> {
    let pid = bench.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let mut children = children.split_ascii_whitespace();
    children.find(|child| is_emulator(child)).map(str::to_owned)
}

fn is_emulator(pid: &str) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.starts_with("qemu-system-x86"))
}

#[test]
fn board_that_does_not_come_up_is_shown_with_its_last_words() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let guest = tempfile::tempdir().expect("a folder");
    for name in ["kernel", "initramfs"] {
        fs::write(guest.path().join(name), "not a kernel").expect("written");
    }
    let arguments = ["--quick", "--ways", "plain"];
    let (output, complaint) =
        run(bench(folder.path(), &arguments).env("HYTHE_GUEST", guest.path()));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint.contains("plain/ubifs, 1048576 bytes"),
        "{complaint}"
    );
    assert!(complaint.contains("qemu-system-x86_64: "), "{complaint}");
    assert!(is_empty(folder.path()));
}

#[test]
fn bench_names_missing_parts_of_set_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("nowhere");
    let (output, complaint) = run(bench(folder.path(), &["--quick"]).env("HYTHE_GUEST", &nowhere));
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains("nowhere/kernel"), "{complaint}");
    assert!(complaint.contains("make setup"), "{complaint}");
}

#[test]
fn impossible_boards_are_refused() {
    for wrong in [
        ["--fs", "xfs"],
        ["--sizes", "4194305"],
        ["--sizes", "0"],
        ["--boots", "0"],
        ["--ways", "magic"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (output, _) = run(&mut bench(folder.path(), &wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
