//! What the rounds showed: rows, ratios, and what is wanted of them.

use hdrhistogram::Histogram;

use super::Series;
use super::case::System;
use super::metric::Metric;
use crate::bar::Bar::{self, AtLeast};
use crate::document::{Figures, Measurement, Ratio};
use crate::error::BenchError;
use crate::statistics::{histogram, paired_ratio};
use crate::times::{Labels, Place, RunConditions, Times, TimesReport, of_document};

/// The paper's figure is the first metric; the system that all are compared with the first system.
const BELOW: System = System::Hythe;

pub(super) fn of(series: &[Series], run: RunConditions) -> Result<TimesReport, BenchError> {
    let cpus = run.cpus;
    let mut rows = Vec::new();
    for metric in Metric::ALL {
        let measured = series.iter().map(|series| series.times(metric, &cpus));
        // Percentiles are those of all samples of all rounds: a round is too short for a
        // thousandth.
        let all: Result<Vec<Times>, _> = measured.flatten().map(Times::into_one_round).collect();
        rows.extend(of_document(&all?)?);
    }
    for series in series {
        rows.extend(series.counts(&cpus));
    }
    let labels = Labels {
        bench: "core",
        cases: "player, ns",
        bar_of,
    };
    Ok(TimesReport::new(rows, ratios(series, &cpus), run, labels))
}

/// How many times as much the others take, by metric.
fn ratios(series: &[Series], cpus: &[usize]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for metric in Metric::ALL {
        let times = |system| {
            let of_system = |series: &&Series| series.system == system;
            let series = series.iter().find(of_system)?;
            series.times(metric, cpus)
        };
        for system in System::ALL.into_iter().filter(|&system| system != BELOW) {
            if let (Some(above), Some(below)) = (times(system), times(BELOW)) {
                ratios.push(Ratio {
                    name: name(system, metric),
                    size_bytes: below.size,
                    value: paired_ratio(&above.medians(), &below.medians()),
                });
            }
        }
    }
    ratios
}

fn name(system: System, metric: Metric) -> String {
    format!("{system}/{BELOW} {} p50", metric.name())
}

/// The bound of a ratio: never worse than copying, and at most 0.8 of its CPU on Linux.
fn bar_of(ratio: &Ratio) -> Option<Bar> {
    let is = |metric| ratio.name == name(System::Copy, metric);
    if is(Metric::LinuxCpu) {
        return Some(AtLeast(1.25));
    }
    let metrics = [Metric::SyncError, Metric::FileToShown, Metric::Decode];
    metrics.into_iter().any(is).then_some(AtLeast(1.0))
}

