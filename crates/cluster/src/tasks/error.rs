//! What can go wrong with tasks.

use std::io;
use std::path::PathBuf;

use hythe_terminal::escaped;
use rustix::io::Errno;

use super::id::{JOB_MAX, TASKS_MAX, TaskId};

/// Errors about tasks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The program cannot be started.
    #[error(
        "host {host}: cannot start {}: {source}{}",
        escaped(path),
        remedy(source)
    )]
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
    /// More tasks than the pool has places for participants.
    #[error(
        "{tasks} more tasks need as many participants of pool `{0}`, which has {limit}, and {taken} \
         of them are taken: `hythe pool remove {0} && hythe pool create {0} --limit \
         participants={1}` makes one that has enough",
        escaped(pool),
        taken.saturating_add(*tasks)
    )]
    TooFewParticipants {
        /// The pool's name.
        pool: String,
        /// How many would be started on this host.
        tasks: usize,
        /// Those there are, and those of tasks that may join yet.
        taken: usize,
        /// The pool's limit.
        limit: usize,
    },
    /// More tasks than a runner has open files for.
    #[error(
        "host {host}: {tasks} more tasks need {needed} open files in the process that starts them, \
         which may have {limit}: `ulimit -n {needed}`, as root beyond the hard limit, `nofile` in \
         /etc/security/limits.conf or `LimitNOFILE=` of a service raises that"
    )]
    TooFewFiles {
        /// Where they were to be started.
        host: String,
        /// How many.
        tasks: usize,
        /// What suffices for them and those that run.
        needed: u64,
        /// The limit, raised as far as it may be.
        limit: u64,
    },
    /// More tasks than processes may be started.
    #[error(
        "host {host}: {tasks} more tasks need as many processes, of which {limit_of} may have \
         {limit}, and {taken} run: raise {raised_by}"
    )]
    TooFewProcesses {
        /// Where they were to be started.
        host: String,
        /// How many.
        tasks: usize,
        /// The user or control group.
        limit_of: String,
        /// Those that it has, threads included.
        taken: u64,
        /// The limit.
        limit: u64,
        /// Where it is set.
        raised_by: &'static str,
    },
    /// All numbers of jobs are taken.
    #[error("{JOB_MAX} jobs run in this pool: wait for one to end, or use another pool")]
    TooManyJobs,
    /// Nobody leads to other hosts.
    #[error(
        "no agent serves this pool, so there are no other hosts: `hythe host start` starts one"
    )]
    NoAgent,
    /// The agent of this host, or of another one, refuses.
    #[error("{}", escaped(reason))]
    Agent {
        /// Why.
        reason: String,
    },
    /// Something on another host, which the text names.
    #[error("{}", escaped(reason))]
    Elsewhere {
        /// What.
        reason: String,
    },
    /// No job takes programs in.
    #[error("no job of this pool takes programs in: start one by `hythe run --stay`")]
    NoJob,
    /// It is not there.
    #[error(
        "there is no task {task}: it has ended, or never was; `hythe tasks` shows those there are"
    )]
    NoSuchTask {
        /// Which.
        task: TaskId,
    },
    /// This process is no task.
    #[error(
        "this process is no task: {what}; start it by `hythe run`, or have it spawned by a task"
    )]
    NotATask {
        /// What is missing.
        what: String,
    },
    /// A task ended, and nothing more comes from it, or reaches it.
    #[error("task {task} has ended")]
    Ended {
        /// Which.
        task: TaskId,
    },
    /// A task of another job, on a host where only one of both jobs is.
    #[error(
        "task {task} is not reached: it runs on host {host}, this task on host {own}, and tasks of \
         two jobs reach each other across hosts only where both jobs have started tasks on both"
    )]
    OutOfReach {
        /// Which.
        task: TaskId,
        /// Where it runs.
        host: String,
        /// Where this one does.
        own: String,
    },
    /// Too much is kept in this process's memory.
    #[error(
        "{bytes} bytes for task {task} would be kept until it receives, beside {kept}: at most {most} are kept; have it receive, or raise the limit"
    )]
    KeptTooMuch {
        /// For whom.
        task: TaskId,
        /// What was to be sent.
        bytes: usize,
        /// What is kept for all tasks.
        kept: usize,
        /// The limit.
        most: usize,
    },
    /// Too many messages were passed by that no call has received.
    #[error(
        "messages that no call has received yet take {kept} bytes, at most {most} are kept, and what is wanted is not among them; receive some of them, or raise the limit"
    )]
    InboxFull {
        /// What those that are kept take.
        kept: usize,
        /// The limit.
        most: usize,
    },
    /// Tasks are to begin where a host has no directory.
    #[error(
        "host {host}: there is no directory `{}` in which tasks are to begin",
        escaped(directory)
    )]
    NoDirectory {
        /// Which.
        host: String,
        /// As it was named.
        directory: String,
    },
    /// There is no such place for a task.
    #[error(
        "there is no {what} `{}` among the hosts of this job, which runs on host {host}, of {}; \
         `hythe run --hosts` names them",
        escaped(wanted),
        std::env::consts::ARCH
    )]
    NoSuchPlace {
        /// Host or architecture.
        what: &'static str,
        /// As it was named.
        wanted: String,
        /// The host that there is.
        host: String,
    },
    /// Not a member.
    #[error("task {task} is not in group `{}`", escaped(group))]
    NotInGroup {
        /// Which.
        task: TaskId,
        /// Its name.
        group: String,
    },
    /// The members of a group did not come together.
    #[error("group `{}`: nothing came from {} for {waited_ms} ms", escaped(group), .task.map_or_else(|| "enough members".to_owned(), |task| format!("task {task}")))]
    Late {
        /// Its name.
        group: String,
        /// Who was waited for, if it was one.
        task: Option<TaskId>,
        /// For how long.
        waited_ms: u64,
    },
    /// What members give to a group does not fit together.
    #[error("group `{}`: {reason}", escaped(group))]
    Group {
        /// Its name.
        group: String,
        /// What is wrong.
        reason: String,
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

/// What lifts the limit that the system has met when it refused to start a program.
fn remedy(source: &io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::MFILE) => " (`ulimit -n`, or `LimitNOFILE=` of a service, raises that)",
        Some(Errno::NFILE) => " (`sysctl fs.file-max` raises that)",
        Some(Errno::AGAIN) => {
            ": no more processes (`ulimit -u`, or `pids.max` of a control group, raises that)"
        }
        _ => "",
    }
}
