//! Histograms: how many samples are how long, on two logarithmic axes, so that one in a million is
//! seen beside the rest.

use std::error::Error;

use hdrhistogram::Histogram;

use super::super::axis::{self, Axis};
use super::super::chart::{self, Layout, Marks};
use super::super::figure::{Figure, Key};
use super::super::plot::at;
use super::super::table::Table;

/// Steps across: few enough that neighbours gather counts, many enough that two modes stay two.
const STEPS: usize = 60;
/// Room beside the least and the largest, and between them where they are one.
const ROOM: f64 = 1.15;
/// Where no sample is: below one, which has a place on the axis.
const FOOT: f64 = 0.6;

/// Of several series over the same steps.
#[derive(Debug)]
pub(super) struct Counts {
    title: String,
    /// Of the first step, and how many times as long the next one begins.
    low: f64,
    factor: f64,
    series: Vec<(String, Vec<u64>)>,
}

impl Counts {
    pub(super) fn new<'a>(
        title: String,
        histograms: impl Iterator<Item = (String, &'a Histogram<u64>)> + Clone,
    ) -> Self {
        let least = histograms.clone().map(|(_, histogram)| histogram.min());
        let most = histograms.clone().map(|(_, histogram)| histogram.max());
        let low = at(least.min().unwrap_or(1)) / ROOM;
        let high = at(most.max().unwrap_or(1)) * ROOM;
        let factor = (high / low).powf(1.0 / STEPS as f64);
        let series = histograms.map(|(name, histogram)| (name, counts(histogram, low, factor)));
        Self {
            title,
            low,
            factor,
            series: series.collect(),
        }
    }

    fn begin_of(&self, step: usize) -> f64 {
        self.low * self.factor.powi(step as i32)
    }

    /// The outline of the steps, as far as there are samples.
    fn outline(&self, counts: &[u64]) -> Vec<(f64, f64)> {
        let filled = |step: &usize| counts[*step] > 0;
        let first = (0..counts.len()).find(filled).unwrap_or(0);
        let last = (0..counts.len()).rfind(filled).unwrap_or(0);
        let place = |step, height: f64| (self.begin_of(step).log10(), height.log10());
        let mut outline = vec![place(first, FOOT)];
        for (step, &count) in counts.iter().enumerate().take(last + 1).skip(first) {
            let height = (count as f64).max(FOOT);
            outline.push(place(step, height));
            outline.push(place(step + 1, height));
        }
        outline.push(place(last + 1, FOOT));
        outline
    }
}

/// Samples of each step.
fn counts(histogram: &Histogram<u64>, low: f64, factor: f64) -> Vec<u64> {
    let mut counts = vec![0; STEPS];
    for recorded in histogram.iter_recorded() {
        let value = histogram.median_equivalent(recorded.value_iterated_to());
        let step = ((at(value) / low).ln() / factor.ln()).floor().max(0.0) as usize;
        counts[step.min(STEPS - 1)] += recorded.count_since_last_iteration();
    }
    counts
}

impl Figure for Counts {
    fn title(&self) -> &str {
        &self.title
    }

    fn caption(&self) -> String {
        let percent = (self.factor - 1.0) * 100.0;
        format!(
            "Across: how long a sample is; up: how many are. Both scales are logarithmic; each step is {percent:.1} % longer than the one before, and where it stands on the foot there is no sample."
        )
    }

    fn legend(&self) -> Vec<Key> {
        Key::lines(self.series.iter().map(|(name, _)| name.as_str()))
    }

    /// The steps that have samples.
    fn table(&self) -> Table {
        let mut table = Table::new(&["from", "to"]);
        for (name, _) in &self.series {
            table.column(format!(">{name}"));
        }
        for step in 0..STEPS {
            let counts = self.series.iter().map(|(_, counts)| counts[step]);
            if counts.clone().all(|count| count == 0) {
                continue;
            }
            let between = [step, step + 1].map(|step| axis::time(self.begin_of(step)));
            let counts = counts.map(|count| count.to_string());
            table.row(between.into_iter().chain(counts).collect());
        }
        table
    }

    fn draw<'a>(&self, layout: &Layout, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let ends = (self.low, self.begin_of(STEPS));
        let across = Axis::logarithmic("latency", ends, axis::time);
        let most = self.series.iter().flat_map(|(_, counts)| counts).max();
        let heights = (FOOT, at(most.copied().unwrap_or(1)) * 1.5);
        let up = Axis::logarithmic("samples", heights, axis::count);
        let lines = self.series.iter().enumerate();
        let marked: Vec<_> = lines
            .map(|(series, (_, counts))| (series, Marks::Line(self.outline(counts))))
            .collect();
        chart::draw(into, layout, (&across, &up), &marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(samples: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("valid");
        samples
            .iter()
            .for_each(|sample| histogram.record(*sample).expect("resizes"));
        histogram
    }

    #[test]
    fn every_sample_is_in_one_step_also_the_least_and_the_largest() {
        let samples = [0, 1, 1000, 1000, 1001, 10_000_000, u64::MAX / 2];
        let (wide, single) = (histogram(&samples), histogram(&[1264; 9]));
        for histogram in [&wide, &single] {
            let named = [("a".to_owned(), histogram)];
            let counts = Counts::new("c".to_owned(), named.into_iter());
            let total: u64 = counts.series[0].1.iter().sum();
            assert_eq!(total, histogram.len());
        }
        let named = [("a".to_owned(), &single)];
        let counts = Counts::new("c".to_owned(), named.into_iter());
        let step = counts.series[0].1.iter().position(|count| *count == 9);
        let step = step.expect("all in one");
        assert!(counts.begin_of(step) <= 1264.0 && counts.begin_of(step + 1) > 1264.0);
    }

    #[test]
    fn outline_begins_and_ends_at_the_foot() {
        let (one, other) = (histogram(&[100, 100, 100]), histogram(&[5000]));
        let named = [("a".to_owned(), &one), ("b".to_owned(), &other)];
        let counts = Counts::new("c".to_owned(), named.into_iter());
        let outline = counts.outline(&counts.series[0].1);
        assert_eq!(outline.len(), 4, "as far as there are samples");
        let foot = FOOT.log10();
        assert_eq!([outline[0].1, outline[3].1], [foot, foot]);
        assert!((outline[1].1 - 3_f64.log10()).abs() < 1e-9);
    }
}
