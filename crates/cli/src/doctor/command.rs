//! Running another program with a bound on its time.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take.
const TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How a program ended.
pub(super) enum Outcome {
    /// With success, and this first line of output.
    Succeeded(String),
    /// Without success, and this first line of messages.
    Failed(String),
    /// It could not be started.
    NotStarted,
    /// It was killed because it took too long.
    TimedOut,
}

/// Runs `program`; at most a pipe's worth of output (64 KiB) is allowed for, which is all that the
/// programs asked here ever print.
pub(super) fn run(program: &str, arguments: &[&str]) -> Outcome {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return Outcome::NotStarted;
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < TIMEOUT => thread::sleep(LOOK_INTERVAL),
            _ => {
                // Both fail only where the process is gone already.
                let _ = child.kill();
                let _ = child.wait();
                return Outcome::TimedOut;
            }
        }
    };
    if status.success() {
        Outcome::Succeeded(first_line(child.stdout.take()))
    } else {
        Outcome::Failed(first_line(child.stderr.take()))
    }
}

fn first_line(pipe: Option<impl Read>) -> String {
    let mut text = Vec::new();
    // A pipe of a process that has ended cannot block; unreadable output counts as none.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
    String::from_utf8_lossy(&text)
        .lines()
        .next()
        .unwrap_or("")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_told_apart() {
        let succeeded = run("sh", &["-c", "echo one; echo two"]);
        assert!(matches!(succeeded, Outcome::Succeeded(line) if line == "one"));
        let failed = run("sh", &["-c", "echo wrong >&2; exit 3"]);
        assert!(matches!(failed, Outcome::Failed(line) if line == "wrong"));
        assert!(matches!(
            run("hythe-no-such-program", &[]),
            Outcome::NotStarted
        ));
        assert!(matches!(run("sleep", &["60"]), Outcome::TimedOut));
    }
}
