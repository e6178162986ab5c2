//! The guides do what they say: each of their blocks of commands runs, one after the other, in a
//! pool and a directory of its own.
//!
//! Blocks of C are files there: each begins with a comment that gives its name. They are compiled
//! by the commands of the guide, against a copy of the library that is installed for the test.

use crate::support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Root;

/// A block of a guide that is used.
enum Block {
    Commands(String),
    File { name: String, text: String },
}

impl Block {
    /// What stands between two fences, with what is behind the first of them. `None`: it is only
    /// shown.
    fn new(fenced: &str) -> Option<Self> {
        let (language, text) = fenced.split_once('\n')?;
        match language {
            "sh" => Some(Self::Commands(text.to_owned())),
            "c" => {
                let header = text
                    .strip_prefix("/* ")
                    .and_then(|rest| rest.split_once(':'));
                let (name, _about) = header.expect("a block of C begins with `/* NAME: ABOUT`");
                let (name, text) = (name.to_owned(), format!("{text}\n"));
                Some(Self::File { name, text })
            }
            _ => None,
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blocks(guide: &str) -> Vec<Block> {
    let path = repository().join("docs/guide").join(guide);
    let text = std::fs::read_to_string(&path).expect("the guide");
    // Behind an odd number of fences a block begins.
    let fenced = text.split("\n```").skip(1).step_by(2);
    let blocks: Vec<Block> = fenced.filter_map(Block::new).collect();
    assert!(blocks.len() >= 4, "{}: {}", path.display(), blocks.len());
    blocks
}

/// `first` in front of the folders that the variable has.
fn in_front(first: PathBuf, variable: &str) -> OsString {
    let others = std::env::var_os(variable).unwrap_or_default();
    let folders = std::iter::once(first).chain(std::env::split_paths(&others));
    std::env::join_paths(folders).expect("no colon in it")
}

/// Runs the blocks with the command that was built here in front of all others.
fn run(guide: &str, variables: &[(&str, OsString)]) {
    let root = Root::new();
    let program = Path::new(support::HYTHE);
    let path = in_front(program.parent().expect("a folder").to_path_buf(), "PATH");
    for block in blocks(guide) {
        let commands = match block {
            Block::Commands(commands) => commands,
            Block::File { name, text } => {
                std::fs::write(root.path().join(name), text).expect("a file of the guide");
                continue;
            }
        };
        // Also where it fails, nothing that it started goes on.
        let commands = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}");
        let mut shell = Command::new("sh");
        shell.current_dir(root.path()).env("PATH", &path);
        shell.envs(variables.iter().map(|(name, value)| (name, value)));
        let ended = support::Running::new(root.command_by(shell, &["-eu", "-c", &commands])).end();
        assert_eq!(
            ended.code,
            Some(0),
            "{guide}:\n{commands}\n{}{}",
            ended.text(),
            ended.errors
        );
    }
}

#[test]
fn channels() {
    run("channels.md", &[]);
}

#[test]
fn guide_to_tasks_does_what_it_says() {
    run("tasks.md", &[]);
}

#[test]
fn cores() {
    run("cores.md", &[]);
}

#[test]
fn c() {
    let installed = Root::new();
    let prefix = installed.path().join("usr");
    // Cargo puts the libraries that tests use beside the tests.
    let test = std::env::current_exe().expect("the path of this test");
    let built = test.parent().expect("a folder");
    let mut install = Command::new(repository().join("bindings/c/install.sh"));
    let status = install.arg(&prefix).arg(built).status();
    assert!(status.expect("a shell").success(), "{install:?}");
    let variables = [
        (
            "PKG_CONFIG_PATH",
            in_front(prefix.join("lib/pkgconfig"), "PKG_CONFIG_PATH"),
        ),
        (
            "LD_LIBRARY_PATH",
            in_front(prefix.join("lib"), "LD_LIBRARY_PATH"),
        ),
    ];
    run("c.md", &variables);
}
