//! Scenario `host`: two hosts, there and back, beside the floors and what people use today.
//!
//! Both hosts are this machine, each with a network and a `/dev/shm` of its own (`scene`); an `end`
//! is a host, and takes orders (`message`). Rounds go over all sizes and, within a size, over all
//! cases, so that what is compared was measured next to each other. Afterwards both ledgers are
//! audited.

pub(crate) mod agents;
pub(crate) mod args;
mod carriage;
pub(crate) mod case;
mod datagrams;
mod end;
mod frames;
mod message;
mod outside;
mod ratios;
mod scene;
mod sockets;
mod starter;
mod steady;
mod udp;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use rustix::process::geteuid;

use self::args::HostArguments;
use self::case::{Carrier, Case, Reach, Sides, Wait};
use self::message::Run;
use self::scene::Scene;
use crate::descendants::Descendants;
use crate::document::Steady;
use crate::error::BenchError;
use crate::failures::{Failed, Failures};
use crate::lookout::Lookout;
use crate::others::Others;
use crate::scale::Scale;
use crate::times::{Labels, Place, RunConditions, Times, TimesReport, of_document};
use crate::{cpus, machine};

pub(crate) use self::end::run as run_end;

/// All rounds of a case at a size.
#[derive(Debug)]
struct Series {
    case: Case,
    size: usize,
    rounds: Vec<Histogram<u64>>,
    /// Counted behind the last round, where that was asked for.
    steady: Option<Steady>,
    /// It is left out from then on.
    has_failed: bool,
}

impl Series {
    /// The median time of each round, which ratios are made of.
    fn medians(&self) -> Vec<f64> {
        let median = |round: &Histogram<u64>| round.value_at_quantile(0.5) as f64;
        self.rounds.iter().map(median).collect()
    }
}

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &HostArguments) -> Result<TimesReport, BenchError> {
    machine::look_at_sources();
    if !geteuid().is_root() {
        return Err(BenchError::Unable(
            "scenario host makes two networks and the link between them: run it as root".to_owned(),
        ));
    }
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let cpus = cpus::choose()?;
    let scale = arguments.scale();
    let folder = tempfile::tempdir()?;
    let (mut series, mut skipped) = plan(arguments, &scale, cpus.is_some(), folder.path());
    if let Some(why) = arguments.calls.then(steady::why_not).flatten() {
        return Err(BenchError::Unable(format!("--calls: {why}")));
    }
    if series.is_empty() {
        return Err(BenchError::WrongUse(format!(
            "no case fits all of --systems, --reaches, --waits and --payloads on this machine: {}",
            skipped.join("; ")
        )));
    }
    // Dropped behind the scene, which has the children that are known.
    let descendants = Descendants::adopt()?;
    let others = Others::watch(&cpus.map_or_else(|| vec![0], Vec::from), &[])?;
    let mut scene = Scene::set(cpus, &folder.path().display().to_string(), &lookout)?;
    let counts_calls = arguments.calls;
    let failures = measure((&scale, counts_calls), &mut series, &mut scene, &lookout)?;
    let (failed, objection) = failures.into_lines(series.is_empty());
    skipped.extend(failed);
    scene.audit()?;
    drop(scene);
    descendants.end()?;
    let conditions = RunConditions {
        cpus: cpus.unwrap_or_default(),
        rounds: scale.rounds,
        load_before,
        others: others.share()?,
        skipped,
        objection,
    };
    let labels = Labels {
        bench: "host",
        cases: "case, ns",
        bar_of: ratios::bar_of,
    };
    let ratios = ratios::all(&series);
    let place = Place::on(&conditions.cpus);
    let times: Vec<Times> = series.into_iter().map(|row| row.times(&place)).collect();
    Ok(TimesReport::new(
        of_document(&times)?,
        ratios,
        conditions,
        labels,
    ))
}

