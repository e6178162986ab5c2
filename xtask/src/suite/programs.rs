//! The test programs of Rust: built, all of them, before the first test runs.
//!
//! Never runs a test.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program full of tests.
#[derive(Debug)]
pub(super) struct Program {
    /// Its main source file, from the root of the workspace on.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Where it runs: the folder of its package, as under cargo.
    pub(super) directory: PathBuf,
}

/// A line of `cargo test --message-format=json`, as far as it is read.
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

/// Builds all tests of the workspace, and the examples that some of them run.
pub(super) fn build(root: &Path) -> Result<Vec<Program>, String> {
    let format = "--message-format=json-render-diagnostics";
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--no-run", "--quiet", format]);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo test did not start: {error}"))?;
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

/// Cargo, as it was called for this command.
pub(super) fn cargo(root: &Path) -> Command {
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
