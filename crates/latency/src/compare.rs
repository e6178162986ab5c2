//! Results of several runs side by side: what is comparable, ratios at each percentile, and the
//! conditions that differ.
//!
//! Refuses what would mislead. Never changes a figure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::LatencyError;
use crate::result::{BENCH, Document, Measurement, Ratio, SCHEMA};

/// Without these a result of this machine says nothing.
const REQUIRED_OF_HOST: [&str; 6] = [
    "clock",
    "load",
    "scheduler",
    "priority",
    "interval_us",
    "cpu_dma_latency_held",
];
/// And one of a board.
const REQUIRED_OF_BOARD: [&str; 6] = [
    "clock",
    "load",
    "tick_hz",
    "time_slicing",
    "stack_checks",
    "flags",
];
const CLOCK: &str = "clock";
/// Conditions without which equal programs give other figures: what differs among them is warned
/// of. The commit is not among them, since commits are what is compared.
const WARNED: [&str; 18] = [
    "cpu",
    "cpu count",
    "kernel",
    "load",
    LOAD_AVERAGE,
    STEAL_PERCENT,
    "scheduler",
    "priority",
    "interval_us",
    "cpu_dma_latency_held",
    "preemption",
    "clocksource",
    "rt_runtime_us",
    "virtual_machine",
    "tick_hz",
    "time_slicing",
    "stack_checks",
    "flags",
];
const LOAD_AVERAGE: &str = "load_average";
const STEAL_PERCENT: &str = "steal_percent";
/// Conditions that are measured, and by how much they vary between runs that count as alike: one
/// more program that runs, and one percent of the time.
const TOLERANCES: [(&str, f64); 2] = [(LOAD_AVERAGE, 1.0), (STEAL_PERCENT, 1.0)];
/// The figures of which ratios are given.
pub const FIGURES: [&str; 5] = ["min", "p50", "p99", "p99.9", "max"];

/// A result document and where it came from.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its file.
    pub name: String,
    /// What is in it.
    pub document: Document,
}

/// One metric in all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured.
    pub metric: String,
    /// For each run the case, [`FIGURES`] in nanoseconds, and the count.
    pub cells: Vec<Cell>,
}

/// One metric in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// `host/cpu0/idle`.
    pub case: String,
    /// In the order of [`FIGURES`].
    pub figures_ns: [u64; 5],
    /// Samples.
    pub count: u64,
    /// What this result depends on besides.
    pub conditions: BTreeMap<String, Value>,
}

impl Cell {
    /// By how much its figures are larger than those of another; none where the other's is 0.
    #[must_use]
    pub fn ratios_to(&self, other: &Self) -> [Option<f64>; 5] {
        std::array::from_fn(|at| {
            let (own, others) = (self.figures_ns[at], other.figures_ns[at]);
            (others > 0).then(|| own as f64 / others as f64)
        })
    }
}

/// One condition in all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Its name; machine and commit count as such.
    pub name: String,
    /// For each run; none where it says nothing of it.
    pub values: Vec<Option<Value>>,
}

impl Condition {
    /// Is it not the same everywhere? What is measured may vary a little; where a run does not say
    /// it, as those of before it was kept, it is not known to differ.
    #[must_use]
    pub fn differs(&self) -> bool {
        let tolerance = TOLERANCES.iter().find(|known| known.0 == self.name);
        let Some((_, tolerance)) = tolerance else {
            return self.values.iter().any(|value| *value != self.values[0]);
        };
        let known = self.values.iter().flatten().filter_map(Value::as_f64);
        let (least, most) = known.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
            (least.min(one), most.max(one))
        });
        most - least > *tolerance
    }

    /// For people: what it is in each run.
    fn spread(&self, runs: &[Run]) -> String {
        let each = runs.iter().zip(&self.values).map(|(run, value)| {
            let value = value.as_ref().map_or_else(|| "not known".to_owned(), text);
            format!("{} in {}", value, run.name)
        });
        format!("{}: {}", self.name, each.collect::<Vec<_>>().join(", "))
    }
}

