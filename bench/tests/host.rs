//! Scenario `host` as a person runs it: the systems that need no agent.

use std::process::Command;

use serde_json::Value;

fn is_skipped() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: the two networks of scenario host need root");
    }
    !is_root
}

fn bench(arguments: &[&str]) -> std::process::Output {
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
        "tcp,sysv,floor-udp",
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
        ("sysv/local/block/filled", 64, 0),
        ("floor-udp/remote/block/filled", 64, 2),
        ("tcp/remote/block/filled", 64, 2),
        ("sysv/local/block/filled", 65_536, 0),
        ("tcp/remote/block/filled", 65_536, 2),
    ];
    assert_eq!(rows, expected);
    let skipped = document["conditions"]["skipped"].to_string();
    assert!(
        skipped.contains("floor-udp/remote/block/filled, 65536 bytes"),
        "{skipped}"
    );
}

#[test]
fn no_case_at_all_is_wrong_use() {
    if is_skipped() {
        return;
    }
    let output = bench(&["--systems", "sysv", "--reaches", "remote"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
