//! The result document, `hythe.result/1`.

use serde::{Deserialize, Serialize};

pub(crate) const SCHEMA: &str = "hythe.result/1";

/// One run of one scenario.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) schema: &'static str,
    pub(crate) bench: &'static str,
    pub(crate) command: String,
    pub(crate) commit: String,
    pub(crate) machine: Machine,
    pub(crate) results: Vec<Measurement>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) conditions: Conditions,
}

/// Where it ran.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) emulated: bool,
}

/// One case at one size.
#[derive(Debug, Serialize)]
pub(crate) struct Measurement<C = Pinned> {
    pub(crate) case: String,
    pub(crate) size_bytes: usize,
    pub(crate) metric: &'static str,
    pub(crate) unit: &'static str,
    /// Samples, or messages of a rate, of all rounds.
    pub(crate) count: u64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Copies of each message by the kernel, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kernel_copies: Option<u32>,
    /// What each message takes beside time, where it was counted.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) steady: Option<Steady>,
    pub(crate) conditions: C,
}

/// What each message takes in steady state beside time: of the thread that sends and receives, at
/// a side that sends as many as it receives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Steady {
    pub(crate) allocations: f64,
    /// Those that found nothing are not among them.
    pub(crate) system_calls: f64,
}

/// What was found.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Figures {
    /// Of times.
    Times {
        #[serde(flatten)]
        percentiles: Percentiles,
        /// Base64 of an HdrHistogram V2 with the samples of all rounds.
        histogram: String,
    },
    /// Of a rate: the median over the rounds.
    Value { value: f64 },
}

/// The least and the greatest of all rounds; between them medians over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) min: u64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

/// One figure by another: the median of the quotients of each round.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) size_bytes: usize,
    pub(crate) value: f64,
}

/// The CPUs of the two sides, one number twice where they shared it; empty where the machine has
/// only one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pinned {
    pub(crate) pinned: Vec<usize>,
}

/// What the figures depend on.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    #[serde(flatten)]
    pub(crate) cpus: Pinned,
    /// The day of the run, UTC: `2026-11-27`.
    pub(crate) date: String,
    pub(crate) rounds: u32,
    /// Whether the sources differ from the commit, if known.
    pub(crate) uncommitted: Option<bool>,
    /// Load of the machine in the minute before, and in the last minute of the run.
    pub(crate) load: [f64; 2],
    /// What one reading of the clock costs; it is part of each time.
    pub(crate) clock_ns: u64,
    /// One cache line, there and back: the median of what was measured beside the floors.
    pub(crate) bounce_ns: Option<u64>,
    /// The floor (polling, untouched) of the worst size by the bounce beside it; valid up to 3.
    pub(crate) floor_by_bounce: Option<f64>,
    /// Cases left out, and why.
    pub(crate) skipped: Vec<String>,
    /// Why the figures are not to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid: Option<String>,
}
