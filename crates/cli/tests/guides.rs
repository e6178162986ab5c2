//! The guides do what they say: each of their blocks of commands runs, one after the other, in a
//! pool and a directory of its own.

mod support;

use std::path::Path;
use std::process::Command;

use support::Root;

/// The blocks of a guide that are to be run.
fn blocks(guide: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/guide")
        .join(guide);
    let text = std::fs::read_to_string(&path).expect("the guide");
    let parts = text.split("```sh\n").skip(1);
    let blocks: Vec<String> = parts
        .filter_map(|part| part.split_once("\n```"))
        .map(|(block, _)| block.to_owned())
        .collect();
    assert!(blocks.len() >= 4, "{}: {}", path.display(), blocks.len());
    blocks
}

/// Runs them with the command that was built here in front of all others.
fn run(guide: &str) {
    let root = Root::new();
    let program = Path::new(env!("CARGO_BIN_EXE_hythe"));
    let folder = program.parent().expect("a folder").to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).expect("no colon in it");
    for block in blocks(guide) {
        // Also where it fails, nothing that it started goes on.
        let block = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{block}");
        let mut shell = Command::new("sh");
        shell.current_dir(root.path()).env("PATH", &path);
        let ended = support::Running::new(root.command_by(shell, &["-eu", "-c", &block])).end();
        assert_eq!(
            ended.code,
            Some(0),
            "{guide}:\n{block}\n{}{}",
            ended.text(),
            ended.errors
        );
    }
}

#[test]
fn channels() {
    run("channels.md");
}

#[test]
fn cores() {
    run("cores.md");
}
