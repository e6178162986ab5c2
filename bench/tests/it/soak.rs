//! A short soak, as a person runs it: nothing is lost, the document says so, and nothing is left
//! behind.

use std::process::Command;

use serde_json::Value;

#[test]
fn short_soak_loses_nothing_and_leaves_nothing() {
    let root = tempfile::tempdir_in("/dev/shm").expect("a directory for pools");
    let output = Command::new(env!("CARGO_BIN_EXE_hythe-bench"))
        .args([
            "soak",
            "--minutes",
            "0.08",
            "--processes",
            "5",
            "--seed",
            "3",
        ])
        .env("HYTHE_ROOT", root.path())
        .output()
        .expect("it runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "soak");
    assert_eq!(document["conditions"]["invalid"], Value::Null);
    assert_eq!(document["conditions"]["processes"], 5);
    let count = |metric: &str| {
        let rows = document["results"].as_array().expect("results");
        let row = rows.iter().find(|row| row["metric"] == metric);
        row.expect(metric)["value"].as_f64().expect("a number")
    };
    assert!(count("joined") > 0.0);
    assert_eq!(count("taken damaged"), 0.0);
    assert!(
        count("all killed, all free again") > 0.0,
        "at the end at least"
    );
    let rows = document["results"].as_array().expect("results");
    let recovery = rows.iter().find(|row| row["case"] == "recovery");
    let recovery = recovery.expect("recovery");
    if recovery["count"] != 0 {
        // Two system calls at least are in it.
        assert!(recovery["p50"].as_u64() > Some(10), "{recovery}");
    }
    let left: Vec<_> = std::fs::read_dir(root.path()).expect("the root").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn impossible_soaks_are_refused() {
    for wrong in [
        ["--minutes", "0"],
        ["--processes", "0"],
        ["--processes", "65"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hythe-bench"));
        let output = command.arg("soak").args(wrong).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
