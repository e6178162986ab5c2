//! The latency of the machine this runs on: of timers as cyclictest measures it, and of wake-ups
//! between threads.
//!
//! A [`Plan`] says what, [`Permissions`] what of it the machine allows, [`run`] measures, one
//! measure after the other and all CPUs at once. While it measures, its threads allocate nothing.
//! How a channel wakes is handed in ([`Ends`]): this crate knows no pool. Never leaves a thread, a
//! file or a changed setting behind.

mod clock;
mod conditions;
mod cpus;
mod crew;
mod cycle;
mod load;
mod other_load;
mod permission;
mod plan;
mod recorder;
mod timer;
mod wake;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

pub use cpus::{allowed as allowed_cpus, parse as parse_cpus, render as render_cpus};
pub use load::Load;
pub use permission::{Permissions, Refusal};
pub use plan::{INTERVALS_US, Measure, PRIORITIES, Plan, Until};
pub use wake::{Ends, Sleeper, Waker};

use crate::LatencyError;
use crate::result::Measurement;
use crew::{Crew, Post};
use cycle::Cycle;
use recorder::Recorder;

/// Beyond what a measure should take by its plan: a loaded machine may let ordinary threads wait.
const GRACE: Duration = Duration::from_secs(10);
/// How much longer than its plan a measure by loops may take, where cycles come too late and are
/// left out.
const LOOPS_STRETCH: u32 = 10;

/// Callbacks of a run: what starts, whether to stop, and the ends of a channel to wake over.
pub trait Observer {
    /// Should the run end now, with the results so far?
    fn stop(&self) -> bool;

    /// A measure begins.
    fn begins(&self, measure: Measure);

    /// The two ends of a way of waking over a channel, for the sleeper on this CPU.
    ///
    /// # Errors
    /// Why there is none.
    fn channel(&self, cpu: usize) -> Result<Ends, String>;
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// For each CPU and measure that has samples.
    pub measurements: Vec<Measurement>,
    /// What all of them depend on.
    pub conditions: BTreeMap<String, Value>,
    /// What was asked for and is not there.
    pub refusals: Vec<Refusal>,
    /// It was not ended early.
    pub is_complete: bool,
}

/// Measures.
///
/// # Errors
/// [`LatencyError::Host`]: no CPU is left to measure, a thread or the load failed.
pub fn run(
    plan: &Plan,
    mut permissions: Permissions,
    observer: &dyn Observer,
) -> Result<Outcome, LatencyError> {
    if permissions.cpus.is_empty() {
        let refusals: Vec<String> = permissions
            .refusals
            .iter()
            .map(ToString::to_string)
            .collect();
        return Err(LatencyError::Host {
            what: format!("no CPU is left to measure: {}", refusals.join("; ")),
        });
    }
    let start = other_load::Start::now();
    let load = load::Running::start(plan.load, &permissions.cpus, &plan.load_directory)?;
    let mut outcome = Outcome {
        measurements: Vec::new(),
        conditions: BTreeMap::new(),
        refusals: Vec::new(),
        is_complete: true,
    };
    for &measure in &plan.measures {
        if observer.stop() {
            outcome.is_complete = false;
            break;
        }
        observer.begins(measure);
        let before = permissions.refusals.len();
        measure_all(plan, &mut permissions, observer, measure, &mut outcome)?;
        if plan.is_strict && permissions.refusals.len() > before {
            outcome.is_complete = false;
            break;
        }
    }
    let rounds = load.end()?;
    outcome.conditions = conditions::of_run(plan, &permissions);
    outcome.conditions.extend(start.conditions());
    outcome
        .conditions
        .insert("complete".to_owned(), json!(outcome.is_complete));
    if plan.load != Load::Idle {
        outcome
            .conditions
            .insert("load_rounds".to_owned(), json!(rounds));
    }
    if plan.load == Load::Io {
        let directory = plan.load_directory.display().to_string();
        outcome
            .conditions
            .insert("load_directory".to_owned(), json!(directory));
    }
    outcome.refusals.clone_from(&permissions.refusals);
    Ok(outcome)
}

