//! Open files of a runner or a part, which has several for each task. A process may usually open
//! 1024 at first, and more if it asks for that. Never takes back what it asked for: tasks that are
//! started later have it, too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of a task: its process, standard output, standard error, its connections to the runner and to
/// the machine of PVM, what is caught of its output, and as much again for commands that ask.
const OF_TASK: u64 = 8;
/// Of the process itself, of links to other hosts and of its libraries.
const OWN: u64 = 128;

/// Lets this process open as many files as so many tasks need, or as it may.
pub(super) fn provide_for(tasks: usize) {
    let limit = getrlimit(Resource::Nofile);
    if let Some(raised) = raised(limit, tasks)
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, ?raised, "the number of open files stays as it is");
    }
}

/// `None`: it suffices, or cannot be more.
fn raised(Rlimit { current, maximum }: Rlimit, tasks: usize) -> Option<Rlimit> {
    let needed = (tasks as u64).saturating_mul(OF_TASK).saturating_add(OWN);
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
    fn the_limit_is_raised_to_what_is_needed_and_as_far_as_it_may() {
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
}
