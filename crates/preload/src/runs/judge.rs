//! What follows from the history: read, leave a run unread to compare with, or switch off. Pure.
//!
//! The start-ups with reading ahead are compared with those without, by their medians, so that one
//! run in which something else took long decides nothing. Never compares runs of different packs,
//! or times taken from different beginnings.

use serde::Serialize;

use super::history::Entry;
use super::{MeasuredFrom, Run};

/// Runs of each kind that a verdict rests on, unless somebody says otherwise.
pub const RUNS_WANTED: usize = 5;

/// What to do at the next start-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Read ahead.
    Read,
    /// Do not, so that there is something to compare with.
    LeaveUnread {
        /// How far it has come.
        why: String,
    },
    /// Never again: it does not help.
    SwitchOff {
        /// With the figures.
        reason: String,
    },
}

/// The runs of a pack in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Runs with reading ahead.
    pub with: usize,
    /// Runs without.
    pub without: usize,
    /// Median of their start-up times, nanoseconds.
    pub median_with_ns: Option<u64>,
    /// Median of the others'.
    pub median_without_ns: Option<u64>,
    /// How much sooner it starts: the quotient of the medians.
    pub speedup: Option<f64>,
    /// Pages that were read ahead, in the runs whose use is known.
    pub pages_read: u64,
    /// Of these, the share that was used.
    pub hits: Option<f64>,
    /// The share that was not, or was thrown out before anybody looked.
    pub waste: Option<f64>,
}

/// What to do next, by what was seen so far; a verdict takes `wanted` runs of each kind.
#[must_use]
pub fn advise(entries: &[Entry], pack: u32, wanted: usize) -> Advice {
    let runs = comparable(entries, pack);
    let count = |read: bool| runs.iter().filter(|run| run.read == read).count();
    let (with, without) = (count(true), count(false));
    if without < wanted && without < with {
        return Advice::LeaveUnread {
            why: format!(
                "{with} runs with reading ahead and {without} without are known, {wanted} of each are wanted"
            ),
        };
    }
    if with < wanted || without < wanted {
        return Advice::Read;
    }
    verdict(&last_of_each(&runs, wanted), wanted)
}

fn verdict(runs: &[&Run], wanted: usize) -> Advice {
    let figures = figures(runs);
    let (Some(with), Some(without)) = (figures.median_with_ns, figures.median_without_ns) else {
        return Advice::Read;
    };
    if with < without {
        return Advice::Read;
    }
    let waste = figures.waste.map_or_else(String::new, |waste| {
        format!(
            "; {:.0} % of the pages read ahead were not used",
            waste * 100.0
        )
    });
    Advice::SwitchOff {
        reason: format!(
            "it did not help: start-up took {:.3} s with reading ahead and {:.3} s without (medians of {wanted} runs each{waste})",
            with as f64 / 1e9,
            without as f64 / 1e9
        ),
    }
}

/// All runs of `pack` since the last verdict, in figures.
#[must_use]
pub fn summarize(entries: &[Entry], pack: u32) -> Summary {
    figures(&comparable(entries, pack))
}

/// Runs of this pack, since the last verdict, timed as the last one was.
fn comparable(entries: &[Entry], pack: u32) -> Vec<&Run> {
    let verdict = |entry: &Entry| matches!(entry, Entry::SwitchedOff(_));
    let since = entries.iter().rposition(verdict).map_or(0, |at| at + 1);
    let runs = entries[since..].iter().filter_map(|entry| match entry {
        Entry::Run(run) if run.pack == pack => Some(run),
        _ => None,
    });
    let mut runs: Vec<&Run> = runs.collect();
    let last: Option<MeasuredFrom> = runs.last().map(|run| run.measured_from);
    runs.retain(|run| Some(run.measured_from) == last);
    runs
}

fn last_of_each<'a>(runs: &[&'a Run], wanted: usize) -> Vec<&'a Run> {
    let kind = |read: bool| {
        let of_kind = runs.iter().rev().filter(move |run| run.read == read);
        of_kind.take(wanted).copied()
    };
    kind(true).chain(kind(false)).collect()
}

fn figures(runs: &[&Run]) -> Summary {
    let times = |read: bool| -> Vec<u64> {
        let of_kind = runs.iter().filter(|run| run.read == read);
        of_kind.map(|run| run.startup_ns).collect()
    };
    let (with, without) = (times(true), times(false));
    let known = runs
        .iter()
        .map(|run| &run.usage)
        .filter(|usage| usage.read > 0 && usage.unknown == 0);
    let (mut read, mut used) = (0, 0);
    for usage in known {
        read += usage.read;
        used += usage.used;
    }
    let share = |pages: u64| (read > 0).then(|| pages as f64 / read as f64);
    let mut summary = Summary {
        with: with.len(),
        without: without.len(),
        median_with_ns: median(with),
        median_without_ns: median(without),
        speedup: None,
        pages_read: read,
        hits: share(used),
        waste: share(read - used.min(read)),
    };
    if let (Some(with), Some(without)) = (summary.median_with_ns, summary.median_without_ns) {
        summary.speedup = (with > 0).then(|| without as f64 / with as f64);
    }
    summary
}

/// The middle one; of two in the middle their mean.
fn median(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    let upper = *times.get(times.len() / 2)?;
    if times.len() % 2 == 1 {
        return Some(upper);
    }
    Some(times[times.len() / 2 - 1].midpoint(upper))
}

#[cfg(test)]
mod tests;
