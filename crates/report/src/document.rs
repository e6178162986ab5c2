//! A result document, `hythe.result/1`, read and checked: a figure that cannot be is refused, not
//! drawn.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hythe_latency::result::Outlier;
use hythe_sys::regular_file::read_regular_text;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ReportError;
use crate::units;

const SCHEMA: &str = "hythe.result/1";
/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 20;
/// Most outliers of one result: four times as many as are kept.
const OUTLIERS_MAX: usize = 1024;

/// One run of one scenario.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    /// Where it was found.
    #[serde(skip)]
    pub(super) path: PathBuf,
    pub(super) bench: String,
    pub(super) command: String,
    pub(super) commit: String,
    pub(super) machine: Machine,
    pub(super) results: Vec<Measurement>,
    #[serde(default)]
    pub(super) ratios: Vec<Ratio>,
    #[serde(default)]
    pub(super) conditions: Map<String, Value>,
}

/// Where it ran.
#[derive(Debug, Deserialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cpus: u64,
    pub(super) kernel: String,
    pub(super) emulated: bool,
}

/// One case at one size, with times or one figure.
#[derive(Debug, Deserialize)]
pub(super) struct Measurement {
    pub(super) case: String,
    pub(super) size_bytes: Option<u64>,
    pub(super) metric: String,
    pub(super) unit: Option<String>,
    pub(super) count: Option<u64>,
    min: Option<u64>,
    p50: Option<u64>,
    p99: Option<u64>,
    p999: Option<u64>,
    max: Option<u64>,
    pub(super) value: Option<f64>,
    pub(super) seconds: Option<f64>,
    /// Time of a CPU for each packet, of a case that sends packets: the median, and the 99th
    /// percentile of the repetitions.
    pub(super) cpu_ns_per_packet: Option<f64>,
    pub(super) cpu_ns_per_packet_p99: Option<f64>,
    /// Calls that were paced, at once.
    pub(super) calls: Option<u64>,
    /// Base64 of an HdrHistogram V2 with all samples.
    histogram: Option<String>,
    /// The largest samples with their times, where whoever measured kept them.
    #[serde(default)]
    pub(super) outliers: Vec<Outlier>,
    /// How far their times can reach, where that is known.
    pub(super) lasted_ns: Option<u64>,
    /// What this result depends on besides.
    #[serde(default)]
    pub(super) conditions: Map<String, Value>,
    /// How often a sample left the guest for the hypervisor.
    pub(super) exits: Option<f64>,
    #[serde(flatten)]
    pub(super) sending: Sending,
}

impl Measurement {
    /// `, 8 ports`, `, 2 cores`: who shared what was measured. Nothing where nobody did.
    pub(super) fn sharing(&self) -> String {
        let count = |what| self.conditions.get(what).and_then(Value::as_u64);
        let named = [("ports", count("ports")), ("cores", count("cores"))];
        let shared = named
            .into_iter()
            .filter_map(|(what, count)| Some((what, count.filter(|&count| count > 1)?)));
        shared
            .map(|(what, count)| format!(", {count} {what}"))
            .collect()
    }
}

/// How much is sent, where packets are.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Sending {
    /// To each destination.
    pub(super) packets: Option<u64>,
    pub(super) destinations: Option<u64>,
}

impl Sending {
    /// `, 10000 packets to 16`; nothing where none are.
    pub(super) fn suffix(self) -> String {
        match (self.packets, self.destinations) {
            (Some(packets), Some(destinations)) => {
                format!(", {packets} packets to {destinations}")
            }
            _ => String::new(),
        }
    }
}

/// Percentiles, in the measurement's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) min: u64,
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) p999: u64,
    pub(super) max: u64,
}

/// One figure by another.
#[derive(Debug, Deserialize)]
pub(super) struct Ratio {
    pub(super) name: String,
    pub(super) size_bytes: Option<u64>,
    pub(super) value: f64,
    #[serde(flatten)]
    pub(super) sending: Sending,
}

