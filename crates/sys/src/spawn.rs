//! Child processes that do not outlive us, and what they cost.

#![allow(
    unsafe_code,
    reason = "this is the island: code that runs between fork and exec, and `wait4`, which rustix does not have"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the child die with SIGKILL when its parent dies. The parent is, for the kernel, the
/// *thread* that spawns it: spawn from one that lives as long as the child shall.
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
    // SAFETY: between fork and exec the closure makes two system calls and nothing else: it takes
    // no lock and allocates nothing, since an errno becomes an `io::Error` in place.
    unsafe { command.pre_exec(bind) };
}

/// Waits for a child, and says how long it was on a CPU, all its threads and the children that it
/// waited for together.
///
/// # Errors
///
/// What `wait4` returns.
pub fn wait_with_cpu_time(child: Child) -> io::Result<(ExitStatus, Duration)> {
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::uninit());
    loop {
        // SAFETY: both places are valid for writes of their types, and the kernel keeps neither
        // pointer.
        let waited = unsafe {
            libc::wait4(
                child.id() as libc::pid_t,
                &raw mut status,
                0,
                usage.as_mut_ptr(),
            )
        };
        if waited >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: the call succeeded, so it has filled the structure.
    let usage = unsafe { usage.assume_init() };
    let time = |spent: libc::timeval| {
        Duration::from_secs(spent.tv_sec as u64) + Duration::from_micros(spent.tv_usec as u64)
    };
    let time = time(usage.ru_utime) + time(usage.ru_stime);
    Ok((ExitStatus::from_raw(status), time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn child_dies_with_the_thread_that_spawned_it() {
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

    #[test]
    fn time_of_a_child_is_counted() {
        let mut command = Command::new("sh");
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3";
        let child = command.args(["-c", busy]).spawn().expect("sh");
        let (status, time) = wait_with_cpu_time(child).expect("waited");
        assert_eq!(status.code(), Some(3));
        assert!(time > Duration::ZERO);
    }
}
