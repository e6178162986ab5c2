//! Open files of a runner or a part, which has several for each task. A process may usually open
//! 1024 at first, and more if it asks for that. Tasks that would find none are refused before any
//! of them is started. Never takes back what it asked for: tasks that are started later have it,
//! too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::open_files;
use crate::tasks::error::TaskError;

/// Of a task: its process, standard output, standard error, its connections to the runner and to
/// the machine of PVM, what is caught of its output, and as much again for commands that ask.
const OF_TASK: u64 = 8;
/// Of the process itself, of links to other hosts and of its libraries.
const OWN: u64 = 128;

/// Of a task that asks for nothing: its process, standard output and standard error.
const OF_QUIET_TASK: u64 = 3;
/// While one is started: the other ends of what it prints, `/dev/null`, a pair for the result of
/// `exec`, and what other threads open meanwhile.
const STARTING: u64 = 8;

/// Lets this process open as many files as so many tasks need, or as it may. `starting` of them are
/// to be started by it: refused if it may not open what these need at least.
pub(super) fn provide_for(tasks: usize, starting: usize, host: &str) -> Result<(), TaskError> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(raised) = raised(limit, tasks)
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, ?raised, "the number of open files stays as it is");
    }
    let limit = getrlimit(Resource::Nofile).current;
    let is_too_low = |limit: &u64| {
        let open = open_files::count(*limit);
        open.is_some_and(|open| is_short(*limit, open, starting))
    };
    match limit.filter(is_too_low) {
        Some(limit) => Err(TaskError::TooFewFiles {
            host: host.to_owned(),
            tasks: starting,
            needed: needed(tasks),
            limit,
        }),
        None => Ok(()),
    }
}

/// Do these tasks surely need more than there are?
const fn is_short(limit: u64, open: u64, starting: usize) -> bool {
    let more = OF_QUIET_TASK.saturating_mul(starting as u64);
    starting > 0 && open.saturating_add(more).saturating_add(STARTING) > limit
}

const fn needed(tasks: usize) -> u64 {
    (tasks as u64).saturating_mul(OF_TASK).saturating_add(OWN)
}

/// `None`: it suffices, or cannot be more.
fn raised(Rlimit { current, maximum }: Rlimit, tasks: usize) -> Option<Rlimit> {
    let needed = needed(tasks);
    let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
    // No limit at all is none.
    (raised > current?).then_some(Rlimit {
        current: Some(raised),
        maximum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_raised_to_what_is_needed_and_as_far_as_it_may() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let many = |current, maximum| {
            let raised = raised(limit(current, maximum), 300)?;
            assert_eq!(raised.maximum, maximum);
            raised.current
        };
        assert_eq!(many(Some(1024), Some(1 << 20)), Some(2528));
        assert_eq!(many(Some(1024), None), Some(2528));
        assert_eq!(many(Some(1024), Some(2000)), Some(2000));
        for enough in [
            many(Some(1024), Some(1024)),
            many(Some(4096), Some(1 << 20)),
            many(None, None),
        ] {
            assert_eq!(enough, None);
        }
        assert!(raised(limit(Some(1024), Some(1 << 20)), 100).is_none());
    }

    #[test]
    fn tasks_that_find_no_files_are_too_many() {
        assert!(is_short(64, 20, 13));
        assert!(!is_short(64, 20, 12));
        assert!(!is_short(16, 16, 0), "none is to be started");
    }
}
