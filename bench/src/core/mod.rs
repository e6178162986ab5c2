//! Scenario `core`: this machine and an RTOS core, there and back.
//!
//! The core runs `rtos/apps/bench` on a board, in a pool of its own; `board` starts, watches and
//! audits it. `hythe` and `copy` are the Linux ends of the two systems (rings of `copy`: the crate
//! `hythe-vring`), `order` what the core is told. Rounds go over all sizes and, within a size, over
//! all cases, so that what is compared was measured next to each other.

pub(crate) mod args;
mod bars;
mod board;
mod case;
mod copy;
mod hythe;
mod order;
mod other_process;
pub(crate) mod pair;
pub(crate) mod player;
mod ratios;
mod report;
mod run;
mod series;
pub(crate) mod services;
mod sharing;
mod table;
mod wait;

use std::time::Duration;

use hythe_vring::Bell;
use indicatif::ProgressBar;

use self::args::CoreArguments;
use self::board::Running;
use self::case::{Case, System, Wait};
use self::report::{Conditions, CoreReport, Place};
use self::run::Budget;
use self::series::Series;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::scale::Scale;
use crate::{bounce, cpus, machine};

pub(crate) use self::table::render;

/// The program of `rtos/apps/bench`.
const APP: &str = "bench";

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &CoreArguments) -> Result<CoreReport, BenchError> {
    machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let cpus = cpus::choose()?;
    let board = board::find(&arguments.board, APP)?;
    let scale = arguments.scale();
    let (cases, skipped) = plan(arguments, cpus.is_some(), board.has_eventfds());
    if cases.is_empty() {
        return Err(BenchError::WrongUse(
            "no case fits all of --systems, --waits and --payloads on this machine".to_owned(),
        ));
    }
    let clock = bounce::clock_cost();
    let running = Running::start(&board, APP, cpus.map(|[_, far]| far))?;
    // Only now: the agent of the core inherits nothing of it.
    if let Some([near, _]) = cpus {
        cpus::pin(near)?;
    }
    let second = arguments
        .shared
        .then(|| running.start_second(&board, APP, cpus.map(|[_, far]| far)))
        .transpose()?;
    let (series, shared) = running.watched(&lookout, |lookout| {
        let series = measure(&scale, &cases, &running, lookout)?;
        let Some(second) = &second else {
            return Ok((series, Vec::new()));
        };
        let sharings = sharing::all(cpus.is_some());
        let budget = Budget {
            count: scale.count,
            time: scale.shared_time(sharings.len()),
        };
        let scale = (scale.rounds, budget);
        let shared = sharing::measure(&sharings, scale, &running, second.name(), lookout)?;
        Ok((series, shared))
    })?;
    if let Some(second) = second {
        board::stop(second)?;
    }
    let rings = running.rings(System::Hythe);
    running.stop()?;
    let conditions = Conditions {
        place: Place {
            board: board.name().to_owned(),
            emulated: board.is_emulated(),
            pinned: cpus.map_or_else(Vec::new, Vec::from),
            rings,
            ports: 1,
            cores: 1,
        },
        rounds: scale.rounds,
        unoptimised: cfg!(debug_assertions),
        uncommitted: machine::is_changed(),
        load: [load_before, machine::load()],
        clock_ns: u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX),
        skipped,
    };
    let ratios = ratios::all(&series);
    CoreReport::new((&series, &shared), ratios, conditions)
}

/// The cases that were asked for, and those that this machine cannot measure, and why.
fn plan(arguments: &CoreArguments, two_cpus: bool, eventfds: bool) -> (Vec<Case>, Vec<String>) {
    let wanted = case::all().into_iter().filter(|case| {
        // Elsewhere all rings go through the agent.
        (eventfds || case.system != System::Agent)
            && contains(&arguments.systems, &case.system)
            && contains(&arguments.waits, &case.wait)
            && contains(&arguments.payloads, &case.payload)
    });
    let (cases, impossible): (Vec<Case>, Vec<Case>) =
        wanted.partition(|case| two_cpus || case.wait != Wait::Poll);
    let skipped = impossible
        .iter()
        .map(|case| format!("{case}: both sides would spin on the only CPU"));
    (cases, skipped.collect())
}

/// No choice is every choice.
fn contains<T: PartialEq>(chosen: &[T], value: &T) -> bool {
    chosen.is_empty() || chosen.contains(value)
}

/// All rounds of all cases at all sizes.
fn measure(
    scale: &Scale,
    cases: &[Case],
    running: &Running,
    lookout: &Lookout,
) -> Result<Vec<Series>, BenchError> {
    let sizes = scale.sizes.iter();
    let mut series: Vec<Series> = sizes
        .flat_map(|&size| cases.iter().map(move |&case| Series::new(case, size)))
        .collect();
    let runs = series.len() as u64 * u64::from(scale.rounds);
    let budget = Budget {
        count: scale.count,
        time: Duration::from_secs_f64(scale.seconds / runs as f64),
    };
    let bell = Bell::of_channel(running.node(System::Copy), "control")?;
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs);
    for _ in 0..scale.rounds {
        for series in &mut series {
            lookout.check_stop()?;
            let (case, size) = (series.case, series.size);
            let measured = run::run(case, size, budget, running, &bell, lookout);
            series
                .rounds
                .push(measured.map_err(|error| error.of(&case, size))?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    fn planned(more: &[&str], two_cpus: bool) -> (Vec<String>, usize) {
        planned_on(false, more, two_cpus)
    }

    fn planned_on(eventfds: bool, more: &[&str], two_cpus: bool) -> (Vec<String>, usize) {
        let command = CoreArguments::augment_args(Command::new("core"));
        let matches = command.get_matches_from(["core"].iter().chain(more));
        let arguments = CoreArguments::from_arg_matches(&matches).expect("parsed");
        let (cases, skipped) = plan(&arguments, two_cpus, eventfds);
        (cases.iter().map(Case::to_string).collect(), skipped.len())
    }

    #[test]
    fn choices_narrow_the_plan_and_on_one_cpu_nobody_spins() {
        assert_eq!(planned(&[], true).0.len(), 8);
        let (cases, skipped) = planned(&["--systems", "copy"], false);
        assert_eq!(cases, ["copy/bell/untouched", "copy/bell/filled"]);
        assert_eq!(skipped, 2);
        let chosen = ["--waits", "poll", "--payloads", "filled"];
        let expected = ["hythe/poll/filled", "copy/poll/filled"];
        assert_eq!(planned(&chosen, true).0, expected);
    }

    #[test]
    fn both_ways_of_rings_are_measured_where_there_are_both() {
        assert_eq!(planned_on(true, &[], true).0.len(), 10);
        let chosen = ["--waits", "bell", "--payloads", "untouched"];
        let expected = [
            "hythe/bell/untouched",
            "agent/bell/untouched",
            "copy/bell/untouched",
        ];
        assert_eq!(planned_on(true, &chosen, true).0, expected);
    }
}
