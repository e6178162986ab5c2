//! The table: what a row is, the commands that it runs, and the lines that are printed.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::support::{BOUND, Ended, Root, Running};
use hythe_testing::Polling;

/// A test of the paper.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// What becomes of a row.
pub(crate) enum Kind {
    /// Commands, and what is seen; or what was expected in vain.
    Test(Look),
    /// The same, which `make check` does for itself: only in a whole run.
    Slow(Look),
    /// Why this project has no such test.
    NotApplicable(&'static str),
}

pub(crate) type Look = fn(&mut Stage) -> Result<String, String>;

/// Where the rows run: pools of their own, and cores that go with this value.
pub(crate) struct Stage {
    root: Root,
    /// Those of the row that runs.
    commands: Vec<String>,
    /// Cores that were started, by name.
    cores: Vec<&'static str>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for core in &self.cores {
            let _ = self.root.run(&["core", "stop", core]);
        }
        let _ = self.root.run(&["pool", "remove"]);
    }
}

impl Stage {
    /// Runs `hythe` to its good end: what it printed.
    pub(crate) fn hythe(&mut self, arguments: &[&str]) -> Result<String, String> {
        let command = self.root.command(arguments);
        self.run("hythe", arguments, command)
    }

    /// The document that it prints. The row shows the command without `--json`.
    pub(crate) fn document(&mut self, arguments: &[&str]) -> Result<Value, String> {
        let command = self.root.command(&[arguments, &["--json"]].concat());
        let text = self.run("hythe", arguments, command)?;
        serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))
    }

    /// The result of the last command of a session of the shell.
    pub(crate) fn shell(&mut self, board: &str, commands: &str) -> Result<Value, String> {
        let mut document = self.document(&["core", "shell", board, "-c", commands])?;
        let steps = document["steps"].as_array_mut();
        let last = steps.and_then(Vec::pop).ok_or("no step")?;
        Ok(last["result"].clone())
    }

    /// Starts a core under a name, which is stopped with the table.
    pub(crate) fn start(&mut self, board: &str, name: &'static str) -> Result<(), String> {
        let named = ["--as", name];
        let named = if name == board { &[] } else { &named[..] };
        let start = ["core", "run", board, "--app", "p1", "--detach"];
        self.hythe(&[&start, named].concat())?;
        self.cores.push(name);
        Ok(())
    }

    /// Looks until there is something, or for too long.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        let (start, mut polling) = (Instant::now(), Polling::new(what));
        while start.elapsed() < BOUND {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            polling.pause();
        }
        Err(format!("not within {BOUND:?}: {what}"))
    }

    /// Another program, in this repository.
    pub(crate) fn program(&mut self, name: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.root.command_by(Command::new(name), arguments);
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        self.run(name, arguments, command)
    }

    /// A file of the rows, which goes with them.
    pub(crate) fn path(&self, name: &str) -> String {
        self.root.path().join(name).display().to_string()
    }

    fn run(&mut self, name: &str, arguments: &[&str], command: Command) -> Result<String, String> {
        let shown = shown(name, arguments);
        if self.commands.last() != Some(&shown) {
            self.commands.push(shown);
        }
        let ended: Ended = Running::new(command).end();
        if ended.code == Some(0) {
            return Ok(ended.text());
        }
        let said = [ended.errors.trim(), ended.text().trim()].join(" ");
        Err(format!("it ended with {:?}: {}", ended.code, said.trim()))
    }
}

/// As one would type it.
fn shown(name: &str, arguments: &[&str]) -> String {
    let words = arguments.iter().map(|word| match word.contains(' ') {
        true => format!("'{word}'"),
        false => (*word).to_owned(),
    });
    let words: Vec<String> = std::iter::once(name.to_owned()).chain(words).collect();
    words.join(" ")
}

/// Runs the rows, all of them or only the quick ones, and prints a line for each: the names of
/// those that failed.
pub(crate) fn run(rows: &[Row], all: bool) -> Vec<&'static str> {
    let mut stage = Stage {
        root: Root::new(),
        commands: Vec::new(),
        cores: Vec::new(),
    };
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut failed = Vec::new();
    for row in rows {
        let (outcome, behind) = match &row.kind {
            Kind::NotApplicable(why) => ("not applicable", (*why).to_owned()),
            Kind::Slow(_) if !all => ("SKIPPED", "`make test-p1` runs it".to_owned()),
            Kind::Test(test) | Kind::Slow(test) => {
                let seen = test(&mut stage);
                let commands = std::mem::take(&mut stage.commands).join(" && ");
                match seen {
                    Ok(seen) => ("ok", format!("{commands}: {seen}")),
                    Err(why) => {
                        failed.push(row.name);
                        ("FAILED", format!("{commands}: {why}"))
                    }
                }
            }
        };
        println!("{outcome:<14}  {:<width$}  {behind}", row.name);
    }
    failed
}
