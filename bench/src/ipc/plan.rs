//! What a run measures, in which order: the arguments' choice of what this machine can do.

use super::args::IpcArguments;
use super::case::{self, Case, Pattern, System, Wait};
use super::footprint::FOOTPRINTS;
use super::series::Series;
use super::setup::STEPS;
use super::subject::{Placement, Subject};

/// Rates, requests, the cost of a subscriber, and both sides on one CPU are measured with small
/// messages.
const SMALL_BYTES: usize = 64;

/// Streams are measured with messages that do not fit a small cache, and of which a pool has many.
const STREAM_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

/// What is measured, and what is not and why.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) series: Vec<Series>,
    pub(super) skipped: Vec<String>,
}

/// Size by size, so that what is compared stands next to each other.
///
/// `prepare` makes a system ready that is no part of this program, or says why that is not possible
/// here.
pub(super) fn make(
    arguments: &IpcArguments,
    sizes: &[usize],
    two_cpus: bool,
    prepare: impl FnMut(System) -> Result<(), String>,
) -> Plan {
    let wanted = case::all()
        .into_iter()
        .filter(|case| is_wanted(arguments, case));
    let (mut cases, impossible): (Vec<Case>, Vec<Case>) =
        wanted.partition(|case| two_cpus || !case.spins());
    let missing = leave_out(&mut cases, prepare);
    let apart = |case: &Case| Subject::Exchange(*case, Placement::Apart);
    let is_sized = |case: &&Case| matches!(case.pattern, Pattern::Untouched | Pattern::Filled);
    let is_stream = |case: &&Case| case.pattern.stream_depth().is_some();
    let mut series = Vec::new();
    for &size in sizes {
        let sized = cases.iter().filter(is_sized);
        series.extend(sized.map(|case| Series::new(apart(case), size)));
        let streams = cases.iter().filter(is_stream);
        let streams = streams.filter(|_| STREAM_BYTES.contains(&size));
        series.extend(streams.map(|case| Series::new(apart(case), size)));
    }
    let is_small = |case: &&Case| !is_sized(case) && !is_stream(case);
    let small = cases.iter().filter(is_small).map(apart);
    // On the only CPU, everything is shared.
    let shared = cases.iter().filter(|case| two_cpus && is_shared(case));
    let shared = shared.map(|case| Subject::Exchange(*case, Placement::Shared));
    series.extend(
        shared
            .chain(small)
            .map(|subject| Series::new(subject, SMALL_BYTES)),
    );
    if wants_setup(arguments) {
        let steps = STEPS
            .into_iter()
            .filter(|step| arguments.wants(&step.to_string()));
        series.extend(steps.map(|step| Series::new(Subject::Setup(step), step.size_bytes())));
    }
    let skipped = impossible
        .iter()
        .map(|case| format!("{case}: both sides would spin on the only CPU"));
    let mut plan = Plan {
        series,
        skipped: skipped.chain(missing).collect(),
    };
    if wants_setup(arguments) {
        plan.add_footprints(arguments);
    }
    plan
}

impl Plan {
    fn add_footprints(&mut self, arguments: &IpcArguments) {
        let wanted = FOOTPRINTS
            .into_iter()
            .filter(|footprint| arguments.wants(&footprint.to_string()));
        for footprint in wanted {
            match footprint.why_not() {
                Some(why) => self.skipped.push(format!("{footprint}: {why}")),
                None => {
                    let subject = Subject::Footprint(footprint);
                    self.series
                        .push(Series::new(subject, footprint.size_bytes()));
                }
            }
        }
    }
}

/// Takes out the cases of systems that cannot be made ready. Which, and why.
fn leave_out(
    cases: &mut Vec<Case>,
    mut prepare: impl FnMut(System) -> Result<(), String>,
) -> Vec<String> {
    let mut systems: Vec<System> = Vec::new();
    for case in cases.iter().filter(|case| case.system.is_outside()) {
        if !systems.contains(&case.system) {
            systems.push(case.system);
        }
    }
    let mut missing = Vec::new();
    for system in systems {
        if let Err(why) = prepare(system) {
            missing.push(format!("{}: {why}", case::word(system)));
            cases.retain(|case| case.system != system);
        }
    }
    missing
}

fn is_wanted(arguments: &IpcArguments, case: &Case) -> bool {
    contains(&arguments.systems, &case.system)
        && contains(&arguments.waits, &case.wait)
        && contains(&arguments.patterns, &case.pattern)
        && arguments.wants(&case.to_string())
}

