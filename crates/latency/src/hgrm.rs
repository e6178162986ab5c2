//! `.hgrm`: the percentile distribution of HdrHistogram as text, which its plotter and its
//! libraries read.
//!
//! Laid out as `outputPercentileDistribution` of HdrHistogram writes it with 5 ticks for each half
//! distance and without scaling: values are nanoseconds. That layout ends with mean and deviation;
//! nothing else of ours has them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::LatencyError;
use crate::result::Document;

/// As HdrHistogram's own programs do.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;
/// Less than can be seen of a percentile: the original rounds ties up, which many of its levels
/// are, and Rust to the even digit.
const TIE: f64 = 1e-14;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `timer_host-cpu0-idle.hgrm`.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// A file for each result of the document.
///
/// # Errors
/// [`LatencyError::Encoding`]: a histogram cannot be read.
pub fn files(document: &Document) -> Result<Vec<File>, LatencyError> {
    let mut taken = BTreeSet::new();
    let mut files = Vec::new();
    for measurement in &document.results {
        let stem = plain(&format!("{}_{}", measurement.metric, measurement.case));
        // One metric may be timed by two clocks.
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.clone()).chain(numbered);
        let name = names
            .find(|name| taken.insert(name.clone()))
            .unwrap_or(stem);
        files.push(File {
            name: format!("{name}.hgrm"),
            text: render(&measurement.samples()?),
        });
    }
    Ok(files)
}

/// A name that is one for every file system.
fn plain(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    text.chars()
        .map(|letter| if is_plain(letter) { letter } else { '-' })
        .collect()
}

/// The distribution of nanoseconds as text.
#[must_use]
pub fn render(histogram: &Histogram<u64>) -> String {
    let digits = usize::from(histogram.sigfig());
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut line = |value: u64, percentile: f64, total: u64| {
        let (value, level) = (value as f64, percentile / 100.0);
        // Writing to a string does not fail.
        let shown = level + TIE;
        let _ = write!(text, "{value:12.digits$} {shown:2.12} {total:10}");
        let _ = if percentile < 100.0 {
            writeln!(text, " {:14.2}", 1.0 / (1.0 - level))
        } else {
            writeln!(text)
        };
    };
    let (mut total, mut percentile) = (0, 0.0);
    for step in histogram.iter_recorded() {
        total += step.count_at_value();
        let reached = 100.0 * total as f64 / histogram.len() as f64;
        while reached >= percentile {
            line(step.value_iterated_to(), percentile, total);
            percentile += 100.0 / ticks_at(percentile);
            if total == histogram.len() {
                line(step.value_iterated_to(), 100.0, total);
                break;
            }
        }
    }
    let sub_buckets = (2 * 10_u64.pow(u32::from(histogram.sigfig()))).next_power_of_two();
    let _ = write!(
        text,
        "#[Mean    = {:12.digits$}, StdDeviation   = {:12.digits$}]\n\
         #[Max     = {:12.digits$}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]\n",
        histogram.mean(),
        histogram.stdev(),
        histogram.max() as f64,
        histogram.len(),
        histogram.buckets(),
        sub_buckets
    );
    text
}

/// How many steps of the size used at this percentile there would be in all: each half of what is
/// left has the same number of them. In percents and in this order, as the original reckons:
/// another rounding takes another sample here and there.
fn ticks_at(percentile: f64) -> f64 {
    let halvings = (100.0 / (100.0 - percentile)).log2().floor() + 1.0;
    TICKS_PER_HALF_DISTANCE * halvings.exp2()
}

#[cfg(test)]
mod tests {
    use crate::result::tests::document;

    use super::*;

    /// Written by HdrHistogram 2.1.11 itself (Java, its `HistogramLogProcessor`, without its line
    /// about the log) from the same samples.
    const GOLDEN: &str = include_str!("../tests/golden/distribution.hgrm");

    #[test]
    fn it_is_what_the_original_writes() {
        let mut histogram = Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("valid");
        let mut state = 1_u64;
        for _ in 0..5000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            histogram
                .record(1000 + (state >> 40) % 20_000)
                .expect("in range");
        }
        for outlier in 1..=5 {
            histogram.record(outlier * 1_000_000).expect("in range");
        }
        let text = render(&histogram);
        for (ours, theirs) in text.lines().zip(GOLDEN.lines()) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(text.lines().count(), GOLDEN.lines().count());
    }

    #[test]
    fn every_result_has_a_file_of_its_own() {
        let mut document = document();
        document.results[1].metric = "task_switch".to_owned();
        document.results[0].case = "virt a57/../x".to_owned();
        document.results.push(document.results[1].clone());
        let files = files(&document).expect("good");
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "task_switch_virt-a57-..-x.hgrm",
                "task_switch_hosted-none-idle.hgrm",
                "task_switch_hosted-none-idle-2.hgrm"
            ]
        );
        assert!(
            files
                .iter()
                .all(|file| file.text.contains("Total count    =         1000]"))
        );
    }
}
