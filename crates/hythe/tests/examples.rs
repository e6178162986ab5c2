//! The examples do what they say.

use std::process::Command;

/// What cargo builds beside the tests of this package, with the same features. A second cargo would
/// build the workspace once more, with others.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a test program");
    let profile = test.ancestors().nth(2).expect("in deps, beside examples");
    let program = profile.join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is missing; run: cargo test -p hythe --test '*' --examples",
        program.display()
    );
    Command::new(program)
}

#[test]
fn tokio_receives_from_two_channels() {
    let root = tempfile::tempdir().expect("a directory");
    let output = example("tokio")
        .env("HYTHE_ROOT", root.path())
        .output()
        .expect("the example runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaints}");
    assert_eq!(said, "ready\nleft: 100 messages\nright: 100 messages\n");
}
