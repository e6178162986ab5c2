//! What every command that measures latency ends with: a table or a document, files for other
//! programs, a verdict.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_latency::result::{Document, Measurement};
use hythe_latency::threshold::{Threshold, Verdict, judge, time};
use hythe_latency::{LatencyError, compare, hgrm, junit};
use hythe_sys::whole_file::WholeFile;
use serde_json::Value;

/// What to do with the results besides printing them.
#[derive(Args, Debug)]
pub(super) struct OutputArgs {
    /// Write the percentile distribution of each result into this directory, as HdrHistogram's
    /// plotter reads it; made if it is missing
    #[arg(long, value_name = "DIR", help_heading = HEADING)]
    hgrm: Option<PathBuf>,
    /// Write a report for continuous integration: JUnit XML, a test case for each threshold and
    /// result
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    junit: Option<PathBuf>,
    /// Exit with 1 if a figure is larger: p99.9=50us, max=1ms, or of one metric only,
    /// timer:p99=20us; may be repeated
    #[arg(long, value_name = "[METRIC:]FIGURE=TIME", value_parser = parse_threshold, help_heading = HEADING)]
    fail_above: Vec<Threshold>,
}

const HEADING: &str = "Results";

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    Threshold::parse(text).map_err(|error| match error {
        // clap names option and value itself.
        LatencyError::Threshold { what, .. } => what,
        other => other.to_string(),
    })
}

impl OutputArgs {
    /// Refuses files that cannot be written, before anything is measured for them.
    pub(super) fn check_files(&self) -> Result<(), CliError> {
        if let Some(directory) = &self.hgrm {
            fs::create_dir_all(directory).map_err(CliError::file("make", directory))?;
            let probe = directory.join("probe");
            try_to_write(&probe).map_err(CliError::file("write into", directory))?;
        }
        if let Some(path) = &self.junit {
            try_to_write(path).map_err(CliError::file("write", path))?;
        }
        Ok(())
    }

    /// Refuses a threshold of a metric that will not be measured, before anything is.
    pub(super) fn check(&self, metrics: &[&str]) -> Result<(), CliError> {
        let says_nothing =
            |threshold: &&Threshold| !metrics.iter().any(|metric| threshold.is_of(metric));
        match self.fail_above.iter().find(says_nothing) {
            None => Ok(()),
            Some(threshold) => Err(CliError::WrongUse(format!(
                "--fail-above {}: that metric is not measured; there is {}",
                threshold.text,
                metrics.join(", ")
            ))),
        }
    }

    /// Writes the files, prints the document or `text`, and fails if a threshold is exceeded.
    pub(super) fn finish(
        &self,
        document: &Document,
        globals: &Globals,
        text: impl FnOnce(&Document) -> String,
    ) -> Result<(), CliError> {
        // Whatever is wrong with a file or a threshold, what was measured shall not be lost for it.
        let judged = judge(document, &self.fail_above);
        let written = self.write_files(document, judged.as_deref().ok());
        let printed = output::print(globals.json, document, text);
        let verdicts = judged?;
        written?;
        let exceeded = verdicts.iter().filter(|verdict| verdict.is_exceeded());
        let exceeded: Vec<String> = exceeded.map(ToString::to_string).collect();
        // A verdict counts also where nobody read the results to their end.
        match exceeded.as_slice() {
            [] => printed,
            exceeded => Err(CliError::Failed(format!(
                "too slow: {}",
                exceeded.join("; ")
            ))),
        }
    }

    /// Without verdicts there is no report: it would say that all is well.
    fn write_files(
        &self,
        document: &Document,
        verdicts: Option<&[Verdict]>,
    ) -> Result<(), CliError> {
        if let Some(directory) = &self.hgrm {
            fs::create_dir_all(directory).map_err(CliError::file("make", directory))?;
            for file in hgrm::files(document)? {
                let path = directory.join(&file.name);
                fs::write(&path, file.text).map_err(CliError::file("write", path))?;
            }
        }
        if let (Some(path), Some(verdicts)) = (&self.junit, verdicts) {
            let report = junit::render(document, verdicts)?;
            fs::write(path, report).map_err(CliError::file("write", path))?;
        }
        Ok(())
    }
}

