//! Scenario `ipc`: two processes of this machine.
//!
//! `run` is one case at one size; an `end` is one side of one system (`floor`, `hythe`, `stream`); `peer` is the other process.
//! Rounds go over all cases, so that systems are measured next to each other, several times.

mod case;
mod end;
mod floor;
mod hythe;
mod payload;
mod peer;
mod ring;
mod run;
mod series;
mod side;
mod stream;

use std::time::Duration;

use indicatif::ProgressBar;

use self::end::Budget;
use self::hythe::BenchPool;
use self::run::Setting;
use self::series::Series;
use crate::args::IpcArguments;
use crate::document::{Conditions, Document, Pinned, SCHEMA};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::statistics::{median, paired_ratio};
use crate::{bounce, cpus, machine};

pub(crate) use case::{Case, Pattern, System, Wait};
pub(crate) use run::echo;

/// Rates are of small messages.
const RATE_SIZE: usize = 64;
const BOUNCES: u32 = 10_000;
/// Nothing but lines that move.
const THE_FLOOR: Case = Case {
    system: System::Floor,
    wait: Wait::Poll,
    pattern: Pattern::Untouched,
};
/// A floor above so many bounces was disturbed, or is not the floor.
const FLOOR_BY_BOUNCE_MAX: f64 = 3.0;

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &IpcArguments) -> Result<Document, BenchError> {
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let cpus = cpus::choose()?;
    let (cases, skipped) = cases(arguments, cpus.is_some());
    let mut series = plan(&cases, &arguments.sizes);
    if series.is_empty() {
        return Err(BenchError::WrongUse(
            "no case fits all of --systems, --waits and --patterns on this machine".to_owned(),
        ));
    }
    if let Some([near, _]) = cpus {
        cpus::pin(near)?;
    }
    let clock = bounce::clock_cost();
    let bounces = measure(arguments, cpus, &lookout, &mut series)?;
    let bounce =
        (!bounces.is_empty()).then(|| median(bounces.iter().map(|found| found.ns).collect()));
    let floor = floor_by_bounce(&series, &bounces);
    let conditions = Conditions {
        cpus: Pinned {
            pinned: cpus.map_or_else(Vec::new, Vec::from),
        },
        rounds: arguments.rounds,
        uncommitted: machine::is_changed(),
        load: [load_before, machine::load()],
        clock_ns: u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX),
        bounce_ns: bounce.map(|ns| ns.round() as u64),
        floor_by_bounce: floor,
        skipped,
        invalid: floor.and_then(verdict),
    };
    document(&series, conditions)
}

/// The bounce right before the floor of a size was measured: a virtual machine's CPUs move, and the bounce with them.
#[derive(Clone, Copy, Debug)]
struct Bounce {
    size: usize,
    ns: f64,
}

