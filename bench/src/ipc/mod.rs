//! Scenario `ipc`: two processes of this machine.
//!
//! `plan` says what is measured; `run` is one case at one size; an `end` is one side of one system
//! (`floor`, `protocol`, `hythe`, `iceoryx2`, `stream`, `sysv`), or a program of its own
//! (`outside`); `peer` is the other process; `setup` is what comes before, `footprint` what needs
//! no message. Rounds go over all of the plan, so that systems are measured next to each other,
//! several times.

pub(crate) mod args;
pub(crate) mod bars;
pub(crate) mod case;
pub(crate) mod end;
mod floor;
pub(crate) mod footprint;
pub(crate) mod hythe;
mod hythe_batch;
mod hythe_request;
mod iceoryx2;
mod outside;
mod peer;
mod plan;
mod protocol;
mod ratios;
mod reuse;
mod ring;
mod run;
mod series;
mod setting;
mod setup;
pub(crate) mod side;
pub(crate) mod stream;
mod subject;
mod sysv;

use std::time::Duration;

use indicatif::ProgressBar;

use self::args::IpcArguments;
use self::case::{Case, Pattern, System, Wait};
use self::end::Budget;
use self::outside::Outside;
use self::plan::Plan;
use self::run::Outcome;
use self::series::Series;
use self::setting::Setting;
use self::subject::{Placement, Subject};
use crate::document::{Conditions, Document, Pinned, SCHEMA};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::pool::BenchPool;
use crate::scale::Scale;
use crate::statistics::{median, paired_ratio};
use crate::{bounce, cpus, machine};

pub(crate) use run::{echo, round_trips};

const BOUNCES: u32 = 10_000;
/// Nothing but lines that move.
const THE_FLOOR: Subject = Subject::Exchange(
    Case {
        system: System::Floor,
        wait: Wait::Poll,
        pattern: Pattern::Untouched,
        subscribers: 1,
    },
    Placement::Apart,
);
/// A floor above so many bounces was disturbed, or is not the floor.
const FLOOR_BY_BOUNCE_MAX: f64 = 3.0;

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &IpcArguments) -> Result<Document, BenchError> {
    machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let cpus = cpus::choose()?;
    let scale = arguments.scale();
    let outside = Outside::default();
    let Plan {
        mut series,
        skipped,
    } = plan::make(arguments, &scale.sizes, cpus.is_some(), |system| {
        outside.prepare(system)
    });
    if series.is_empty() {
        return Err(BenchError::WrongUse(nothing(&skipped)));
    }
    if let Some([near, _]) = cpus {
        cpus::pin(near)?;
    }
    let clock = bounce::clock_cost();
    let bounces = measure(&scale, cpus, (&outside, &lookout), &mut series)?;
    let bounce =
        (!bounces.is_empty()).then(|| median(bounces.iter().map(|found| found.ns).collect()));
    let floor = floor_by_bounce(&series, &bounces);
    let conditions = Conditions {
        cpus: Pinned {
            pinned: cpus.map_or_else(Vec::new, Vec::from),
        },
        date: machine::date(),
        rounds: scale.rounds,
        uncommitted: machine::is_changed(),
        load: [load_before, machine::load()],
        clock_ns: u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX),
        bounce_ns: bounce.map(|ns| ns.round() as u64),
        floor_by_bounce: floor,
        skipped,
        invalid: floor.and_then(verdict),
    };
    document(&series, cpus, conditions)
}

/// Why there is nothing to measure.
fn nothing(skipped: &[String]) -> String {
    let what =
        "no case fits all of --only, --systems, --waits, --patterns and --sizes on this machine";
    match skipped.is_empty() {
        true => what.to_owned(),
        false => format!("{what}; left out: {}", skipped.join("; ")),
    }
}

/// The bounce right before the floor of a size was measured: a virtual machine's CPUs move, and the
/// bounce with them.
#[derive(Clone, Copy, Debug)]
struct Bounce {
    size: usize,
    ns: f64,
}

