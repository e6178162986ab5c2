//! By which way pages are loaded: what a file system honours, found by trying it on pages that are
//! wanted anyway.
//!
//! `readahead(2)` puts the reads into the device's queue and is the fastest where it loads at all;
//! on UBIFS and JFFS2 it succeeds and loads nothing. There, pages are fetched one by one, which is
//! how those file systems read in any case. Never believes a name: only what was loaded counts.

use std::cmp::Reverse;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use hythe_sys::file_pages::Sink;
use hythe_sys::read_ahead::read_ahead;

use super::files::Opened;
use super::job::Job;
use super::method::Method;
use super::mounts::Mounts;
use super::outcome::FileSystem;
use crate::cached::Cached;
use crate::pack::{Extent, PAGE_BYTES};

/// How long the other pages may take to come once one has: so many times as long as that one, and
/// this much on top.
const TIME_LIMIT_TIMES: u32 = 2;
const TIME_LIMIT: Duration = Duration::from_millis(2);
/// And where some came, so that it is known to work.
const TIME_LIMIT_WHERE_IT_WORKS: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_micros(500);

/// The method for each device that the steps are on.
#[derive(Debug, Default)]
pub(super) struct Methods(Vec<Chosen>);

#[derive(Debug)]
struct Chosen {
    device: u64,
    /// One of its files.
    path: PathBuf,
    method: Method,
    why: String,
    by_address: bool,
}

impl Methods {
    /// Tries what is not known. Loads at most one step of each device.
    pub(super) fn choose(job: &Job<'_>, sink: Option<&Sink>) -> Self {
        let mut chosen: Vec<Chosen> = Vec::new();
        for step in job.steps {
            let Some(facts) = job.survey.facts(step.file) else {
                continue;
            };
            if chosen.iter().all(|known| known.device != facts.device) {
                let (method, why) = for_device(job, facts.device, sink);
                chosen.push(Chosen {
                    device: facts.device,
                    path: job.shown(step.file),
                    method,
                    why,
                    by_address: job.survey.map_of(step.file).is_some(),
                });
            }
        }
        Self(chosen)
    }

    pub(super) fn of(&self, device: u64) -> Method {
        let known = self.0.iter().find(|known| known.device == device);
        known.map_or(Method::Read, |known| known.method)
    }

    /// Threads that serve these methods: one keeps the queue of a device full by `readahead`; the
    /// others wait for each page, and while one thread waits for the device, another unpacks.
    pub(super) fn threads(&self) -> usize {
        let asked_in_steps = self.0.iter().all(|known| known.method == Method::Readahead);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        if asked_in_steps { 1 } else { processors.min(2) }
    }

    /// For the outcome, with the names of the file systems.
    pub(super) fn described(&self) -> Vec<FileSystem> {
        let mounts = Mounts::read();
        let describe = |known: &Chosen| {
            let mount = mounts.find(known.device, &known.path);
            FileSystem {
                place: mount.place,
                kind: mount.kind,
                method: known.method,
                why: known.why.clone(),
                by_address: known.by_address,
            }
        };
        self.0.iter().map(describe).collect()
    }
}

fn for_device(job: &Job<'_>, device: u64, sink: Option<&Sink>) -> (Method, String) {
    let Some(sink) = sink else {
        let why = "the kernel has no memfd_create, which the other methods need";
        return (Method::Read, why.to_owned());
    };
    if let Some(method) = job.options.method {
        return (method, "asked for".to_owned());
    }
    let visible = |step: &&Extent| {
        let facts = job.survey.facts(step.file);
        facts.is_some_and(|facts| facts.device == device && facts.residency_visible)
    };
    // The longest says most, and the first of them is needed most.
    let candidates = job.steps.iter().filter(visible);
    let Some(step) = candidates.min_by_key(|step| Reverse(step.pages)) else {
        let why = "this user owns none of the files, so that the kernel does not tell what readahead loads";
        return (Method::Read, why.to_owned());
    };
    match job.open(step.file) {
        Ok(opened) => try_readahead(&opened, *step, sink)
            .unwrap_or_else(|error| (Method::Read, format!("trying readahead failed: {error}"))),
        Err(why) => (Method::Read, format!("readahead could not be tried: {why}")),
    }
}

/// Asks for a step, fetches its last page, and sees whether the others came, too.
fn try_readahead(opened: &Opened, step: Extent, sink: &Sink) -> io::Result<(Method, String)> {
    let pages = Cached::map(&opened.file, step)?;
    let last = step.pages - 1;
    // What comes with the last shows nothing.
    let others = pages.before_those_with(last);
    if others == 0 {
        let why = "there are only single pages to load";
        return Ok((Method::Populate, why.to_owned()));
    }
    let bytes = u64::from(step.pages) * PAGE_BYTES;
    let asked = Instant::now();
    read_ahead(
        &opened.file,
        u64::from(step.first_page) * PAGE_BYTES,
        bytes as usize,
    )?;
    pages.fetch(last, sink)?;
    let time_limit = asked.elapsed() * TIME_LIMIT_TIMES + TIME_LIMIT;
    loop {
        let resident = pages.resident()?;
        let came = resident.iter().take(others as usize).filter(|page| **page);
        let came = came.count() as u32;
        let waited = asked.elapsed();
        let at_end = waited >= time_limit && (came == 0 || waited >= TIME_LIMIT_WHERE_IT_WORKS);
        if came == others || at_end {
            let why = format!("readahead loaded {came} of {others} pages when tried");
            // Half may be the cap on one call; what is missing is fetched.
            let works = came > others / 2;
            let method = if works {
                Method::Readahead
            } else {
                Method::Populate
            };
            return Ok((method, why));
        }
        thread::sleep(LOOK);
    }
}
