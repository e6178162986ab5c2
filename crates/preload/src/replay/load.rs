//! The threads that load, step by step.
//!
//! They take the steps of the plan in turn, so that the device sees the plan's order, until none is
//! left or memory becomes scarce. What each achieved is summed up into the outcome. Never loads
//! anything itself: a `Worker` does.

use std::sync::atomic::AtomicUsize;
use std::thread;

use hythe_sys::file_pages::Sink;

use super::job::{Gate, Job};
use super::memory::Memory;
use super::method::Method;
use super::methods::Methods;
use super::outcome::{Failure, Outcome, Stopped, Tally};
use super::plan;
use super::worker::Worker;

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
            // One that panicked has said so on standard error; what it did not load was not
            // reached.
            if let Ok(done) = thread.join() {
                tally.add(done);
            }
        }
    });
    outcome.file_systems = methods.described();
    outcome.marked_files = marked_files(job, &methods);
    enter(tally, job, outcome);
    outcome.pages.not_reached = planned - outcome.pages.loaded - outcome.pages.failed;
    if let Some(reason) = gate.into_reason() {
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
