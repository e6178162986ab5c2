//! Scenario `pvm`: PVM 3.4 and the same programs with Hythe's libraries, beside MPI.
//!
//! Two hosts, each a network namespace of this machine, as in scenario `host`. Rounds go over all
//! cases and, within a case, over all systems, so that what is compared was measured next to each
//! other.

pub(crate) mod args;
mod case;
mod end;
mod message;
mod netpipe;
mod programs;
mod ratios;
mod scene;
pub(crate) mod stencil;
mod tasks;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use rustix::process::geteuid;

use self::args::PvmArguments;
use self::case::{Case, Metric, Part, Subject, System};
use self::message::Run;
use self::scene::Scene;
use crate::descendants::Descendants;
use crate::error::BenchError;
use crate::failures::{Failed, Failures};
use crate::ipc::case::word;
use crate::lookout::Lookout;
use crate::others::Others;
use crate::scale::Scale;
use crate::times::{Labels, Place, RunConditions, Times, TimesReport, of_document};
use crate::{cpus, machine, starter, statistics};

pub(crate) use self::end::run as run_end;

/// All rounds of one figure.
#[derive(Debug)]
struct Row {
    /// Which run of the plan it is of.
    run: usize,
    case: Case,
    metric: Metric,
    size: usize,
    rounds: Vec<Histogram<u64>>,
}

/// What is measured.
struct Plan {
    runs: Vec<(Case, usize)>,
    skipped: Vec<String>,
}

impl Row {
    /// The median time of each round, which ratios are made of.
    fn medians(&self) -> Vec<f64> {
        let median = |round: &Histogram<u64>| round.value_at_quantile(0.5) as f64;
        self.rounds.iter().map(median).collect()
    }

    fn times(self, place: &Place) -> Times {
        Times {
            kernel_copies: None,
            steady: None,
            case: self.case.to_string(),
            size: self.size,
            metric: self.metric.name(),
            rounds: self.rounds,
            place: place.clone(),
        }
    }
}

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &PvmArguments) -> Result<TimesReport, BenchError> {
    machine::look_at_sources();
    if !geteuid().is_root() {
        return Err(BenchError::Unable(
            "scenario pvm makes two networks and the link between them: run it as root".to_owned(),
        ));
    }
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let cpus = cpus::choose()?;
    let scale = arguments.scale();
    let folder = tempfile::tempdir()?;
    let built = || tasks::built_library(folder.path());
    let library = arguments.library.clone().or_else(built);
    let library = library.as_deref();
    let plan = plan(arguments, &scale, cpus, (folder.path(), library));
    if plan.runs.is_empty() {
        let skipped = plan.skipped.join("; ");
        return Err(BenchError::WrongUse(format!(
            "no case fits both of --systems and --parts on this machine: {skipped}"
        )));
    }
    // Dropped behind the scene, which has the children that are known.
    let descendants = Descendants::adopt()?;
    let others = Others::watch(&cpus.map_or_else(|| vec![0], Vec::from), &[])?;
    let mut scene = Scene::set(cpus, (folder.path(), library), &lookout)?;
    let needs_agents = |(case, _): &(Case, usize)| case.system.is_own() && case.subject.is_remote();
    let joined = match plan.runs.iter().any(needs_agents) {
        true => scene.join(),
        false => Ok(()),
    };
    let is_quick = arguments.scale.quick;
    let measured = joined.and_then(|()| rounds(&plan.runs, &scale, is_quick, &mut scene, &lookout));
    // Whatever came of it: daemons outlive whoever started them.
    let parted = scene.part();
    let (rows, failures) = measured?;
    parted?;
    let (failed, objection) = failures.into_lines(rows.is_empty());
    let skipped = plan.skipped.into_iter().chain(failed).collect();
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
        bench: "pvm",
        cases: "case and metric, ns",
        bar_of: ratios::bar_of,
    };
    let ratios = ratios::all(&rows);
    let place = Place::on(&conditions.cpus);
    let times: Vec<Times> = rows.into_iter().map(|row| row.times(&place)).collect();
    Ok(TimesReport::new(
        of_document(&times)?,
        ratios,
        conditions,
        labels,
    ))
}

