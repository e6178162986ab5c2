//! What is said to a runner and by it: JSON, a line each way.
//!
//! A connection may carry several requests; each is answered, in order. Between the answers come
//! the ends of tasks that were asked for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::id::TaskId;
use crate::HostName;

/// The longest line; the answer to [`Request::List`] has a row for each task.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// What a runner is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub(super) enum Request {
    /// Which tasks run.
    List,
    /// To send a signal to a task, and all of its process group.
    Kill {
        /// Which.
        task: TaskId,
        /// The signal's number.
        signal: i32,
    },
    /// To start tasks.
    Spawn(Box<Spawn>),
    /// To tell the end of a task, over this connection.
    Watch {
        /// Which.
        task: TaskId,
    },
    /// On which host a task runs, or ran.
    Where {
        /// Which.
        task: TaskId,
    },
    /// Has the job tasks on a host, or could it have: messages of its tasks are received there,
    /// and its tasks receive those from there. [`Reply::NoSuchPlace`]: it has no part there.
    Reaches {
        /// The host's name.
        host: String,
    },
    /// To take a task into a group.
    Join {
        /// The group's name.
        group: String,
        /// Which.
        task: TaskId,
    },
    /// To take it out.
    Leave {
        /// The group's name.
        group: String,
        /// Which.
        task: TaskId,
    },
    /// Who is in a group.
    Members {
        /// Its name.
        group: String,
    },
    /// A member has come to a barrier of its group, which opens when so many have. The answer is
    /// at once; [`Reply::Met`] follows.
    Meet {
        /// The group's name.
        group: String,
        /// Who has come.
        task: TaskId,
        /// How many have to.
        count: u32,
    },
    /// It does not wait there any more.
    StopWaiting {
        /// The group's name.
        group: String,
        /// Who.
        task: TaskId,
    },
    /// To take the process that asks into the job, as a task for as long as this connection is
    /// open.
    Enrol {
        /// Only into a job that stays without tasks.
        if_it_stays: bool,
    },
    /// A task is none any more: others are told its end. Its process goes on.
    Depart {
        /// Which.
        task: TaskId,
    },
    /// To end the job.
    End,
    /// What follows comes from a task on another host: said by the agent, first.
    From {
        /// Which host.
        host: HostName,
    },
}

/// What tasks are to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spawn {
    /// Who wants it.
    pub(super) parent: TaskId,
    /// Found by the `PATH` of the runner, if it has no slash.
    pub(super) program: String,
    /// What it gets.
    pub(super) arguments: Vec<String>,
    /// How many.
    pub(super) count: u32,
    /// Set beside what the job has.
    pub(super) environment: Vec<(String, String)>,
    /// Where they begin; else where the runner is.
    pub(super) directory: Option<PathBuf>,
    /// On which host.
    #[serde(default)]
    pub(super) place: Place,
    /// What holds on some hosts only.
    #[serde(default)]
    pub(super) on_hosts: Vec<OnHost>,
}

/// What holds for tasks on one host. Folders and directories are as that host names them: `$NAME`
/// is its variable, `~` its home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OnHost {
    /// Which.
    pub(super) host: String,
    /// The name that is looked for in these folders first.
    pub(super) program: String,
    /// In turn.
    pub(super) folders: Vec<String>,
    /// Where tasks begin; else where the others do.
    pub(super) directory: Option<String>,
}

/// On which host tasks are started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Place {
    /// On those of the job in turn, else on that of the runner.
    #[default]
    Anywhere,
    /// On this one.
    Host(String),
    /// On one of this architecture.
    Architecture(String),
    /// Each on its own: as many names as tasks. Hosts that are not the job's yet become it.
    Each(Vec<String>),
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub(super) enum Reply {
    /// Those that run.
    Tasks {
        /// A row each.
        tasks: Vec<TaskInfo>,
    },
    /// They were started; their numbers follow each other.
    Spawned {
        /// That of the first.
        first: TaskId,
        /// How many.
        count: u32,
    },
    /// The end of a task that was asked for: one that ended before, or never was, too.
    Ended {
        /// Which.
        task: TaskId,
    },
    /// Where a task runs, or ran last.
    Place {
        /// The host's name.
        host: String,
    },
    /// The process that asked is this task.
    Enrolled {
        /// Which.
        task: TaskId,
    },
    /// Those that came to a barrier go on.
    Met {
        /// Of this group.
        group: String,
        /// A member that has ended, without which they are too few.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        missing: Option<TaskId>,
    },
    /// Those that are in the group, with their numbers in it.
    Members {
        /// In the order of these.
        members: Vec<(u32, TaskId)>,
    },
    /// It is done.
    Done,
    /// There is no such host or architecture in the job.
    NoSuchPlace {
        /// Which of both.
        what: PlaceKind,
        /// As it was named.
        wanted: String,
        /// The runner's.
        host: String,
    },
    /// There is no such task, or no more.
    NoSuchTask,
    /// It is not done.
    Failed {
        /// Why.
        reason: String,
    },
}

/// By what a place is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PlaceKind {
    /// The host's name.
    Host,
    /// Its architecture.
    Architecture,
}

impl PlaceKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Architecture => "architecture",
        }
    }
}

/// A task that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Which.
    pub task: TaskId,
    /// Its rank among those that were started with it.
    pub rank: u32,
    /// How many were started with it.
    pub size: u32,
    /// Who had it spawned; none: the job began with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<TaskId>,
    /// The host on which it runs.
    #[serde(default)]
    pub host: String,
    /// Process id there.
    pub pid: u32,
    /// Process id of the runner of its job, on the job's host.
    pub runner_pid: u32,
    /// The program's path.
    pub program: String,
    /// Milliseconds since it was started.
    pub running_ms: u64,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// Which.
    pub task: TaskId,
    /// Its rank.
    pub rank: u32,
    /// What it exited with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Or the signal that killed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Its host, or the link there, was lost.
    #[serde(skip_serializing_if = "is_false", default)]
    pub is_lost: bool,
}

const fn is_false(value: &bool) -> bool {
    !*value
}

impl TaskEnd {
    /// As a shell counts: 128 and the signal's number for one that was killed. 0: it went well.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let code = match (self.code, self.signal) {
            // A number from another host may be any.
            (_, Some(signal)) => 128_i32.saturating_add(signal),
            (Some(code), None) => code,
            (None, None) => 1,
        };
        // What does not fit is a failure still.
        u8::try_from(code).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_counts_as_a_shell_does_whatever_its_number() {
        let end = |code, signal| TaskEnd {
            task: "1.0".parse().expect("a task"),
            rank: 0,
            code,
            signal,
            is_lost: false,
        };
        assert_eq!(end(None, Some(9)).exit_code(), 137);
        assert_eq!(end(None, Some(i32::MAX)).exit_code(), 1);
        assert_eq!(end(Some(7), None).exit_code(), 7);
        assert_eq!(end(None, None).exit_code(), 1);
    }
}
