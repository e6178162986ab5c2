//! Axes: what lies where, and which places are labelled.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// One axis. Places are what is drawn: of a logarithmic axis the logarithms.
pub(super) struct Axis {
    /// What it counts, with the unit where labels have none.
    pub(super) name: String,
    pub(super) low: f64,
    pub(super) high: f64,
    ticks: Ticks,
    label: fn(f64) -> String,
}

/// Which places are labelled, at most so many as there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticks {
    /// Round values, whose decimal logarithms are the places.
    Decades,
    /// Round places.
    Round,
    /// Whole places.
    Whole,
}

/// An axis as the library takes it, with the places that are labelled.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    ends: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, pixels: (i32, i32)) -> i32 {
        let part = (place - self.ends.start) / (self.ends.end - self.ends.start);
        let length = f64::from(pixels.1 - pixels.0);
        pixels.0 + (part * length).round() as i32
    }

    /// The fine lines between them would be too many.
    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.ends.clone()
    }
}

/// Below so many decades, round values that lie evenly are closer together than powers of ten.
const FEW_DECADES: f64 = 0.75;
/// Neighbours may be so much closer together than labels are on average: round values do not lie
/// evenly.
const CROWDED: f64 = 0.9;

impl Axis {
    /// Of values above zero. `label` is given a value.
    pub(super) fn logarithmic(
        name: impl Into<String>,
        (low, high): (f64, f64),
        label: fn(f64) -> String,
    ) -> Self {
        Self {
            name: name.into(),
            low: low.log10(),
            high: high.log10(),
            ticks: Ticks::Decades,
            label,
        }
    }

    /// Of values as they are.
    pub(super) fn linear(
        name: impl Into<String>,
        (low, high): (f64, f64),
        label: fn(f64) -> String,
    ) -> Self {
        Self {
            name: name.into(),
            low,
            high,
            ticks: Ticks::Round,
            label,
        }
    }

    /// Of values that are labelled where they are whole, such as logarithms of another base.
    pub(super) fn whole(
        name: impl Into<String>,
        (low, high): (f64, f64),
        label: fn(f64) -> String,
    ) -> Self {
        Self {
            ticks: Ticks::Whole,
            ..Self::linear(name, (low, high), label)
        }
    }

    /// Labels of whole places, such as `99.9 %`, lie evenly: one more of them has room.
    pub(super) fn labels(&self, most: usize) -> usize {
        most + usize::from(self.ticks == Ticks::Whole)
    }

    /// With room for so many labels.
    pub(super) fn scale(&self, most: usize) -> Scale {
        Scale {
            ends: self.low..self.high,
            ticks: self.ticks(most),
        }
    }

    /// The places that are labelled.
    fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(2);
        let (low, high) = (self.low, self.high);
        match self.ticks {
            Ticks::Round => multiples(low, high, round_step((high - low) / most as f64)),
            Ticks::Whole => multiples(low, high, ((high - low) / most as f64).ceil().max(1.0)),
            Ticks::Decades => logarithms(low, high, most),
        }
    }

    /// What stands at a place.
    pub(super) fn label(&self, place: f64) -> String {
        match self.ticks {
            Ticks::Decades => (self.label)(10_f64.powf(place)),
            Ticks::Round | Ticks::Whole => (self.label)(place),
        }
    }
}

/// Of all kinds of round values the one that has most, with room between neighbours for as many as
/// there may be.
fn logarithms(low: f64, high: f64, most: usize) -> Vec<f64> {
    let room = (high - low) / most as f64 * CROWDED;
    let mut kinds = Vec::new();
    if high - low < FEW_DECADES {
        let (low, high) = (10_f64.powf(low), 10_f64.powf(high));
        let mut step = round_step((high - low) / most as f64);
        while step < high - low {
            let even = multiples(low, high, step).into_iter();
            kinds.push(even.filter(|value| *value > 0.0).map(f64::log10).collect());
            step = round_step(step * 1.5);
        }
    }
    kinds.extend([&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]].map(|of| decades(low, high, of)));
    kinds.push(multiples(
        low,
        high,
        ((high - low) / most as f64).ceil().max(1.0),
    ));
    let has_room = |places: &Vec<f64>| places.windows(2).all(|two| two[1] - two[0] >= room);
    kinds.retain(has_room);
    // Of equals the last; with the least values first they are the simplest.
    let most = kinds.into_iter().max_by_key(Vec::len);
    most.unwrap_or_default()
}

/// These values of each decade.
fn decades(low: f64, high: f64, of: &[f64]) -> Vec<f64> {
    let whole = low.floor() as i32..=high.ceil() as i32;
    let places = whole.flat_map(|decade| {
        of.iter()
            .map(move |value| f64::from(decade) + value.log10())
    });
    places
        .filter(|place| (low..=high).contains(place))
        .collect()
}

