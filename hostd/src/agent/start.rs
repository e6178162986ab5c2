//! The agent in the background: this program again, which outlives its caller.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use hythe_terminal::escaped;

use crate::HostdError;
use crate::hosts_directory::HostsDirectory;
use crate::log;

/// What the agent says goes there.
const LOG: &str = "agent.log";
/// How long it may take until it can be reached: Zenoh looks for others first.
const START: Duration = Duration::from_secs(20);
/// The end of a log, in which it says why it did not start.
const LAST_WORDS_BYTES: u64 = 64 << 10;
/// What its last words begin with.
const LAST_WORDS: &str = "hythe-hostd: ";

/// Starts the agent with the words of `run`, waits until it can be reached, and returns what it
/// says then.
///
/// # Errors
/// Why it did not start.
pub fn start(directory: &HostsDirectory, words: &[String]) -> Result<String, HostdError> {
    let fail = |what: &str, error: io::Error| HostdError::Agent(format!("{what}: {error}"));
    let path = directory.path_of(LOG);
    let log = log::open(&path).map_err(|source| HostdError::File {
        path: path.clone(),
        source,
    })?;
    let said_before = log.metadata().map_or(0, |file| file.len());
    let program = std::env::current_exe().map_err(|error| fail("this program", error))?;
    let mut command = Command::new(program);
    command.arg("start").arg("--foreground").args(words);
    command.arg("--log").arg(&path);
    command.env("HYTHE_HOSTS_DIR", directory.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(log.try_clone().map_err(|error| fail("its log", error))?);
    // A terminal's interrupt is not for it.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| fail("the agent", error))?;
    let line = first_line(&mut child);
    if !line.is_empty() {
        return Ok(line.trim().to_owned());
    }
    let ended = child.try_wait().ok().flatten();
    // As good as ended.
    let _ = child.kill();
    let _ = child.wait();
    Err(HostdError::Agent(
        last_words(log, said_before).unwrap_or_else(|| {
            let what = match ended {
                Some(status) => format!("ended ({status}) before it could be reached"),
                None => format!("could not be reached after {START:?}, and was ended"),
            };
            format!("the agent {what}; {} has what it said", escaped(&path))
        }),
    ))
}

/// What it says when it can be reached; nothing, if it has ended or takes too long.
fn first_line(child: &mut Child) -> String {
    let (said, ready) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut line = String::new();
            // An end is an empty line.
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = said.send(line);
        });
    }
    ready.recv_timeout(START).unwrap_or_default()
}

/// Why it ended, as it said itself.
fn last_words(mut log: File, said_before: u64) -> Option<String> {
    let end = log.metadata().ok()?.len();
    let start = said_before.max(end.saturating_sub(LAST_WORDS_BYTES));
    log.seek(SeekFrom::Start(start)).ok()?;
    let mut said = Vec::new();
    log.take(LAST_WORDS_BYTES).read_to_end(&mut said).ok()?;
    let said = String::from_utf8_lossy(&said);
    let words = match said.rfind(&format!("\n{LAST_WORDS}")) {
        Some(at) => &said[at + 1..],
        None => &said,
    };
    let words = words.strip_prefix(LAST_WORDS)?.trim();
    (!words.is_empty()).then(|| words.to_owned())
}
