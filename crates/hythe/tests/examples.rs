//! The examples do what they say.

use std::process::Command;

/// Built and run as a reader would.
fn example(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "hythe", "--example", name]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command
}

#[test]
fn tokio_receives_from_two_channels() {
    let root = tempfile::tempdir().expect("a directory");
    let output = example("tokio")
        .env("HYTHE_ROOT", root.path())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaints}");
    assert_eq!(said, "ready\nleft: 100 messages\nright: 100 messages\n");
}
