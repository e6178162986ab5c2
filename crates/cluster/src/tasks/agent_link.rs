//! Asks the agent of this host about tasks.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::agent_message::{AGENT_LINE_BYTES_MAX, AGENT_SOCKET, AgentReply, AgentRequest};
use super::error::TaskError;
use super::place::{connect_within, file, is_left_behind};

/// An agent answers when it has dialled the other host, and that has answered: it gives up before.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer, and the connection behind it. `None`: no agent serves this pool.
pub(super) fn ask(
    directory: &Path,
    request: &AgentRequest,
) -> Result<Option<(AgentReply, UnixStream)>, TaskError> {
    let path = directory.join(AGENT_SOCKET);
    let stream = match connect_within(&path, REPLY_TIMEOUT) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::NotFound || is_left_behind(&error) => {
            return Ok(None);
        }
        Err(error) => return Err(file("connect to", &path, error)),
    };
    let reply = exchange(&stream, request).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => TaskError::Agent {
            reason: format!("no answer for {} s", REPLY_TIMEOUT.as_secs()),
        },
        _ => TaskError::Agent {
            reason: error.to_string(),
        },
    })?;
    match reply {
        AgentReply::Refused { reason } => Err(TaskError::Agent { reason }),
        reply => Ok(Some((reply, stream))),
    }
}

fn exchange(mut stream: &UnixStream, request: &AgentRequest) -> io::Result<AgentReply> {
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    // A byte at a time: what follows the line is the other side's.
    let mut reply = Vec::new();
    let mut bytes = BufReader::with_capacity(1, stream).take(AGENT_LINE_BYTES_MAX as u64);
    bytes.read_until(b'\n', &mut reply)?;
    Ok(serde_json::from_slice(&reply)?)
}

pub(super) fn unexpected(reply: &AgentReply) -> TaskError {
    TaskError::Agent {
        reason: format!("an answer that makes no sense: {reply:?}"),
    }
}