/// The least of 1, 2, 5, 10, 20 and so on that is no smaller.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * decade);
    let fits = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * decade)
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    // Rounding may put the first or last a hair outside.
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let count = if last >= first {
        (last - first) as usize + 1
    } else {
        0
    };
    (0..count)
        .map(|place| (first + place as f64) * step)
        .collect()
}

/// `250 ns`, `3.2 us`, `1.264 us`: as many digits as tell round values apart, and three of others.
pub(super) fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds.abs() {
        ..999.999_5 => (nanoseconds, "ns"),
        ..999_999.5 => (nanoseconds / 1e3, "us"),
        ..999_999_500.0 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    format!("{} {unit}", number(value))
}

/// At most three digits behind the point, and none that are zero at the end.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// `1`, `10 k`, `2 M`.
pub(super) fn count(value: f64) -> String {
    match value {
        ..999.5 => number(value),
        ..999_500.0 => format!("{} k", number(value / 1e3)),
        ..999_500_000.0 => format!("{} M", number(value / 1e6)),
        _ => format!("{} G", number(value / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, most: usize) -> Vec<String> {
        let ticks = axis.ticks(most);
        ticks.into_iter().map(|place| axis.label(place)).collect()
    }

    #[test]
    fn logarithmic_axis_has_round_values_that_fit() {
        let axis = |low, high| Axis::logarithmic("latency", (low, high), time);
        assert_eq!(
            labels(&axis(900.0, 12_000.0), 8),
            ["1 us", "2 us", "5 us", "10 us"]
        );
        assert_eq!(
            labels(&axis(900.0, 1.1e7), 9),
            [
                "1 us", "3 us", "10 us", "30 us", "100 us", "300 us", "1 ms", "3 ms", "10 ms"
            ]
        );
        assert_eq!(
            labels(&axis(900.0, 1.1e7), 6),
            ["1 us", "10 us", "100 us", "1 ms", "10 ms"]
        );
        assert_eq!(labels(&axis(0.5, 4e19), 6).len(), 5, "every fourth");
        assert_eq!(
            labels(&axis(1240.0, 1290.0), 5),
            [
                "1.24 us", "1.25 us", "1.26 us", "1.27 us", "1.28 us", "1.29 us"
            ]
        );
        // Neither 300 and 400 us, nor 100 and 200 where that is close.
        assert_eq!(
            labels(&axis(95_000.0, 505_000.0), 4),
            ["100 us", "200 us", "500 us"]
        );
        assert_eq!(
            labels(&axis(25_000.0, 1.2e6), 4),
            ["30 us", "100 us", "300 us", "1 ms"]
        );
        for (low, high) in [(5.0, 5.1), (1.0, 9.0), (3.0, 3e4), (7e8, 8e18)] {
            for most in 2..12 {
                let axis = axis(low, high);
                let room = (axis.high - axis.low) / most as f64 * CROWDED;
                let ticks = axis.ticks(most);
                let is_crowded = ticks.windows(2).any(|two| two[1] - two[0] < room);
                assert!(
                    !is_crowded && !ticks.is_empty(),
                    "{low} to {high}: {ticks:?}"
                );
            }
        }
    }

    #[test]
    fn linear_axes_have_round_places() {
        let axis = Axis::linear("time", (0.0, 9.7), number);
        assert_eq!(labels(&axis, 5), ["0", "2", "4", "6", "8"]);
        let axis = Axis::linear("time", (0.0, 0.031), number);
        assert_eq!(labels(&axis, 4), ["0", "0.01", "0.02", "0.03"]);
        let axis = Axis::whole("nines", (0.0, 4.6), number);
        assert_eq!(labels(&axis, 8), ["0", "1", "2", "3", "4"]);
        assert_eq!(labels(&axis, 3), ["0", "2", "4"]);
    }

    #[test]
    fn figures_are_as_short_as_they_can_be() {
        assert_eq!(
            [
                0.0,
                90.0,
                999.0,
                1000.0,
                1264.0,
                23_440.0,
                10_054_143.0,
                2.5e9
            ]
            .map(time),
            [
                "0 ns",
                "90 ns",
                "999 ns",
                "1 us",
                "1.264 us",
                "23.44 us",
                "10.054 ms",
                "2.5 s"
            ]
        );
        assert_eq!(
            [1.0, 999.0, 10_000.0, 40_500.0, 2e6].map(count),
            ["1", "999", "10 k", "40.5 k", "2 M"]
        );
    }
}
