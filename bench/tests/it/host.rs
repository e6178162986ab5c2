//! Scenario `host` as a person runs it, by small runs.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::Value;

fn is_skipped() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: the two networks of scenario host need root");
    }
    !is_root
}

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hythe-bench"))
        .arg("host")
        .args(arguments)
        .output()
        .expect("it runs")
}

#[test]
fn every_case_runs_and_the_document_has_its_shape() {
    if is_skipped() {
        return;
    }
    let output = bench(&[
        "--json",
        "--systems",
        "tcp,udp,sysv,floor-udp",
        "--waits",
        "block",
        "--sizes",
        "64,65536",
        "--count",
        "20",
        "--rounds",
        "2",
        "--seconds",
        "1",
    ]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    // On a busy machine the figures are not valid, and there all the same.
    let document: Value = serde_json::from_slice(&output.stdout).expect(&complaint);
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "host");
    let results = document["results"].as_array().expect("results");
    let rows: Vec<(&str, u64, u64)> = results
        .iter()
        .map(|row| {
            assert_eq!(row["metric"], "round_trip");
            assert!(row["count"].as_u64() >= Some(20), "{row}");
            let copies = row["kernel_copies"].as_u64().expect("copies");
            let size = row["size_bytes"].as_u64().expect("a size");
            (row["case"].as_str().expect("a case"), size, copies)
        })
        .collect();
    let expected = [
        ("tcp/local/block/filled", 64, 2),
        ("udp/local/block/filled", 64, 2),
        ("sysv/local/block/filled", 64, 0),
        ("floor-udp/remote/block/filled", 64, 2),
        ("tcp/remote/block/filled", 64, 2),
        ("udp/remote/block/filled", 64, 2),
        ("tcp/local/block/filled", 65_536, 2),
        ("udp/local/block/filled", 65_536, 2),
        ("sysv/local/block/filled", 65_536, 0),
        ("tcp/remote/block/filled", 65_536, 2),
        ("udp/remote/block/filled", 65_536, 2),
    ];
    assert_eq!(rows, expected);
    let skipped = document["conditions"]["skipped"].to_string();
    assert!(
        skipped.contains("floor-udp/remote/block/filled, 65536 bytes"),
        "{skipped}"
    );
}

/// Those that are installed run, those that are not are named with what is missing. MPICH's ranks
/// at times never find each other, which its row says.
#[test]
fn peers_with_own_starter_run_or_are_reported_missing() {
    if is_skipped() {
        return;
    }
    let words = ["--json", "--quick", "--systems", "openmpi,mpich,ucx,pvm"];
    let output = bench(&[&words[..], &["--sizes", "64", "--count", "20"]].concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    let (mut said, mut results) = (complaint.to_string(), Vec::new());
    if let Ok(document) = serde_json::from_slice::<Value>(&output.stdout) {
        said += &document["conditions"]["skipped"].to_string();
        results.clone_from(document["results"].as_array().expect("results"));
    }
    for (wait, system) in [
        ("poll", "openmpi"),
        ("poll", "mpich"),
        ("poll", "ucx"),
        ("block", "pvm"),
    ] {
        for reach in ["local", "remote"] {
            let case = format!("{system}/{reach}/{wait}/filled");
            let row = results.iter().find(|row| row["case"] == case.as_str());
            let has_run = row.is_some_and(|row| row["p50"].as_u64() > Some(0));
            let is_missing = said.contains(&format!("{case}: ")) && said.contains("installed");
            let is_alone = said.contains("no case fits");
            let is_stuck = system == "mpich"
                && said.lines().any(|line| {
                    line.contains(&format!("{case}, ")) && line.contains("was not done after")
                });
            assert!(
                has_run || is_missing || is_alone || is_stuck,
                "{case}: {said}"
            );
        }
    }
}

/// A folder with an MPICH that compiles, and whose programs never run.
fn broken_mpich() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let compiler = "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && : >\"$2\"; shift; done\n";
    let starter = "#!/bin/sh\n[ \"$1\" = --version ] || { echo no luck today >&2; exit 1; }\n";
    for (name, script) in [("mpicc.mpich", compiler), ("mpirun.mpich", starter)] {
        let path = folder.path().join(name);
        std::fs::write(&path, script).expect("written");
        let executable = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("executable");
    }
    folder
}

