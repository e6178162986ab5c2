//! Scenario `wait_set` as a person runs it.

use std::process::Command;

use serde_json::Value;

fn bench(root: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_hythe-bench"))
        .arg("wait-set")
        .args(arguments)
        .env("HYTHE_ROOT", root)
        .output()
        .expect("it runs")
}

#[test]
fn every_case_runs_and_the_document_has_its_shape() {
    let root = tempfile::tempdir_in("/dev/shm").expect("a directory for pools");
    let arguments = [
        "--json",
        "--count",
        "20",
        "--rounds",
        "2",
        "--channels",
        "1,3",
    ];
    let output = bench(root.path(), &arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "wait-set");
    let results = document["results"].as_array().expect("results");
    let cases: Vec<&str> = results
        .iter()
        .map(|result| result["case"].as_str().expect("a case"))
        .collect();
    let expected = [
        "subscriber/ready",
        "subscriber/block",
        "wait-set/ready/1",
        "wait-set/block/1",
        "wait-set/bridge/1",
        "wait-set/ready/3",
        "wait-set/block/3",
        "wait-set/bridge/3",
    ];
    assert_eq!(cases, expected);
    assert!(results.iter().all(|result| result["count"] == 40));
    let ratios = document["ratios"].as_array().expect("ratios");
    assert!(
        ratios
            .iter()
            .any(|ratio| ratio["name"] == "wait-set/ready/3 by wait-set/ready/1 p50")
    );
    let mut users = std::fs::read_dir(root.path()).expect("the root").flatten();
    let left = users.find_map(|user| std::fs::read_dir(user.path()).ok()?.next());
    assert!(left.is_none(), "{left:?}");
}

#[test]
fn odd_numbers_of_channels_are_wrong_use() {
    let root = tempfile::tempdir_in("/dev/shm").expect("a directory for pools");
    for odd in ["0", "2001", "many"] {
        let output = bench(root.path(), &["--channels", odd]);
        assert_eq!(output.status.code(), Some(2), "{odd}");
    }
}
