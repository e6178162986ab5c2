//! `hythe host stop`: stops this host's agent, and waits until its process is gone.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use super::args::StopArgs;
use hythe_command::agent;

#[derive(Serialize)]
struct Document {
    stopped: String,
    pid: u32,
}

pub(super) fn run(args: &StopArgs, globals: &Globals) -> Result<(), CliError> {
    let status = agent::status()?;
    // Before it is asked: it answers afterwards, so that the number was its own until here.
    let process = process(status.pid);
    agent::stop()?;
    // None: it is of another PID namespace, where it cannot be waited for.
    if let Some(process) = process
        && !is_gone(&process, args.timeout)
    {
        return Err(CliError::Failed(format!(
            "the agent, process {}, was asked to stop and goes on after {} s: a longer --timeout \
             waits for it, `kill -9 {}` ends it",
            status.pid,
            args.timeout.as_secs_f64(),
            status.pid
        )));
    }
    let document = Document {
        stopped: status.host.to_string(),
        pid: status.pid,
    };
    output::print(globals.json, &document, |document| {
        let Document { stopped, pid } = document;
        format!("stopped the agent of host {stopped} (pid {pid})")
    })
}

fn process(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn is_gone(process: &OwnedFd, timeout: Duration) -> bool {
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        hythe_sys::wait::ready(&mut polled, left);
        if !polled[0].revents().is_empty() {
            return true;
        }
        if left.is_zero() {
            return false;
        }
    }
}
