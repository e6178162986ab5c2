//! A run of the benchmarks that would last long, to be ended from outside.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use hythe_testing::{Polling, eventually_some};
use rustix::process::{Pid, Signal, kill_process};

/// Killed when dropped.
pub(crate) struct LongRun(Child);

impl LongRun {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("it starts"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The process of this kind that one of its threads has started, once it is there.
    pub(crate) fn child(&self, is_it: fn(u32) -> bool) -> u32 {
        let tasks = format!("/proc/{}/task", self.id());
        let mut polling = Polling::new("a second process");
        loop {
            let tasks = std::fs::read_dir(&tasks).expect("threads").flatten();
            let children = tasks
                .map(|task| std::fs::read_to_string(task.path().join("children")))
                .filter_map(Result::ok)
                .collect::<String>();
            let pids = children.split_ascii_whitespace();
            let mut pids = pids.filter_map(|pid| pid.parse().ok());
            // Others are asked for the commit, and end again.
            if let Some(found) = pids.find(|pid| is_it(*pid)) {
                return found;
            }
            polling.pause();
        }
    }

    /// What it said on standard error, after it has ended by itself with exit code 1.
    pub(crate) fn complaint(mut self) -> String {
        let status = eventually_some("its end", || self.0.try_wait().expect("waited"));
        assert_eq!(status.code(), Some(1));
        let mut said = String::new();
        let mut stderr = self.0.stderr.take().expect("its standard error");
        stderr.read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn send(signal: Signal, pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("sent");
}
