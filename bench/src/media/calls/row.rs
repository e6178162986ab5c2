//! What was measured of calls, as rows of the document.

use serde::Serialize;

use super::series::CallSeries;
use super::{CallCase, PACKET_BYTES};
use crate::document::Percentiles;
use crate::error::BenchError;
use crate::statistics::{encode, median, percentiles, quantile};

/// Where the distances of packets were noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Metric {
    /// By the sender, right before its call.
    SpacingErrorSent,
    /// By the kernel, where they arrived.
    SpacingErrorReceived,
}

/// By how much the distances of packets of a call were off from 20 ms.
#[derive(Debug, Serialize)]
pub(in super::super) struct CallRow {
    pub(in super::super) case: String,
    /// Of a packet, header included.
    size_bytes: u16,
    pub(in super::super) metric: Metric,
    unit: &'static str,
    /// Distances.
    count: u64,
    #[serde(flatten)]
    pub(in super::super) percentiles: Percentiles,
    histogram: String,
    pub(in super::super) calls: u16,
    /// Of each repetition.
    seconds: u16,
    pub(in super::super) repeat: usize,
    /// Of all calls and repetitions.
    packets: u64,
    delivered: u64,
    /// Of one CPU, by the sender: the median.
    pub(in super::super) cpu_share: f64,
    /// The median.
    pub(in super::super) cpu_ns_per_packet: f64,
    cpu_ns_per_packet_p99: f64,
    pub(in super::super) conditions: CallConditions,
}

/// What such a row depends on.
#[derive(Debug, Serialize)]
pub(in super::super) struct CallConditions {
    schedule: &'static str,
    /// How the thread that sends is scheduled.
    scheduler: String,
    /// RTCP, which only the product sends.
    reports: u64,
    /// How often the machine stood still for more than 20 ms.
    pub(in super::super) stalls: u64,
    /// Of the time of all CPUs, what was not idle, sender and receiver included: the greatest of
    /// all repetitions.
    pub(in super::super) machine_busy: f64,
    /// Of the time of all CPUs, what a hypervisor gave to others: the greatest of all repetitions.
    pub(in super::super) machine_stolen: f64,
}

impl CallRow {
    /// As the sender and as the receiver saw it.
    pub(in super::super) fn both(series: &CallSeries) -> Result<[Self; 2], BenchError> {
        Ok([
            Self::of(series, Metric::SpacingErrorSent)?,
            Self::of(series, Metric::SpacingErrorReceived)?,
        ])
    }

    fn of(series: &CallSeries, metric: Metric) -> Result<Self, BenchError> {
        let CallCase {
            calls,
            seconds,
            priority,
            ..
        } = series.case;
        let rounds = series.rounds.iter();
        let spacing: Vec<_> = match metric {
            Metric::SpacingErrorSent => rounds.map(|round| round.spacing_sent.clone()).collect(),
            Metric::SpacingErrorReceived => {
                rounds.map(|round| round.spacing_received.clone()).collect()
            }
        };
        let cpu = series.cpu_by_packet();
        let greatest = |figures: Vec<f64>| figures.into_iter().fold(0.0, f64::max);
        Ok(Self {
            case: series.case.to_string(),
            size_bytes: PACKET_BYTES,
            metric,
            unit: "ns",
            count: spacing.iter().map(hdrhistogram::Histogram::len).sum(),
            percentiles: percentiles(&spacing),
            histogram: encode(&spacing)?,
            calls,
            seconds,
            repeat: series.rounds.len(),
            packets: series.sum(|round| round.paced.packets),
            delivered: series.sum(|round| round.arrivals.delivered),
            cpu_share: series.cpu_share(),
            cpu_ns_per_packet_p99: quantile(&cpu, 0.99),
            cpu_ns_per_packet: median(cpu),
            conditions: CallConditions {
                schedule: "each call a packet every 20 ms, calls spread over 80 instants 0.25 ms apart",
                scheduler: match priority {
                    Some(priority) => format!("SCHED_FIFO {priority}"),
                    None => "SCHED_OTHER".to_owned(),
                },
                reports: series.sum(|round| round.paced.reports),
                stalls: series.sum(|round| round.paced.stalls),
                machine_busy: greatest(series.each(|round| round.machine.busy)),
                machine_stolen: greatest(series.each(|round| round.machine.stolen)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::case::System;
    use super::super::series::CallRound;
    use super::super::{Arrivals, Paced};
    use super::*;
    use crate::machine::Use;
    use crate::statistics::{histogram, record};
    use std::time::Duration;

    fn series(delivered: u64) -> CallSeries {
        let mut series = CallSeries::new(CallCase {
            system: System::Hythe,
            calls: 10,
            seconds: 1,
            priority: None,
        });
        let mut spacing = histogram();
        (1..=490).for_each(|error| record(&mut spacing, Duration::from_micros(error)));
        let spacing = encode(&[spacing]).expect("encoded");
        let paced = Paced {
            elapsed_ns: 1_000_000_000,
            cpu_ns: 250_000_000,
            packets: 500,
            unsent: 0,
            reports: 10,
            stalls: 0,
            spacing: spacing.clone(),
        };
        let arrivals = Arrivals {
            delivered,
            wrong: 0,
            spacing,
        };
        let machine = Use {
            busy: 0.25,
            stolen: 0.0,
        };
        series.add(CallRound::new(paced, arrivals, machine).expect("good"));
        series
    }

    #[test]
    fn rows_say_the_error_the_share_of_a_cpu_and_the_load() {
        let [sent, received] = CallRow::both(&series(500)).expect("made");
        let sent = serde_json::to_value(&sent).expect("written");
        assert_eq!(
            (&sent["case"], &sent["metric"]),
            (&"hythe/calls".into(), &"spacing_error_sent".into())
        );
        assert_eq!(
            (&sent["cpu_share"], &sent["calls"]),
            (&0.25.into(), &10.into())
        );
        assert_eq!(sent["cpu_ns_per_packet"], 500_000.0);
        assert_eq!(sent["conditions"]["machine_busy"], 0.25);
        assert_eq!(received.metric, Metric::SpacingErrorReceived);
        assert_eq!(received.percentiles.p50, 245_119, "to a part in a thousand");
    }

    #[test]
    fn what_did_not_arrive_makes_the_run_invalid() {
        assert_eq!(series(500).invalid(), None);
        let why = series(499).invalid().expect("invalid");
        assert!(why.contains("of 500 packets 499 arrived"), "{why}");
    }
}
