//! What a run measures, in which order: the arguments' choice of what this machine can do.

use super::args::IpcArguments;
use super::case::{self, Case, Pattern, System, Wait};
use super::series::Series;
use super::setup::STEPS;
use super::subject::{Placement, Subject};

/// Rates, requests, the cost of a subscriber, and both sides on one CPU are measured with small
/// messages.
const SMALL_BYTES: usize = 64;

/// What is measured, and what is not and why.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) series: Vec<Series>,
    pub(super) skipped: Vec<String>,
}

/// Size by size, so that what is compared stands next to each other.
pub(super) fn make(arguments: &IpcArguments, sizes: &[usize], two_cpus: bool) -> Plan {
    let wanted = case::all()
        .into_iter()
        .filter(|case| is_wanted(arguments, case));
    let (cases, impossible): (Vec<Case>, Vec<Case>) =
        wanted.partition(|case| two_cpus || !case.spins());
    let apart = |case: &Case| Subject::Exchange(*case, Placement::Apart);
    let is_sized = |case: &&Case| matches!(case.pattern, Pattern::Untouched | Pattern::Filled);
    let mut series = Vec::new();
    for &size in sizes {
        let sized = cases.iter().filter(is_sized);
        series.extend(sized.map(|case| Series::new(apart(case), size)));
    }
    let small = cases.iter().filter(|case| !is_sized(case)).map(apart);
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
    Plan {
        series,
        skipped: skipped.collect(),
    }
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

    fn plan(more: &[&str], two_cpus: bool) -> Plan {
        let words = ["ipc"].iter().chain(more);
        let command = IpcArguments::augment_args(Command::new("ipc"));
        let matches = command.get_matches_from(words);
        let arguments = IpcArguments::from_arg_matches(&matches).expect("parsed");
        make(&arguments, &[8, 64], two_cpus)
    }

    fn names(plan: &Plan) -> Vec<String> {
        let series = plan.series.iter().map(|series| series.subject.to_string());
        series.collect()
    }

    #[test]
    fn on_one_cpu_nobody_spins() {
        let (two, one) = (plan(&[], true), plan(&[], false));
        assert!(two.skipped.is_empty());
        assert!(!one.skipped.is_empty() && !one.series.is_empty());
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