/// One measure, on all CPUs at once.
fn measure_all(
    plan: &Plan,
    permissions: &mut Permissions,
    observer: &dyn Observer,
    measure: Measure,
    outcome: &mut Outcome,
) -> Result<(), LatencyError> {
    let mut crew = Crew::new();
    let cpus = permissions.cpus.clone();
    for place in 0..cpus.len() {
        let cycle = Cycle::new(plan, place, cpus.len());
        let seat = Seat {
            cpu: cpus[place],
            // The next in the ring; on a single CPU, the same.
            waker_cpu: cpus[(place + 1) % cpus.len()],
            priority: permissions.priority,
        };
        match measure {
            Measure::Timer => seat.add_timer(&mut crew, cycle)?,
            Measure::FutexWake => seat.add_pair(&mut crew, cycle, wake::futex_ends())?,
            Measure::EventfdWake => {
                let ends = wake::eventfd_ends().map_err(|what| LatencyError::Host { what })?;
                seat.add_pair(&mut crew, cycle, ends)?;
            }
            Measure::ChannelWake => match observer.channel(seat.cpu) {
                Ok(ends) => seat.add_pair(&mut crew, cycle, ends)?,
                Err(why) => {
                    permissions.refusals.push(Refusal {
                        what: measure.metric().to_owned(),
                        why: format!(
                            "there is no channel to measure on ({why}), so it is left out"
                        ),
                        remedy: "choose another pool, or other measures",
                    });
                    return Ok(());
                }
            },
        }
    }
    // Stacks, histograms and channels are all there now.
    let was_locked = permissions.locks_memory();
    let locked = permissions.lock_again();
    if plan.is_strict && was_locked && !locked {
        // Nobody has begun: the threads are still at their gate, and go home.
        return Ok(());
    }
    let gathered = crew.run(limit(plan), &|| observer.stop())?;
    outcome.is_complete &= gathered.is_complete;
    let recorders = gathered.found.into_iter().flatten();
    for (place, recorder) in recorders.enumerate() {
        let mut own = BTreeMap::from([("memory_locked".to_owned(), json!(locked))]);
        if measure != Measure::Timer {
            own.insert(
                "waker_cpu".to_owned(),
                json!(cpus[(place + 1) % cpus.len()]),
            );
        }
        let case = format!("host/cpu{}/{}", cpus[place], plan.load.name());
        let measured = measurement(&case, measure, &recorder, own)?;
        outcome
            .measurements
            .extend(measured.map(|measured| Measurement {
                outliers: recorder.outliers.since(gathered.start_ns),
                ..measured
            }));
    }
    Ok(())
}

/// After this time a measure is ended with what it has.
fn limit(plan: &Plan) -> Duration {
    let planned = match plan.until {
        Until::Elapsed(time) => time,
        Until::Loops(loops) => {
            let loops = u32::try_from(loops).unwrap_or(u32::MAX);
            plan.interval
                .saturating_mul(loops)
                .saturating_mul(LOOPS_STRETCH)
        }
    };
    planned.saturating_add(GRACE)
}

/// Where the threads of one CPU's result sit.
#[derive(Clone, Copy, Debug)]
struct Seat {
    cpu: usize,
    waker_cpu: usize,
    priority: Option<u8>,
}

impl Seat {
    fn add_timer(self, crew: &mut Crew, cycle: Cycle) -> Result<(), LatencyError> {
        let recorder = Recorder::new()?;
        crew.add(&self.post("timer", self.cpu, self.priority), move |start| {
            timer::measure(recorder, cycle, start)
        })
    }

