//! The result document of latency runs, `hythe.result/1`: written by every run, read by `compare`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::LatencyError;

/// What a document calls itself.
pub const SCHEMA: &str = "hythe.result/1";
/// What it calls the runs of this crate.
pub const BENCH: &str = "latency";

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`BENCH`].
    pub bench: String,
    /// The command line.
    pub command: String,
    /// Of the sources; "unknown" where there are none.
    pub commit: String,
    /// Where it ran.
    pub machine: Machine,
    /// One for each metric and clock.
    pub results: Vec<Measurement>,
    /// One figure by another.
    #[serde(default)]
    pub ratios: Vec<Ratio>,
    /// What all results depend on.
    pub conditions: BTreeMap<String, Value>,
}

/// Where a run was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the CPU.
    pub cpu: String,
    /// How many of them.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Times are those of an emulator.
    pub emulated: bool,
}

/// One latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `BOARD/CONFIGURATION/LOAD`, or `host/CPU…/LOAD`.
    pub case: String,
    /// What was measured.
    pub metric: String,
    /// `ns`.
    pub unit: String,
    /// Samples.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// Half of all samples are no larger.
    pub p50: u64,
    /// 99 % of them.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The largest.
    pub max: u64,
    /// Every sample: base64 of a compressed HdrHistogram V2.
    pub histogram: String,
    /// What this result depends on, besides.
    #[serde(default)]
    pub conditions: BTreeMap<String, Value>,
    /// How often a sample left the guest for the hypervisor, on average, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits: Option<f64>,
    /// The largest samples in the order of time, where whoever measured saw times: 256 at most, and
    /// of equal ones all or none (the first alone, if more than that are the largest). A core keeps
    /// a histogram only; who times it from outside keeps these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outliers: Vec<Outlier>,
    /// From the start of the measure to the end of its last sample, in nanoseconds of the same
    /// clock: how far times of outliers can reach. Known where all of its samples were seen with
    /// their times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted_ns: Option<u64>,
}

/// A sample with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlier {
    /// From the start of the measure to the instant from which it was late, in nanoseconds of the
    /// clock of its value. Seen from outside, a measure starts with its first edge, or with that
    /// behind which its timer is programmed.
    pub at_ns: u64,
    /// The sample itself, exactly: the histogram rounds up by at most 0.1 %.
    pub value: u64,
}

/// One figure by another, of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// What by what.
    pub name: String,
    /// The quotient.
    pub value: f64,
}

impl Measurement {
    /// Of a histogram of nanoseconds.
    ///
    /// # Errors
    /// [`LatencyError::Encoding`]: it cannot be written, which no histogram of this crate is too
    /// large for.
    pub fn of(
        case: &str,
        metric: &str,
        histogram: &Histogram<u64>,
        conditions: BTreeMap<String, Value>,
    ) -> Result<Self, LatencyError> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Ok(Self {
            case: case.to_owned(),
            metric: metric.to_owned(),
            unit: "ns".to_owned(),
            count: histogram.len(),
            min: histogram.min(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
            histogram: encode(histogram)?,
            conditions,
            exits: None,
            outliers: Vec::new(),
            lasted_ns: None,
        })
    }

    /// Its samples.
    ///
    /// # Errors
    /// [`LatencyError::Encoding`]: the text is no histogram, or one of another version.
    pub fn samples(&self) -> Result<Histogram<u64>, LatencyError> {
        decode(&self.histogram).map_err(|what| LatencyError::Encoding {
            metric: self.metric.clone(),
            what,
        })
    }
}

fn encode(histogram: &Histogram<u64>) -> Result<String, LatencyError> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| LatencyError::Encoding {
            metric: "a run".to_owned(),
            what: format!("{error:?}"),
        })?;
    Ok(STANDARD.encode(bytes))
}

fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    // Compressed or not: both are V2.
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| format!("{error:?}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 10 to 10000 ns in steps of 10, twice.
    pub(crate) fn document() -> Document {
        let other = Measurement {
            metric: "semaphore".to_owned(),
            ..measurement()
        };
        Document {
            schema: SCHEMA.to_owned(),
            bench: BENCH.to_owned(),
            command: "hythe latency board hosted --json".to_owned(),
            commit: "abc".to_owned(),
            machine: Machine {
                cpu: "A CPU".to_owned(),
                cpus: 2,
                kernel: "6.1".to_owned(),
                emulated: false,
            },
            results: vec![measurement(), other],
            ratios: Vec::new(),
            conditions: BTreeMap::new(),
        }
    }

    fn measurement() -> Measurement {
        let mut histogram = Histogram::new(3).expect("valid");
        for value in 1..=1000_u64 {
            histogram.record(value * 10).expect("resizes");
        }
        Measurement::of(
            "hosted/none/idle",
            "task_switch",
            &histogram,
            BTreeMap::new(),
        )
        .expect("small")
    }

    #[test]
    fn samples_survive_the_document() {
        let mut measurement = measurement();
        assert_eq!((measurement.count, measurement.min), (1000, 10));
        let text = serde_json::to_string(&measurement).expect("plain");
        for absent in ["outliers", "lasted_ns"] {
            assert!(!text.contains(absent), "none were kept");
        }
        measurement.lasted_ns = Some(10_007);
        measurement.outliers = vec![Outlier {
            at_ns: 7,
            value: 10_000,
        }];
        let text = serde_json::to_string(&measurement).expect("plain");
        let read: Measurement = serde_json::from_str(&text).expect("its own");
        assert_eq!(read, measurement);
        let samples = read.samples().expect("its own");
        assert_eq!(samples.len(), 1000);
        assert_eq!(samples.value_at_quantile(0.99), measurement.p99);
    }

    #[test]
    fn what_is_no_histogram_is_named() {
        for text in ["", "AAAA", "no base64!"] {
            let bad = Measurement {
                histogram: text.to_owned(),
                ..measurement()
            };
            let error = bad.samples().expect_err(text).to_string();
            assert!(error.contains("task_switch"), "{error}");
        }
    }
}
