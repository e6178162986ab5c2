//! All repetitions of one case.

use hdrhistogram::Histogram;

use super::{Played, PlaysCase, Watched};
use crate::error::BenchError;
use crate::machine::Use;
use crate::statistics::decode;

/// One repetition.
#[derive(Debug)]
pub(in super::super) struct PlaysRound {
    pub(super) played: Played,
    pub(super) watched: Watched,
    /// What all CPUs did meanwhile.
    pub(super) machine: Use,
    pub(super) lateness: Histogram<u64>,
}

impl PlaysRound {
    pub(in super::super) fn new(
        played: Played,
        watched: Watched,
        machine: Use,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            lateness: decode(&watched.lateness)?,
            played,
            watched,
            machine,
        })
    }
}

/// One system, to so many destinations.
#[derive(Debug)]
pub(in super::super) struct PlaysSeries {
    pub(in super::super) case: PlaysCase,
    pub(super) rounds: Vec<PlaysRound>,
}

impl PlaysSeries {
    pub(in super::super) const fn new(case: PlaysCase) -> Self {
        Self {
            case,
            rounds: Vec::new(),
        }
    }

    pub(in super::super) fn add(&mut self, round: PlaysRound) {
        self.rounds.push(round);
    }

    pub(in super::super) fn has_rounds(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Of each repetition, nanoseconds of CPU for each packet that arrived.
    pub(in super::super) fn cpu_by_packet(&self) -> Vec<f64> {
        let rounds = self.rounds.iter();
        let each =
            |round: &PlaysRound| round.played.cpu_ns as f64 / round.watched.delivered.max(1) as f64;
        rounds.map(each).collect()
    }

    pub(super) fn sum(&self, of: impl Fn(&PlaysRound) -> u64) -> u64 {
        self.rounds.iter().map(of).sum()
    }

    /// Why its figures are not to be trusted: packets that are not delivered cost less.
    pub(in super::super) fn invalid(&self) -> Option<String> {
        let of = |field: fn(&Watched) -> u64| self.sum(|round| field(&round.watched));
        let [missing, silent, wrong] = [
            of(|watched| watched.missing),
            of(|watched| watched.silent),
            of(|watched| watched.wrong),
        ];
        (missing + silent + wrong > 0).then(|| {
            format!(
                "{} to {}: {missing} packets missing, {wrong} wrong, {silent} destinations got \
                 none",
                self.case, self.case.destinations
            )
        })
    }
}
