//! What memory costs before it is used, and however it is used: the fault at the first touch of a
//! page, which prefaulting moves to the start, and the walk through page tables where more pages
//! are in use than the TLB knows, which huge pages make rare.

use std::fmt;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::error::BenchError;
use crate::statistics::{histogram, record};
use crate::system_v::Segment;

/// More pages of 4 KiB than any TLB knows, and a multiple of a huge page.
pub(super) const BYTES: usize = 64 << 20;
/// A line of each of these is touched, whatever the pages are.
const PAGE: usize = 4096;
/// Odd, so that every page is met once, and far ones behind each other: no hardware sees a pattern.
const STRIDE: usize = 4_001;

/// Of which pages a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    Plain,
    Huge,
}

/// What is done to each 4 KiB of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Written for the first time: without prefault.
    FirstTouch,
    /// Written again: as with prefault.
    Touched,
    /// One word read, far from the one before.
    Walk,
}

/// What it costs, by rounds: times by 4 KiB.
#[derive(Debug)]
pub(super) struct Touched {
    pages: Pages,
    act: Act,
    pub(super) rounds: Vec<Histogram<u64>>,
}

/// All of it; and what cannot be measured here, and why.
pub(super) fn measure(rounds: u32) -> Result<(Vec<Touched>, Vec<String>), BenchError> {
    let mut all = Vec::new();
    let mut skipped = Vec::new();
    for pages in [Pages::Plain, Pages::Huge] {
        let mut of_pages = [Act::FirstTouch, Act::Touched, Act::Walk].map(|act| Touched {
            pages,
            act,
            rounds: Vec::new(),
        });
        for _ in 0..rounds {
            match pages.segment() {
                Ok(segment) => {
                    for touched in &mut of_pages {
                        touched.rounds.push(touched.act.times(&segment));
                    }
                }
                Err(error) if pages == Pages::Huge => {
                    skipped.push(format!(
                        "huge pages: {error}; set some aside: sysctl vm.nr_hugepages={}",
                        BYTES >> 21
                    ));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        all.extend(
            of_pages
                .into_iter()
                .filter(|touched| !touched.rounds.is_empty()),
        );
    }
    Ok((all, skipped))
}

impl Pages {
    fn segment(self) -> std::io::Result<Segment> {
        match self {
            Self::Plain => Segment::create(BYTES),
            Self::Huge => Segment::create_huge(BYTES),
        }
    }
}

impl Act {
    /// The mean of each 64 pages: a page is too short for a clock.
    fn times(self, segment: &Segment) -> Histogram<u64> {
        const TOGETHER: usize = 64;
        let mut times = histogram();
        let line = [1; 64];
        let mut word = [0; 8];
        let pages = BYTES / PAGE;
        for first in (0..pages).step_by(TOGETHER) {
            let begun = Instant::now();
            for page in first..first + TOGETHER {
                match self {
                    Self::FirstTouch | Self::Touched => segment.copy_in(page * PAGE, &line),
                    Self::Walk => {
                        let page = page * STRIDE % pages;
                        segment.copy_out(page * PAGE, &mut word);
                        std::hint::black_box(word);
                    }
                }
            }
            record(&mut times, begun.elapsed() / TOGETHER as u32);
        }
        times
    }
}

impl fmt::Display for Touched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let act = match self.act {
            Act::FirstTouch => "first-touch",
            Act::Touched => "prefaulted",
            Act::Walk => "walk",
        };
        let pages = match self.pages {
            Pages::Plain => "pages",
            Pages::Huge => "huge-pages",
        };
        write!(out, "{act}/{pages}")
    }
}