/// Runs side by side; the first is what the others are compared with.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What all of them have.
    pub rows: Vec<Row>,
    /// Of the runs as a whole.
    pub conditions: Vec<Condition>,
    /// Results that have no counterpart, each with its file.
    pub left_out: Vec<String>,
    /// Why it would have been refused, had it not been forced.
    pub forced: Vec<String>,
}

/// Reads a document, and refuses one that nothing can be compared with.
///
/// # Errors
/// [`LatencyError::Compare`]: no result, one of another schema or command, without conditions, or
/// with histograms of another version.
pub fn read(name: &str, text: &str) -> Result<Run, LatencyError> {
    let document = parse(text).map_err(|what| LatencyError::Compare {
        file: name.to_owned(),
        what,
    })?;
    Ok(Run {
        name: name.to_owned(),
        document,
    })
}

fn parse(text: &str) -> Result<Document, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON document: {error}"))?;
    let said = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    match said("schema").as_deref() {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(format!(
                "its schema is `{other}`, this program compares `{SCHEMA}`: measure again, or take the program that wrote it"
            ));
        }
        None => {
            return Err(format!(
                "it names no schema: a latency result says `{SCHEMA}`"
            ));
        }
    }
    if let Some(other) = said("bench").filter(|bench| bench != BENCH) {
        return Err(format!(
            "it is a result of `{other}`; this compares results of hythe latency (hythe report draws both)"
        ));
    }
    let document: Document = serde_json::from_value(value)
        .map_err(|error| format!("it is not as `{SCHEMA}` says: {error}"))?;
    if document.results.is_empty() {
        return Err("it has no results".to_owned());
    }
    document
        .results
        .iter()
        .try_for_each(|result| check(&document, result))?;
    Ok(document)
}

fn check(document: &Document, result: &Measurement) -> Result<(), String> {
    let Measurement { case, metric, .. } = result;
    let required = if case.starts_with("host/") {
        REQUIRED_OF_HOST
    } else {
        REQUIRED_OF_BOARD
    };
    let missing: Vec<&str> = required
        .into_iter()
        .filter(|key| condition(document, result, key).is_none())
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "{case} {metric} comes without its conditions ({}): such a figure cannot be compared with anything",
            missing.join(", ")
        ));
    }
    let samples = result.samples().map_err(|error| error.to_string())?;
    if samples.len() != result.count {
        return Err(format!(
            "{case} {metric} says that it has {} samples, and its histogram has {}: it was changed or cut",
            result.count,
            samples.len()
        ));
    }
    let figures = figures_of(result);
    if !figures.is_sorted() {
        return Err(format!(
            "{case} {metric} has percentiles that do not rise: {figures:?}"
        ));
    }
    Ok(())
}

/// What a result depends on, by itself or with all of its run.
fn condition<'a>(document: &'a Document, result: &'a Measurement, key: &str) -> Option<&'a Value> {
    let own = result.conditions.get(key);
    own.or_else(|| document.conditions.get(key))
        .filter(|value| !value.is_null())
}

fn figures_of(result: &Measurement) -> [u64; 5] {
    [result.min, result.p50, result.p99, result.p999, result.max]
}

