//! What the runner of a job and its part on another host say to each other: messages as those of
//! the host hop, with their length in front.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tasks::id::TaskId;
use crate::tasks::message::OnHost;
use crate::tasks::runner::terminal::WindowSize;

/// The most bytes of output or input in one message.
pub(crate) const BYTES_MAX: usize = 16 << 10;
/// So many bytes of input may be on their way.
pub(crate) const INPUT_BYTES_MAX: usize = 64 << 10;

/// From the runner to its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToPart {
    /// To start tasks, all or none.
    Start(Box<Start>),
    /// To send a signal to a task and its process group.
    Signal {
        /// Which.
        task: TaskId,
        /// Its number.
        signal: i32,
    },
    /// Standard input for the task of rank 0; nothing: its end.
    Input(Vec<u8>),
    /// To end all that is left, to say what that has printed, and to go.
    End,
}

/// What is to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Number, and rank, of each.
    pub(crate) tasks: Vec<(TaskId, u32)>,
    /// How many are started with them, on all hosts.
    pub(crate) size: u32,
    /// Who wants it; none: the job begins with them.
    pub(crate) parent: Option<TaskId>,
    /// As it is named, and its arguments; bytes, as names of files are.
    pub(crate) words: Vec<Vec<u8>>,
    /// Set for them.
    pub(crate) environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where they begin. One that was not asked for may be missing.
    pub(crate) directory: Option<PathBuf>,
    /// It was asked for.
    pub(crate) needs_directory: bool,
    /// What holds on this host only.
    pub(crate) on_host: Option<OnHost>,
    /// Their standard output is a pseudoterminal of this size; none: a pipe.
    pub(crate) terminal: Option<WindowSize>,
    /// The runner cuts what they print into lines: the last one needs an end.
    pub(crate) whole_lines: bool,
    /// The task of rank 0 gets input.
    pub(crate) has_input: bool,
}

/// From the part to its runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromPart {
    /// It is there, on a machine of this architecture.
    Here {
        /// As Rust names it.
        architecture: String,
    },
    /// All were started; their process ids.
    Started {
        /// In the order in which they were asked for.
        pids: Vec<u32>,
        /// The program's path.
        program: String,
    },
    /// None was.
    Failed {
        /// Why.
        reason: String,
    },
    /// What a task printed.
    Output {
        /// Which.
        task: TaskId,
        /// On standard error.
        is_error: bool,
        /// What.
        bytes: Vec<u8>,
    },
    /// So much of the input was written.
    InputTaken(u32),
    /// A task has ended.
    Ended {
        /// Which.
        task: TaskId,
        /// What it exited with.
        code: Option<i32>,
        /// Or the signal that killed it.
        signal: Option<i32>,
    },
    /// All has ended, and was said.
    Over {
        /// Processes that could not be ended.
        left_running: u32,
    },
}
