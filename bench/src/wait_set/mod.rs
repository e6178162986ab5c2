//! Scenario `wait_set`: what one wait for many channels costs when all but one are idle.
//!
//! `ready`: the message is there already; one look and one take are measured. `block`: a round trip
//! to an echo on the other CPU that sleeps on both sides, without spinning. `bridge`: the same
//! where the wait goes over a file descriptor as well. Beside them stands a subscriber of its own,
//! without a wait set. Rounds go over all cases.

pub(crate) mod args;
mod scene;

use std::fmt;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;

use self::args::WaitSetArguments;
use self::scene::Scene;
use crate::document::{Conditions, Document, Figures, Measurement, Pinned, Ratio, SCHEMA};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::{bounce, cpus, machine, statistics};

/// Bytes of the message: what is measured does not depend on it.
const SIZE: usize = 8;

/// How a case waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ready,
    Block,
    Bridge,
}

const WAYS: [Way; 3] = [Way::Ready, Way::Block, Way::Bridge];

/// One series of rounds.
#[derive(Debug)]
struct Series {
    way: Way,
    /// Channels of the wait set; `None`: no wait set.
    channels: Option<usize>,
    rounds: Vec<Histogram<u64>>,
}

impl fmt::Display for Series {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Ready => "ready",
            Way::Block => "block",
            Way::Bridge => "bridge",
        };
        match self.channels {
            Some(channels) => write!(to, "wait-set/{way}/{channels}"),
            None => write!(to, "subscriber/{way}"),
        }
    }
}

impl Series {
    fn median(&self) -> Vec<f64> {
        let rounds = self.rounds.iter();
        rounds
            .map(|round| round.value_at_quantile(0.5) as f64)
            .collect()
    }

    fn measurement(&self, conditions: &Pinned) -> Result<Measurement, BenchError> {
        Ok(Measurement {
            case: self.to_string(),
            size_bytes: SIZE,
            metric: match self.way {
                Way::Ready => "wait_and_take",
                Way::Block | Way::Bridge => "round_trip",
            },
            unit: "ns",
            count: self.rounds.iter().map(Histogram::len).sum(),
            figures: Figures::Times {
                percentiles: statistics::percentiles(&self.rounds),
                histogram: statistics::encode(&self.rounds)?,
            },
            kernel_copies: None,
            steady: None,
            conditions: conditions.clone(),
        })
    }
}

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &WaitSetArguments) -> Result<Document, BenchError> {
    crate::machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let cpus = cpus::choose()?;
    if let Some([near, _]) = cpus {
        cpus::pin(near)?;
    }
    let series = measure(arguments, cpus.map(|[_, far]| far), &lookout)?;
    let clock = bounce::clock_cost();
    let conditions = Conditions {
        cpus: Pinned {
            pinned: cpus.map_or_else(Vec::new, Vec::from),
        },
        date: machine::date(),
        rounds: arguments.rounds,
        uncommitted: machine::is_changed(),
        load: [load_before, machine::load()],
        clock_ns: u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX),
        bounce_ns: None,
        floor_by_bounce: None,
        skipped: Vec::new(),
        invalid: None,
    };
    let results = series
        .iter()
        .map(|series| series.measurement(&conditions.cpus));
    Ok(Document {
        schema: SCHEMA,
        bench: "wait-set",
        command: machine::command(),
        commit: machine::commit(),
        machine: machine::describe(),
        results: results.collect::<Result<_, _>>()?,
        ratios: ratios(&series),
        conditions,
    })
}

fn measure(
    arguments: &WaitSetArguments,
    far_cpu: Option<usize>,
    lookout: &Lookout,
) -> Result<Vec<Series>, BenchError> {
    let mut series = Vec::new();
    let mut scenes = Vec::new();
    let counts = arguments.channels.iter().copied().map(Some);
    for channels in std::iter::once(None).chain(counts) {
        for way in WAYS {
            // Without a wait set there is nothing to bridge.
            if channels.is_some() || way != Way::Bridge {
                let rounds = Vec::new();
                series.push(Series {
                    way,
                    channels,
                    rounds,
                });
            }
        }
        scenes.push((channels, Scene::make(channels, far_cpu, lookout)?));
    }
    let bar = ProgressBar::new(series.len() as u64 * u64::from(arguments.rounds));
    for _ in 0..arguments.rounds {
        for series in &mut series {
            lookout.check_stop()?;
            let found = scenes.iter_mut().find(|scene| scene.0 == series.channels);
            if let Some((_, scene)) = found {
                series
                    .rounds
                    .push(scene.round(series.way, arguments.count, lookout)?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(series)
}

/// Each number of channels by the first, and the first by the subscriber alone.
fn ratios(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for way in WAYS {
        let mut of_way = series.iter().filter(|series| series.way == way);
        let alone = of_way.clone().find(|series| series.channels.is_none());
        let first = of_way.find(|series| series.channels.is_some());
        let (Some(first), rest) = (first, of_way) else {
            continue;
        };
        let pairs = rest.map(|above| (above, first));
        for (above, below) in pairs.chain(alone.map(|alone| (first, alone))) {
            ratios.push(Ratio {
                name: format!("{above} by {below} p50"),
                size_bytes: SIZE,
                value: statistics::paired_ratio(&above.median(), &below.median()),
            });
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn series(channels: Option<usize>, ns: u64) -> Series {
        let mut round = statistics::histogram();
        statistics::record(&mut round, Duration::from_nanos(ns));
        Series {
            way: Way::Block,
            channels,
            rounds: vec![round],
        }
    }

    #[test]
    fn ratios_compare_with_the_fewest_channels_and_with_none() {
        let found = ratios(&[
            series(None, 100),
            series(Some(1), 200),
            series(Some(64), 400),
            series(Some(1024), 600),
        ]);
        let found: Vec<(&str, f64)> = found
            .iter()
            .map(|ratio| (ratio.name.as_str(), ratio.value))
            .collect();
        let expected = [
            ("wait-set/block/64 by wait-set/block/1 p50", 2.0),
            ("wait-set/block/1024 by wait-set/block/1 p50", 3.0),
            ("wait-set/block/1 by subscriber/block p50", 2.0),
        ];
        assert_eq!(found, expected);
    }
}
