//! What can go wrong with tasks.

use std::io;
use std::path::PathBuf;

use hythe_terminal::escaped;

use super::id::{JOB_MAX, TASKS_MAX, TaskId};

/// Errors about tasks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The program cannot be started.
    #[error("host {host}: cannot start {}: {source}", escaped(path))]
    Program {
        /// Where it was to be started.
        host: String,
        /// The program's path, as it was looked for.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The program is nowhere.
    #[error(
        "host {host}: there is no program `{}` in PATH ({}); give its path, or set PATH",
        escaped(program),
        escaped(searched)
    )]
    NoProgram {
        /// Where it was to be started.
        host: String,
        /// As it was named.
        program: String,
        /// Where it was looked for.
        searched: String,
    },
    /// Too many for one job.
    #[error("a job has at most {TASKS_MAX} tasks; {asked} are too many")]
    TooManyTasks {
        /// How many there would be.
        asked: u32,
    },
    /// All numbers of jobs are taken.
    #[error("{JOB_MAX} jobs run in this pool: wait for one to end, or use another pool")]
    TooManyJobs,
    /// It is not there.
    #[error(
        "there is no task {task}: it has ended, or never was; `hythe tasks` shows those there are"
    )]
    NoSuchTask {
        /// Which.
        task: TaskId,
    },
    /// The runner of a job does not say what was expected.
    #[error("the runner of job {job}: {reason}")]
    Runner {
        /// Of which job.
        job: u32,
        /// What is wrong.
        reason: String,
    },
    /// Something about a file or socket of the pool's directory.
    #[error("cannot {action} {}: {source}", escaped(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The pool.
    #[error(transparent)]
    Node(#[from] hythe_node::NodeError),
    /// The kernel refuses something that a runner needs.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
}
