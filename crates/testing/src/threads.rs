//! What the kernel shows of the threads of a process: whether they sleep, in which system call,
//! and how often they went to sleep.
//!
//! A test that is about a thread that waits uses it to act only when the thread does wait. All of
//! it is read from `/proc`; nothing here changes a thread.

use crate::waiting::{Polling, eventually};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Polls in a row that find a thread asleep, before it counts as waiting. A thread that computes
/// sleeps now and then, for a page or a lock, but seldom at each of them.
const ASLEEP_POLLS: u32 = 5;

/// A thread of this process that a test watches until it sleeps.
#[derive(Clone, Debug)]
pub struct WatchedThread(Arc<OnceLock<PathBuf>>);

/// The same closure, and the thread that will run it.
pub fn watched<T, F: FnOnce() -> T>(body: F) -> (WatchedThread, impl FnOnce() -> T + use<T, F>) {
    let thread = WatchedThread(Arc::default());
    let running = thread.clone();
    let run = move || {
        running.is_me();
        body()
    };
    (thread, run)
}

impl WatchedThread {
    /// The calling thread.
    ///
    /// # Panics
    ///
    /// Without `/proc`.
    #[must_use]
    pub fn me() -> Self {
        let thread = Self(Arc::default());
        thread.is_me();
        thread
    }

    fn is_me(&self) {
        let link = fs::read_link("/proc/thread-self").expect("procfs");
        let set = self.0.set(Path::new("/proc").join(link));
        assert!(set.is_ok(), "another thread is watched");
    }

    /// Waits until the thread sleeps. Returns as well when it has ended: the test then sees what it
    /// returned instead of waiting.
    ///
    /// # Panics
    ///
    /// If it does not within [`crate::BOUND`].
    #[track_caller]
    pub fn until_asleep(&self) {
        let mut polling = Polling::new("the thread sleeps");
        let mut asleep = 0;
        while asleep < ASLEEP_POLLS {
            let state = self.0.get().map(|thread| state(thread));
            asleep = match state {
                Some(None) => return,
                Some(Some('S')) => asleep + 1,
                _ => 0,
            };
            polling.pause();
        }
    }
}

/// Waits until all threads of the process sleep, and it has not ended: what a program that waits
/// for input, or for another one, looks like.
///
/// # Panics
///
/// If they do not within [`crate::BOUND`].
#[track_caller]
pub fn until_process_sleeps(pid: u32) {
    let mut asleep = 0;
    eventually(&format!("all threads of process {pid} sleep"), || {
        let threads = threads(pid);
        let all = !threads.is_empty() && threads.iter().all(|one| state(one) == Some('S'));
        asleep = if all { asleep + 1 } else { 0 };
        asleep >= ASLEEP_POLLS
    });
}

/// Waits until each thread of that name in a process sleeps in the system call of that number
/// (`libc::SYS_…`), and there is one. A name is its first 15 bytes.
///
/// # Panics
///
/// If it does not within [`crate::BOUND`].
#[track_caller]
pub fn until_thread_is_in_call(pid: u32, name: &str, call: i64) {
    eventually(
        &format!("{name} of process {pid} is in call {call}"),
        || {
            let named = threads_named(pid, name);
            let is_in = |thread: &PathBuf| {
                let text = fs::read_to_string(thread.join("syscall")).unwrap_or_default();
                text.split_whitespace().next() == Some(call.to_string().as_str())
            };
            !named.is_empty() && named.iter().all(is_in)
        },
    );
}

/// How often the threads of that name in a process have gone to sleep: each wake-up of a thread
/// that then waits again adds one, and a busy machine adds none.
#[must_use]
pub fn sleeps_of_threads(pid: u32, name: &str) -> u64 {
    let threads = threads_named(pid, name);
    let of_one = |thread: &PathBuf| {
        let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok())
    };
    threads.iter().filter_map(of_one).sum()
}

fn threads(pid: u32) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let entries = tasks.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn threads_named(pid: u32, name: &str) -> Vec<PathBuf> {
    let mut found = threads(pid);
    let kept = &name[..name.len().min(15)];
    found.retain(|thread| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim_end() == kept)
    });
    found
}

/// The letter of a thread's state in its `stat`; `None` when it is gone.
fn state(thread: &Path) -> Option<char> {
    let stat = fs::read_to_string(thread.join("stat")).ok()?;
    let (_name, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no procfs")]
    fn watched_thread_is_found_asleep() {
        let (to, from) = channel::<u32>();
        let (thread, receive) = watched(move || from.recv());
        let waiting = std::thread::spawn(receive);
        thread.until_asleep();
        assert!(!waiting.is_finished());
        to.send(7).expect("it waits");
        assert_eq!(waiting.join().expect("no panic"), Ok(7));
        thread.until_asleep();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no procfs")]
    fn named_thread_shows_call_and_sleeps() {
        let (to, from) = channel::<u32>();
        let own = std::process::id();
        let builder = std::thread::Builder::new().name("counted-asleep".to_owned());
        let waiting = builder.spawn(move || while from.recv().is_ok() {});
        eventually("it sleeps", || {
            sleeps_of_threads(own, "counted-asleep") >= 1
        });
        for round in 1..=3 {
            to.send(round).expect("it waits");
            let wanted = u64::from(round) + 1;
            eventually("it sleeps again", || {
                sleeps_of_threads(own, "counted-asleep") >= wanted
            });
        }
        drop(to);
        waiting.expect("started").join().expect("no panic");
        assert_eq!(sleeps_of_threads(own, "counted-asleep"), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no processes")]
    fn sleeping_process_is_found() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn();
        let child = child.as_mut().expect("sleep is of coreutils");
        until_process_sleeps(child.id());
        child.kill().expect("own child");
        child.wait().expect("own child");
    }
}
