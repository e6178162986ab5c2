//! Did it help? What became of the pages that were read ahead, how long start-up took with and
//! without, and what follows from it.
//!
//! A replay leaves a [`Mark`] of itself where everything is gone after a reboot (`mark`); when
//! start-up is over, [`finish`] finds it, or the line that `preload-init` left in the kernel's log
//! (`kernel_log`), looks at the pages (`usage`), and appends a [`Run`] to the history beside the
//! pack (`history`). [`advise`] judges the history, without a system call, and [`off`] keeps the
//! verdict.
//!
//! Never counts a page as used without a sign of it, never touches the pack.

mod finish;
mod history;
mod judge;
mod kernel_log;
mod mark;
pub mod off;
mod usage;

use serde::{Deserialize, Serialize};

pub use finish::{Finish, FinishOptions, Finished, finish};
pub use history::{Entry, HISTORY_MAX, Verdict, history_path, read_history};
pub use judge::{Advice, RUNS_WANTED, Summary, advise, summarize};
pub use mark::{Mark, boottime_ns, pack_checksum, run_directory};

/// One start-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// When it was finished, seconds since 1970-01-01 UTC, by a clock that may not have been set.
    pub finished_unix_s: u64,
    /// Which boot of the machine it belongs to.
    pub boot_id: String,
    /// Checksum of the pack: runs of different packs are not compared.
    pub pack: u32,
    /// Who read ahead, or would have.
    pub by: Reader,
    /// Was it read ahead? Else it is one to compare with.
    pub read: bool,
    /// From when on the time was taken.
    pub measured_from: MeasuredFrom,
    /// How long start-up took, reading ahead included.
    pub startup_ns: u64,
    /// How long reading ahead took.
    pub reading_ns: u64,
    /// When it began, nanoseconds since the machine started.
    pub began_ns: u64,
    /// What became of the pages that were read ahead.
    pub usage: Usage,
}

/// Who reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reader {
    /// `hythe preload replay`.
    Replay,
    /// `preload-init`, before anything else ran.
    Init,
    /// Nobody, and nothing was left in the log: only the time since the machine started is known.
    Nobody,
}

/// From when on a start-up is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredFrom {
    /// From when reading ahead began, or would have.
    Replay,
    /// From the start of the machine.
    Boot,
}

/// What became of the pages that were read ahead. `used`, `unused`, `evicted` and `unknown` sum up
/// to `read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Pages that were read ahead.
    pub read: u64,
    /// Those that a program has mapped or read since. Mapping one page maps those around it that
    /// are there (64 KiB), which count, too.
    pub used: u64,
    /// Those that nobody did.
    pub unused: u64,
    /// Those that are no longer in the page cache: whether they were used before is not known.
    pub evicted: u64,
    /// Those of which the kernel does not tell this user.
    pub unknown: u64,
    /// What limits these figures; empty: nothing.
    pub limits: Vec<String>,
}
