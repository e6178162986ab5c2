//! Commands that are programs of their own: `hythe` becomes those that are installed, and says how
//! to get the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{self, Ended, Root, Running};

/// `hythe` in a folder of its own, with these programs.
fn installed(root: &Root, programs: &[&str]) -> PathBuf {
    let folder = root.path().join("bin");
    fs::create_dir(&folder).expect("own");
    support::copy_hythe(&folder, programs)
}

fn run(hythe: &Path, root: &Root, arguments: &[&str]) -> Ended {
    let mut command = root.command_by(Command::new(hythe), arguments);
    command.env("PATH", "/nowhere").stdin(Stdio::null());
    Running::new(command).end()
}

/// The names of the commands in a help.
fn listed(help: &str) -> Vec<&str> {
    let lines = help.split("Commands:\n").nth(1).expect("a list").lines();
    let lines = lines.take_while(|line| line.starts_with("  "));
    let lines = lines.filter(|line| !line.starts_with("   "));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn help_lists_what_is_installed() {
    let root = Root::new();
    let hythe = installed(&root, &["hythe-media", "hythe-jobs"]);
    let help = run(&hythe, &root, &["--help"]).text();
    let names = listed(&help);
    for there in ["pub", "sub", "media", "run", "tasks", "kill", "bench"] {
        assert!(names.contains(&there), "{there}: {help}");
    }
    for missing in [
        "demo", "play", "preload", "core", "host", "latency", "report",
    ] {
        assert!(!names.contains(&missing), "{missing}: {help}");
    }
    let all = root.ok(&["--help"]);
    assert_eq!(listed(&all).len(), names.len() + 7, "{all}");
}

#[test]
fn missing_program_is_named_with_its_remedy() {
    let root = Root::new();
    let hythe = installed(&root, &[]);
    for (command, program, package) in [
        ("media", "hythe-media", "hythe-media-command"),
        ("core", "hythe-core", "hythe-core-command"),
        ("run", "hythe-jobs", "hythe-jobs-command"),
        ("demo", "hythe-demo", "hythe-demo"),
    ] {
        let beside = hythe.parent().expect("a folder").display().to_string();
        let remedy = format!("`cargo build --release -p {package}`");
        run(&hythe, &root, &[command, "--help"])
            .failed(1, &[&format!("`{program}`"), &beside, "PATH", &remedy]);
    }
}

#[test]
fn program_gets_all_words() {
    let root = Root::new();
    let hythe = installed(&root, &[]);
    let print = "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n";
    for program in ["hythe-media", "hythe-jobs"] {
        hythe_testing::write_script(hythe.with_file_name(program), print);
    }
    for (arguments, passed) in [
        (&["media", "send", "--", "-x", "a b"][..], "send|--|-x|a b|"),
        (
            &["--pool", "camera", "-vv", "media", "--help"],
            "--pool|camera|-vv|--help|",
        ),
        (
            &["--json", "run", "-n", "2", "--", "make"],
            "--json|run|-n|2|--|make|",
        ),
        (&["kill", "3.0"], "kill|3.0|"),
    ] {
        let ended = run(&hythe, &root, arguments);
        assert_eq!(
            (ended.code, ended.text().as_str()),
            (Some(7), passed),
            "{}",
            ended.errors
        );
    }
}

#[test]
fn man_and_completions_leave_out_what_is_missing() {
    let root = Root::new();
    let hythe = installed(&root, &["hythe-media"]);
    let pages = root.path().join("man");
    run(&hythe, &root, &["man", pages.to_str().expect("plain")]).text();
    assert!(pages.join("hythe-media-send.1").is_file());
    assert!(!pages.join("hythe-core-run.1").exists());
    let script = run(&hythe, &root, &["completions", "bash"]).text();
    assert!(
        script.contains("--repair-window") && !script.contains("--detach"),
        "{script}"
    );
    // Of another version.
    let program = hythe.with_file_name("hythe-media");
    fs::remove_file(&program).expect("own");
    hythe_testing::write_script(&program, "#!/bin/sh\necho '{}'\n");
    run(&hythe, &root, &["completions", "bash"]).failed(
        1,
        &["hythe-media", "does not describe", "install both anew"],
    );
}
