//! Scenario `core` as a person runs it: every case on every board that runs here, what it refuses,
//! and what becomes of it when the core or the program is ended.
//!
//! Needs the boards that `cargo xtask boards` builds, and QEMU for the emulated one; says so and
//! does nothing where they are not there, except in continuous integration (`CI`), where they have
//! to be.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::long_run::{LongRun, send};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hythe_testing::let_time_pass;
use rustix::process::Signal;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hythe-bench");
/// One fragment and less, some, and more than there are buffers.
const SIZES: [u64; 4] = [8, 496, 8192, 1 << 20];
/// Where rings do not pass the agent, but are measured so, too.
const EVENTFD_BOARD: &str = "virt-a53";

fn bench(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("core").args(arguments).env("HYTHE_ROOT", root);
    command
}

fn root() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory for pools")
}

fn is_empty(root: &Path) -> bool {
    let mut users = std::fs::read_dir(root).expect("the root").flatten();
    users.all(|user| {
        let mut pools = std::fs::read_dir(user.path()).expect("a user");
        pools.next().is_none()
    })
}

fn one_cpu() -> bool {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) == 1
}

/// Whether the tests of a board have to be left out, loudly.
fn is_left_out(board: &str) -> bool {
    let folder = Path::new(PROGRAM).parent().expect("a folder");
    let image = folder.join(format!("../boards/{board}/bench.elf"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let emulator = match board {
        EVENTFD_BOARD => "qemu-system-aarch64",
        _ => "qemu-system-arm",
    };
    let has_emulator = || std::env::split_paths(&path).any(|place| place.join(emulator).is_file());
    let missing = if !image.is_file() {
        format!("{} (`cargo xtask boards`)", image.display())
    } else if board != "hosted" && !has_emulator() {
        emulator.to_owned()
    } else {
        return false;
    };
    assert!(
        std::env::var_os("CI").is_none(),
        "{missing} is missing: `make setup` failed"
    );
    eprintln!("SKIPPED on board {board}: {missing} is missing");
    true
}

fn runs_every_case(board: &str, emulated: bool) {
    if is_left_out(board) {
        return;
    }
    let root = root();
    let arguments = ["--json", "--board", board, "--sizes", "1048576,8192,496,8"];
    let output = bench(root.path(), &arguments)
        .args(["--seconds", "1", "--rounds", "2", "--count", "30"])
        .output()
        .expect("it runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "core");
    assert_eq!(document["machine"]["emulated"], emulated);
    assert_eq!(document["conditions"]["board"], board);
    assert_eq!(document["conditions"]["emulated"], emulated);
    if !one_cpu() {
        check_cases(&document, board == EVENTFD_BOARD);
        check_ratios(&document, board == EVENTFD_BOARD);
    }
    let rings = |by_agent: bool| match board == EVENTFD_BOARD && !by_agent {
        true => "eventfd",
        false => "agent",
    };
    assert_eq!(document["conditions"]["rings"], rings(false));
    for row in document["results"].as_array().expect("results") {
        assert_eq!(row["conditions"]["board"], board);
        assert_eq!(row["conditions"]["emulated"], emulated);
        let case = row["case"].as_str().expect("a case");
        assert_eq!(
            row["conditions"]["rings"],
            rings(case.starts_with("agent/"))
        );
        check_times(row);
    }
    assert!(is_empty(root.path()), "a pool stayed behind");
}

/// Each of them once, and nothing else.
fn check_cases(document: &Value, has_eventfds: bool) {
    let results = document["results"].as_array().expect("results");
    for size in SIZES {
        for system in ["hythe", "agent", "copy"] {
            for wait in ["poll", "bell"] {
                for payload in ["untouched", "filled"] {
                    let case = format!("{system}/{wait}/{payload}");
                    let is_it = |row: &&Value| row["case"] == case && row["size_bytes"] == size;
                    let is_measured = system != "agent" || has_eventfds && wait == "bell";
                    let found = results.iter().filter(is_it).count();
                    assert_eq!(found, usize::from(is_measured), "{case} {size}");
                }
            }
        }
    }
    let cases = if has_eventfds { 10 } else { 8 };
    assert_eq!(results.len(), SIZES.len() * cases);
}

fn check_times(row: &Value) {
    let case = row["case"].as_str().expect("a case");
    assert_eq!(
        (&row["metric"], &row["unit"]),
        (&"round_trip".into(), &"ns".into())
    );
    let figure = |name: &str| {
        row[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{case} {name}"))
    };
    let figures = ["min", "p50", "p99", "p999", "max"].map(figure);
    assert!(figures[0] > 0 && figures.is_sorted(), "{case}: {figures:?}");
    let text = row["histogram"].as_str().expect("a histogram");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut &bytes.expect("base64")[..])
        .expect("an HdrHistogram");
    assert_eq!(histogram.len(), figure("count"), "{case}");
}

fn check_ratios(document: &Value, has_eventfds: bool) {
    let ratios = document["ratios"].as_array().expect("ratios");
    let has = |name: &str, size: u64| {
        let mut matching = ratios
            .iter()
            .filter(|ratio| ratio["name"] == name && ratio["size_bytes"] == size);
        matching.any(|ratio| ratio["value"].is_number())
    };
    for size in SIZES {
        for which in [
            "poll untouched",
            "poll filled",
            "bell untouched",
            "bell filled",
        ] {
            let name = format!("copy/hythe {which} p50");
            assert!(has(&name, size), "{name} {size}");
        }
        for payload in ["untouched", "filled"] {
            let name = format!("agent/eventfd bell {payload} p50");
            assert_eq!(has(&name, size), has_eventfds, "{name} {size}");
        }
    }
    assert!(has(
        "hythe poll untouched p50 largest/smallest size",
        1 << 20
    ));
}

#[test]
fn every_case_runs_on_the_hosted_board() {
    runs_every_case("hosted", false);
}

#[test]
fn every_case_runs_on_the_emulated_board() {
    runs_every_case("mps2-an386", true);
}

#[test]
fn every_case_runs_on_the_board_with_eventfds() {
    runs_every_case(EVENTFD_BOARD, true);
}

#[test]
fn ports_and_cores_that_share_have_rows_of_their_own() {
    if is_left_out("hosted") {
        return;
    }
    let root = root();
    let arguments = ["--json", "--board", "hosted", "--shared", "--sizes", "8"];
    let output = bench(root.path(), &arguments)
        .args(["--systems", "hythe", "--waits", "bell"])
        .args(["--seconds", "2", "--rounds", "2", "--count", "30"])
        .output()
        .expect("it runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let results = document["results"].as_array().expect("results");
    let of = |metric: &str, ports: u64, cores: u64| {
        let is_it = |row: &&Value| {
            let place = &row["conditions"];
            row["metric"] == metric
                && row["case"] == "hythe/bell/untouched"
                && row["size_bytes"] == 4096
                && (&place["ports"], &place["cores"]) == (&ports.into(), &cores.into())
        };
        results.iter().find(is_it)
    };
    for (ports, cores) in [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2)] {
        check_times(of("round_trip", ports, cores).expect("round trips"));
        let rate = of("rate", ports, cores).and_then(|row| row["value"].as_f64());
        assert!(rate.is_some_and(|rate| rate > 0.0), "{ports} {cores}");
    }
    assert!(is_empty(root.path()), "a pool stayed behind");
}

/// The tests of this file run beside each other, so others use its CPUs: a run may say that it is
/// not valid, and nothing else.
fn beside_others(arguments: &[&str]) -> Value {
    let document = valid_or_not(arguments);
    let invalid = document["conditions"]["invalid"].as_str();
    assert!(
        invalid.is_none_or(|why| why.starts_with("others used")),
        "{invalid:?}"
    );
    let others = document["conditions"]["others"].as_f64().expect("a share");
    assert_eq!(others > 0.05, invalid.is_some(), "{others} {invalid:?}");
    document
}

/// The document on the hosted board, also of a run that says that it is not valid.
fn valid_or_not(arguments: &[&str]) -> Value {
    let root = root();
    let mut run = bench(root.path(), &["--board", "hosted", "--json"]);
    let output = run.args(arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no document ({error}): {said}"));
    let invalid = document["conditions"]["invalid"].as_str();
    let expected = invalid.map_or(0, |_| 1);
    assert_eq!(output.status.code(), Some(expected), "{said}");
    assert!(is_empty(root.path()), "a pool stayed behind");
    document
}

fn row<'d>(document: &'d Value, case: &str, size: u64) -> &'d Value {
    let rows = document["results"].as_array().expect("rows");
    let is_it = |row: &&Value| row["case"] == *case && row["size_bytes"] == size;
    let row = rows.iter().find(is_it);
    let row = row.unwrap_or_else(|| panic!("no {case} of {size} bytes"));
    assert!(row["p50"].as_u64().is_some_and(|time| time > 0), "{case}");
    assert_eq!(row["unit"], "ns");
    row
}

fn has_ratio(document: &Value, name: &str) -> bool {
    let ratios = document["ratios"].as_array().expect("ratios");
    ratios.iter().any(|ratio| ratio["name"] == *name)
}

#[test]
fn services_have_rows_beside_their_floor_and_the_kernels_own() {
    if is_left_out("hosted") || one_cpu() {
        return;
    }
    let document = beside_others(&["--services", "--seconds", "1", "--rounds", "2"]);
    for (case, sizes) in [
        ("hythe/adaptive/ping", &[64, 4096][..]),
        ("hythe/adaptive/semaphore", &[0]),
        ("futex/adaptive/semaphore", &[0]),
        ("hythe/adaptive/message", &[64, 4096]),
        ("hythe/adaptive/call", &[64, 4096]),
        ("hythe/block/semaphore", &[0]),
        ("futex/block/semaphore", &[0]),
        ("hythe/block/message", &[64, 4096]),
        ("mq/block/message", &[64, 4096]),
        ("core/adaptive/ping", &[64, 4096]),
        ("core/adaptive/call", &[64, 4096]),
    ] {
        for &size in sizes {
            let row = row(&document, case, size);
            assert_eq!(row["metric"], "round_trip", "{case}");
            let board = row["conditions"]["board"].as_str();
            assert_eq!(board.is_some(), case.starts_with("core/"), "{case}");
        }
    }
    for case in ["hythe/segment", "shmget/segment", "core/segment"] {
        assert_eq!(row(&document, case, 4096)["metric"], "duration");
    }
    for name in [
        "hythe adaptive semaphore/hythe adaptive ping p50",
        "hythe block semaphore/futex block semaphore p50",
        "hythe block message/mq block message p50",
        "hythe segment/shmget segment p50",
        "core adaptive call/core adaptive ping p50",
    ] {
        assert!(has_ratio(&document, name), "no {name}");
    }
}

/// A second of a movie.
fn film(folder: &Path) -> String {
    let film = folder.join("film.mp4").display().to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/encode-movie.sh");
    let encoded = Command::new(script).args([&*film, "1"]).status();
    assert!(encoded.expect("the script runs").success(), "ffmpeg");
    film
}

/// Whether there is no `hythe` beside this test, loudly.
fn has_no_product() -> bool {
    if Path::new(PROGRAM).with_file_name("hythe").is_file() {
        return false;
    }
    assert!(std::env::var_os("CI").is_none(), "hythe is not built");
    eprintln!("SKIPPED: `hythe` is missing (`cargo build --workspace`)");
    true
}

#[test]
fn player_plays_with_each_method() {
    if is_left_out("hosted") || one_cpu() || has_no_product() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let film = film(folder.path());
    // On a loaded machine frames may be late, or lost.
    let document = valid_or_not(&["--player", &film, "--rounds", "2"]);
    for system in ["hythe", "copy"] {
        let case = format!("{system}/plays");
        let rows = document["results"].as_array().expect("rows");
        let of = |metric: &str| {
            let is_it = |row: &&Value| row["case"] == *case && row["metric"] == *metric;
            let row = rows.iter().find(is_it);
            row.unwrap_or_else(|| panic!("no {metric} of {case}"))
        };
        let dropped = of("frames_dropped");
        let lost = dropped["value"].as_f64().expect("a number");
        assert_eq!(dropped["count"], 50, "{case}");
        for (metric, count) in [
            ("sync_error", 50.0 - lost),
            ("file_to_shown", 50.0 - lost),
            ("decode", 50.0 - lost),
            ("linux_cpu", 2.0),
        ] {
            let row = of(metric);
            assert_eq!(row["count"].as_f64(), Some(count), "{case} {metric}");
            assert_eq!(row["size_bytes"], 320 * 240 * 3 / 2, "{case} {metric}");
            assert_eq!(row["conditions"]["board"], "hosted", "{case} {metric}");
            let figures = ["min", "p50", "p99", "p999", "max"].map(|name| row[name].as_u64());
            assert!(figures.is_sorted() && figures[0].is_some(), "{figures:?}");
        }
    }
    for metric in ["sync_error", "file_to_shown", "decode", "linux_cpu"] {
        let name = format!("copy/hythe {metric} p50");
        assert!(has_ratio(&document, &name), "no {name}");
    }
}

#[test]
fn movie_that_cannot_be_played_is_told_by_the_player() {
    if is_left_out("hosted") || one_cpu() || has_no_product() {
        return;
    }
    let root = root();
    let arguments = ["--board", "hosted", "--player", "/dev/null/film.mp4"];
    let output = bench(root.path(), &arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(
        said.contains("hythe play") && said.contains("film.mp4"),
        "{said}"
    );
    assert!(is_empty(root.path()), "a pool stayed behind");
}

/// Nothing on a core allocates: an allocator is not in its image, by name or at all.
#[test]
fn images_of_cores_have_no_allocator() {
    let boards = Path::new(PROGRAM)
        .parent()
        .expect("a folder")
        .join("../boards");
    for (board, app) in [
        ("mps2-an386", "p1"),
        ("mps2-an386", "bench"),
        ("virt-a53", "p1"),
    ] {
        if is_left_out(board) {
            continue;
        }
        let image = std::fs::read(boards.join(format!("{board}/{app}.elf"))).expect("an image");
        // As they stand in the table of symbols' names.
        let has = |symbol: &str| {
            let name = format!("\0{symbol}\0");
            image
                .windows(name.len())
                .any(|bytes| bytes == name.as_bytes())
        };
        assert!(
            has("hythe_receive"),
            "{board}/{app} has no names to look for"
        );
        for symbol in [
            "malloc",
            "_malloc_r",
            "free",
            "_sbrk",
            "pvPortMalloc",
            "vPortFree",
        ] {
            assert!(!has(symbol), "{board}/{app} has {symbol}");
        }
    }
}

#[test]
fn pairs_run_on_one_cpu_and_on_two() {
    if is_left_out("hosted") || one_cpu() {
        return;
    }
    let few = ["--sizes", "65536", "--seconds", "0.1", "--rounds", "1"];
    let document = beside_others(&[&["--pair"], &few[..]].concat());
    for system in ["hythe", "sysv", "core-writes", "core-reads"] {
        for payload in ["stored", "computed"] {
            for (placement, is_shared) in [("one-cpu", true), ("two-cpus", false)] {
                let case = format!("{system}/{placement}/{payload}");
                let row = row(&document, &case, 65_536);
                assert_eq!(row["metric"], "message");
                let pinned = row["conditions"]["pinned"].as_array().expect("CPUs");
                assert_eq!(pinned[0] == pinned[1], is_shared, "{case}");
            }
            let name = format!("{system} {payload} one CPU/two CPUs p50");
            assert!(has_ratio(&document, &name), "no {name}");
        }
    }
    for case in ["first-touch/pages", "prefaulted/pages", "walk/pages"] {
        row(&document, case, 64 << 20);
    }
}

#[test]
fn without_json_it_is_a_table_that_names_the_board() {
    for (board, label) in [("hosted", None), ("mps2-an386", Some("EMULATED"))] {
        if is_left_out(board) {
            continue;
        }
        let root = root();
        let output = bench(
            root.path(),
            &["--board", board, "--quick", "--waits", "bell"],
        )
        .output()
        .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        let expected = [board, "copy/bell/filled", "p99.9", "ratio"];
        for expected in expected.into_iter().chain(label) {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(text.contains("EMULATED"), label.is_some(), "{text}");
    }
}

#[test]
fn command_refuses_meaningless_options() {
    let root = root();
    for arguments in [
        ["--sizes", "12"],
        ["--sizes", "2097152"],
        ["--waits", "block"],
        ["--player", "--pair"],
    ] {
        let output = bench(root.path(), &arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    let output = bench(root.path(), &["--board", "toaster"]).output();
    let Output { status, stderr, .. } = output.expect("it runs");
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("toaster"), "{said}");
    assert!(is_empty(root.path()), "a pool stayed behind");
}

fn long_run(root: &Path, system: &str, wait: &str) -> LongRun {
    let arguments = ["--json", "--board", "hosted", "--count", "1000000000"];
    LongRun::start(
        bench(root, &arguments)
            .args(["--seconds", "600", "--rounds", "1", "--sizes", "8192"])
            .args(["--payloads", "filled", "--systems", system, "--waits", wait]),
    )
}

fn is_core(pid: u32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = command.split(|&byte| byte == 0).next().unwrap_or_default();
    program.ends_with(b"/bench.elf")
}

#[test]
fn core_that_is_killed_is_a_lost_peer() {
    if is_left_out("hosted") || one_cpu() {
        return;
    }
    for (system, wait) in [
        ("hythe", "poll"),
        ("hythe", "bell"),
        ("copy", "poll"),
        ("copy", "bell"),
    ] {
        let root = root();
        let run = long_run(root.path(), system, wait);
        let core = run.child(is_core);
        let moment = Duration::from_millis(300);
        let_time_pass(
            moment,
            "in the middle of it, or at its start: both are noticed",
        );
        send(Signal::KILL, core);
        let said = run.complaint();
        // On a busy machine it is gone before it is met, or before a call finds it lost.
        let is_noticed = ["lost: the core", "no core is behind", "it is not running"];
        let is_noticed = is_noticed.iter().any(|what| said.contains(what));
        assert!(is_noticed, "{system}/{wait}: {said}");
        assert!(
            is_empty(root.path()),
            "{system}/{wait}: a pool stayed behind"
        );
    }
}

#[test]
fn signal_ends_it_in_order() {
    if is_left_out("hosted") {
        return;
    }
    let root = root();
    let run = long_run(root.path(), "copy", "bell");
    let core = run.child(is_core);
    let moment = Duration::from_millis(300);
    let_time_pass(
        moment,
        "in the middle of it, or at its start: both end in order",
    );
    send(Signal::TERM, run.id());
    let said = run.complaint();
    assert!(said.contains("stopped by a signal"), "{said}");
    assert!(is_empty(root.path()), "a pool stayed behind");
    assert!(!is_core(core), "the core stayed behind");
}
