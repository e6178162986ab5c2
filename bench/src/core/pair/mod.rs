//! The first comparison of the paper: two processes that share a segment and a semaphore, on one
//! CPU and each on one of its own. One writes a message while the other reads the one before it.
//!
//! `ground` is what they share, `meeting` how they take turns in it, `payload` what they do with
//! it, `writer` the other process. What page faults and the TLB cost, `first_touch` measures apart.
//! Rounds go over all sizes, and within a size over all cases, so that what is compared was
//! measured next to each other.

mod first_touch;
mod ground;
mod meeting;
mod payload;
mod report;
mod writer;

use std::fmt;
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use hdrhistogram::Histogram;
use hythe_node::Pool;
use indicatif::ProgressBar;

use self::ground::System;
use self::meeting::Meeting;
use self::payload::Payload;
use self::report::PairReport;
use self::writer::Writer;
use super::args::CoreArguments;
use super::board::{self, Running};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::others::{Others, SHARE_MAX};
use crate::statistics::{histogram, record};
use crate::{cpus, machine};

pub(crate) use self::report::render;
pub(crate) use self::writer::{WriterArguments, write};

/// As the issue of the paper has it: a message that fits into no first cache, up to 1 MiB.
const SIZES: [usize; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// A sample is the time of so many messages by their number: on one CPU they come by twos.
const BATCH: u64 = 16;
/// What a byte takes at least, to choose a number of messages for a time.
const BYTE_NS: f64 = 0.5;

/// One process pair that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    system: System,
    placement: Placement,
    payload: Payload,
}

/// Where the two run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    OneCpu,
    TwoCpus,
}

/// All rounds of a case at a size.
#[derive(Debug)]
pub(super) struct Series {
    case: Case,
    size: usize,
    rounds: Vec<Histogram<u64>>,
}

/// One round of it.
#[derive(Debug)]
pub(super) struct Run {
    size: usize,
    payload: Payload,
    messages: u64,
}

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &CoreArguments) -> Result<PairReport, BenchError> {
    machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let Some(cpus) = cpus::choose()? else {
        return Err(BenchError::Unable(
            "a pair is compared on one CPU and on two, and this process may use one only"
                .to_owned(),
        ));
    };
    cpus::pin(cpus[0])?;
    let scale = arguments.scale_of(&SIZES);
    let board = board::find(&arguments.board)?;
    // Its memory is what is shared; it sleeps meanwhile.
    let running = Running::start(&board, None)?;
    let cases = all();
    let mut series: Vec<Series> = scale
        .sizes
        .iter()
        .flat_map(|&size| cases.iter().map(move |&case| Series::new(case, size)))
        .collect();
    let runs = series.len() as u64 * u64::from(scale.rounds);
    let time = Duration::from_secs_f64(scale.seconds / runs as f64);
    let others = Others::watch(&cpus)?;
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs);
    for _ in 0..scale.rounds {
        for series in &mut series {
            lookout.check_stop()?;
            let measured = series.measure(time, cpus, (running.pool(), &lookout));
            let (case, size) = (series.case, series.size);
            series
                .rounds
                .push(measured.map_err(|error| error.of(&case, size))?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let touched = first_touch::measure(scale.rounds)?;
    let share = others.share()?;
    running.stop()?;
    let invalid = (share > SHARE_MAX).then(|| {
        format!(
            "others used {:.0} % of CPUs {cpus:?} meanwhile, {:.0} % are the limit: figures of one \
             CPU and of two suffer differently; run it on a quiet machine",
            share * 100.0,
            SHARE_MAX * 100.0
        )
    });
    let load = [load_before, machine::load()];
    PairReport::new((series, touched), (cpus, scale.rounds, load), invalid)
}

/// Every case.
fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for &system in System::value_variants() {
        for &payload in Payload::value_variants() {
            for placement in [Placement::OneCpu, Placement::TwoCpus] {
                cases.push(Case {
                    system,
                    placement,
                    payload,
                });
            }
        }
    }
    cases
}

impl Series {
    const fn new(case: Case, size: usize) -> Self {
        Self {
            case,
            size,
            rounds: Vec::new(),
        }
    }

    /// One round.
    fn measure(
        &self,
        time: Duration,
        cpus: [usize; 2],
        (pool, lookout): (&Pool, &Lookout),
    ) -> Result<Histogram<u64>, BenchError> {
        let batches = time.as_nanos() as f64 / (self.size as f64 * BYTE_NS * BATCH as f64);
        let run = Run {
            size: self.size,
            payload: self.case.payload,
            // The first batch is not counted.
            messages: BATCH * (1 + (batches as u64).clamp(4, 10_000)),
        };
        let mut meeting = Meeting::make(self.case.system, pool, (run.size, run.payload))?;
        let far = match self.case.placement {
            Placement::OneCpu => cpus[0],
            Placement::TwoCpus => cpus[1],
        };
        let writer = Writer::start(&run, &meeting.place(), far)?;
        let mut times = histogram();
        let mut since = Instant::now();
        for number in 0..run.messages {
            meeting.read(number, lookout)?;
            if (number + 1).is_multiple_of(BATCH) {
                let now = Instant::now();
                if number > BATCH {
                    record(&mut times, (now - since) / BATCH as u32);
                }
                since = now;
            }
        }
        writer.join()?;
        Ok(times)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placement = match self.placement {
            Placement::OneCpu => "one-cpu",
            Placement::TwoCpus => "two-cpus",
        };
        write!(out, "{}/{placement}/{}", self.system, self.payload)
    }
}
