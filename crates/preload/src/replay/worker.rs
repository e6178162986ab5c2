//! One thread that loads, step by step.
//!
//! With `readahead` a few steps are under way at a time and the oldest is waited for, which bounds
//! what may still come when memory becomes scarce. A page that cannot be read costs that page; a
//! file with many such pages is left. Never loads a page that is not in a step (the kernel may,
//! where a file system packs several into a block), never keeps more files open than steps under
//! way.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hythe_sys::file_pages::Sink;
use hythe_sys::read_ahead::read_ahead;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread};

use super::files::{NotThat, Opened};
use super::job::{Gate, Job};
use super::method::Method;
use super::methods::Methods;
use super::outcome::Tally;
use super::plan::{self, STEP_PAGES};
use crate::cached::Cached;
use crate::pack::{Extent, PAGE_BYTES};

/// Steps that are asked for and not yet there: 2 MiB.
const STEPS_UNDER_WAY: usize = 16;
/// Pages of a step, and of a file, that may fail before the rest of it is left: each may take the
/// device seconds.
const FAILURES_MAX: usize = 8;

/// A page of a step that could not be read.
type Failed = (u32, io::Error);

/// One thread.
pub(super) struct Worker<'a, 'm> {
    job: &'a Job<'a>,
    methods: &'a Methods,
    gate: &'a Gate<'m>,
    sink: Option<Sink>,
    buffer: Vec<u8>,
    /// The file of the last step.
    open: Option<(u32, Rc<Opened>)>,
    /// Asked for, oldest first.
    under_way: VecDeque<(Rc<Opened>, Extent)>,
    tally: Tally,
}