/// Adds the rounds to each series; returns the bounces beside the floors, in the order of the rounds.
fn measure(
    arguments: &IpcArguments,
    cpus: Option<[usize; 2]>,
    lookout: &Lookout,
    series: &mut [Series],
) -> Result<Vec<Bounce>, BenchError> {
    let pool = BenchPool::make()?;
    let runs = series.len() as u64 * u64::from(arguments.rounds);
    let budget = Budget {
        count: arguments.count,
        time: Duration::from_secs_f64(arguments.seconds / runs as f64),
    };
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs);
    let mut bounces = Vec::new();
    for _ in 0..arguments.rounds {
        for series in series.iter_mut() {
            lookout.check_stop()?;
            if let Some(cpus) = cpus.filter(|_| series.case == THE_FLOOR) {
                let bounced = bounce::measure(cpus, BOUNCES, lookout)?;
                bounces.push(Bounce {
                    size: series.size,
                    ns: bounced.value_at_quantile(0.5) as f64,
                });
            }
            let setting = Setting {
                case: series.case,
                size: series.size,
                budget,
                cpus,
                pool: &pool,
                lookout,
            };
            series.add(setting.run()?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(bounces)
}

fn document(series: &[Series], conditions: Conditions) -> Result<Document, BenchError> {
    let results = series
        .iter()
        .map(|series| series.measurement(&conditions.cpus))
        .collect::<Result<_, _>>()?;
    Ok(Document {
        schema: SCHEMA,
        bench: "ipc",
        command: machine::command(),
        commit: machine::commit(),
        machine: machine::describe(),
        results,
        ratios: series::ratios(series),
        conditions,
    })
}

/// The cases asked for that this machine can run, and what it cannot.
fn cases(arguments: &IpcArguments, two_cpus: bool) -> (Vec<Case>, Vec<String>) {
    let wanted = case::all().into_iter().filter(|case| {
        contains(&arguments.systems, &case.system)
            && contains(&arguments.waits, &case.wait)
            && contains(&arguments.patterns, &case.pattern)
    });
    let (possible, impossible): (Vec<Case>, Vec<Case>) =
        wanted.partition(|case| two_cpus || !case.spins());
    let skipped = impossible
        .iter()
        .map(|case| format!("{case}: both sides would spin on the only CPU"));
    (possible, skipped.collect())
}

/// No choice is every choice.
fn contains<T: PartialEq>(chosen: &[T], value: &T) -> bool {
    chosen.is_empty() || chosen.contains(value)
}

/// Size by size, so that cases that are compared stand next to each other.
fn plan(cases: &[Case], sizes: &[usize]) -> Vec<Series> {
    let is_rate = |case: &Case| case.pattern == Pattern::Single;
    let round_trips = sizes.iter().flat_map(|&size| {
        let cases = cases.iter().filter(|case| !is_rate(case));
        cases.map(move |&case| Series::new(case, size))
    });
    let rates = cases.iter().filter(|case| is_rate(case));
    round_trips
        .chain(rates.map(|&case| Series::new(case, RATE_SIZE)))
        .collect()
}

/// The floor of the worst size, in bounces: the median over the rounds.
fn floor_by_bounce(series: &[Series], bounces: &[Bounce]) -> Option<f64> {
    let of_floor = series.iter().filter(|series| series.case == THE_FLOOR);
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
    use crate::args::{Arguments, Command};
    use crate::statistics;
    use clap::Parser;

    fn arguments(more: &[&str]) -> IpcArguments {
        let words = ["hythe-bench", "ipc"].iter().chain(more);
        match Arguments::parse_from(words).command {
            Command::Ipc(arguments) => arguments,
            Command::Echo(_) => panic!("asked for ipc"),
        }
    }

    #[test]
    fn on_one_cpu_nobody_spins() {
        let (two, none_skipped) = cases(&arguments(&[]), true);
        assert!(none_skipped.is_empty());
        let (one, skipped) = cases(&arguments(&[]), false);
        assert_eq!(one.len() + skipped.len(), two.len());
        assert!(one.iter().all(|case| case.wait != Wait::Poll));
        assert!(!one.is_empty());
    }

    #[test]
    fn choices_narrow_the_plan() {
        let chosen = arguments(&["--systems", "hythe,floor", "--patterns", "filled"]);
        let (cases, _) = cases(&chosen, true);
        let names: Vec<String> = cases.iter().map(Case::to_string).collect();
        let expected = [
            "floor/poll/filled",
            "hythe/poll/filled",
            "floor/block/filled",
            "hythe/block/filled",
            "hythe/adaptive/filled",
        ];
        assert_eq!(names, expected);
        assert_eq!(plan(&cases, &[8, 64]).len(), 2 * expected.len());
    }

    #[test]
    fn the_floor_is_compared_with_the_bounce_beside_it() {
        // The CPUs moved apart in the second round: the floor and its bounce did together.
        let mut floor = Series::new(THE_FLOOR, 8);
        for ns in [200, 800, 210] {
            let mut round = statistics::histogram();
            statistics::record(&mut round, Duration::from_nanos(ns));
            floor.add(run::Outcome::RoundTrips(round));
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
    fn a_disturbed_floor_is_said_aloud() {
        assert_eq!(verdict(2.4), None);
        let why = verdict(3.2).expect("invalid");
        assert!(why.contains("3.2 times"), "{why}");
    }
}
