//! What the programs of a run leave behind: agents and daemons outlive whoever started them.
//!
//! They become children of this process, which ends them, whatever a run came to. So what they used
//! of the CPUs is this process's own, too (`others`), and nothing is left behind. Scenarios whose
//! systems start programs of their own use it; no other process of the machine is touched.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

use crate::error::BenchError;

/// A process in the middle of a system call that cannot be interrupted ends late.
const BOUND: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Ends them when dropped, once; then this process must have no other children.
#[derive(Debug)]
pub(crate) struct Descendants(());

impl Descendants {
    /// From now on they become this process's.
    pub(crate) fn adopt() -> Result<Self, BenchError> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self(()))
    }

    /// Ends those that are left, and waits for all.
    pub(crate) fn end(self) -> Result<(), BenchError> {
        std::mem::forget(self);
        end_all()
    }
}

impl Drop for Descendants {
    fn drop(&mut self) {
        // A run that failed says why; what is left then has no better place to be said.
        if let Err(error) = end_all() {
            eprintln!("hythe-bench: {error}");
        }
    }
}

/// What a child leaves behind is a child at the next look.
fn end_all() -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        // Those that have ended; an error says that there are none.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let children = children()?;
        if children.is_empty() {
            return Ok(());
        }
        if start.elapsed() > BOUND {
            let why = format!("processes {children:?} of the run do not end");
            return Err(BenchError::Invalid(why));
        }
        for child in children {
            // No other process can have its number before it is waited for here.
            let _ = kill_process(child, Signal::KILL);
        }
        std::thread::sleep(LOOK);
    }
}

fn children() -> Result<Vec<Pid>, BenchError> {
    let own = getpid().as_raw_nonzero().get();
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        // One that has ended meanwhile is none.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        if parent(&stat.unwrap_or_default()) == Some(own) {
            children.push(pid);
        }
    }
    Ok(children)
}

/// Field 4 of proc(5), behind the name, which may have spaces and brackets in it.
fn parent(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_found_behind_any_name() {
        assert_eq!(parent("7 (a) 9 (b) S 42 1 1 0"), Some(42));
        assert_eq!(parent(""), None);
    }

    #[test]
    fn child_is_found() {
        let mut sleeper = std::process::Command::new("sleep");
        let mut sleeper = sleeper.arg("60").spawn().expect("it starts");
        let found = children().expect("read");
        let is_it = |pid: &Pid| pid.as_raw_nonzero().get().unsigned_abs() == sleeper.id();
        assert!(found.iter().any(is_it), "{found:?}");
        sleeper.kill().expect("it lives");
        sleeper.wait().expect("its end");
    }
}