#[test]
fn failed_row_is_left_out_with_reason() {
    if is_skipped() {
        return;
    }
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        eprintln!("SKIPPED: the rows that spin need two CPUs");
        return;
    }
    let mpich = broken_mpich();
    let path = std::env::var("PATH").expect("a PATH");
    let words = "host --json --systems tcp,mpich --reaches local --waits poll --sizes 64,1024 \
                 --count 20 --rounds 2 --seconds 1";
    let output = Command::new(env!("CARGO_BIN_EXE_hythe-bench"))
        .args(words.split_ascii_whitespace())
        .env("PATH", format!("{}:{path}", mpich.path().display()))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let results = document["results"].as_array().expect("results");
    let cases: Vec<&str> = results
        .iter()
        .filter_map(|row| row["case"].as_str())
        .collect();
    assert_eq!(cases, ["tcp/local/poll/filled"; 2], "{said}");
    let skipped = document["conditions"]["skipped"].to_string();
    for size in ["64", "1024"] {
        let row = format!("mpich/local/poll/filled, {size} bytes: ");
        for text in [&*skipped, &*said] {
            assert_eq!(text.matches(&row).count(), 1, "{text}");
            assert!(text.contains("no luck today"), "{text}");
        }
    }
    // It is not ours.
    let invalid = document["conditions"]["invalid"].to_string();
    assert!(!invalid.contains("mpich"), "{invalid}");
}

/// Processes of this name below this one.
fn children_called(name: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").expect("read");
    let stats = processes.filter_map(|entry| {
        let path = entry.ok()?.path().join("stat");
        std::fs::read_to_string(path).ok()
    });
    let is_one = |stat: &String| {
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        stat.contains(&format!("({name})")) && fields.split(' ').nth(1) == Some(&own)
    };
    stats.filter(is_one).collect()
}

/// Needs `make hosts`, and the command beside the bench.
#[test]
fn rows_use_their_carrier_and_agents_end_with_run() {
    if is_skipped() {
        return;
    }
    // What the bench left behind would be this process's then.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("permitted");
    let has_perf = Command::new("perf").arg("--version").output().is_ok();
    let mut words = vec!["--json", "--systems", "hythe-tls,hythe-tcp,hythe-xdp"];
    words.extend([
        "--reaches",
        "remote",
        "--payloads",
        "filled",
        "--sizes",
        "64",
    ]);
    words.extend(["--count", "50", "--rounds", "1", "--seconds", "1"]);
    words.extend(has_perf.then_some("--calls"));
    // On a machine that is far too busy short messages go by TCP, and a row is refused.
    let is_refused = |output: &Output| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        output.stdout.is_empty() || complaint.contains("skipped: hythe-")
    };
    let mut output = bench(&words);
    for _ in 0..4 {
        if is_refused(&output) {
            output = bench(&words);
        }
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("no case fits") {
        eprintln!("SKIPPED: `make hosts` and a build of `hythe` make the agents: {complaint}");
        return;
    }
    let document: Value = serde_json::from_slice(&output.stdout).expect(&complaint);
    let results = document["results"].as_array().expect("results");
    for (case, is_sealed) in [
        ("hythe-tls/remote/block/filled", true),
        ("hythe-tcp/remote/poll/filled", false),
        ("hythe-tcp/remote/block/filled", false),
        ("hythe-xdp/remote/poll/filled", false),
        ("hythe-xdp/remote/block/filled", false),
    ] {
        let row = results.iter().find(|row| row["case"] == case).expect(case);
        assert!(row["p50"].as_u64() > Some(0), "{row}");
        assert_eq!(row["system_calls"].is_number(), has_perf, "{row}");
        // The TLS library allocates.
        if has_perf && !is_sealed {
            assert_eq!(row["allocations"], 0.0, "{case} allocates");
            let waits_in_the_kernel = case.contains("/block/");
            let calls = row["system_calls"].as_f64().expect("a number");
            assert!(
                waits_in_the_kernel || calls < 1.5,
                "{case}: {calls} system calls"
            );
        }
    }
    assert_eq!(children_called("hythe-hostd"), [""; 0]);
    assert_eq!(children_called("hythe"), [""; 0]);
}

#[test]
fn no_case_at_all_is_wrong_use() {
    if is_skipped() {
        return;
    }
    let output = bench(&["--systems", "sysv", "--reaches", "remote"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
