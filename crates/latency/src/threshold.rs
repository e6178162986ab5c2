//! Limits that a run shall keep, and whether it did.

use hdrhistogram::Histogram;

use crate::LatencyError;
use crate::result::{Document, Measurement};

/// A percentile, or the largest sample.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// From above 0 to 100.
    Percentile(f64),
    Max,
}

/// What a figure must not exceed: `p99.9=50us`, `futex_wake:max=1ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// As it was given.
    pub text: String,
    /// Of which metric; none: of each.
    pub metric: Option<String>,
    figure: Figure,
    /// The limit.
    pub above_ns: u64,
}

/// What became of one threshold in one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Of which result.
    pub case: String,
    /// And which metric.
    pub metric: String,
    /// `p99.9`, `max`.
    pub figure: String,
    /// What was measured.
    pub value_ns: u64,
    /// What was allowed.
    pub above_ns: u64,
}

impl Verdict {
    /// Was more measured than was allowed?
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.value_ns > self.above_ns
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            case,
            metric,
            figure,
            ..
        } = self;
        let above = if self.is_exceeded() {
            "above"
        } else {
            "not above"
        };
        let (value, limit) = (exact_time(self.value_ns), exact_time(self.above_ns));
        write!(to, "{case} {metric}: {figure} is {value}, {above} {limit}")
    }
}

impl Threshold {
    /// Reads `[METRIC:]FIGURE=TIME`.
    ///
    /// # Errors
    /// [`LatencyError::Threshold`] with what is wrong.
    pub fn parse(text: &str) -> Result<Self, LatencyError> {
        read(text).map_err(|what| LatencyError::Threshold {
            text: text.to_owned(),
            what,
        })
    }

    /// Does it speak of this metric?
    #[must_use]
    pub fn is_of(&self, metric: &str) -> bool {
        self.metric.as_deref().is_none_or(|own| own == metric)
    }

    fn judge(&self, of: &Measurement, samples: &Histogram<u64>) -> Verdict {
        let (figure, value_ns) = match self.figure {
            Figure::Max => ("max".to_owned(), of.max),
            Figure::Percentile(percentile) => (
                format!("p{percentile}"),
                samples.value_at_percentile(percentile),
            ),
        };
        Verdict {
            case: of.case.clone(),
            metric: of.metric.clone(),
            figure,
            value_ns,
            above_ns: self.above_ns,
        }
    }
}

/// Holds every threshold against every result that it speaks of.
///
/// # Errors
/// [`LatencyError::Threshold`]: one speaks of a metric that was not measured, and so says nothing;
/// [`LatencyError::Encoding`].
pub fn judge(document: &Document, thresholds: &[Threshold]) -> Result<Vec<Verdict>, LatencyError> {
    let mut verdicts = Vec::new();
    for threshold in thresholds {
        let before = verdicts.len();
        for result in document
            .results
            .iter()
            .filter(|result| threshold.is_of(&result.metric))
        {
            verdicts.push(threshold.judge(result, &result.samples()?));
        }
        if verdicts.len() == before {
            let mut metrics: Vec<&str> = document
                .results
                .iter()
                .map(|result| result.metric.as_str())
                .collect();
            metrics.sort_unstable();
            metrics.dedup();
            return Err(LatencyError::Threshold {
                text: threshold.text.clone(),
                what: format!(
                    "nothing of that name was measured; there is {}",
                    metrics.join(", ")
                ),
            });
        }
    }
    Ok(verdicts)
}

fn read(text: &str) -> Result<Threshold, String> {
    const SHAPE: &str = "a threshold looks like p99.9=50us, max=1ms or futex_wake:p99=20us";
    let (which, limit) = text.split_once('=').ok_or(SHAPE)?;
    let (metric, figure) = match which.rsplit_once(':') {
        Some(("", _)) => return Err(SHAPE.to_owned()),
        Some((metric, figure)) => (Some(metric.to_owned()), figure),
        None => (None, which),
    };
    let figure = match figure.strip_prefix('p') {
        _ if figure == "max" => Figure::Max,
        Some(percentile) => {
            let percentile = percentile.parse().ok();
            let percentile = percentile.filter(|it: &f64| *it > 0.0 && *it <= 100.0);
            Figure::Percentile(
                percentile
                    .ok_or("a percentile is a number above 0 and up to 100, such as p99.9")?,
            )
        }
        None => return Err(SHAPE.to_owned()),
    };
    Ok(Threshold {
        text: text.to_owned(),
        metric,
        figure,
        above_ns: parse_time(limit)?,
    })
}

