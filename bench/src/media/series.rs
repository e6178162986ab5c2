//! All repetitions of one case, and the figures of them.

use super::case::Case;
use super::job::{Sent, Spent};
use super::message::Tally;
use crate::statistics::median;

/// One repetition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Round {
    /// From the first send, or the first read, until the last packet was checked at the receiver.
    pub(super) elapsed_ns: f64,
    /// Of the sender.
    pub(super) cpu_ns: f64,
    /// To all destinations together.
    pub(super) delivered: u64,
    /// Packets that never came, or came wrong.
    pub(super) lost: u64,
    pub(super) layout: Option<Spent>,
    pub(super) method: Option<String>,
}

impl Round {
    pub(super) fn new(sent: Sent, tally: Tally) -> Self {
        Self {
            elapsed_ns: tally.last_ns.saturating_sub(sent.began_ns) as f64,
            cpu_ns: sent.cpu_ns as f64,
            delivered: tally.delivered,
            lost: tally.missing + tally.wrong,
            layout: sent.layout,
            method: sent.method,
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) case: Case,
    rounds: Vec<Round>,
    /// Of a program that is started each time: the first part of the same work. What that takes is
    /// no cost of a packet, and is taken off; the median, because a start varies more than all
    /// packets cost.
    heads: Vec<Round>,
}

impl Series {
    pub(super) const fn new(case: Case) -> Self {
        Self {
            case,
            rounds: Vec::new(),
            heads: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    pub(super) fn add_head(&mut self, head: Round) {
        self.heads.push(head);
    }

    pub(super) fn repeat(&self) -> u64 {
        self.rounds.len() as u64
    }

    /// Of each repetition, nanoseconds by packet and destination.
    pub(super) fn cpu(&self) -> Vec<f64> {
        let cpu_ns = self.of_head(|head| head.cpu_ns);
        let delivered = self.of_head(|head| head.delivered as f64);
        self.of_each(|round| (round.cpu_ns - cpu_ns) / (round.delivered as f64 - delivered))
    }

    /// Of each repetition, nanoseconds.
    pub(super) fn elapsed(&self) -> Vec<f64> {
        let elapsed_ns = self.of_head(|head| head.elapsed_ns);
        self.of_each(|round| round.elapsed_ns - elapsed_ns)
    }

    fn of_head(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        match self.heads.is_empty() {
            true => 0.0,
            false => median(self.heads.iter().map(figure).collect()),
        }
    }

    /// Elapsed time of building packets, and time of a CPU for each packet, where it was done
    /// beforehand.
    pub(super) fn layouts(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let layouts = self.rounds.iter().filter_map(|round| round.layout);
        let packets = f64::from(self.case.packets);
        let figures = layouts.map(|spent| (spent.elapsed_ns as f64, spent.cpu_ns as f64 / packets));
        let (elapsed, cpu): (Vec<_>, Vec<_>) = figures.unzip();
        (!elapsed.is_empty()).then_some((elapsed, cpu))
    }

    /// The least of all repetitions.
    pub(super) fn delivered(&self) -> u64 {
        let delivered = self.rounds.iter().map(|round| round.delivered);
        delivered.min().unwrap_or(0)
    }

    /// Of all repetitions.
    pub(super) fn lost(&self) -> u64 {
        let all = self.rounds.iter().chain(&self.heads);
        all.map(|round| round.lost).sum()
    }

    /// In the last repetition.
    pub(super) fn method(&self) -> Option<&str> {
        self.rounds.last()?.method.as_deref()
    }

    fn of_each(&self, figure: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::case::tests::PLAIN;
    use super::*;

    pub(in super::super) fn round(elapsed_ns: f64, cpu_ns_per_packet: f64) -> Round {
        Round {
            elapsed_ns,
            cpu_ns: cpu_ns_per_packet * 10e3,
            delivered: 10_000,
            lost: 0,
            layout: None,
            method: None,
        }
    }

    #[test]
    fn what_a_program_needs_to_start_is_taken_off() {
        let mut series = Series::new(PLAIN);
        for (start, lost) in [(9e6, 1), (8e6, 0), (70e6, 0)] {
            series.add_head(Round {
                delivered: 1000,
                cpu_ns: start,
                lost,
                ..round(4e6, 0.0)
            });
            series.add(round(20e6, 1900.0));
        }
        // 19 ms of CPU for 10,000 packets and 9 ms for 1,000: 10 ms for 9,000.
        let cpu = series.cpu();
        assert!(
            cpu.iter().all(|cpu| (cpu - 10e6 / 9e3).abs() < 1e-6),
            "{cpu:?}"
        );
        assert_eq!((series.elapsed()[0], series.lost()), (16e6, 1));
    }
}
