//! What came of reading ahead, for documents, reports and the run record.
//!
//! Never says more than was seen: pages count as loaded when they were in the page cache
//! afterwards.

use std::collections::BTreeMap;

use serde::Serialize;

use super::method::Method;
use super::survey::{Changed, Survey};
use crate::pack::{Extent, Pack};

/// What came of one replay.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Files of the pack.
    pub files: u64,
    /// Those that are not read ahead, since they are not what was recorded.
    pub changed: Vec<Changed>,
    /// Pages, by what became of them. They sum up to `asked`.
    pub pages: Pages,
    /// The file systems that were read from.
    pub file_systems: Vec<FileSystem>,
    /// Files of which pages could not be read.
    pub failures: Vec<Failure>,
    /// What was allowed.
    pub budget_bytes: u64,
    /// Threads that loaded.
    pub threads: usize,
    /// Why it ended.
    pub stopped: Stopped,
    /// What was asked for and could not be done.
    pub notes: Vec<String>,
    /// From beginning to end, nanoseconds.
    pub ns: u64,
    /// What was loaded, by file and page.
    #[serde(skip)]
    pub loaded: Vec<Extent>,
    /// Files that were loaded in a way that marks their pages as used.
    #[serde(skip)]
    pub marked_files: Vec<u32>,
}

/// Pages, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// In the pack.
    pub asked: u64,
    /// Read ahead.
    pub loaded: u64,
    /// There already, and not charged to the budget.
    pub already_there: u64,
    /// Of changed files.
    pub changed: u64,
    /// More than the budget.
    pub over_budget: u64,
    /// Storage or file system refused.
    pub failed: u64,
    /// Not reached before reading ahead was stopped.
    pub not_reached: u64,
}

/// A file of which pages could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Where it is.
    pub path: String,
    /// How many pages.
    pub pages: u64,
    /// What the system said first.
    pub error: String,
}

/// A file system, and how it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSystem {
    /// Where it is mounted.
    pub place: String,
    /// `ext4`, `ubifs`.
    pub kind: String,
    /// How pages were loaded.
    pub method: Method,
    /// What that choice rests on.
    pub why: String,
    /// Was it read in the order of the device? Else in the order of first use.
    pub by_address: bool,
}

/// Why reading ahead ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "why", content = "detail")]
pub enum Stopped {
    /// All that the pack lists and that could be read is there.
    Done,
    /// The budget was used up.
    Budget,
    /// Memory became scarce; by which figure.
    Pressure(String),
}

impl Outcome {
    pub(super) fn new(pack: &Pack, survey: &Survey, budget_bytes: u64, over_budget: u64) -> Self {
        Self {
            files: pack.files.len() as u64,
            changed: survey.changed.clone(),
            pages: Pages {
                asked: pack.pages(),
                already_there: survey.already_there,
                changed: survey.changed_pages,
                over_budget,
                ..Pages::default()
            },
            file_systems: Vec::new(),
            failures: Vec::new(),
            budget_bytes,
            threads: 0,
            stopped: match over_budget {
                0 => Stopped::Done,
                _ => Stopped::Budget,
            },
            notes: Vec::new(),
            ns: 0,
            loaded: Vec::new(),
            marked_files: Vec::new(),
        }
    }
}

/// What one thread achieved.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) loaded: Vec<Extent>,
    /// By file: pages, and the first error.
    pub(super) failures: BTreeMap<u32, (u64, String)>,
}

impl Tally {
    pub(super) fn fail(&mut self, file: u32, pages: u32, error: String) {
        let entry = self.failures.entry(file).or_insert((0, error));
        entry.0 += u64::from(pages);
    }

    pub(super) fn failed_pages_of(&self, file: u32) -> u64 {
        self.failures.get(&file).map_or(0, |(pages, _)| *pages)
    }

    /// Takes over what another thread achieved.
    pub(super) fn add(&mut self, other: Self) {
        self.loaded.extend(other.loaded);
        for (file, (pages, error)) in other.failures {
            let entry = self.failures.entry(file).or_insert((0, error));
            entry.0 += pages;
        }
    }
}
