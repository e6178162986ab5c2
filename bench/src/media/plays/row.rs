//! What was measured of streams as they play, as rows of the document.

use serde::Serialize;

use super::{PACKET_BYTES, PlaysSeries};
use crate::document::Percentiles;
use crate::error::BenchError;
use crate::statistics::{encode, median, percentiles, quantile};

/// On time is what is late by no more: stored media of the product may leave so early, and a busy
/// machine lets it wait for 10 ms.
pub(in super::super) const HYTHE_P99_NS_MAX: f64 = 30e6;

/// How late packets arrived, and what sending them took.
#[derive(Debug, Serialize)]
pub(in super::super) struct PlaysRow {
    pub(in super::super) case: String,
    /// Of a packet, header included.
    size_bytes: u16,
    metric: &'static str,
    unit: &'static str,
    /// Packets, all repetitions together.
    count: u64,
    #[serde(flatten)]
    pub(in super::super) percentiles: Percentiles,
    histogram: String,
    pub(in super::super) destinations: u16,
    /// Of media, in each repetition.
    seconds: u16,
    pub(in super::super) repeat: usize,
    /// The least of all repetitions.
    delivered: u64,
    /// Of the whole process, for each packet and destination: the median.
    pub(in super::super) cpu_ns_per_packet: f64,
    cpu_ns_per_packet_p99: f64,
    pub(in super::super) conditions: PlaysConditions,
}

/// What such a row depends on.
#[derive(Debug, Serialize)]
pub(in super::super) struct PlaysConditions {
    content: &'static str,
    pub(in super::super) bits_per_second: u32,
    receiver: &'static str,
    command: String,
    /// Of the product: the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) packets_per_handover: Option<f64>,
    /// Of the product: how the first destination was sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) method: Option<String>,
    /// Of the time of all CPUs, what was not idle, sender and receiver included: the greatest of
    /// all repetitions.
    machine_busy: f64,
    /// Of the time of all CPUs, what a hypervisor gave to others: the greatest of all repetitions.
    machine_stolen: f64,
}

impl PlaysRow {
    pub(in super::super) fn of(series: &PlaysSeries) -> Result<Self, BenchError> {
        let rounds = &series.rounds;
        let lateness: Vec<_> = rounds.iter().map(|round| round.lateness.clone()).collect();
        let delivered = rounds.iter().map(|round| round.watched.delivered);
        let cpu = series.cpu_by_packet();
        let last = rounds.last().map(|round| &round.played);
        let per_handover = rounds.iter();
        let per_handover: Vec<f64> = per_handover
            .filter_map(|round| round.played.packets_per_handover)
            .collect();
        let greatest = |figures: Vec<f64>| figures.into_iter().fold(0.0, f64::max);
        Ok(Self {
            case: series.case.to_string(),
            size_bytes: PACKET_BYTES,
            metric: "lateness",
            unit: "ns",
            count: lateness.iter().map(hdrhistogram::Histogram::len).sum(),
            percentiles: percentiles(&lateness),
            histogram: encode(&lateness)?,
            destinations: series.case.destinations,
            seconds: series.case.seconds,
            repeat: rounds.len(),
            delivered: delivered.min().unwrap_or(0),
            cpu_ns_per_packet_p99: quantile(&cpu, 0.99),
            cpu_ns_per_packet: median(cpu),
            conditions: PlaysConditions {
                content: "MPEG transport stream of a constant rate",
                bits_per_second: series.case.bits_per_second(),
                receiver: "a socket with UDP_GRO for each destination, asleep while packets come",
                command: last.map_or_else(String::new, |played| played.command.clone()),
                packets_per_handover: (!per_handover.is_empty()).then(|| median(per_handover)),
                method: last.and_then(|played| played.method.clone()),
                machine_busy: greatest(rounds.iter().map(|round| round.machine.busy).collect()),
                machine_stolen: greatest(rounds.iter().map(|round| round.machine.stolen).collect()),
            },
        })
    }
}