/// Reads `50us`, `1.5ms`, `800ns`, `2s`.
///
/// # Errors
/// What a time looks like.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let split = |(unit, factor)| Some((text.strip_suffix(unit)?, factor));
    let ns = units
        .into_iter()
        .find_map(split)
        .and_then(|(number, factor)| {
            let number: f64 = number.trim_end().parse().ok()?;
            let ns = (number * factor).round();
            (1.0..=1e18).contains(&ns).then_some(ns as u64)
        });
    ns.ok_or_else(|| {
        format!("`{text}` is no time above 0 with its unit, such as 800ns, 50us, 1.5ms or 2s")
    })
}

/// Writes nanoseconds for people: `800 ns`, `12.3 us`, `1.5 ms`.
#[must_use]
pub fn time(ns: u64) -> String {
    in_units(ns, 1)
}

/// As [`time`], so that what is a little more is not written the same.
#[must_use]
pub fn exact_time(ns: u64) -> String {
    in_units(ns, 3)
}

fn in_units(ns: u64, decimals: usize) -> String {
    let (unit, factor) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{:.decimals$} {unit}", ns as f64 / factor)
}

#[cfg(test)]
mod tests {
    use crate::result::tests::document;

    use super::*;

    fn judged(texts: &[&str]) -> Result<Vec<Verdict>, LatencyError> {
        let thresholds = texts.iter().map(|text| Threshold::parse(text));
        judge(&document(), &thresholds.collect::<Result<Vec<_>, _>>()?)
    }

    #[test]
    fn each_result_is_judged_by_what_speaks_of_it() {
        // The document: 10 to 10000 ns in steps of 10, as two metrics.
        let verdicts = judged(&["p50=5.1us", "semaphore:p99=9.9us", "max=9us"]).expect("good");
        let said: Vec<String> = verdicts.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "hosted/none/idle task_switch: p50 is 5.003 us, not above 5.100 us",
                "hosted/none/idle semaphore: p50 is 5.003 us, not above 5.100 us",
                "hosted/none/idle semaphore: p99 is 9.903 us, above 9.900 us",
                "hosted/none/idle task_switch: max is 10.007 us, above 9.000 us",
                "hosted/none/idle semaphore: max is 10.007 us, above 9.000 us",
            ]
        );
        let exceeded = verdicts.iter().map(Verdict::is_exceeded);
        assert_eq!(
            exceeded.collect::<Vec<_>>(),
            [false, false, true, true, true]
        );
    }

    #[test]
    fn what_was_not_measured_is_no_success() {
        let said = judged(&["timer:p99=1s"]).expect_err("no timer").to_string();
        assert!(
            said.contains("timer:p99=1s") && said.contains("semaphore, task_switch"),
            "{said}"
        );
    }

    #[test]
    fn what_is_no_threshold_is_refused() {
        for wrong in [
            "", "p99", "p99=", "p99=50", "p99=0us", "p0=1us", "p101=1us", "q=1us", ":p99=1us",
            "avg=1us", "p99=-1us", "pNaN=1us",
        ] {
            let said = Threshold::parse(wrong).expect_err(wrong).to_string();
            assert!(
                said.contains("such as") || said.contains("looks like"),
                "{wrong}: {said}"
            );
        }
        assert_eq!(
            Threshold::parse("p99.99=1.5ms").expect("good").above_ns,
            1_500_000
        );
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, ns) in [
            ("800ns", 800),
            ("50us", 50_000),
            ("1.5 ms", 1_500_000),
            ("2s", 2_000_000_000),
        ] {
            assert_eq!(parse_time(text), Ok(ns));
        }
        assert_eq!(
            [time(999), time(61_449), time(2_500_000)],
            ["999 ns", "61.4 us", "2.5 ms"]
        );
    }
}
