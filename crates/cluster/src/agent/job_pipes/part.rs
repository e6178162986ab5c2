//! A part of another host's job: a process that this agent starts.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::context::Context;
use crate::HostName;
use crate::error::ClusterError;
use crate::tasks::JobId;

/// Starts a part for a job of that host.
pub(super) fn start(
    context: &Context,
    from: &HostName,
    job: JobId,
) -> Result<(UnixStream, Child), ClusterError> {
    let (own, theirs) = UnixStream::pair()?;
    let options = &context.options;
    let mut command = Command::new(&options.task_command);
    command.arg("task-part");
    command.args(["--from", from.as_str(), "--host", options.host.as_str()]);
    command.arg("--job").arg(job.number().to_string());
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

/// Its connection is closed, so it ends all that it has started, and then itself. One that does
/// not, since it is stopped, is killed: what it supervises then ends by itself.
pub(super) fn wait_for(mut child: Child, ending: Duration) {
    if !has_ended_within(&child, ending) {
        tracing::warn!(
            pid = child.id(),
            "a part of a job is killed: it did not end"
        );
        let _ = child.kill();
    }
    if let Err(error) = child.wait() {
        tracing::warn!(%error, "the end of a part of a job is not known");
    }
}

fn has_ended_within(child: &Child, ending: Duration) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return false;
    };
    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
    hythe_sys::wait::ready(&mut polled, ending)[0]
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use rustix::process::{Signal, kill_process};

    use super::*;

    #[test]
    fn part_that_is_stopped_holds_nobody_up() {
        let child = Command::new("sleep").arg("600").spawn().expect("started");
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).expect("it runs");
        wait_for(child, Duration::from_millis(10));
        // Its number is free, or another's.
        assert!(!has_child(pid));
    }

    fn has_child(pid: Pid) -> bool {
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG).is_ok()
    }

    #[test]
    fn part_that_ends_is_not_killed() {
        let mut child = Command::new("cat");
        let mut child = child.stdin(Stdio::piped()).spawn().expect("started");
        drop(child.stdin.take());
        assert!(has_ended_within(&child, Duration::from_secs(60)));
        let status = child.wait().expect("own child");
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }
}
