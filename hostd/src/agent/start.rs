//! The agent in the background: this program again, which outlives its caller.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::HostdError;
use crate::hosts_directory::HostsDirectory;

/// What the agent says goes there.
const LOG: &str = "agent.log";
/// How long it may take until it can be reached: Zenoh looks for others first.
const START: Duration = Duration::from_secs(20);

/// Starts the agent with the words of `run`, waits until it can be reached, and returns what it
/// says then.
///
/// # Errors
/// Why it did not start.
pub fn start(directory: &HostsDirectory, words: &[String]) -> Result<String, HostdError> {
    let fail = |what: &str, error: std::io::Error| HostdError::Agent(format!("{what}: {error}"));
    let log_path = directory.path_of(LOG);
    let mut options = OpenOptions::new();
    let log = options.create(true).append(true).read(true).mode(0o600);
    let log = log.open(&log_path).map_err(|source| HostdError::File {
        path: log_path.clone(),
        source,
    })?;
    let said_before = log.metadata().map_or(0, |file| file.len());
    let program = std::env::current_exe().map_err(|error| fail("this program", error))?;
    let mut command = Command::new(program);
    command.arg("start").arg("--foreground").args(words);
    command.env("HYTHE_HOSTS_DIR", directory.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(log.try_clone().map_err(|error| fail("its log", error))?);
    // A terminal's interrupt is not for it.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| fail("the agent", error))?;
    let (said, ready) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut line = String::new();
            // An end is an empty line.
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = said.send(line);
        });
    }
    let line = ready.recv_timeout(START).unwrap_or_default();
    if !line.is_empty() {
        return Ok(line.trim().to_owned());
    }
    // It has ended, or is as good as that.
    let _ = child.kill();
    let _ = child.wait();
    let mut why = String::new();
    use std::io::Seek as _;
    let mut log = log;
    let _ = log.seek(std::io::SeekFrom::Start(said_before));
    let _ = log.read_to_string(&mut why);
    let why = why.trim().trim_start_matches("hythe-hostd: ").to_owned();
    Err(HostdError::Agent(match why.is_empty() {
        true => format!("the agent was not ready after {START:?}, and was ended"),
        false => why,
    }))
}