/// Why times must not be compared: a frame that was dropped has none, and one that waited for late
/// sound was as late as that.
pub(super) fn objection(series: &[Series]) -> Option<String> {
    let reasons: Vec<String> = series.iter().filter_map(Series::objection).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

impl Series {
    fn place(&self, cpus: &[usize]) -> Place {
        let first = self.rounds.first();
        Place {
            pinned: cpus.to_vec(),
            board: first.and_then(|played| played.board.clone()),
            emulated: first.is_some_and(|played| played.emulated),
        }
    }

    fn case(&self) -> String {
        format!("{}/plays", self.system)
    }

    fn size(&self) -> usize {
        let first = self.rounds.first();
        first.map_or(0, |played| played.picture_bytes())
    }

    /// A histogram for each round; none of what this system does not have.
    fn times(&self, metric: Metric, cpus: &[usize]) -> Option<Times> {
        let rounds: Vec<Histogram<u64>> = self
            .rounds
            .iter()
            .map(|played| {
                let mut round = histogram();
                let samples = metric.samples(played);
                samples.iter().for_each(|&ns| round.saturating_record(ns));
                round
            })
            .collect();
        rounds.iter().any(|round| !round.is_empty()).then(|| Times {
            case: self.case(),
            size: self.size(),
            metric: metric.name(),
            rounds,
            kernel_copies: None,
            steady: None,
            place: self.place(cpus),
        })
    }

    /// Of all rounds: frames that were dropped, and how often the clock stood.
    fn counts(&self, cpus: &[usize]) -> [Measurement<Place>; 2] {
        let rounds = self.rounds.iter();
        let frames = rounds.map(|played| played.frames.len() as u64).sum();
        let row = |metric, unit, value: u64| Measurement {
            case: self.case(),
            size_bytes: self.size(),
            metric,
            unit,
            count: frames,
            figures: Figures::Value {
                value: value as f64,
            },
            kernel_copies: None,
            steady: None,
            conditions: self.place(cpus),
        };
        [
            row("frames_dropped", "frames", self.dropped()),
            row("clock_stalls", "stalls", self.sum_of_sound(|it| it.stalls)),
        ]
    }

    fn dropped(&self) -> u64 {
        self.rounds.iter().map(|played| played.frames_dropped).sum()
    }

    fn sum_of_sound(&self, count: impl Fn(&super::program::Sound) -> u64) -> u64 {
        let sounds = self
            .rounds
            .iter()
            .filter_map(|played| played.sound.as_ref());
        sounds.map(count).sum()
    }

    fn objection(&self) -> Option<String> {
        let (frames, blocks) = (
            self.dropped(),
            self.sum_of_sound(|sound| sound.late + sound.silent),
        );
        (frames + blocks > 0).then(|| {
            format!(
                "{} lost {frames} frames and {blocks} blocks of sound: what was not shown has no \
                 times",
                self.case()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::Played;
    use super::*;

    /// A run of as many frames as there are errors; `null` is one that was dropped.
    fn played(errors: &[Option<u64>], cpu_ns: u64) -> Played {
        let shown = errors.iter().flatten().count();
        let frames: Vec<_> = errors
            .iter()
            .map(|error| {
                serde_json::json!({"sync_error_ns": error, "decode_ns": error.map(|_| 10),
                    "file_to_shown_ns": error.map(|_| 1000)})
            })
            .collect();
        let document = serde_json::json!({"board": "hosted", "emulated": false,
            "linux_cpu_ns": cpu_ns, "width": 4, "height": 2, "frames_shown": shown,
            "frames_dropped": errors.len() - shown, "slots_leaked": 0, "frames": frames,
            "sound": {"late": 0, "silent": 0, "stalls": 2}});
        serde_json::from_value(document).expect("as `hythe play` prints it")
    }

    fn series(system: System, rounds: Vec<Played>) -> Series {
        Series { system, rounds }
    }

    fn made(of_copy: &[Option<u64>]) -> [Series; 2] {
        let all = [Some(100), Some(200), Some(300)];
        [
            series(System::Hythe, vec![played(&all, 300), played(&all, 300)]),
            series(
                System::Copy,
                vec![played(of_copy, 900), played(of_copy, 900)],
            ),
        ]
    }

    #[test]
    fn ratios_say_how_many_times_as_much_the_copy_takes() {
        let found = ratios(&made(&[Some(150), Some(300), Some(900)]), &[0, 1]);
        let found: Vec<_> = found
            .iter()
            .map(|ratio| (&*ratio.name, ratio.value, bar_of(ratio)))
            .collect();
        let expected = [
            ("copy/hythe sync_error p50", 1.5, Some(AtLeast(1.0))),
            ("copy/hythe file_to_shown p50", 1.0, Some(AtLeast(1.0))),
            ("copy/hythe decode p50", 1.0, Some(AtLeast(1.0))),
            ("copy/hythe linux_cpu p50", 3.0, Some(AtLeast(1.25))),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn frames_that_were_dropped_speak_against_the_run() {
        let whole = made(&[Some(150), Some(300), Some(900)]);
        assert_eq!(objection(&whole), None);
        let holes = made(&[Some(150), None, Some(900)]);
        let said = objection(&holes).expect("an objection");
        assert!(said.starts_with("copy/plays lost 2 frames and 0"), "{said}");
        let [dropped, stalls] = holes[1].counts(&[0, 1]);
        assert_eq!((dropped.metric, dropped.count), ("frames_dropped", 6));
        for (row, expected) in [(dropped, 2.0), (stalls, 4.0)] {
            let Figures::Value { value } = row.figures else {
                panic!("times");
            };
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn row_has_the_samples_of_all_rounds() {
        let of_rounds = made(&[Some(1)])[0].times(Metric::SyncError, &[0, 1]);
        let row = of_rounds.expect("there are samples").into_one_round();
        let row = row.expect("one shape");
        assert_eq!((row.rounds.len(), row.rounds[0].len()), (1, 6));
        let none = made(&[Some(1)])[0].times(Metric::DecoderCpu, &[0, 1]);
        assert!(none.is_none(), "the core decodes");
    }
}
