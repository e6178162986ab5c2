//! The first comparison of the paper: two processes that share a segment and a semaphore, on one
//! CPU and each on one of its own. One writes a message while the other reads the one before it.
//!
//! `ground` is what they share, `meeting` how they take turns in it, `payload` what they do with
//! it, `writer` the other process; `with_core` has a task of a core in its place. What page faults
//! and the TLB cost, `first_touch` measures apart.
//! Rounds go over all sizes, and within a size over all cases, so that what is compared was
//! measured next to each other.

mod first_touch;
mod ground;
mod meeting;
mod payload;
mod report;
mod with_core;
mod writer;

use std::fmt;
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;

use self::ground::Kind;
use self::meeting::Meeting;
use self::payload::Payload;
use self::with_core::Direction;
use super::args::CoreArguments;
use super::board::{self, Running};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::others::Others;
use crate::statistics::{histogram, record};
use crate::times::{Labels, Place, RunConditions, TimesReport, of_document};
use crate::{cpus, machine};

pub(super) use self::ground::CREATE;
pub(crate) use self::writer::{WriterArguments, write};

/// As the issue of the paper has it: a message that fits into no first cache, up to 1 MiB.
const SIZES: [usize; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// A sample is the time of so many messages by their number: on one CPU they come by twos.
const BATCH: u64 = 16;
/// What a byte takes at least, to choose a number of messages for a time.
const BYTE_NS: f64 = 0.5;
/// The same where a core computes it.
const CORE_BYTE_NS: f64 = 5.0;
/// The program of the core, which has methods for this.
const APP: &str = "p1";

/// One process pair that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    system: System,
    placement: Placement,
    payload: Payload,
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    /// Two processes.
    Processes(Kind),
    /// A process and a task of the core.
    Core(Direction),
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

/// What all rounds are measured with.
#[derive(Clone, Copy, Debug)]
struct Setting<'a> {
    /// For each.
    time: Duration,
    cpus: [usize; 2],
    running: &'a Running,
    lookout: &'a Lookout,
}

/// One round of it.
#[derive(Debug)]
pub(super) struct Run {
    size: usize,
    payload: Payload,
    messages: u64,
}

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &CoreArguments) -> Result<TimesReport, BenchError> {
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
    let board = board::find(&arguments.board, APP)?;
    // Its memory is what processes share; it sleeps meanwhile.
    let running = Running::start(&board, APP, None)?;
    let cases = all();
    let mut series: Vec<Series> = scale
        .sizes
        .iter()
        .flat_map(|&size| cases.iter().map(move |&case| Series::new(case, size)))
        .collect();
    let runs = series.len() as u64 * u64::from(scale.rounds);
    let time = Duration::from_secs_f64(scale.seconds / runs as f64);
    let others = Others::watch(&cpus, &[running.pid()])?;
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs);
    running.watched(&lookout, |lookout| {
        let setting = Setting {
            time,
            cpus,
            running: &running,
            lookout,
        };
        for _ in 0..scale.rounds {
            for series in &mut series {
                lookout.check_stop()?;
                let measured = series.measure(setting);
                let (case, size) = (series.case, series.size);
                let measured = measured.map_err(|error| error.of(&case, size))?;
                series.rounds.push(measured);
                bar.inc(1);
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let (touched, skipped) = first_touch::measure(scale.rounds)?;
    let others = others.share()?;
    running.stop()?;
    let run = RunConditions {
        cpus,
        rounds: scale.rounds,
        load_before,
        others,
        skipped,
        objection: None,
    };
    let core = Place {
        pinned: Vec::new(),
        board: Some(board.name().to_owned()),
        emulated: board.is_emulated(),
    };
    let mut times = report::of_pairs(&series, cpus, &core);
    let ratios = report::ratios(&series, &times);
    times.extend(report::of_pages(touched, cpus[0]));
    let labels = Labels {
        bench: "core",
        cases: "case, ns by message or page",
        bar_of: report::bar_of,
    };
    Ok(TimesReport::new(of_document(&times)?, ratios, run, labels))
}

/// Every case.
fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let kinds = Kind::value_variants().iter();
    let directions = [Direction::CoreWrites, Direction::CoreReads];
    let systems = kinds
        .map(|&kind| System::Processes(kind))
        .chain(directions.map(System::Core));
    for system in systems {
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
    fn measure(&self, setting: Setting<'_>) -> Result<Histogram<u64>, BenchError> {
        let byte_ns = match self.case.system {
            System::Processes(_) => BYTE_NS,
            System::Core(_) => CORE_BYTE_NS,
        };
        let batches = setting.time.as_nanos() as f64 / (self.size as f64 * byte_ns * BATCH as f64);
        let run = Run {
            size: self.size,
            payload: self.case.payload,
            // The first batch is not counted.
            messages: BATCH * (1 + (batches as u64).clamp(4, 10_000)),
        };
        let far = match self.case.placement {
            Placement::OneCpu => setting.cpus[0],
            Placement::TwoCpus => setting.cpus[1],
        };
        match self.case.system {
            System::Processes(kind) => run.between_processes(kind, far, setting),
            System::Core(direction) => {
                setting.running.pin(far)?;
                with_core::measure(&run, direction, (setting.running, setting.lookout))
            }
        }
    }
}

impl Run {
    fn between_processes(
        &self,
        kind: Kind,
        far_cpu: usize,
        setting: Setting<'_>,
    ) -> Result<Histogram<u64>, BenchError> {
        let pool = setting.running.pool();
        let mut meeting = Meeting::make(kind, pool, (self.size, self.payload))?;
        let writer = writer::start(self, &meeting.place(), far_cpu)?;
        let times = self.time(|number| meeting.read(number, setting.lookout))?;
        writer.join()?;
        Ok(times)
    }

    /// The mean of each batch of messages, but the first.
    fn time(
        &self,
        mut step: impl FnMut(u64) -> Result<(), BenchError>,
    ) -> Result<Histogram<u64>, BenchError> {
        let mut times = histogram();
        let mut since = Instant::now();
        for number in 0..self.messages {
            step(number)?;
            if (number + 1).is_multiple_of(BATCH) {
                let now = Instant::now();
                if number > BATCH {
                    record(&mut times, (now - since) / BATCH as u32);
                }
                since = now;
            }
        }
        Ok(times)
    }
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(kind) => kind.fmt(out),
            Self::Core(direction) => direction.fmt(out),
        }
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