impl Series {
    const fn failed(&self) -> Failed<'_, Case> {
        Failed {
            case: &self.case,
            size: self.size,
            is_own: !matches!(self.case.system.sides(), Sides::Starter | Sides::Programs),
        }
    }

    fn times(self, place: &Place) -> Times {
        Times {
            kernel_copies: self.case.kernel_copies(),
            steady: self.steady,
            case: self.case.to_string(),
            size: self.size,
            metric: "round_trip",
            rounds: self.rounds,
            place: place.clone(),
        }
    }
}

/// What is measured, and what is not, and why.
fn plan(
    arguments: &HostArguments,
    scale: &Scale,
    two_cpus: bool,
    folder: &Path,
) -> (Vec<Series>, Vec<String>) {
    let wanted = case::all().into_iter().filter(|case| {
        contains(&arguments.systems, &case.system)
            && contains(&arguments.reaches, &case.reach)
            && contains(&arguments.waits, &case.wait)
            && contains(&arguments.payloads, &case.payload)
    });
    let mut skipped = Vec::new();
    let mut cases = Vec::new();
    for case in wanted {
        match why_not(case, two_cpus, folder) {
            Some(why) => skipped.push(format!("{case}: {why}")),
            None => cases.push(case),
        }
    }
    let mut series = Vec::new();
    for &size in &scale.sizes {
        for &case in &cases {
            match size <= case.bytes_max() {
                true => series.push(Series {
                    case,
                    size,
                    rounds: Vec::new(),
                    steady: None,
                    has_failed: false,
                }),
                false => skipped.push(format!("{case}, {size} bytes: more than a message holds")),
            }
        }
    }
    (series, skipped)
}

/// Why this machine cannot measure a case.
fn why_not(case: Case, two_cpus: bool, folder: &Path) -> Option<String> {
    if case.wait == Wait::Poll && !two_cpus {
        return Some("both sides would spin on the only CPU".to_owned());
    }
    match (case.system.sides(), case.reach) {
        (Sides::Programs, _) => outside::why_not(),
        (Sides::Pools(_), Reach::Remote) => agents::why_not(),
        (Sides::Starter, _) => starter::prepare(case.system, folder),
        _ => None,
    }
}

/// No choice is every choice.
fn contains<T: PartialEq>(chosen: &[T], value: &T) -> bool {
    chosen.is_empty() || chosen.contains(value)
}

/// All rounds of all cases at all sizes.
fn measure(
    (scale, counts_calls): (&Scale, bool),
    series: &mut Vec<Series>,
    scene: &mut Scene,
    lookout: &Lookout,
) -> Result<Failures, BenchError> {
    let carriers: BTreeSet<Carrier> = series.iter().filter_map(|row| row.case.carrier()).collect();
    let joined = scene.join(&carriers);
    let measured = joined.and_then(|()| rounds((scale, counts_calls), series, scene, lookout));
    // Whatever came of it: agents outlive whoever started them.
    let parted = scene.part();
    let failures = measured?;
    parted?;
    Ok(failures)
}

/// Without the rows of cases that fail.
fn rounds(
    (scale, counts_calls): (&Scale, bool),
    series: &mut Vec<Series>,
    scene: &mut Scene,
    lookout: &Lookout,
) -> Result<Failures, BenchError> {
    let runs = series.len() as u64 * u64::from(scale.rounds);
    let time = Duration::from_secs_f64(scale.seconds / runs as f64);
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs);
    let mut failures = Failures::default();
    for round in 1..=scale.rounds {
        for row in series.iter_mut().filter(|row| !row.has_failed) {
            lookout.check_stop()?;
            let run = Run {
                case: row.case,
                size: row.size,
                count: scale.count,
                time,
                counts_calls: counts_calls && round == scale.rounds && row.case.is_steady(),
            };
            match scene.measure(&run) {
                Ok((times, steady)) => {
                    row.rounds.push(times);
                    row.steady = steady;
                }
                Err(error) => {
                    row.has_failed = true;
                    failures.note(error, row.failed(), &bar)?;
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    series.retain(|row| !row.has_failed);
    Ok(failures)
}
