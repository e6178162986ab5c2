//! Asks the agent of this host, over the socket in the directory of the host's files.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hythe_cluster::Status;
use hythe_cluster::command::{self, Reply, Request, SOCKET_NAME};

use hythe_terminal::escaped;

use crate::error::CliError;

/// Where the agent says what it does.
const LOG: &str = "agent.log beside its socket, or `journalctl --user --unit hythe-hostd`,";

/// How the agent is.
pub fn status() -> Result<Status, CliError> {
    let socket = socket()?;
    match ask(&socket, &Request::Status)? {
        Reply::Status { status } => Ok(*status),
        reply => Err(no_answer(&socket, "the request for its status", &reply)),
    }
}

/// As [`status`], within a time: an agent that stands still holds nobody up for longer.
pub fn status_within(time: Duration) -> Result<Status, CliError> {
    let (answers, answered) = mpsc::channel();
    // It may stay in its call for longer than this process runs.
    hythe_sys::wait::spawn("hythe-ask-agent", move || {
        let _ = answers.send(status());
    })
    .map_err(|source| CliError::System {
        action: "start a thread",
        source,
    })?;
    answered.recv_timeout(time).unwrap_or_else(|_| {
        let what = format!("the agent does not answer within {time:?}; {LOG} says more");
        Err(CliError::Failed(what))
    })
}

/// Asks it to stop. It may go on for a moment.
pub fn stop() -> Result<(), CliError> {
    let socket = socket()?;
    match ask(&socket, &Request::Stop)? {
        Reply::Done => Ok(()),
        reply => Err(no_answer(&socket, "the request to stop", &reply)),
    }
}

fn ask(socket: &Path, request: &Request) -> Result<Reply, CliError> {
    command::ask(socket, request).map_err(|error| cannot_ask(socket, &error))
}

fn cannot_ask(socket: &Path, error: &io::Error) -> CliError {
    let shown = escaped(socket);
    let folder = socket.parent().unwrap_or(Path::new("."));
    CliError::Failed(match error.kind() {
        ErrorKind::NotFound if !folder.exists() => format!(
            "this host is in no realm: there is no {}; `hythe host init` begins one, or `hythe \
             host add` on a host that is in one; `hythe host start` starts the agent then",
            escaped(folder)
        ),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            format!("no agent runs: nobody listens at {shown}; `hythe host start` starts it")
        }
        ErrorKind::PermissionDenied => {
            format!("cannot ask the agent at {shown}: {error}; only the user whose agent it is may")
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("the agent at {shown} does not answer; {LOG} says more")
        }
        ErrorKind::InvalidData => format!(
            "the agent at {shown} answers what this `hythe` does not understand ({error}); if it \
             is of another version, end its process and `hythe host start` it again"
        ),
        _ => format!("cannot ask the agent at {shown}: {error}; {LOG} says more"),
    })
}

fn no_answer(socket: &Path, request: &str, reply: &Reply) -> CliError {
    let what = match reply {
        Reply::Failed { reason } => escaped(reason).to_string(),
        _ => "it sent the reply to something else".to_owned(),
    };
    CliError::Failed(format!(
        "the agent at {} refuses {request}: {what}",
        escaped(socket)
    ))
}

/// As `hythe-hostd` finds it.
fn socket() -> Result<PathBuf, CliError> {
    let folder = command::hosts_directory();
    let folder = folder.map_err(|error| CliError::Failed(error.to_string()))?;
    Ok(folder.join(SOCKET_NAME))
}
