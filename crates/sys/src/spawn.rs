//! Child processes that do not outlive us.

#![allow(
    unsafe_code,
    reason = "this is the island: code that runs between fork and exec"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the child die with SIGKILL when its parent dies. The parent is, for the kernel, the *thread* that spawns it: spawn from
/// one that lives as long as the child shall.
///
/// A program that changes its user on `exec` is no longer bound by this.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the call above.
        if getppid() != Some(parent) {
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and nothing else: it takes no lock and allocates
    // nothing, since an errno becomes an `io::Error` in place.
    unsafe { command.pre_exec(bind) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_child_dies_with_the_thread_that_spawned_it() {
        let spawn = || {
            let mut command = Command::new("sleep");
            die_with_parent(command.arg("60").stdout(Stdio::null()));
            command.spawn().expect("sleep")
        };
        let mut child = std::thread::spawn(spawn).join().expect("joined");
        let status = child.wait().expect("waited");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }
}
