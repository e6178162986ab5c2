//! Reading ahead by a pack: what `hythe preload replay` does.
//!
//! [`replay`] checks each file, sees which of the wanted pages are missing, takes as many as the
//! budget allows from the front of the pack, puts them into an order that suits the device, and
//! loads them by the fastest way that each file system honours. `plan` decides, without a system
//! call; `files`, `survey`, `methods` and `load` do. Where a file is not the one that was recorded,
//! or cannot be read, the rest is read ahead all the same, and [`Outcome`] names it.
//!
//! Never waits for memory: under pressure it stops, so that nothing that was read too early is
//! thrown out again. Never dereferences a mapping of a file that it reads ahead, so that one that
//! shrinks meanwhile is an error and not a signal.

mod files;
mod job;
mod load;
mod memory;
mod method;
mod methods;
mod mounts;
mod outcome;
mod plan;
mod priority;
mod survey;
mod worker;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use crate::PreloadError;
use crate::pack::Pack;

pub(crate) use files::Root;
pub use memory::{Budget, Free, Memory, SystemMemory};
pub use method::Method;
pub use outcome::{Failure, FileSystem, Outcome, Pages, Stopped};
pub(crate) use plan::{pieces, within_budget};
pub use priority::Priority;
pub use survey::Changed;

/// How to read ahead.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory that paths of the pack begin at; none: the root.
    pub root: Option<PathBuf>,
    /// How much may be read.
    pub budget: Budget,
    /// The way to load; none: what each file system honours, found by trying.
    pub method: Option<Method>,
    /// Threads that load; none: as the methods need.
    pub threads: Option<NonZeroUsize>,
    /// Priority of the threads' reads; none: as they come.
    pub priority: Option<Priority>,
}

/// Reads ahead, and returns when all is read or a reason to stop came. `progress` is called with
/// the number of pages that were settled since the last call.
///
/// # Errors
/// [`Options::root`] cannot be opened, or the memory does not say how much of it is free and the
/// budget is a share of it. What is wrong with single files stands in the outcome.
pub fn replay(
    pack: &Pack,
    options: &Options,
    memory: &mut dyn Memory,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, PreloadError> {
    // In a thread of its own, since already the looking reads, and the caller shall keep its
    // priority: it may become another program.
    let done = thread::scope(|scope| {
        let thread = scope.spawn(|| replay_here(pack, options, memory, progress));
        thread.join()
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn replay_here(
    pack: &Pack,
    options: &Options,
    memory: &mut dyn Memory,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, PreloadError> {
    let started = Instant::now();
    let refused = options.priority.and_then(|priority| {
        let refused = priority.enter().err()?;
        Some(format!(
            "the priority {priority} was refused: {refused}; it is read at the usual one"
        ))
    });
    let root = Root::open(options.root.as_deref())?;
    let budget_bytes = options.budget.bytes(memory)?;
    let survey = survey::survey(pack, &root);
    let (taken, left_out) = plan::within_budget(&survey.missing, budget_bytes);
    let steps = plan::arrange(&taken, |file| survey.map_of(file));
    let mut outcome = Outcome::new(pack, &survey, budget_bytes, left_out);
    outcome.notes.extend(refused);
    let job = job::Job {
        pack,
        root: &root,
        survey: &survey,
        steps: &steps,
        options,
        progress,
    };
    load::run(&job, memory, &mut outcome);
    outcome.ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(outcome)
}