    fn add_pair(self, crew: &mut Crew, cycle: Cycle, ends: Ends) -> Result<(), LatencyError> {
        let recorder = Recorder::new()?;
        let (sleeper, waker) = ends;
        let between = Arc::new(wake::Between::default());
        let theirs = Arc::clone(&between);
        let post = self.post("sleep", self.cpu, self.priority);
        crew.add(&post, move |_| wake::sleep(sleeper, &theirs, recorder))?;
        // One below the sleeper, where there is one: on a single CPU the woken one runs at once.
        let below = self.priority.map(|priority| (priority - 1).max(1));
        crew.add(&self.post("wake", self.waker_cpu, below), move |start| {
            wake::wake(waker, &between, cycle, start)
        })
    }

    /// At most 15 bytes are kept of a name: `sleep/cpu1`.
    fn post(self, role: &str, cpu: usize, priority: Option<u8>) -> Post {
        Post {
            name: format!("{role}/cpu{}", self.cpu),
            cpu,
            priority,
        }
    }
}

/// None without samples: it was ended before the first.
fn measurement(
    case: &str,
    measure: Measure,
    recorder: &Recorder,
    mut conditions: BTreeMap<String, Value>,
) -> Result<Option<Measurement>, LatencyError> {
    if recorder.histogram.is_empty() {
        return Ok(None);
    }
    if recorder.missed > 0 {
        conditions.insert("missed".to_owned(), json!(recorder.missed));
    }
    if recorder.overflow > 0 {
        conditions.insert("overflow".to_owned(), json!(recorder.overflow));
        conditions.insert("overflow_max_ns".to_owned(), json!(recorder.max));
    }
    Measurement::of(case, measure.metric(), &recorder.histogram, conditions).map(Some)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::plan::tests::plan;
    use super::*;

    /// Its channels are futexes.
    #[derive(Default)]
    struct Alone {
        stops_at: Option<Measure>,
        begun: RefCell<Vec<Measure>>,
    }

    impl Observer for Alone {
        fn stop(&self) -> bool {
            self.begun
                .borrow()
                .last()
                .is_some_and(|last| Some(*last) == self.stops_at)
        }

        fn begins(&self, measure: Measure) {
            self.begun.borrow_mut().push(measure);
        }

        fn channel(&self, _cpu: usize) -> Result<Ends, String> {
            Ok(wake::futex_ends())
        }
    }

    fn measured(plan: &Plan, observer: &Alone) -> Outcome {
        run(plan, Permissions::ask(plan), observer).expect("ordinary threads")
    }

    #[test]
    fn every_measure_has_its_samples_for_every_cpu() {
        for load in [Load::Idle, Load::Switch] {
            let plan = Plan { load, ..plan() };
            let outcome = measured(&plan, &Alone::default());
            assert!(outcome.is_complete);
            assert_eq!(outcome.refusals, []);
            for measure in Measure::ALL {
                for cpu in &plan.cpus {
                    let case = format!("host/cpu{cpu}/{}", load.name());
                    let mut found = outcome.measurements.iter();
                    let found =
                        found.find(|found| found.case == case && found.metric == measure.metric());
                    let found = found.unwrap_or_else(|| panic!("{measure:?} {case}"));
                    // A wake-up whose forerunner was late is left out.
                    let wanted = if measure == Measure::Timer {
                        20..=20
                    } else {
                        1..=20
                    };
                    assert!(
                        wanted.contains(&found.count),
                        "{measure:?} {case}: {}",
                        found.count
                    );
                    assert!(found.min > 0 && found.samples().is_ok());
                    check_outliers(&plan, found);
                }
            }
            assert_eq!(outcome.conditions["load"], load.name());
            assert_eq!(outcome.conditions["scheduler"], "SCHED_OTHER");
            assert_eq!(outcome.conditions["clock"], "CLOCK_MONOTONIC");
        }
    }

    /// All samples of a short run are kept with their times, at which the plan has cycles.
    fn check_outliers(plan: &Plan, found: &Measurement) {
        let outliers = &found.outliers;
        assert_eq!(outliers.len() as u64, found.count);
        assert!(outliers.is_sorted_by_key(|outlier| outlier.at_ns));
        let values = outliers.iter().map(|outlier| outlier.value);
        let largest = values.max().unwrap_or_default();
        // The histogram rounds up.
        assert!(largest <= found.max && largest + largest / 500 >= found.max);
        let interval_ns = plan.interval.as_nanos() as u64;
        if found.metric == Measure::Timer.metric() {
            let third = interval_ns / 3;
            let is_planned = |at_ns| [0, third, third * 2].contains(&(at_ns % interval_ns));
            assert!(outliers.iter().all(|outlier| is_planned(outlier.at_ns)));
        }
    }

    #[test]
    fn stop_ends_it_with_the_results_so_far() {
        let plan = Plan {
            until: Until::Elapsed(Duration::from_secs(3600)),
            measures: vec![Measure::FutexWake, Measure::Timer],
            ..plan()
        };
        let observer = Alone {
            stops_at: Some(Measure::FutexWake),
            ..Alone::default()
        };
        let outcome = measured(&plan, &observer);
        assert!(!outcome.is_complete);
        assert_eq!(outcome.conditions["complete"], false);
        assert!(
            outcome
                .measurements
                .iter()
                .all(|found| found.metric == "futex_wake")
        );
        assert_eq!(*observer.begun.borrow(), [Measure::FutexWake]);
    }

    /// The first time, and for the first measure.
    fn lock_twice() -> Result<(), Refusal> {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        match ASKED.fetch_add(1, Ordering::Relaxed) % 3 {
            0 | 1 => Ok(()),
            _ => Err(Refusal {
                what: "mlockall".to_owned(),
                why: "the limit is reached".to_owned(),
                remedy: "raise it",
            }),
        }
    }

    #[test]
    fn what_is_refused_late_leaves_the_results_so_far() {
        let mut plan = Plan {
            lock_memory: true,
            measures: vec![Measure::Timer, Measure::FutexWake],
            ..plan()
        };
        for is_strict in [true, false] {
            plan.is_strict = is_strict;
            let permissions = Permissions::ask_with(&plan, lock_twice);
            let outcome = run(&plan, permissions, &Alone::default()).expect("the timer");
            assert_eq!(outcome.is_complete, !is_strict);
            assert_eq!(outcome.refusals.len(), 1);
            for found in &outcome.measurements {
                let locked = found.metric == "timer";
                assert_eq!(found.conditions["memory_locked"], locked, "{found:?}");
                assert!(locked || !is_strict, "{found:?}");
            }
            let metrics = if is_strict { 1 } else { 2 };
            assert_eq!(outcome.measurements.len(), metrics * plan.cpus.len());
        }
    }

    #[test]
    fn without_a_channel_the_rest_is_measured_and_the_reason_told() {
        struct NoPool;
        impl Observer for NoPool {
            fn stop(&self) -> bool {
                false
            }
            fn begins(&self, _measure: Measure) {}
            fn channel(&self, _cpu: usize) -> Result<Ends, String> {
                Err("no pool".to_owned())
            }
        }
        let plan = Plan {
            measures: vec![Measure::ChannelWake, Measure::Timer],
            ..plan()
        };
        let outcome = run(&plan, Permissions::ask(&plan), &NoPool).expect("the timer");
        assert!(
            outcome
                .measurements
                .iter()
                .all(|found| found.metric == "timer")
        );
        assert_eq!(outcome.measurements.len(), plan.cpus.len());
        let said = outcome.conditions["not_permitted"].to_string();
        assert!(
            said.contains("channel_wake") && said.contains("no pool"),
            "{said}"
        );
    }

    #[test]
    fn without_a_cpu_there_is_no_figure() {
        let plan = Plan {
            cpus: vec![1023],
            ..plan()
        };
        let error = run(&plan, Permissions::ask(&plan), &Alone::default()).expect_err("no CPU");
        assert!(error.to_string().contains("cpu1023"), "{error}");
    }
}