/// Whether a file can be made there; nothing of it is left. A device or a pipe is not tried.
fn try_to_write(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Ok(()),
        _ => WholeFile::begin(path).map(drop),
    }
}

/// The document for people: a line for each result, and what all of them depend on.
pub(super) fn render(document: &Document) -> String {
    let shared = shared_conditions(document);
    let rows: Vec<Vec<String>> = document
        .results
        .iter()
        .map(|result| row(result, &shared))
        .collect();
    let headings = [
        "CASE",
        "METRIC",
        ">MIN",
        ">P50",
        ">P99",
        ">P99.9",
        ">MAX",
        ">COUNT",
        "CONDITIONS",
    ];
    let mut text = output::table(&headings, &rows);
    let conditions: Vec<Vec<String>> = shared
        .iter()
        .map(|(name, value)| vec![(*name).clone(), compare::text(value)])
        .collect();
    text.push('\n');
    text.push_str(&output::table(&["ALL RESULTS", ""], &conditions));
    if document.machine.emulated {
        text.push_str("\nemulated: its times say nothing about hardware\n");
    }
    text
}

/// Those of the run, and those that each of its results has and none has otherwise.
fn shared_conditions(document: &Document) -> BTreeMap<&String, &Value> {
    let mut shared: BTreeMap<&String, &Value> = document.conditions.iter().collect();
    if let Some((first, others)) = document.results.split_first() {
        let is_shared = |(name, value): &(&String, &Value)| {
            others
                .iter()
                .all(|other| other.conditions.get(*name) == Some(value))
        };
        shared.extend(first.conditions.iter().filter(is_shared));
    }
    shared
}

fn row(result: &Measurement, shared: &BTreeMap<&String, &Value>) -> Vec<String> {
    let own = result.conditions.iter();
    let own: Vec<String> = own
        .filter(|(name, value)| shared.get(name) != Some(value))
        .map(|(name, value)| format!("{name} {}", compare::text(value)))
        .collect();
    vec![
        result.case.clone(),
        result.metric.clone(),
        time(result.min),
        time(result.p50),
        time(result.p99),
        time(result.p999),
        time(result.max),
        result.count.to_string(),
        own.join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hythe_latency::machine::describe;
    use hythe_latency::result::{BENCH, SCHEMA};
    use serde_json::json;

    use super::*;

    fn measured(metric: &str, conditions: &[(&str, Value)]) -> Measurement {
        let mut histogram = Histogram::new(3).expect("valid");
        for sample in [900, 1_500, 2_000_000] {
            histogram.record(sample).expect("resizes");
        }
        let conditions = conditions.iter().cloned();
        let conditions = conditions.map(|(name, value)| (name.to_owned(), value));
        Measurement::of("x/none/idle", metric, &histogram, conditions.collect()).expect("small")
    }

    #[test]
    fn what_all_results_depend_on_is_said_once() {
        let document = Document {
            schema: SCHEMA.to_owned(),
            bench: BENCH.to_owned(),
            command: "hythe".to_owned(),
            commit: "abc".to_owned(),
            machine: describe(false),
            results: vec![
                measured("a", &[("tick_hz", json!(1000)), ("clock", json!("one"))]),
                measured("b", &[("tick_hz", json!(1000)), ("clock", json!("two"))]),
            ],
            ratios: Vec::new(),
            conditions: BTreeMap::from([("load".to_owned(), json!("idle"))]),
        };
        let text = render(&document);
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(lines[1]),
            "x/none/idle a 900 ns 1.5 us 2.0 ms 2.0 ms 2.0 ms 3 clock one"
        );
        assert!(lines[2].ends_with("clock two"), "{text}");
        assert!(
            text.contains("load         idle\ntick_hz      1000\n"),
            "{text}"
        );
    }
}
