//! A part of another host's job: a process that this agent starts.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use super::super::context::Context;
use crate::HostName;
use crate::error::ClusterError;

/// Starts a part for a job of that host.
pub(super) fn start(
    context: &Context,
    from: &HostName,
) -> Result<(UnixStream, Child), ClusterError> {
    let (own, theirs) = UnixStream::pair()?;
    let options = &context.options;
    let mut command = Command::new(&options.task_command);
    command.arg("task-part");
    command.args(["--from", from.as_str(), "--host", options.host.as_str()]);
    command.arg("--pool").arg(&options.pool_name);
    command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null());
    // Signals that end the agent are not for it: it ends with its connection.
    command.process_group(0);
    let child = command.spawn().map_err(|error| {
        ClusterError::Unexpected(format!(
            "host {}: cannot start {}: {error}; install `hythe` beside the agent, or in its PATH",
            options.host,
            options.task_command.display()
        ))
    })?;
    Ok((own, child))
}

/// Its connection is closed, so it ends all that it has started, and then itself.
pub(super) fn wait_for(mut child: Child) {
    if let Err(error) = child.wait() {
        tracing::warn!(%error, "the end of a part of a job is not known");
    }
}
