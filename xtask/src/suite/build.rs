//! Building the tests, and what is not a test program of Rust: the models, the documentation's
//! examples and the C side.
//!
//! All is built before the first test runs, but for the C side and the documentation's examples,
//! whose builds and runs are one command. Never runs a test.

use super::job::Job;
use super::libtest::Program;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A line of `cargo build --message-format=json`, as far as it is read.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all of the workspace: its tests, and the programs and examples that some of them run.
pub(super) fn programs(root: &Path) -> Result<Vec<Program>, String> {
    let mut command = cargo(root);
    command.args(["build", "--workspace", "--all-targets"]);
    built_by(command, root)
}

/// Builds the tests of the agent, and what they start of its package.
pub(super) fn hosts_programs(root: &Path, target: &Path) -> Result<Vec<Program>, String> {
    let mut command = cargo(&root.join("hostd"));
    command.env("CARGO_TARGET_DIR", target.join("hosts"));
    command.args(["build", "--locked", "--all-targets"]);
    built_by(command, root)
}

/// Commands that need the agent. Builds what they need of the workspace, and nothing anew that
/// [`programs`] has built: with all packages chosen, features are the same. The agent's tests load
/// PVM's libraries, which cargo builds beside the tests of theirs.
pub(super) fn across(root: &Path, target: &Path) -> Result<Job, String> {
    let mut build = cargo(root);
    build.args(["build", "--workspace", "--quiet", "--bins", "--test", "it"]);
    run(build)?;
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--quiet", "--test", "it"]);
    let agent = built(&target.join("hosts"), "hythe-hostd");
    command
        .args(["--", "demo::across::"])
        .env("HYTHE_HOSTD", agent);
    let name = "hythe demo --across: tests/it/demo";
    Ok(Job::command(name, command))
}

/// A program of the product as tests use it.
pub(super) fn built(target: &Path, name: &str) -> PathBuf {
    target.join("debug").join(name)
}

/// Builds, with the test programs that it is told of.
fn built_by(mut command: Command, root: &Path) -> Result<Vec<Program>, String> {
    let format = "--message-format=json-render-diagnostics";
    command.args(["--quiet", format]);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo build did not start: {error}"))?;
    if !output.status.success() {
        return Err("the tests were not built".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let programs = text.lines().filter_map(|line| program(line, root));
    Ok(programs.collect())
}

/// The program that a message is about, if it is one of tests.
fn program(line: &str, root: &Path) -> Option<Program> {
    let message: Message = serde_json::from_str(line).ok()?;
    let source = message.target?.src_path;
    let name = source.strip_prefix(root).unwrap_or(&source);
    message.profile?.test.then_some(())?;
    Some(Program {
        name: name.display().to_string(),
        path: message.executable?,
        directory: message.manifest_path?.parent()?.to_owned(),
    })
}

/// Builds what [`run_models`] runs.
pub(super) fn models(root: &Path, target: &Path) -> Result<(), String> {
    let mut command = models_command(root, target);
    command.arg("--no-run");
    run(command)
}

fn run(mut command: Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("not built: {command:?}")),
        Err(error) => Err(format!("{command:?} did not start: {error}")),
    }
}

/// Every interleaving of the lock-free code, by loom.
pub(super) fn run_models(root: &Path, target: &Path) -> Job {
    Job::command("models of lock-free code", models_command(root, target))
}

/// In a target directory of its own, since the flag changes every crate.
fn models_command(root: &Path, target: &Path) -> Command {
    let mut command = cargo(root);
    command
        .env("RUSTFLAGS", "--cfg loom")
        .args(["test", "--profile", "quick", "--quiet", "--target-dir"])
        .arg(target.join("loom"))
        .args(["-p", "hythe-queue", "-p", "hythe-pool", "-p", "hythe-sys"])
        .args(["--lib", "--tests"]);
    command
}

/// Examples in the documentation.
pub(super) fn documentation(root: &Path) -> Job {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--doc", "--quiet"]);
    Job::command("examples in the documentation", command)
}

/// A goal of the Makefile of one of our C programs.
pub(super) fn make(root: &Path, target: &Path, folder: &str, goal: &str) -> Job {
    let mut command = Command::new("make");
    command
        .current_dir(root.join(folder))
        .arg("--no-print-directory")
        .arg(format!("BUILD={}", target.join(folder).display()))
        .arg(format!("IMAGES={}", target.join("boards").display()))
        .arg(goal);
    Job::command(&format!("{folder}: make {goal}"), command)
}

/// A script, with its argument.
pub(super) fn script(root: &Path, path: &str, argument: &str) -> Job {
    let mut command = Command::new(root.join(path));
    command.current_dir(root).arg(argument);
    Job::command(&format!("{path} {argument}"), command)
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_named_by_their_sources() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml",
            "target":{"kind":["test"],"src_path":"/w/crates/a/tests/b.rs"},
            "profile":{"test":true},"executable":"/w/target/debug/deps/b-1"}"#;
        let found = program(line, Path::new("/w")).expect("a program");
        assert_eq!(found.name, "crates/a/tests/b.rs");
        assert_eq!(found.path, Path::new("/w/target/debug/deps/b-1"));
        assert_eq!(found.directory, Path::new("/w/crates/a"));
        for other in [
            line.replace("true", "false"),
            line.replace(r#""/w/target/debug/deps/b-1""#, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ] {
            assert!(program(&other, Path::new("/w")).is_none(), "{other}");
        }
    }
}