/// Puts runs side by side.
///
/// # Errors
/// [`LatencyError::NotComparable`]: emulated and real, differing clocks, and not forced; or nothing
/// that all have.
///
/// # Panics
/// Without a run.
pub fn compare(runs: &[Run], is_forced: bool) -> Result<Comparison, LatencyError> {
    let (first, others) = runs.split_first().expect("the caller has a run");
    let mut obstacles = emulated_and_real(first, others);
    let mut rows = Vec::new();
    let mut clocks: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut used: Vec<BTreeSet<usize>> = runs.iter().map(|_| BTreeSet::new()).collect();
    for (at, result) in first.document.results.iter().enumerate() {
        let found: Option<Vec<usize>> = others
            .iter()
            .map(|other| counterpart(first, at, other))
            .collect();
        let Some(found) = found else { continue };
        let mut cells = vec![cell(result)];
        used[0].insert(at);
        for (number, (other, place)) in others.iter().zip(found).enumerate() {
            let partner = &other.document.results[place];
            if let Some(differing) = differing_clocks((first, result), (other, partner)) {
                clocks.entry(differing).or_default().insert(&result.metric);
            }
            cells.push(cell(partner));
            used[number + 1].insert(place);
        }
        rows.push(Row {
            metric: result.metric.clone(),
            cells,
        });
    }
    if rows.is_empty() {
        return Err(nothing_in_common(runs));
    }
    obstacles.extend(clocks.into_iter().map(|(differing, metrics)| {
        let metrics: Vec<&str> = metrics.into_iter().collect();
        format!("{differing} ({})", metrics.join(", "))
    }));
    let forced: Vec<String> = obstacles.into_iter().collect();
    if !forced.is_empty() && !is_forced {
        return Err(LatencyError::NotComparable {
            what: forced.join("; "),
        });
    }
    Ok(Comparison {
        rows,
        conditions: conditions(runs),
        left_out: left_out(runs, &used),
        forced,
    })
}

fn emulated_and_real(first: &Run, others: &[Run]) -> BTreeSet<String> {
    let kind = |run: &Run| match run.document.machine.emulated {
        true => "emulated",
        false => "real",
    };
    let differing = others.iter().filter(|other| kind(other) != kind(first));
    differing
        .map(|other| {
            let (one, another) = (kind(first), kind(other));
            format!("{} is {one} and {} is {another}", first.name, other.name)
        })
        .collect()
}

fn nothing_in_common(runs: &[Run]) -> LatencyError {
    let each = runs
        .iter()
        .map(|run| format!("{} has {}", run.name, names(run)));
    let each: Vec<String> = each.collect();
    LatencyError::Compare {
        file: runs[0].name.clone(),
        what: format!(
            "none of its results has one counterpart in each other file: {}",
            each.join("; ")
        ),
    }
}

fn names(run: &Run) -> String {
    let names = run
        .document
        .results
        .iter()
        .map(|result| format!("{} {}", result.case, result.metric));
    names.collect::<Vec<_>>().join(", ")
}

fn cell(result: &Measurement) -> Cell {
    Cell {
        case: result.case.clone(),
        figures_ns: figures_of(result),
        count: result.count,
        conditions: result.conditions.clone(),
    }
}

/// The one result of `other` that is the same metric and the nearest case, if the result `at` is
/// its nearest, too.
fn counterpart(first: &Run, at: usize, other: &Run) -> Option<usize> {
    let there = nearest((first, &first.document.results[at]), other)?;
    let back = nearest((other, &other.document.results[there]), first)?;
    (back == at).then_some(there)
}

/// The nearest of `other`; none if several are as near.
fn nearest((run, result): (&Run, &Measurement), other: &Run) -> Option<usize> {
    let clock = condition(&run.document, result, CLOCK);
    let nearness = |candidate: &Measurement| {
        let parts = candidate.case.split('/').zip(result.case.split('/'));
        let same_parts = parts.filter(|(one, another)| one == another).count();
        let same_clock = condition(&other.document, candidate, CLOCK) == clock;
        // The clock only decides between results that are equally near: that it differs shall be
        // seen, not avoided.
        (candidate.case == result.case, same_parts, same_clock)
    };
    let candidates = other.document.results.iter().enumerate();
    let mut candidates: Vec<_> = candidates
        .filter(|(_, candidate)| candidate.metric == result.metric)
        .map(|(place, candidate)| (nearness(candidate), place))
        .collect();
    candidates.sort_unstable_by(|one, another| another.cmp(one));
    match candidates.as_slice() {
        [(best, _), (second, _), ..] if best == second => None,
        [(_, place), ..] => Some(*place),
        [] => None,
    }
}

