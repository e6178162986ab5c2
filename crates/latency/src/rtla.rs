//! Results as `rtla timerlat hist --no-irq` prints them, under the name that `rtla` gives the same
//! latency.
//!
//! What `hythe latency host` calls `timer` is what `rtla timerlat` calls the latency of the thread:
//! from the time that the timer was set to, to the running thread. Ours includes the way back from
//! the kernel to the program, as `rtla timerlat --user-threads` does. The latency of the interrupt
//! is known to the kernel's tracer only: there is no such column.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::LatencyError;
use crate::host::Measure;
use crate::result::{Document, Measurement};

/// The name of the latency of the thread.
pub const THREAD: &str = "thread";
/// Microseconds that have a row of their own, as `rtla` has by default.
const ENTRIES: usize = 256;
const NS_PER_US: u64 = 1000;

/// Gives the timer's results the name that `rtla` uses.
pub fn rename(results: &mut [Measurement]) {
    for result in results {
        if result.metric == Measure::Timer.metric() {
            THREAD.clone_into(&mut result.metric);
        }
    }
}

/// The histograms of [`THREAD`] of all CPUs, in microseconds. Empty where there are none.
///
/// # Errors
/// [`LatencyError::Encoding`]: a histogram cannot be read.
pub fn render(document: &Document, took: Duration) -> Result<String, LatencyError> {
    let mut columns = Vec::new();
    for result in &document.results {
        if let Some(cpu) = cpu_of(result) {
            columns.push(Column::of(cpu, &result.samples()?));
        }
    }
    if columns.is_empty() {
        return Ok(String::new());
    }
    let seconds = took.as_secs();
    let (days, hours) = (seconds / 86400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    let mut text = format!(
        "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n\
         # Duration: {days:3} {hours:02}:{minutes:02}:{seconds:02}\nIndex"
    );
    for column in &columns {
        // Writing to a string does not fail.
        let _ = write!(text, "   Thr-{:03}", column.cpu);
    }
    text.push('\n');
    for entry in 0..ENTRIES {
        if columns.iter().any(|column| column.counts[entry] > 0) {
            line(&mut text, &format!("{entry:<6}"), &columns, |column| {
                column.counts[entry]
            });
        }
    }
    line(&mut text, "over: ", &columns, |column| column.over);
    summary(&mut text, &columns);
    let all = Column::sum(&columns);
    text.push_str("ALL:         Thr\n");
    summary(&mut text, &[all]);
    Ok(text)
}

fn summary(text: &mut String, columns: &[Column]) {
    line(text, "count:", columns, |column| column.count);
    line(text, "min:  ", columns, |column| column.min_us);
    line(text, "avg:  ", columns, |column| {
        column.sum_us / column.count.max(1)
    });
    line(text, "max:  ", columns, |column| column.max_us);
}

fn line(text: &mut String, title: &str, columns: &[Column], figure: impl Fn(&Column) -> u64) {
    text.push_str(title);
    for column in columns {
        let _ = write!(text, "{:9} ", figure(column));
    }
    text.push('\n');
}

/// `host/cpu3/idle`, of the latency that has a column.
fn cpu_of(result: &Measurement) -> Option<usize> {
    let cpu = result.case.strip_prefix("host/cpu")?.split('/').next()?;
    (result.metric == THREAD).then(|| cpu.parse().ok())?
}

/// What stands under the name of one CPU. `rtla` cuts each sample to whole microseconds.
#[derive(Debug, Default)]
struct Column {
    cpu: usize,
    counts: Vec<u64>,
    over: u64,
    count: u64,
    min_us: u64,
    max_us: u64,
    sum_us: u64,
}

impl Column {
    fn of(cpu: usize, samples: &Histogram<u64>) -> Self {
        let mut column = Self {
            cpu,
            counts: vec![0; ENTRIES],
            count: samples.len(),
            min_us: samples.min() / NS_PER_US,
            max_us: samples.max() / NS_PER_US,
            ..Self::default()
        };
        for step in samples.iter_recorded() {
            let middle = samples.median_equivalent(step.value_iterated_to());
            let (us, count) = (middle / NS_PER_US, step.count_at_value());
            column.sum_us += us * count;
            let place = usize::try_from(us)
                .ok()
                .and_then(|us| column.counts.get_mut(us));
            *place.unwrap_or(&mut column.over) += count;
        }
        column
    }

    fn sum(columns: &[Self]) -> Self {
        let sum = |figure: fn(&Self) -> u64| columns.iter().map(figure).sum();
        Self {
            count: sum(|column| column.count),
            sum_us: sum(|column| column.sum_us),
            min_us: columns
                .iter()
                .map(|column| column.min_us)
                .min()
                .unwrap_or(0),
            max_us: columns
                .iter()
                .map(|column| column.max_us)
                .max()
                .unwrap_or(0),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::result::tests::document;

    use super::*;

    #[test]
    fn it_is_laid_out_as_rtla_does() {
        let mut document = document();
        document.results = [(0, [1_500, 2_100, 2_900]), (1, [7_000, 300_500, 8_100])]
            .iter()
            .map(|(cpu, samples)| {
                let mut histogram = Histogram::new(3).expect("valid");
                for sample in samples {
                    histogram.record(*sample).expect("resizes");
                }
                let case = format!("host/cpu{cpu}/idle");
                Measurement::of(&case, "timer", &histogram, BTreeMap::new()).expect("small")
            })
            .collect();
        let took = Duration::from_secs(93_784);
        assert_eq!(render(&document, took).expect("good"), "");
        rename(&mut document.results);
        // As `rtla timerlat hist --no-irq` prints it, blanks at the ends of lines included.
        let wanted = "\
# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   1 02:03:04
Index   Thr-000   Thr-001
1             1         0 .
2             2         0 .
7             0         1 .
8             0         1 .
over:         0         1 .
count:        3         3 .
min:          1         7 .
avg:          1       105 .
max:          2       300 .
ALL:         Thr
count:        6 .
min:          1 .
avg:         53 .
max:        300 .
";
        let text = render(&document, took).expect("good");
        assert_eq!(text, wanted.replace(" .\n", " \n"));
    }
}
