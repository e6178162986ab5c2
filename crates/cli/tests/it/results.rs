//! `hythe bench` and `hythe report`: the run of another program, and a page of what it prints.

use crate::support;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ended, Root, Running};

/// `hythe` in a folder of its own, with what stands beside it.
fn moved(root: &Root, beside: Option<&str>) -> PathBuf {
    let folder = root.path().join("bin");
    fs::create_dir(&folder).expect("own");
    let hythe = support::copy_hythe(&folder, &[]);
    if let Some(script) = beside {
        hythe_testing::write_script(folder.join("hythe-bench"), script);
    }
    hythe
}

fn run(hythe: &Path, path: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(hythe);
    command
        .args(arguments)
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::new(command).end()
}

const SCRIPT: &str = "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n";

#[test]
fn bench_command_forwards_arguments_and_exit_code() {
    let root = Root::new();
    let hythe = moved(&root, Some(SCRIPT));
    for (arguments, passed) in [
        (
            &["bench", "ipc", "--json", "--sizes", "64,128"][..],
            "ipc|--json|--sizes|64,128|",
        ),
        (&["--json", "bench", "ipc"], "ipc|--json|"),
        (&["bench", "ipc", "--help"], "ipc|--help|"),
        (&["bench", "core", "--", "-x", "a b"], "core|--|-x|a b|"),
    ] {
        let ended = run(&hythe, "/usr/bin:/bin", arguments);
        assert_eq!(
            (ended.code, ended.text().as_str()),
            (Some(7), passed),
            "{}",
            ended.errors
        );
    }
}

#[test]
fn benchmark_is_looked_for_in_the_path_and_its_absence_is_told() {
    let root = Root::new();
    let hythe = moved(&root, None);
    run(&hythe, "/nowhere", &["bench", "ipc"]).failed(
        1,
        &[
            "hythe-bench",
            "cargo build --release -p hythe-bench",
            "/bin",
        ],
    );
    let elsewhere = root.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("own");
    hythe_testing::write_script(elsewhere.join("hythe-bench"), SCRIPT);
    let path = format!("{}:/usr/bin:/bin", elsewhere.display());
    let ended = run(&hythe, &path, &["bench", "ipc"]);
    assert_eq!((ended.code, ended.text().as_str()), (Some(7), "ipc|"));
    root.run(&["bench"]).failed(2, &["SCENARIO"]);
}

/// The results that are kept.
fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    let found = fs::read_dir(folder).expect("in the sources");
    let paths = found.map(|entry| entry.expect("read").path());
    paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect()
}

#[test]
fn kept_results_make_a_page() {
    let root = Root::new();
    let page = root.path().join("report.html");
    let files = kept();
    assert!(!files.is_empty());
    let mut arguments = vec!["report", "-o", page.to_str().expect("plain")];
    arguments.extend(files.iter().map(|path| path.to_str().expect("plain")));
    let done = root.json(&arguments);
    assert_eq!(done["documents"], files.len());
    assert!(done["plots"].as_u64() >= Some(4), "{done}");
    let html = fs::read_to_string(&page).expect("written");
    assert_eq!(done["bytes"], html.len());
    for found in [
        "<svg",
        "round trip poll/untouched",
        "hythe/poll/untouched",
        "Ratios within this run",
        "AMD",
    ] {
        assert!(html.contains(found), "no {found}");
    }
    assert!(!html.contains("<script") && !html.contains("src="));
}

#[test]
fn result_of_two_processes_makes_a_picture_of_its_table() {
    let root = Root::new();
    let picture = root.path().join("ipc.svg");
    let to = picture.to_str().expect("plain");
    let files = kept();
    let of = |bench: &str| {
        let named = files.iter().find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(bench)
        });
        named.expect("kept").to_str().expect("plain")
    };
    let (ipc, media) = (of("ipc-"), of("media-"));
    let done = root.json(&["report", ipc, "--picture", to]);
    let svg = fs::read_to_string(&picture).expect("written");
    assert_eq!(done["bytes"], svg.len());
    for found in ["<svg", "iceoryx2</text>", "Hythe by the bare ring"] {
        assert!(svg.contains(found), "no {found} in {svg}");
    }
    root.run(&["report", media, "--picture", to])
        .failed(1, &["hythe bench ipc"]);
    root.run(&["report", ipc, ipc, "--picture", to])
        .failed(2, &["--picture"]);
    root.run(&["report", ipc]).failed(2, &["--output"]);
}

#[test]
fn what_is_no_result_is_refused_and_no_page_written() {
    let root = Root::new();
    let page = root.path().join("report.html");
    let page = page.to_str().expect("plain");
    let file = root.path().join("other.json");
    let name = file.to_str().expect("plain");
    for (text, words) in [
        (
            "{\"schema\": \"hythe.result/9\"}",
            ["other.json", "hythe.result/9"],
        ),
        ("{\"schema\": \"hythe.result/1\"}", ["other.json", "bench"]),
        ("not json", ["other.json", "no JSON document"]),
    ] {
        fs::write(&file, text).expect("own");
        root.run(&["report", name, "-o", page]).failed(1, &words);
    }
    root.run(&["report", "missing.json", "-o", page])
        .failed(1, &["cannot read", "missing.json"]);
    root.run(&["report", "-o", page]).failed(2, &["FILE"]);
    assert!(!Path::new(page).exists());
}
