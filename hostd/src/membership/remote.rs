//! Another host, over `ssh` or the program in `HYTHE_RSH`.
//!
//! Never waits for longer than it was told, whatever that program does, and keeps no more of what
//! it says than an answer can have.

use std::io::{self, ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::HostdError;

/// The shell's exit code for a program that it does not find.
const NOT_FOUND: i32 = 127;
const PROGRAM: &str = "hythe-hostd";
/// Of what is printed in place of an answer.
const SHOWN_BYTES_MAX: usize = 200;
/// The longest that is read of an answer, or of why there is none.
const SAID_BYTES_MAX: u64 = 256 << 10;
/// How long it may take to read what a program has said that has ended. Others may have its output
/// open still: ssh, for the connections to come.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// The way to a host.
#[derive(Debug)]
pub(super) struct RemoteShell<'a> {
    shell: String,
    target: &'a str,
    timeout: Duration,
    /// When that is over.
    end: Instant,
}

impl<'a> RemoteShell<'a> {
    /// To `[USER@]HOST`. All that is asked there takes that time at most.
    pub(super) fn to(target: &'a str, timeout: Duration) -> Self {
        Self {
            shell: hythe_sys::environment::text("HYTHE_RSH").unwrap_or_else(|| "ssh".to_owned()),
            target,
            timeout,
            end: Instant::now() + timeout,
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
            let input = input.to_vec();
            // A program that ended, or does not read, says why.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let stdout = Said::by(child.stdout.take());
        let stderr = Said::by(child.stderr.take());
        let status = match self.wait(&mut child) {
            Ok(Some(status)) => status,
            Ok(None) => return Err(remote(self.too_slow(&stderr.so_far()))),
            Err(error) => return Err(remote(error.to_string())),
        };
        let said = stderr.all();
        let said = String::from_utf8_lossy(&said);
        let said = said.trim().trim_start_matches("hythe-hostd: ");
        match status.code() {
            Some(0) => answer(&stdout.all()).map_err(|printed| {
                remote(format!(
                    "`{PROGRAM} {}` gave no answer there, which printed: {}; see that its shell \
                     starts that program, and prints nothing in its place",
                    words[0],
                    hythe_terminal::escaped(&printed)
                ))
            }),
            Some(NOT_FOUND) => Err(remote(format!(
                "there is no {PROGRAM} there: install hythe on it, or put it into the PATH of its \
                 shells ({said})"
            ))),
            _ => Err(remote(format!("`{} {target}` failed: {said}", self.shell))),
        }
    }

    /// Waits until the program has ended; `None`: it has not in time, and was killed.
    fn wait(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // It may have ended just now.
                let _ = child.kill();
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK.min(left));
        }
    }

    fn too_slow(&self, said: &[u8]) -> String {
        let said = String::from_utf8_lossy(said);
        let said = match said.trim() {
            "" => String::new(),
            said => format!(" (it said: {})", hythe_terminal::escaped(said)),
        };
        format!(
            "`{shell} {target}` did not answer within {seconds} s{said}: see that `{shell} \
             {target} true` ends there; a longer --timeout waits for it",
            shell = self.shell,
            target = self.target,
            seconds = self.timeout.as_secs_f64(),
        )
    }
}

/// The answer, a line of JSON; its shell may greet before, and say something behind. The error is
/// the beginning of what was printed.
fn answer<T: DeserializeOwned>(printed: &[u8]) -> Result<T, String> {
    let mut lines = printed.split(|byte| *byte == b'\n').rev();
    let found = lines.find_map(|line| serde_json::from_slice(line).ok());
    found.ok_or_else(|| {
        let shown = &printed[..printed.len().min(SHOWN_BYTES_MAX)];
        match String::from_utf8_lossy(shown).trim() {
            "" => "nothing".to_owned(),
            text => text.to_owned(),
        }
    })
}

/// What a program says, read beside as it comes.
struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Said {
    fn by(output: Option<impl Read + Send + 'static>) -> Self {
        let (ends, ended) = channel();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        if let Some(output) = output {
            let bytes = Arc::clone(&bytes);
            std::thread::spawn(move || {
                let (mut output, mut part) = (output.take(SAID_BYTES_MAX), [0; 4096]);
                loop {
                    match output.read(&mut part) {
                        Ok(read) if read > 0 => lock(&bytes).extend_from_slice(&part[..read]),
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        _ => break,
                    }
                }
                // Nobody waits for it any more.
                let _ = ends.send(());
            });
        }
        Self { bytes, ended }
    }

    /// Of a program that has ended.
    fn all(&self) -> Vec<u8> {
        let _ = self.ended.recv_timeout(LAST_WORDS);
        self.so_far()
    }

    fn so_far(&self) -> Vec<u8> {
        lock(&self.bytes).clone()
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_found_between_greetings() {
        let printed = b"Welcome to b!\n{not this}\n\"ready\"\nBye.\n";
        assert_eq!(answer::<String>(printed), Ok("ready".to_owned()));
        let greeting = answer::<String>(b"Welcome to b!\n").expect_err("no answer");
        assert_eq!(greeting, "Welcome to b!");
        assert_eq!(answer::<String>(b" \n").expect_err("no answer"), "nothing");
        let long = answer::<String>(&[b'x'; 4096]).expect_err("no answer");
        assert_eq!(long.len(), SHOWN_BYTES_MAX);
    }
}