fn differing_clocks(
    (first, one): (&Run, &Measurement),
    (other, another): (&Run, &Measurement),
) -> Option<String> {
    let clock = |run: &Run, result: &Measurement| {
        let clock = condition(&run.document, result, CLOCK).map(text);
        clock.unwrap_or_default()
    };
    let (own, theirs) = (clock(first, one), clock(other, another));
    (own != theirs).then(|| {
        format!(
            "{} is timed by the clock `{own}` and {} by `{theirs}`",
            first.name, other.name
        )
    })
}

/// A value without the quotation marks of JSON.
#[must_use]
pub fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Of the runs as a whole, machine first.
fn conditions(runs: &[Run]) -> Vec<Condition> {
    let of_machine = |name: &str, value: fn(&Document) -> Value| Condition {
        name: name.to_owned(),
        values: runs.iter().map(|run| Some(value(&run.document))).collect(),
    };
    let mut conditions = vec![
        of_machine("commit", |run| run.commit.clone().into()),
        of_machine("cpu", |run| run.machine.cpu.clone().into()),
        of_machine("cpu count", |run| run.machine.cpus.into()),
        of_machine("kernel", |run| run.machine.kernel.clone().into()),
        of_machine("emulated", |run| run.machine.emulated.into()),
    ];
    let keys: BTreeSet<&String> = runs
        .iter()
        .flat_map(|run| run.document.conditions.keys())
        .collect();
    conditions.extend(keys.into_iter().map(|key| {
        Condition {
            name: key.clone(),
            values: runs
                .iter()
                .map(|run| run.document.conditions.get(key).cloned())
                .collect(),
        }
    }));
    conditions
}

fn left_out(runs: &[Run], used: &[BTreeSet<usize>]) -> Vec<String> {
    let mut left_out = Vec::new();
    for (run, used) in runs.iter().zip(used) {
        for (place, result) in run.document.results.iter().enumerate() {
            if !used.contains(&place) {
                left_out.push(format!("{}: {} {}", run.name, result.case, result.metric));
            }
        }
    }
    left_out
}

impl Comparison {
    /// The conditions that change figures by themselves and are not the same in all runs, each with
    /// its values: a ratio may come from one of them.
    #[must_use]
    pub fn warnings(&self, runs: &[Run]) -> Vec<String> {
        let of_run = self.conditions.iter();
        of_run
            .filter(|condition| WARNED.contains(&condition.name.as_str()) && condition.differs())
            .map(|condition| condition.spread(runs))
            .collect()
    }

    /// The ratios as a result document lists them, of each run to the first.
    #[must_use]
    pub fn ratios(&self, runs: &[Run]) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for row in &self.rows {
            let (first, others) = (&row.cells[0], &row.cells[1..]);
            for (cell, run) in others.iter().zip(&runs[1..]) {
                let each = FIGURES.iter().zip(cell.ratios_to(first));
                ratios.extend(each.filter_map(|(figure, value)| {
                    let name = format!(
                        "{}/{} {} {} {figure}",
                        run.name, runs[0].name, first.case, row.metric
                    );
                    Some(Ratio {
                        name,
                        value: value?,
                    })
                }));
            }
        }
        ratios
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::result::tests::document;

    use super::*;