/// Reads a document.
pub(super) fn read(path: &Path) -> Result<Document, ReportError> {
    let text = read_regular_text(path, BYTES_MAX).map_err(|source| ReportError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut document = parse(&text).map_err(|refusal| refusal.of(path))?;
    path.clone_into(&mut document.path);
    Ok(document)
}

/// Why a text is no result, before it is known which file it is from.
#[derive(Debug)]
enum Refusal {
    NoSchema,
    Reason(String),
}

impl Refusal {
    fn of(self, path: &Path) -> ReportError {
        let path = path.to_owned();
        match self {
            Self::NoSchema => ReportError::NoSchema {
                path,
                expected: SCHEMA,
            },
            Self::Reason(reason) => ReportError::Document { path, reason },
        }
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

fn parse(text: &str) -> Result<Document, Refusal> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON document: {error}"))?;
    match value.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => {
            let reason = format!("its schema is `{other}`; this program reads `{SCHEMA}`");
            return Err(reason.into());
        }
        None => return Err(Refusal::NoSchema),
    }
    let document: Document = serde_json::from_value(value)
        .map_err(|error| format!("it is not as `{SCHEMA}` says: {error}"))?;
    for measurement in &document.results {
        measurement.check()?;
    }
    Ok(document)
}

impl Measurement {
    /// The percentiles, of a measurement that has them.
    pub(super) fn times(&self) -> Option<Times> {
        Some(Times {
            min: self.min?,
            p50: self.p50?,
            p99: self.p99?,
            p999: self.p999?,
            max: self.max?,
        })
    }

    /// Who was measured, and how: `hythe/poll/untouched` is `hythe` and `poll/untouched`.
    pub(super) fn system_and_way(&self) -> (&str, &str) {
        self.case.split_once('/').unwrap_or((&self.case, ""))
    }

    /// All samples, where they are there.
    pub(super) fn histogram(&self) -> Option<Result<Histogram<u64>, String>> {
        let text = self.histogram.as_deref()?;
        let decoded = STANDARD
            .decode(text)
            .map_err(|error| format!("is no base64: {error}"));
        let read = decoded.and_then(|bytes| {
            let read = Deserializer::new().deserialize(&mut &bytes[..]);
            read.map_err(|error| format!("is no HdrHistogram V2: {error:?}"))
        });
        Some(read.map_err(|why| format!("the histogram of case {} {why}", self.case)))
    }

    /// What it depends on besides: `memory locked: true`. The clock is said elsewhere.
    pub(super) fn own_conditions(&self) -> Vec<String> {
        let own = self.conditions.iter();
        let own = own.filter(|(name, _)| *name != "clock");
        let own = own.map(|(name, value)| format!("{}: {}", name.replace('_', " "), plain(value)));
        let exits = self.exits;
        let exits = exits.map(|exits| format!("exits per sample: {exits:.4}"));
        own.chain(exits).collect()
    }

    /// Does it have all samples?
    pub(super) fn has_histogram(&self) -> bool {
        self.histogram.is_some()
    }

    /// Has the other the same samples?
    pub(super) fn is_same_histogram(&self, other: &Self) -> bool {
        self.histogram.is_some() && self.histogram == other.histogram
    }

    fn check(&self) -> Result<(), String> {
        let case = &self.case;
        let given = [self.min, self.p50, self.p99, self.p999, self.max];
        let some = given.iter().flatten().count();
        if some != 0 && some != given.len() {
            return Err(format!(
                "case {case} has {some} of min, p50, p99, p999 and max: it must have all or none"
            ));
        }
        if !given.is_sorted() {
            return Err(format!(
                "case {case} has percentiles that do not rise: {given:?}"
            ));
        }
        if some == 0 && self.value.is_none() && self.seconds.is_none() {
            return Err(format!("case {case} has neither percentiles nor a value"));
        }
        self.check_outliers()
    }

    fn check_outliers(&self) -> Result<(), String> {
        let (case, kept) = (&self.case, self.outliers.len());
        let count = self.count.unwrap_or(u64::MAX);
        if kept > OUTLIERS_MAX || kept as u64 > count {
            return Err(format!(
                "case {case} has {kept} outliers: no more than its {count} samples can be, and no more than {OUTLIERS_MAX}"
            ));
        }
        let values = self.outliers.iter().map(|outlier| outlier.value);
        let largest = values.max().unwrap_or(0);
        let max = self.max.unwrap_or(u64::MAX);
        if largest > max && !self.conditions.contains_key("overflow") {
            return Err(format!(
                "case {case} has an outlier of {largest}, above its maximum of {max}"
            ));
        }
        let ends = self.outliers.iter();
        let ends = ends.map(|outlier| outlier.at_ns.saturating_add(outlier.value));
        let (end, lasted) = (ends.max().unwrap_or(0), self.lasted_ns);
        if let Some(lasted) = lasted.filter(|lasted| *lasted < end) {
            return Err(format!(
                "case {case} has an outlier that ends {end} ns after the start, and lasted {lasted} ns"
            ));
        }
        Ok(())
    }
}

impl Document {
    /// The error that its file cannot be used.
    pub(super) fn refused(&self, reason: String) -> ReportError {
        ReportError::Document {
            path: self.path.clone(),
            reason,
        }
    }

    /// Where its path says nothing more.
    pub(super) fn file_name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

impl Display for Machine {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let cpus = units::counted(self.cpus, "CPU");
        write!(formatter, "{}, {cpus}, Linux {}", self.cpu, self.kernel)
    }
}

/// A condition as people read it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A small run: two systems at two sizes, and a rate.
    pub(crate) fn small() -> Value {
        let times = |case, size_bytes: u64, p50: u64| {
            json!({"case": case, "size_bytes": size_bytes, "metric": "round_trip", "unit": "ns", "count": 10,
                "min": p50 / 2, "p50": p50, "p99": p50 * 2, "p999": p50 * 3, "max": p50 * 9})
        };
        json!({
            "schema": SCHEMA, "bench": "ipc", "command": "hythe bench ipc --json", "commit": "abc<def",
            "machine": {"cpu": "A & B", "cpus": 2, "kernel": "6.1", "emulated": false},
            "results": [
                times("floor/poll/untouched", 64, 200), times("floor/poll/untouched", 4096, 210),
                times("hythe/poll/untouched", 64, 400), times("hythe/poll/untouched", 4096, 410),
                {"case": "hythe/poll/single", "metric": "rate", "unit": "msg/s", "size_bytes": 64, "value": 5e6},
            ],
            "ratios": [{"name": "hythe/floor poll untouched p50", "size_bytes": 64, "value": 2.0}],
            "conditions": {"rounds": 5, "pinned": [0, 1]}
        })
    }

    pub(crate) fn parsed(value: &Value) -> Result<Document, String> {
        read(&value.to_string())
    }

    /// Of scenario `bench`, with a row for each case, metric, size and time, which is all of its
    /// figures.
    pub(crate) fn of_times(bench: &str, times: &[(&str, &str, u64, u64)]) -> Document {
        let row = |&(case, metric, size_bytes, time): &(&str, &str, u64, u64)| {
            json!({"case": case, "size_bytes": size_bytes, "metric": metric, "unit": "ns",
                "count": 10, "min": time, "p50": time, "p99": time, "p999": time, "max": time})
        };
        let mut document = small();
        document["bench"] = bench.into();
        document["results"] = times.iter().map(row).collect();
        parsed(&document).expect("good")
    }

    fn read(text: &str) -> Result<Document, String> {
        parse(text).map_err(|refusal| refusal.of(Path::new("run.json")).to_string())
    }

    fn changed(pointer: &str, new: Value) -> String {
        let mut document = small();
        *document.pointer_mut(pointer).expect("there") = new;
        parsed(&document).expect_err(pointer)
    }

    #[test]
    fn result_is_read() {
        let document = parsed(&small()).expect("good");
        let first = &document.results[0];
        assert_eq!(first.system_and_way(), ("floor", "poll/untouched"));
        assert_eq!(first.times().map(|times| times.p999), Some(600));
        assert_eq!(document.results[4].times(), None);
    }

    #[test]
    fn outliers_that_cannot_be_are_refused() {
        let late = |value: u64| json!({"at_ns": 5, "value": value});
        let with = |outliers: Vec<Value>| {
            let mut document = small();
            document["results"][0]["outliers"] = json!(outliers);
            document
        };
        let good = parsed(&with(vec![late(1800); 10])).expect("ten of ten samples");
        assert_eq!(good.results[0].outliers.len(), 10);
        let said = parsed(&with(vec![late(1800); 11])).expect_err("eleven");
        assert!(
            said.contains("11 outliers") && said.contains("10 samples"),
            "{said}"
        );
        let mut above = with(vec![late(1801)]);
        let said = parsed(&above).expect_err("above the maximum");
        assert!(said.contains("1801") && said.contains("1800"), "{said}");
        above["results"][0]["conditions"] = json!({"overflow": 1});
        assert!(parsed(&above).is_ok(), "the histogram had an end");
        let mut lasting = with(vec![late(1795)]);
        lasting["results"][0]["lasted_ns"] = json!(1800);
        assert!(parsed(&lasting).is_ok());
        lasting["results"][0]["lasted_ns"] = json!(1799);
        let said = parsed(&lasting).expect_err("after its end");
        assert!(said.contains("1799") && said.contains("1800"), "{said}");
    }

    #[test]
    fn what_is_no_result_is_refused_with_the_reason() {
        assert!(changed("/schema", json!("hythe.result/2")).contains("hythe.result/2"));
        assert!(changed("/schema", json!(1)).contains("names no schema"));
        assert!(changed("/results/0/p99", json!(1)).contains("do not rise"));
        assert!(changed("/results/0/p99", Value::Null).contains("4 of min"));
        assert!(changed("/results/4/value", Value::Null).contains("neither"));
        assert!(changed("/results/4/value", json!("fast")).contains("hythe.result/1"));
        assert!(changed("/machine", json!({})).contains("cpu"));
        assert!(read("{").expect_err("cut").contains("no JSON"));
        assert!(read("[]").expect_err("a list").contains("names no schema"));
    }

    #[test]
    fn who_shared_is_named() {
        let mut value = small();
        value["results"][0]["conditions"] = json!({"ports": 8, "cores": 1});
        value["results"][1]["conditions"] = json!({"ports": 1, "cores": 2});
        let document = parsed(&value).expect("good");
        let named = [0, 1, 2].map(|place: usize| document.results[place].sharing());
        assert_eq!(named, [", 8 ports", ", 2 cores", ""]);
    }
}
