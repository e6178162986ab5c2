//! What is not a test program of Rust: the models, the documentation's examples and the C side.
//!
//! The models are built before the first test runs; builds and runs of the others are one command.
//! Never runs a test.

use super::job::Job;
use super::programs::cargo;
use std::path::Path;
use std::process::Command;

/// Builds what [`run_models`] runs.
pub(super) fn models(root: &Path, target: &Path) -> Result<(), String> {
    let status = models_command(root, target).arg("--no-run").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the models were not built".into()),
        Err(error) => Err(format!("cargo test did not start: {error}")),
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
        .args(["test", "--release", "--quiet", "--target-dir"])
        .arg(target.join("loom"))
        .args(["-p", "hythe-queue", "-p", "hythe-pool", "--lib", "--tests"]);
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