/// What is measured, and what is not, and why: a line for each reason.
fn plan(
    arguments: &PvmArguments,
    scale: &Scale,
    cpus: Option<[usize; 2]>,
    (folder, library): (&Path, Option<&Path>),
) -> Plan {
    let mut runs = Vec::new();
    let mut reasons: BTreeMap<(String, String), Vec<Case>> = BTreeMap::new();
    let subjects = case::subjects().into_iter();
    for subject in subjects.filter(|it| contains(&arguments.parts, &it.part())) {
        let cases = case::cases(subject).filter(|it| contains(&arguments.systems, &it.system));
        let mut possible = Vec::new();
        for case in cases {
            let able = case.why_not_on(cpus);
            match able.and_then(|()| prepare(case, folder, library)) {
                Ok(()) => possible.push(case),
                Err(why) => {
                    let reason = reasons.entry((word(case.system), why));
                    reason.or_default().push(case);
                }
            }
        }
        for size in subject.sizes(&scale.sizes) {
            runs.extend(possible.iter().map(|&case| (case, size)));
        }
    }
    let skipped = reasons.into_iter().map(|((system, why), cases)| {
        let first = cases.first().map_or_else(String::new, Case::to_string);
        match cases.len() {
            1 => format!("{first}: {why}"),
            count => format!("{count} cases of {system}, {first} the first: {why}"),
        }
    });
    Plan {
        runs,
        skipped: skipped.collect(),
    }
}

/// Compiles what a case needs; why this machine cannot measure it.
fn prepare(case: Case, folder: &Path, library: Option<&Path>) -> Result<(), String> {
    match (case.subject, case.subject.part()) {
        (Subject::Program(program, _), _) => {
            programs::prepare(program, case, folder, library)?;
        }
        (Subject::Netpipe, _) => netpipe::why_not(case, library)?,
        _ => tasks::why_not(case, library)?,
    }
    // Programs and NetPIPE of PVM need it to start and to end their virtual machine.
    match case.system {
        System::Pvm | System::Hythe => starter::pvm::prepare_peer(folder),
        _ => Ok(()),
    }
}

/// No choice is every choice.
fn contains<T: PartialEq>(chosen: &[T], value: &T) -> bool {
    chosen.is_empty() || chosen.contains(value)
}

/// All rounds of all cases at all sizes, without those that fail.
fn rounds(
    runs: &[(Case, usize)],
    scale: &Scale,
    is_quick: bool,
    scene: &mut Scene,
    lookout: &Lookout,
) -> Result<(Vec<Row>, Failures), BenchError> {
    // Programs and NetPIPE take what they take.
    let timed = |case: &Case| !matches!(case.subject.part(), Part::Programs | Part::Netpipe);
    let timed = runs.iter().filter(|(case, _)| timed(case)).count();
    let each = scale.seconds / (timed.max(1) as f64 * f64::from(scale.rounds));
    let mut rows: Vec<Row> = Vec::new();
    let mut failures = Failures::default();
    let mut have_failed = vec![false; runs.len()];
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs.len() as u64 * u64::from(scale.rounds));
    for _ in 0..scale.rounds {
        for (number, &(case, size)) in runs.iter().enumerate() {
            if have_failed[number] {
                continue;
            }
            lookout.check_stop()?;
            let run = Run {
                case,
                size,
                count: scale.count,
                time: Duration::from_secs_f64(each),
                is_quick,
            };
            match scene.measure(&run) {
                Ok(found) => {
                    for figure in found {
                        let round = statistics::decode(&figure.times)?;
                        let key = (figure.metric, figure.size);
                        note(&mut rows, (number, case), key, round);
                    }
                }
                Err(error) => {
                    have_failed[number] = true;
                    rows.retain(|row| row.run != number);
                    failures.note(error, failed(&case, size), &bar)?;
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok((rows, failures))
}

fn failed(case: &Case, size: usize) -> Failed<'_, Case> {
    Failed {
        case,
        size,
        is_own: case.system.is_own(),
    }
}

/// In the order in which they came first.
fn note(
    rows: &mut Vec<Row>,
    (run, case): (usize, Case),
    (metric, size): (Metric, usize),
    round: Histogram<u64>,
) {
    let known = rows
        .iter_mut()
        .find(|row| (row.run, row.metric, row.size) == (run, metric, size));
    match known {
        Some(row) => row.rounds.push(round),
        None => rows.push(Row {
            run,
            case,
            metric,
            size,
            rounds: vec![round],
        }),
    }
}
