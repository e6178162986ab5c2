//! Tasks in Rust that are dropped where they may not be ended: in a forked process, and where the
//! program has closed their descriptors. Here, since the calls for that are unsafe.

#![allow(
    unsafe_code,
    reason = "what programs do: they close what they find open, and fork"
)]

use crate::stage::{Stage, hythe_command, run, text};
use hythe_testing::{eventually, in_module};

const CASE: &str = "HYTHE_TEST_CASE";

/// Not a test by itself: a task in Rust that is dropped where it may not be ended.
#[test]
fn task() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let task = hythe::tasks::Task::join().expect("a task");
    match case.as_str() {
        "closed" => {
            eventually("the library's threads sleep", are_threads_asleep);
            // SAFETY: what programs do; the library finds out.
            assert_eq!(unsafe { libc::close_range(3, 1023, 0) }, 0);
            let open = |_| std::fs::File::open("/dev/null").expect("there");
            let files: Vec<std::fs::File> = (0..60).map(open).collect();
            drop(task);
            assert!(files.iter().all(|file| file.metadata().is_ok()));
        }
        "forked" => {
            // SAFETY: the child drops what it has, and ends.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                // SAFETY: one that waits in vain ends by its alarm.
                unsafe { libc::alarm(60) };
                drop(task);
                // SAFETY: it runs nothing of the parent's.
                unsafe { libc::_exit(0) };
            }
            let mut status = -1;
            // SAFETY: the place takes what the call writes.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
            task.send(task.id(), 1, b"still").expect("the parent's own");
        }
        other => panic!("no case {other}"),
    }
    println!("left alone");
}

/// What they have open for a moment is not there to be closed.
fn are_threads_asleep() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("its threads");
    let stats =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    // `TID (NAME) STATE …`
    let is_library = |stat: &String| stat.contains("(hythe-");
    let mut library = stats.filter(is_library);
    library.all(|stat| stat.contains(") S "))
}

#[test]
fn dropping_a_task_leaves_files_and_parents_alone() {
    let Some(hythe) = hythe_command() else { return };
    let stage = Stage::install();
    let own = std::env::current_exe().expect("this test");
    for case in ["closed", "forked"] {
        let mut job = stage.command(&hythe);
        job.args(["run", "-n", "1", "--"]).arg(&own).env(CASE, case);
        let said = run(job.args(["--exact", &in_module("task"), "--nocapture"]));
        assert!(
            text(&said).contains("left alone"),
            "{case}: {}",
            text(&said)
        );
    }
}
