//! Another host, over `ssh` or the program in `HYTHE_RSH`.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;

use crate::HostdError;

/// The shell's exit code for a program that it does not find.
const NOT_FOUND: i32 = 127;
const PROGRAM: &str = "hythe-hostd";

/// The way to a host.
#[derive(Debug)]
pub(super) struct RemoteShell<'a> {
    shell: String,
    target: &'a str,
}

impl<'a> RemoteShell<'a> {
    /// To `[USER@]HOST`.
    pub(super) fn to(target: &'a str) -> Self {
        Self {
            shell: std::env::var("HYTHE_RSH").unwrap_or_else(|_| "ssh".to_owned()),
            target,
        }
    }

    /// What a person types to run `hythe-hostd` there with these words.
    pub(super) fn typed(&self, words: &str) -> String {
        format!("{} {} {PROGRAM} {words}", self.shell, self.target)
    }

    /// Runs `hythe-hostd` there with these words and this input, and reads the JSON that it prints.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        words: &[&str],
        input: &[u8],
    ) -> Result<T, HostdError> {
        let target = self.target;
        let remote = |why: String| HostdError::Remote(format!("host {target}: {why}"));
        let mut command = Command::new(&self.shell);
        command.arg(target).arg(PROGRAM).arg("--json").args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => remote(format!(
                "there is no program `{}` here to reach it with: install it, or name another in \
                 HYTHE_RSH",
                self.shell
            )),
            _ => remote(format!("`{}`: {error}", self.shell)),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ended says why.
            let _ = stdin.write_all(input);
        }
        let output = child
            .wait_with_output()
            .map_err(|error| remote(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("hythe-hostd: ");
        match output.status.code() {
            Some(0) => serde_json::from_slice(&output.stdout).map_err(|error| {
                remote(format!(
                    "what `{PROGRAM} {}` said there is no answer: {error}",
                    words[0]
                ))
            }),
            Some(NOT_FOUND) => Err(remote(format!(
                "there is no {PROGRAM} there: install hythe on it, or put it into the PATH of its \
                 shells ({said})"
            ))),
            _ => Err(remote(format!("`{} {target}` failed: {said}", self.shell))),
        }
    }
}