impl<'a, 'm> Worker<'a, 'm> {
    pub(super) fn new(job: &'a Job<'a>, methods: &'a Methods, gate: &'a Gate<'m>) -> Self {
        Self {
            job,
            methods,
            gate,
            sink: Sink::new().ok(),
            buffer: vec![0; STEP_PAGES as usize * PAGE_BYTES as usize],
            open: None,
            under_way: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    pub(super) fn run(mut self, next: &AtomicUsize) -> Tally {
        if let Some(priority) = self.job.options.priority {
            // Whether it is permitted is in the outcome's notes already.
            let _ = priority.enter();
        }
        while !self.gate.is_closed() {
            let Some(step) = self.job.steps.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            self.load(*step);
            if self.under_way.len() > STEPS_UNDER_WAY {
                self.settle_oldest();
            }
        }
        // Also when stopped: the device has been told, and what comes counts.
        while !self.under_way.is_empty() {
            self.settle_oldest();
        }
        self.tally
    }

    fn load(&mut self, step: Extent) {
        if self.tally.failed_pages_of(step.file) >= FAILURES_MAX as u64 {
            return self.fail(step, "left after earlier errors".to_owned());
        }
        let opened = match self.opened(step.file) {
            Ok(opened) => opened,
            Err(why) => return self.fail(step, why.to_string()),
        };
        match (self.methods.of(opened.device), self.sink.is_some()) {
            (Method::Readahead, true) => {
                let offset = u64::from(step.first_page) * PAGE_BYTES;
                // What it refuses to load is fetched when the step is settled.
                let _ = read_ahead(
                    &opened.file,
                    offset,
                    step.pages as usize * PAGE_BYTES as usize,
                );
                self.under_way.push_back((opened, step));
            }
            (Method::Populate, true) => self.fetch(&opened, step, fetch_all),
            (Method::Read, _) | (_, false) => self.read(&opened, step),
        }
    }

    fn opened(&mut self, file: u32) -> Result<Rc<Opened>, NotThat> {
        if let Some((number, opened)) = &self.open
            && *number == file
        {
            return Ok(Rc::clone(opened));
        }
        let opened = Rc::new(self.job.open(file)?);
        self.open = Some((file, Rc::clone(&opened)));
        Ok(opened)
    }

    fn settle_oldest(&mut self) {
        if let Some((opened, step)) = self.under_way.pop_front() {
            self.fetch(&opened, step, fetch_rest);
        }
    }

    fn fetch(
        &mut self,
        opened: &Opened,
        step: Extent,
        fetch: fn(&Cached, Extent, &Sink) -> Vec<Failed>,
    ) {
        let pages = Cached::map(&opened.file, step);
        let (Ok(pages), Some(sink)) = (pages, &self.sink) else {
            // What cannot be mapped can still be read.
            return self.read(opened, step);
        };
        let failed = fetch(&pages, step, sink);
        self.settled(opened, step, Some(&pages), &failed);
    }

    /// Reads the step into a buffer that nobody looks at.
    fn read(&mut self, opened: &Opened, step: Extent) {
        // Only what is asked for, nothing around it.
        let _ = fadvise(&opened.file, 0, None, Advice::Random);
        let (mut page, mut failed) = (0, Vec::new());
        while page < step.pages && failed.len() < FAILURES_MAX {
            let offset = u64::from(step.first_page + page) * PAGE_BYTES;
            let wanted = (step.pages - page) as usize * PAGE_BYTES as usize;
            match pread(&opened.file, &mut self.buffer[..wanted], offset) {
                Ok(0) => break,
                // Fits: at most the buffer.
                Ok(bytes) => page += bytes.div_ceil(PAGE_BYTES as usize) as u32,
                Err(Errno::INTR) => {}
                Err(error) => {
                    failed.push((page, error.into()));
                    page += 1;
                }
            }
        }
        failed.extend((page..step.pages).map(|page| (page, io::ErrorKind::UnexpectedEof.into())));
        let pages = Cached::map(&opened.file, step).ok();
        self.settled(opened, step, pages.as_ref(), &failed);
    }

    /// Enters what became of a step. Where residency can be seen, it decides.
    fn settled(
        &mut self,
        opened: &Opened,
        step: Extent,
        pages: Option<&Cached>,
        failed: &[Failed],
    ) {
        let seen = pages.and_then(|pages| pages.resident().ok());
        let mut absent: Vec<bool> = match seen {
            Some(seen) => seen.iter().map(|there| !there).collect(),
            None => vec![false; step.pages as usize],
        };
        for (page, _) in failed {
            absent[*page as usize] = true;
        }
        self.tally.loaded.extend(plan::missing(step, &absent));
        let missing = absent.iter().filter(|absent| **absent).count();
        if missing > 0 {
            let why = why_missing(opened, step, failed.first());
            // Fits: at most a step.
            self.tally.fail(step.file, missing as u32, why);
        }
        (self.job.progress)(u64::from(step.pages));
    }

    fn fail(&mut self, step: Extent, why: String) {
        self.tally.fail(step.file, step.pages, why);
        (self.job.progress)(u64::from(step.pages));
    }
}

/// Fetches a step page by page, in order.
fn fetch_all(pages: &Cached, step: Extent, sink: &Sink) -> Vec<Failed> {
    fetch(pages, 0..step.pages, sink)
}

/// Waits for the last page of a step, behind which the others have come if any do, and fetches what
/// did not.
fn fetch_rest(pages: &Cached, step: Extent, sink: &Sink) -> Vec<Failed> {
    let last = step.pages - 1;
    let mut failed = fetch(pages, last..=last, sink);
    let resident = pages.resident().unwrap_or_default();
    let absent = |page: &u32| !resident.get(*page as usize).copied().unwrap_or(false);
    failed.extend(fetch(pages, (0..last).filter(absent), sink));
    failed
}

/// What is left after too many errors counts as failed with the last of them.
fn fetch(pages: &Cached, wanted: impl IntoIterator<Item = u32>, sink: &Sink) -> Vec<Failed> {
    let mut failed: Vec<Failed> = Vec::new();
    for page in wanted {
        let error = match failed.last() {
            Some((_, error)) if failed.len() >= FAILURES_MAX => {
                error.raw_os_error().map(io::Error::from_raw_os_error)
            }
            _ => pages.fetch(page, sink).err(),
        };
        failed.extend(error.map(|error| (page, error)));
    }
    failed
}

/// The reason that a person can act on.
fn why_missing(opened: &Opened, step: Extent, failed: Option<&Failed>) -> String {
    let bytes = opened.file.metadata().map_or(u64::MAX, |now| now.len());
    let end = u64::from(step.first_page + step.pages - 1) * PAGE_BYTES;
    match failed {
        _ if bytes <= end => format!("it was cut to {bytes} bytes while it was read"),
        Some((page, error)) if error.raw_os_error() == Some(Errno::FAULT.raw_os_error()) => {
            format!(
                "page {} cannot be read from its storage: the kernel log says why",
                step.first_page + page
            )
        }
        Some((page, error)) => format!("page {} cannot be read: {error}", step.first_page + page),
        None => "it came and was thrown out again at once: memory is scarce".to_owned(),
    }
}
