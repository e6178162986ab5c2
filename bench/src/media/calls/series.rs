//! All repetitions of one case.

use hdrhistogram::Histogram;

use super::{Arrivals, CallCase, Paced};
use crate::error::BenchError;
use crate::machine::Use;
use crate::statistics::{decode, median};

/// One repetition.
#[derive(Debug)]
pub(in super::super) struct CallRound {
    pub(super) paced: Paced,
    pub(super) arrivals: Arrivals,
    /// What all CPUs did meanwhile.
    pub(super) machine: Use,
    pub(super) spacing_sent: Histogram<u64>,
    pub(super) spacing_received: Histogram<u64>,
}

impl CallRound {
    pub(in super::super) fn new(
        paced: Paced,
        arrivals: Arrivals,
        machine: Use,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            spacing_sent: decode(&paced.spacing)?,
            spacing_received: decode(&arrivals.spacing)?,
            paced,
            arrivals,
            machine,
        })
    }
}

/// One system.
#[derive(Debug)]
pub(in super::super) struct CallSeries {
    pub(in super::super) case: CallCase,
    pub(super) rounds: Vec<CallRound>,
}

impl CallSeries {
    pub(in super::super) const fn new(case: CallCase) -> Self {
        Self {
            case,
            rounds: Vec::new(),
        }
    }

    pub(in super::super) fn add(&mut self, round: CallRound) {
        self.rounds.push(round);
    }

    pub(in super::super) fn has_rounds(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Of each repetition, nanoseconds.
    pub(in super::super) fn cpu_by_packet(&self) -> Vec<f64> {
        self.each(|round| round.paced.cpu_ns as f64 / round.paced.packets as f64)
    }

    /// Of one CPU: the median.
    pub(super) fn cpu_share(&self) -> f64 {
        median(self.each(|round| round.paced.cpu_ns as f64 / round.paced.elapsed_ns as f64))
    }

    pub(super) fn each(&self, figure: impl Fn(&CallRound) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }

    /// Of all repetitions.
    pub(super) fn sum(&self, figure: impl Fn(&CallRound) -> u64) -> u64 {
        self.rounds.iter().map(figure).sum()
    }

    /// Why the figures are not to be trusted: packets that are not delivered cost less.
    pub(in super::super) fn invalid(&self) -> Option<String> {
        let sent = self.sum(|round| round.paced.packets);
        let unsent = self.sum(|round| round.paced.unsent);
        let right = self.sum(|round| round.arrivals.delivered);
        let wrong = self.sum(|round| round.arrivals.wrong);
        let is_good = sent == right && (unsent, wrong) == (0, 0) && sent > 0;
        (!is_good && !self.rounds.is_empty()).then(|| {
            format!(
                "{}: of {sent} packets {right} arrived as they were, {wrong} otherwise, {unsent} were refused",
                self.case
            )
        })
    }
}
