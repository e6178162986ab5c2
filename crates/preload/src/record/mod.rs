//! Recording: which files, and which pages of them, a command or a boot needs from storage.
//!
//! `hythe preload record` calls [`record`]. The method: fanotify tells which files are opened, in
//! order; the kernel's read-ahead is off meanwhile, so that a page gets into memory only because
//! somebody needed it; `mincore` tells at the end which are there, and `cachestat`, where the
//! kernel has it, which have been there. Where tracefs is mounted, the order of their pages is that
//! of the kernel's trace, and what was thrown out again is known, too. What was there before is
//! thrown out, or replaced by [copies](Scratch), or at least counted.
//!
//! One recording runs at a time. Whatever it changes, a [guard](stand_guard) puts back, also when
//! the recorder is killed. Needs `CAP_SYS_ADMIN`, `/proc` and, for switching read-ahead off,
//! `/sys`. Never waits without looking at what is to end it, never changes a file that it records.

mod assemble;
mod boot;
mod command;
mod exclusion;
mod guard;
mod losses;
mod mounts;
mod read_ahead;
mod stand_ins;
mod sweep;
mod table;
mod trace;
mod watch;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::PreloadError;
use crate::pack::Pack;

pub use assemble::{Account, LeftOut};
pub use exclusion::Exclusion;
pub use guard::stand_guard;
pub use hythe_sys::fanotify::Queue;
pub use stand_ins::Scratch;

use guard::Guard;
use hythe_sys::residency::cache_state;
use losses::Losses;
use read_ahead::Switched;
use table::{Entry, Outcome, Pages};
use watch::Watch;

/// How long a wait lasts before the recorder looks whether it is to end.
const TICK: Duration = Duration::from_millis(20);

/// Whose needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Everybody's, from now on.
    Boot,
    /// This command's and its descendants': a program and its arguments.
    Command(Vec<OsString>),
}

/// How to record.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program, with arguments, that calls [`stand_guard`] with its standard input and output.
    pub guard: Vec<OsString>,
    /// Where the pack is to be: it is not recorded itself.
    pub output: PathBuf,
    /// Inode numbers are not compared at replay.
    pub any_inode: bool,
    /// What to leave out.
    pub exclude: Vec<Exclusion>,
    /// Record a command with what is in memory: what it uses of that is taken as needed.
    pub keep_caches: bool,
    /// Where stand-ins go; none: there are none.
    pub scratch: Option<Scratch>,
    /// End after so long.
    pub duration: Option<Duration>,
    /// End when this path exists.
    pub until: Option<PathBuf>,
    /// The command's standard output goes where its errors go.
    pub output_to_errors: bool,
    /// How many events may wait.
    pub queue: Queue,
}

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Inode {
    device: u64,
    number: u64,
}

/// Records until the command ends, or the settings say, or `asked` returns true.
///
/// # Errors
/// Not permitted, no fanotify in this kernel, another recording, a command that cannot be run. What
/// was changed is put back then, too. The failure of a command that ran is none of ours: the
/// account tells its status.
pub fn record(
    subject: &Subject,
    settings: &Settings,
    asked: &(dyn Fn() -> bool + Sync),
) -> Result<(Pack, Account), PreloadError> {
    // Before anything is changed or copied.
    watch::is_possible()?;
    let mut guard = Guard::start(&settings.guard)?;
    let until = Until {
        end: None,
        settings,
        asked,
    };
    let recorded = match subject {
        Subject::Boot => boot::record(settings, until, &mut guard),
        Subject::Command(command) => command::record(command, settings, until, &mut guard),
    };
    let put_back = guard.finish();
    let recorded = recorded?;
    put_back?;
    let mut not_needed = vec![settings.output.clone()];
    if *subject == Subject::Boot {
        not_needed.extend(boot::own_program());
    }
    Ok(assemble::assemble(recorded, settings, &not_needed))
}

/// When to end.
struct Until<'a> {
    end: Option<Instant>,
    settings: &'a Settings,
    asked: &'a (dyn Fn() -> bool + Sync),
}

impl Until<'_> {
    /// The time that the settings give runs from now on, not from when everything was prepared.
    fn begin(&mut self) {
        let duration = self.settings.duration;
        self.end = duration.and_then(|duration| Instant::now().checked_add(duration));
    }

    fn reached(&self) -> bool {
        let path = self.settings.until.as_ref();
        (self.asked)()
            || self.end.is_some_and(|end| Instant::now() >= end)
            || path.is_some_and(|path| fs::symlink_metadata(path).is_ok())
    }
}

/// Does this kernel tell which pages it threw out of memory?
fn evictions_are_told() -> bool {
    let own = fs::File::open("/proc/self/exe");
    own.and_then(|file| cache_state(&file, 0..1)).is_ok()
}

/// What was found out, before it becomes a pack.
#[derive(Debug, Default)]
struct Recorded {
    /// In the order of first use.
    files: Vec<(Entry, Outcome)>,
    /// Pages that were in memory before, and could not be thrown out.
    before: HashMap<Inode, Pages>,
    /// Files that were in use before the recording of a boot.
    found_in_use: u64,
    /// How the command ended, and whether we ended it.
    status: Option<ExitStatus>,
    stopped: bool,
    events: u64,
    lost: u64,
    unwatched: Vec<PathBuf>,
    losses: Losses,
    /// The kernel tells what it threw out of memory, and that was asked for.
    evictions_told: bool,
    /// How often the trace lost something; none without a trace.
    trace_lost: Option<u64>,
    read_ahead: Switched,
    copied_files: u64,
    copied_bytes: u64,
}

impl Recorded {
    /// The counts of `watch`.
    fn of(watch: &Watch) -> Self {
        Self {
            events: watch.events,
            lost: watch.lost,
            unwatched: watch.unwatched.clone(),
            ..Self::default()
        }
    }
}