    /// A run of this machine: the timer on two CPUs.
    fn host(name: &str, load: &str, change: impl Fn(&mut Document)) -> Run {
        let mut document = document();
        let conditions = [
            ("clock", json!("CLOCK_MONOTONIC")),
            ("load", json!(load)),
            ("scheduler", json!("SCHED_FIFO")),
            ("priority", json!(80)),
            ("interval_us", json!(1000)),
            ("cpu_dma_latency_held", json!(true)),
        ];
        document.conditions = conditions
            .map(|(key, value)| (key.to_owned(), value))
            .into();
        for (cpu, result) in document.results.iter_mut().enumerate() {
            result.metric = "timer".to_owned();
            result.case = format!("host/cpu{cpu}/{load}");
        }
        change(&mut document);
        let text = serde_json::to_string(&document).expect("plain");
        read(name, &text).expect("good")
    }

    fn refused(change: impl Fn(&mut Value)) -> String {
        let mut value = serde_json::to_value(host("x", "idle", |_| {}).document).expect("plain");
        change(&mut value);
        read("B.json", &value.to_string())
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn comparison_uses_nearest_case_and_lists_conditions() {
        let (idle, hog) = (
            host("A.json", "idle", |_| {}),
            host("B.json", "hog", |run| {
                run.results[1].max *= 4;
                run.results.swap(0, 1);
            }),
        );
        let runs = [idle, hog];
        let comparison = compare(&runs, false).expect("comparable");
        let cases: Vec<[&str; 2]> = comparison
            .rows
            .iter()
            .map(|row| [row.cells[0].case.as_str(), row.cells[1].case.as_str()])
            .collect();
        assert_eq!(
            cases,
            [
                ["host/cpu0/idle", "host/cpu0/hog"],
                ["host/cpu1/idle", "host/cpu1/hog"]
            ]
        );
        let [first, second] = &comparison.rows[1].cells[..] else {
            panic!("two runs")
        };
        assert_eq!(
            second.ratios_to(first),
            [Some(1.0), Some(1.0), Some(1.0), Some(1.0), Some(4.0)]
        );
        let load = comparison
            .conditions
            .iter()
            .find(|condition| condition.name == "load")
            .expect("there");
        assert!(load.differs());
        assert_eq!(load.values, [Some(json!("idle")), Some(json!("hog"))]);
        assert!(!comparison.conditions[0].differs());
        assert!(comparison.left_out.is_empty() && comparison.forced.is_empty());
        let ratios = comparison.ratios(&runs);
        assert_eq!(ratios.len(), 10);
        assert_eq!(ratios[9].name, "B.json/A.json host/cpu1/idle timer max");
    }

    #[test]
    fn comparison_warns_of_differing_conditions() {
        let run = |name, kernel: &str, load_average: Option<f64>, steal_percent: f64| {
            host(name, "idle", |run| {
                run.machine.kernel = kernel.to_owned();
                run.commit = name.to_owned();
                let average = load_average.map_or(Value::Null, |average| json!(average));
                let measured = [
                    (LOAD_AVERAGE, average),
                    (STEAL_PERCENT, json!(steal_percent)),
                ];
                let measured = measured.map(|(key, value)| (key.to_owned(), value));
                run.conditions.extend(measured);
            })
        };
        let warnings = |runs: &[Run]| compare(runs, false).expect("comparable").warnings(runs);
        let one = run("A.json", "6.1", Some(0.2), 0.0);
        let alike = run("B.json", "6.1", Some(0.9), 0.4);
        assert!(warnings(&[one.clone(), alike]).is_empty());
        let unknown = run("B.json", "6.1", None, 0.0);
        assert!(warnings(&[one.clone(), unknown]).is_empty());
        let other = run("B.json", "6.8", Some(7.5), 12.0);
        assert_eq!(
            warnings(&[one, other]),
            [
                "kernel: 6.1 in A.json, 6.8 in B.json",
                "load_average: 0.2 in A.json, 7.5 in B.json",
                "steal_percent: 0.0 in A.json, 12.0 in B.json",
            ]
        );
    }

    #[test]
    fn what_has_no_counterpart_or_several_is_named() {
        let one = host("A.json", "idle", |run| run.results.truncate(1));
        let other = host("B.json", "idle", |run| {
            run.results[1].metric = "futex_wake".to_owned()
        });
        let comparison = compare(&[one.clone(), other], false).expect("comparable");
        assert_eq!(comparison.left_out, ["B.json: host/cpu1/idle futex_wake"]);
        // Neither CPU is nearer to the third than the other.
        let elsewhere = host("C.json", "hog", |run| {
            run.results.truncate(1);
            run.results[0].case = "host/cpu9/hog".to_owned();
        });
        let two = host("D.json", "hog", |_| {});
        let said = compare(&[elsewhere, two], false)
            .expect_err("no pair")
            .to_string();
        assert!(
            said.contains("counterpart") && said.contains("host/cpu9/hog"),
            "{said}"
        );
    }

    #[test]
    fn comparison_refuses_emulated_with_real_unless_forced() {
        let real = host("A.json", "idle", |_| {});
        let emulated = host("B.json", "idle", |run| run.machine.emulated = true);
        let otherwise = host("C.json", "idle", |run| {
            run.results[0]
                .conditions
                .insert("clock".to_owned(), json!("instructions"));
        });
        for (other, word) in [
            (emulated, "B.json is emulated"),
            (otherwise, "C.json by `instructions` (timer)"),
        ] {
            let runs = [real.clone(), other];
            let said = compare(&runs, false).expect_err("refused").to_string();
            assert!(said.contains(word), "{said}");
            let forced = compare(&runs, true).expect("forced");
            assert!(forced.forced[0].contains(word), "{:?}", forced.forced);
        }
    }

    #[test]
    fn one_metric_by_two_clocks_is_compared_clock_by_clock() {
        let both = |name, swap| {
            host(name, "idle", move |run| {
                for (result, clock) in run.results.iter_mut().zip(["inside", "outside"]) {
                    result.case = "host/cpu0/idle".to_owned();
                    result.conditions.insert("clock".to_owned(), json!(clock));
                }
                if swap {
                    run.results.swap(0, 1);
                }
            })
        };
        let comparison =
            compare(&[both("A.json", false), both("B.json", true)], false).expect("comparable");
        for row in &comparison.rows {
            assert_eq!(row.cells[0].conditions, row.cells[1].conditions);
        }
        assert_eq!(comparison.rows.len(), 2);
    }

    #[test]
    fn what_is_no_comparable_result_is_named_with_its_file() {
        for (said, word) in [
            (
                refused(|value| value["schema"] = json!("hythe.result/2")),
                "`hythe.result/2`",
            ),
            (
                refused(|value| value["schema"] = json!(1)),
                "names no schema",
            ),
            (refused(|value| value["bench"] = json!("ipc")), "`ipc`"),
            (refused(|value| value["results"] = json!([])), "no results"),
            (
                refused(|value| value["results"][0]["p99"] = json!("x")),
                "not as `hythe.result/1` says",
            ),
            (
                refused(|value| value["results"][0]["p99"] = json!(1)),
                "do not rise",
            ),
            (
                refused(|value| value["results"][0]["count"] = json!(7)),
                "its histogram has 1000",
            ),
            (
                refused(|value| value["results"][1]["histogram"] = json!("AAAA")),
                "another version",
            ),
            (
                refused(|value| value["conditions"]["clock"] = Value::Null),
                "without its conditions (clock)",
            ),
            (
                refused(|value| value["conditions"] = json!({})),
                "without its conditions (clock, load, scheduler",
            ),
            (
                refused(|value| value["results"][0]["case"] = json!("virt-a57/none/idle")),
                "(tick_hz, time_slicing",
            ),
        ] {
            assert!(
                said.starts_with("B.json: ") && said.contains(word),
                "no {word} in {said}"
            );
        }
        let said = read("B.json", "{").expect_err("cut").to_string();
        assert!(
            said.contains("B.json") && said.contains("no JSON"),
            "{said}"
        );
    }
}
