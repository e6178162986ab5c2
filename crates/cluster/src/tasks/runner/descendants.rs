//! Ends all processes below this one, also those that made sessions of their own.
//!
//! It works where this process is a subreaper: what a process below leaves behind becomes a child
//! of this one, and nothing escapes by forking twice.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, waitpid,
};

/// How long to go on while something below lives: a process in the middle of a system call that
/// cannot be interrupted ends late.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Kills all processes below this one, and waits until they
/// are gone. Returns how many are left after 10 s.
pub(super) fn kill_all() -> usize {
    let start = Instant::now();
    loop {
        let living = living();
        if living.is_empty() || start.elapsed() > TIMEOUT {
            return living.len();
        }
        for pid in &living {
            kill(*pid);
        }
        std::thread::sleep(LOOK);
    }
}

/// Those that were killed and left to this process are taken out of the table, too.
fn living() -> Vec<Pid> {
    let processes = processes();
    let own = getpid();
    let is_below = |pid: Pid| {
        let mut at = pid;
        // Each step leads to a parent; a table that changes while it is read may have circles.
        for _ in 0..processes.len() {
            match processes.get(&at.as_raw_pid()) {
                Some(found) if found.parent == own.as_raw_pid() => return true,
                Some(found) => match Pid::from_raw(found.parent) {
                    Some(parent) => at = parent,
                    None => return false,
                },
                None => return false,
            }
        }
        false
    };
    let mut living = Vec::new();
    for (&raw, process) in &processes {
        let Some(pid) = Pid::from_raw(raw).filter(|pid| is_below(*pid)) else {
            continue;
        };
        match process.is_zombie {
            false => living.push(pid),
            true if process.parent == own.as_raw_pid() => {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            true => {}
        }
    }
    living
}

/// The number may be another process's by now: the handle is opened first, then the parent looked
/// at again.
fn kill(pid: Pid) {
    let handle: Option<OwnedFd> = pidfd_open(pid, PidfdFlags::empty()).ok();
    let parent = read(pid.as_raw_pid()).map(|process| process.parent);
    if let (Some(handle), Some(parent)) = (handle, parent)
        && is_ours(parent)
    {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Leads from this process up to us?
fn is_ours(mut at: i32) -> bool {
    let own = getpid().as_raw_pid();
    for _ in 0..1024 {
        if at == own {
            return true;
        }
        match read(at) {
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    false
}

#[derive(Clone, Copy, Debug)]
struct Process {
    parent: i32,
    is_zombie: bool,
}

fn processes() -> BTreeMap<i32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|pid: i32| Some((pid, read(pid)?)))
        .collect()
}

fn read(pid: i32) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&stat))
}

/// `PID (NAME) STATE PARENT …`, where the name may have brackets.
fn parse(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    Some(Process {
        is_zombie: matches!(state, "Z" | "X"),
        parent: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_brackets_does_not_hide_the_parent() {
        let process = parse("12 (a) Z 9 (b)) S 7 12 12 0 -1").expect("a row");
        assert_eq!((process.parent, process.is_zombie), (7, false));
        assert!(parse("12 (a) Z 1 1").expect("a row").is_zombie);
        assert!(parse("12 (a").is_none());
    }
}
