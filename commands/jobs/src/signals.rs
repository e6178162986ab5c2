//! The signals that `hythe run` and its runner pass on to tasks.
//!
//! One that was ignored when the process began stays ignored, for `nohup` and for what a shell runs
//! in the background, also by the tasks. Never decides what a signal does to a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hythe_command::error::CliError;
use signal_hook::consts::{
    SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::Signals;

const PASSED_ON: [i32; 9] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2, SIGWINCH,
];

/// Which of the signals of job control came last: those that are read together have no order.
#[derive(Debug)]
pub(super) struct JobControl(Arc<AtomicUsize>);

impl JobControl {
    /// The one that holds, if this is one of them; else the signal itself.
    pub(super) fn latest(&self, number: i32) -> i32 {
        let stops = self.0.load(Ordering::SeqCst) == SIGTSTP as usize;
        match number {
            SIGTSTP | SIGCONT if stops => SIGTSTP,
            SIGTSTP | SIGCONT => SIGCONT,
            _ => number,
        }
    }
}

/// From now on these signals do not end or stop this process, unless they were ignored.
pub(super) fn signals() -> Result<(Signals, JobControl), CliError> {
    let action = "listen for signals";
    let failed = |source: std::io::Error| CliError::System { action, source };
    let ignored = ignored().map_err(failed)?;
    let passed_on = PASSED_ON.iter().filter(|number| !ignored.contains(number));
    let passed_on: Vec<i32> = passed_on.copied().collect();
    let last = Arc::new(AtomicUsize::new(0));
    for number in [SIGTSTP, SIGCONT] {
        if passed_on.contains(&number) {
            let noted =
                signal_hook::flag::register_usize(number, Arc::clone(&last), number as usize);
            noted.map_err(failed)?;
        }
    }
    let signals = Signals::new(passed_on).map_err(failed)?;
    Ok((signals, JobControl(last)))
}

/// What this process ignores.
fn ignored() -> std::io::Result<Vec<i32>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(parse_ignored(&status))
}

/// The line `SigIgn:` of a process's status: a bit for each signal.
fn parse_ignored(status: &str) -> Vec<i32> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.unwrap_or(0);
    (1..=64)
        .filter(|number| mask >> (number - 1) & 1 == 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tsh\nSigBlk:\tffffffffffffffff\nSigIgn:\t8000000000000003\n";
        assert_eq!(parse_ignored(status), [1, 2, 64]);
        assert!(parse_ignored("Name:\tsh\n").is_empty());
    }

    #[test]
    fn last_signal_of_job_control_holds() {
        let control = JobControl(Arc::new(AtomicUsize::new(SIGCONT as usize)));
        assert_eq!(control.latest(SIGTSTP), SIGCONT);
        control.0.store(SIGTSTP as usize, Ordering::SeqCst);
        assert_eq!(
            [SIGCONT, SIGTERM].map(|number| control.latest(number)),
            [SIGTSTP, SIGTERM]
        );
    }
}