/// It has no way of waiting and no pattern to choose it by.
fn wants_setup(arguments: &IpcArguments) -> bool {
    contains(&arguments.systems, &System::Hythe)
        && arguments.waits.is_empty()
        && arguments.patterns.is_empty()
}

/// How good a choice between looking and sleeping is shows where the other side cannot run
/// meanwhile.
const fn is_shared(case: &Case) -> bool {
    matches!(case.pattern, Pattern::Untouched)
        && matches!(
            (case.system, case.wait),
            (System::Hythe, Wait::Block | Wait::Adaptive) | (System::Floor, Wait::Block)
        )
}

/// No choice is every choice.
fn contains<T: PartialEq>(chosen: &[T], value: &T) -> bool {
    chosen.is_empty() || chosen.contains(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    fn arguments(more: &[&str]) -> IpcArguments {
        let words = ["ipc"].iter().chain(more);
        let command = IpcArguments::augment_args(Command::new("ipc"));
        let matches = command.get_matches_from(words);
        IpcArguments::from_arg_matches(&matches).expect("parsed")
    }

    fn plan(more: &[&str], two_cpus: bool) -> Plan {
        make(&arguments(more), &[8, 64], two_cpus, |_| Ok(()))
    }

    fn names(plan: &Plan) -> Vec<String> {
        let series = plan.series.iter().map(|series| series.subject.to_string());
        series.collect()
    }

    #[test]
    fn on_one_cpu_nobody_spins() {
        let (two, one) = (plan(&[], true), plan(&[], false));
        let spins = |plan: &Plan| plan.skipped.iter().any(|why| why.contains("would spin"));
        assert!(!spins(&two) && spins(&one) && !one.series.is_empty());
        assert!(names(&one).iter().all(|name| !name.contains("/poll/")));
        assert!(names(&one).contains(&"hythe/create".to_owned()));
    }

    #[test]
    fn choices_narrow_the_plan() {
        let chosen = plan(&["--systems", "hythe,floor", "--patterns", "filled"], true);
        let each = [
            "floor/poll/filled",
            "hythe/poll/filled",
            "floor/block/filled",
            "hythe/block/filled",
            "hythe/adaptive/filled",
        ];
        assert_eq!(names(&chosen), [each, each].concat());
        let only = plan(&["--only", "hythe/poll/fan,join"], true);
        let expected = ["1", "2", "4", "8"].map(|count| format!("hythe/poll/fan-{count}"));
        assert_eq!(names(&only)[..4], expected);
        assert_eq!(names(&only)[4..], ["hythe/join", "hythe/join-prefaulted"]);
        assert!(
            plan(&["--only", "nothing like that"], true)
                .series
                .is_empty()
        );
    }

    #[test]
    fn what_is_not_installed_is_left_out_and_said() {
        let arguments = arguments(&["--patterns", "single", "--systems", "hythe,mpich,aeron"]);
        let mut asked = Vec::new();
        let plan = make(&arguments, &[64], true, |system| {
            asked.push(system);
            match system {
                System::Mpich => Err("no mpirun".to_owned()),
                _ => Ok(()),
            }
        });
        assert_eq!(asked, [System::Mpich, System::Aeron]);
        assert_eq!(names(&plan), ["hythe/poll/single", "aeron/poll/single"]);
        assert_eq!(plan.skipped, ["mpich: no mpirun"]);
    }

    #[test]
    fn streams_have_large_messages() {
        let of = |sizes: &[usize]| {
            let arguments = arguments(&["--only", "poll/stream-4"]);
            let plan = make(&arguments, sizes, true, |_| Ok(()));
            let rows = plan.series.iter();
            let rows = rows.map(|series| (series.subject.to_string(), series.size));
            rows.collect::<Vec<_>>()
        };
        assert!(of(&[8, 1024]).is_empty());
        let both = |size| ["floor", "hythe"].map(|of| (format!("{of}/poll/stream-4"), size));
        let expected = [both(64 << 10), both(1 << 20)].concat();
        assert_eq!(of(&[64, 64 << 10, 1 << 20, 4 << 20]), expected);
    }

    #[test]
    fn where_looking_does_not_pay_is_measured_too() {
        let both = plan(&[], true);
        let shared = both
            .series
            .iter()
            .filter(|series| series.subject.placement() == Placement::Shared);
        let names: Vec<String> = shared.map(|series| series.subject.to_string()).collect();
        let expected = [
            "floor/block/untouched",
            "hythe/block/untouched",
            "hythe/adaptive/untouched",
        ];
        assert_eq!(names, expected);
    }
}