/// Adds the rounds to each series; returns the bounces beside the floors, in the order of the
/// rounds.
fn measure(
    scale: &Scale,
    cpus: Option<[usize; 2]>,
    (outside, lookout): (&Outside, &Lookout),
    series: &mut [Series],
) -> Result<Vec<Bounce>, BenchError> {
    let (pool, iceoryx2) = (BenchPool::make()?, iceoryx2::Place::new());
    let runs = series.len() as u64 * u64::from(scale.rounds);
    let budget = Budget {
        count: scale.count,
        time: Duration::from_secs_f64(scale.seconds / runs as f64),
    };
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs);
    let mut bounces = Vec::new();
    for _ in 0..scale.rounds {
        for series in series.iter_mut() {
            lookout.check_stop()?;
            if let Some(cpus) = cpus.filter(|_| series.subject == THE_FLOOR) {
                let bounced = bounce::measure(cpus, BOUNCES, lookout)?;
                bounces.push(Bounce {
                    size: series.size,
                    ns: bounced.value_at_quantile(0.5) as f64,
                });
            }
            let measured = match series.subject {
                Subject::Setup(step) => step.measure(&pool, lookout).map(Outcome::Times),
                Subject::Footprint(footprint) => footprint.measure().map(Outcome::Bytes),
                Subject::Exchange(case, placement) => {
                    let setting = Setting {
                        case,
                        size: series.size,
                        budget,
                        cpus: cpus.map(|cpus| placement.place(cpus)),
                        pool: &pool,
                        iceoryx2: &iceoryx2,
                        outside,
                        lookout,
                    };
                    setting.run()
                }
            };
            series.add(measured.map_err(|error| error.of(&series.subject, series.size))?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(bounces)
}

fn document(
    series: &[Series],
    cpus: Option<[usize; 2]>,
    conditions: Conditions,
) -> Result<Document, BenchError> {
    let measurement = |series: &Series| {
        let cpus = cpus.map(|cpus| series.subject.placement().place(cpus));
        series.measurement(cpus.map_or_else(Vec::new, Vec::from))
    };
    let mut results: Vec<_> = series.iter().map(measurement).collect::<Result<_, _>>()?;
    let reuse = |series: &Series| series.reuse(conditions.cpus.pinned.clone());
    results.extend(series.iter().filter_map(reuse));
    results.extend(ratios::further_subscribers(series, &conditions.cpus));
    Ok(Document {
        schema: SCHEMA,
        bench: "ipc",
        command: machine::command(),
        commit: machine::commit(),
        machine: machine::describe(),
        results,
        ratios: ratios::all(series),
        conditions,
    })
}

/// The floor of the worst size, in bounces: the median over the rounds.
fn floor_by_bounce(series: &[Series], bounces: &[Bounce]) -> Option<f64> {
    let of_floor = series.iter().filter(|series| series.subject == THE_FLOOR);
    let quotients = of_floor.map(|series| {
        let beside = bounces.iter().filter(|bounce| bounce.size == series.size);
        let beside: Vec<f64> = beside.map(|bounce| bounce.ns).collect();
        paired_ratio(&series.figures(), &beside)
    });
    quotients.max_by(f64::total_cmp)
}

/// Why the figures are not to be trusted, if so.
fn verdict(floor_by_bounce: f64) -> Option<String> {
    (floor_by_bounce > FLOOR_BY_BOUNCE_MAX).then(|| {
        format!(
            "the floor is {floor_by_bounce:.1} times the bounce of a cache line, more than {FLOOR_BY_BOUNCE_MAX}: something else ran on these CPUs; measure again on a quieter machine"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics;

    #[test]
    fn floor_is_compared_with_the_bounce_beside_it() {
        // The CPUs moved apart in the second round: the floor and its bounce did together.
        let mut floor = Series::new(THE_FLOOR, 8);
        for ns in [200, 800, 210] {
            let mut round = statistics::histogram();
            statistics::record(&mut round, Duration::from_nanos(ns));
            floor.add(Outcome::Times(round));
        }
        let bounce = |size, ns| Bounce { size, ns };
        let bounces = [
            bounce(8, 100.0),
            bounce(64, 1.0),
            bounce(8, 400.0),
            bounce(8, 70.0),
        ];
        assert_eq!(floor_by_bounce(&[floor], &bounces), Some(2.0));
        assert_eq!(floor_by_bounce(&[], &bounces), None);
    }

    #[test]
    fn disturbed_floor_is_said_aloud() {
        assert_eq!(verdict(2.4), None);
        let why = verdict(3.2).expect("invalid");
        assert!(why.contains("3.2 times"), "{why}");
    }
}
