//! The threads that load, step by step.
//!
//! They take the steps of the plan in turn, so that the device sees the plan's order, until none is left or memory becomes scarce.
//! What each achieved is summed up into the outcome. Never loads anything itself: a `Worker` does.

use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, OnceLock};
use std::thread;

use hythe_sys::file_pages::Sink;

use super::Options;
use super::files::{NotThat, Opened, Root};
use super::memory::Memory;
use super::methods::{Method, Methods};
use super::outcome::{Failure, Outcome, Stopped, Tally};
use super::plan;
use super::survey::Survey;
use super::worker::Worker;
use crate::pack::{Extent, Pack};

/// What is to be done.
pub(super) struct Job<'a> {
    pub(super) pack: &'a Pack,
    pub(super) root: &'a Root,
    pub(super) survey: &'a Survey,
    pub(super) steps: &'a [Extent],
    pub(super) options: &'a Options,
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
}

impl Job<'_> {
    pub(super) fn open(&self, file: u32) -> Result<Opened, NotThat> {
        let wanted = &self.pack.files[file as usize];
        self.root.open_unchanged(wanted, self.pack.any_inode)
    }
}

/// Loads all steps, or as many as memory allows, and enters what came of it into `outcome`.
pub(super) fn run(job: &Job<'_>, memory: &mut dyn Memory, outcome: &mut Outcome) {
    let planned: u64 = job.steps.iter().map(|step| u64::from(step.pages)).sum();
    let gate = Gate::new(memory);
    let methods = match gate.is_closed() {
        true => Methods::default(),
        false => Methods::choose(job, Sink::new().ok().as_ref()),
    };
    let wanted = job.options.threads.map_or(methods.threads(), Into::into);
    outcome.threads = wanted.min(job.steps.len());
    let next = AtomicUsize::new(0);
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..outcome.threads)
            .map(|_| scope.spawn(|| Worker::new(job, &methods, &gate).run(&next)))
            .collect();
        for thread in threads {
            // One that panicked has said so on standard error; what it did not load was not reached.
            if let Ok(done) = thread.join() {
                tally.add(done);
            }
        }
    });
    outcome.file_systems = methods.described();
    outcome.marked_files = marked_files(job, &methods);
    enter(tally, job, outcome);
    outcome.pages.not_reached = planned - outcome.pages.loaded - outcome.pages.failed;
    if let Some(reason) = gate.reason.into_inner() {
        outcome.stopped = Stopped::Pressure(reason);
    }
}

fn marked_files(job: &Job<'_>, methods: &Methods) -> Vec<u32> {
    let mut marked: Vec<u32> = job.steps.iter().map(|step| step.file).collect();
    marked.sort_unstable();
    marked.dedup();
    marked.retain(|file| {
        let facts = job.survey.facts(*file);
        facts.is_some_and(|facts| methods.of(facts.device) == Method::Read)
    });
    marked
}

fn enter(mut tally: Tally, job: &Job<'_>, outcome: &mut Outcome) {
    tally
        .loaded
        .sort_unstable_by_key(|extent| (extent.file, extent.first_page));
    outcome.loaded = plan::merged(tally.loaded.into_iter());
    outcome.pages.loaded = outcome
        .loaded
        .iter()
        .map(|extent| u64::from(extent.pages))
        .sum();
    for (file, (pages, error)) in tally.failures {
        let path = &job.pack.files[file as usize].path;
        outcome.pages.failed += pages;
        outcome.failures.push(Failure {
            path: job.root.shown(path).to_string_lossy().into_owned(),
            pages,
            error,
        });
    }
}

/// Closes for good when memory becomes scarce.
pub(super) struct Gate<'m> {
    memory: Mutex<&'m mut dyn Memory>,
    reason: OnceLock<String>,
}

impl<'m> Gate<'m> {
    fn new(memory: &'m mut dyn Memory) -> Self {
        Self {
            memory: Mutex::new(memory),
            reason: OnceLock::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        // While another thread looks, its answer is ours one step later.
        if self.reason.get().is_none()
            && let Ok(mut memory) = self.memory.try_lock()
            && let Some(reason) = memory.pressure()
        {
            let _ = self.reason.set(reason);
        }
        self.reason.get().is_some()
    }
}
