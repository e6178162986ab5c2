//! What was measured, as a `hythe.result/1` document.
//!
//! Never mends a figure.

use serde::Serialize;

use super::calls::{CallRow, CallSeries};
use super::case::{Content, Mode, System};
use super::lossy::{LossyOutcome, LossyRow};
use super::measured::Measured;
use super::plays::{PlaysRow, PlaysSeries};
use super::ratios::{self, Ratio};
use super::series::Series;
use super::{Scale, paper};
use crate::document::{Machine, Percentiles, Pinned, SCHEMA};
use crate::error::BenchError;
use crate::machine;
use crate::statistics::quantile;

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    bench: &'static str,
    pub(super) command: String,
    commit: String,
    pub(super) machine: Machine,
    pub(super) results: Vec<Entry>,
    pub(super) ratios: Vec<Ratio>,
    pub(crate) conditions: Conditions,
}

/// One result.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Entry {
    Sending(Row),
    Calls(CallRow),
    Lossy(LossyRow),
    Plays(PlaysRow),
}

/// One case: time and cost of sending its packets, or of building them.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    /// Of a packet, header included.
    pub(super) size_bytes: u16,
    /// `first_send_to_last_check`, or `layout`.
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    /// To each destination.
    pub(super) packets: u32,
    pub(super) destinations: u16,
    /// Repetitions.
    pub(super) repeat: u64,
    count: u64,
    /// Of the elapsed time; `p50` in seconds is the next field.
    #[serde(flatten)]
    pub(super) percentiles: Percentiles,
    /// The median.
    pub(super) seconds: f64,
    /// Of the sender, by packet and destination: the median.
    pub(super) cpu_ns_per_packet: f64,
    /// Of the same.
    cpu_ns_per_packet_p99: f64,
    /// To all destinations together, in the repetition with the fewest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delivered: Option<u64>,
    pub(super) conditions: RowConditions,
}

/// What this row depends on.
#[derive(Debug, Serialize)]
pub(super) struct RowConditions {
    pub(super) content: &'static str,
    /// How the product sent, where it chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    /// What the paper measured for so many packets, on its machine of 2000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paper_seconds: Option<f64>,
}

/// What all figures depend on, and whether they hold.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    /// Sender and receiver.
    #[serde(flatten)]
    pub(super) cpus: Pinned,
    link: &'static str,
    uncommitted: Option<bool>,
    /// Load of the machine in the minute before, and in the last minute of the run.
    pub(super) load: [f64; 2],
    /// Cases left out, and why.
    pub(super) skipped: Vec<String>,
    /// Why the figures are not to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid: Option<String>,
}

/// What is known beside the figures.
#[derive(Debug)]
pub(super) struct Circumstances {
    pub(super) cpus: Option<[usize; 2]>,
    pub(super) load_before: f64,
    pub(super) skipped: Vec<String>,
    /// It was ended early.
    pub(super) ended: Option<String>,
}

impl Report {
    pub(super) fn new(
        scale: &Scale,
        measured: Measured<'_>,
        around: Circumstances,
    ) -> Result<Self, BenchError> {
        let mut results = Vec::new();
        let series = measured.series.iter();
        for series in series.filter(|series| series.repeat() > 0) {
            results.push(Entry::Sending(row(series)));
            results.extend(layout(series).map(Entry::Sending));
        }
        let calls = measured.calls.iter();
        for series in calls.filter(|series| series.has_rounds()) {
            results.extend(CallRow::both(series)?.map(Entry::Calls));
        }
        let lossy = measured.lossy.iter();
        results.extend(lossy.map(|outcome| Entry::Lossy(LossyRow::new(outcome))));
        let plays = measured.plays.iter();
        for series in plays.filter(|series| series.has_rounds()) {
            results.push(Entry::Plays(PlaysRow::of(series)?));
        }
        let conditions = Conditions {
            cpus: Pinned {
                pinned: around.cpus.map_or_else(Vec::new, Vec::from),
            },
            link: "veth between two network namespaces",
            uncommitted: machine::is_changed(),
            load: [around.load_before, machine::load()],
            skipped: around.skipped,
            invalid: around.ended.or_else(|| invalid(scale, measured)),
        };
        Ok(Self {
            schema: SCHEMA,
            bench: "media",
            command: machine::command(),
            commit: machine::commit(),
            machine: machine::describe(),
            results,
            ratios: ratios::of(measured),
            conditions,
        })
    }
}

/// Packets that are not delivered cost less, so that nothing may be lost.
fn invalid(scale: &Scale, measured: Measured<'_>) -> Option<String> {
    let series = measured.series;
    let wrong = series.iter().filter(|series| series.lost() > 0);
    let mut wrong: Vec<String> = wrong
        .map(|series| {
            let (case, lost, repeat) = (series.case, series.lost(), scale.repeat);
            let (packets, destinations) = (case.packets, case.destinations);
            format!(
                "{case}, {packets} packets to {destinations}, {repeat} times: {lost} lost or wrong"
            )
        })
        .collect();
    let silent = series.iter().filter(|series| series.delivered() == 0);
    wrong.extend(silent.map(|series| format!("{}: nothing arrived", series.case)));
    wrong.extend(measured.calls.iter().filter_map(CallSeries::invalid));
    wrong.extend(measured.plays.iter().filter_map(PlaysSeries::invalid));
    wrong.extend(measured.lossy.iter().filter_map(LossyOutcome::invalid));
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

fn row(series: &Series) -> Row {
    let case = series.case;
    let paper = match (case.system, case.mode, case.content) {
        (System::Sendto, Mode::FirstSend, Content::Noise) => paper::plain(case.packets),
        (System::Hythe, Mode::Prepared | Mode::FirstSend, Content::Noise) => {
            paper::improved(case.packets)
        }
        _ => None,
    };
    Row {
        delivered: Some(series.delivered()),
        conditions: RowConditions {
            paper_seconds: paper.filter(|_| case.destinations == 1),
            method: series.method().map(str::to_owned),
            ..conditions(series)
        },
        ..figures(
            series,
            case.to_string(),
            "first_send_to_last_check",
            &series.elapsed(),
            &series.cpu(),
        )
    }
}

fn layout(series: &Series) -> Option<Row> {
    let (elapsed, cpu) = series.layouts()?;
    let case = format!("{}/layout", series.case.system);
    Some(figures(series, case, "layout", &elapsed, &cpu))
}

fn conditions(series: &Series) -> RowConditions {
    RowConditions {
        content: match series.case.content {
            Content::Noise => "noise",
            Content::TransportStream | Content::TransportStreamHead => "MPEG transport stream",
        },
        method: None,
        paper_seconds: None,
    }
}

fn figures(
    series: &Series,
    case: String,
    metric: &'static str,
    elapsed: &[f64],
    cpu: &[f64],
) -> Row {
    let of_elapsed = |share| quantile(elapsed, share);
    let whole = |share| of_elapsed(share).max(0.0).round() as u64;
    Row {
        case,
        size_bytes: series.case.packet_bytes,
        metric,
        unit: "ns",
        packets: series.case.packets,
        destinations: series.case.destinations,
        repeat: series.repeat(),
        count: series.repeat(),
        percentiles: Percentiles {
            min: whole(0.0),
            p50: whole(0.5),
            p99: whole(0.99),
            p999: whole(0.999),
            max: whole(1.0),
        },
        seconds: of_elapsed(0.5) / 1e9,
        cpu_ns_per_packet: quantile(cpu, 0.5),
        cpu_ns_per_packet_p99: quantile(cpu, 0.99),
        delivered: None,
        conditions: conditions(series),
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::PLAIN;
    use super::super::lossy::Remedy;
    use super::super::lossy::tests::outcome;
    use super::super::series::Round;
    use super::super::series::tests::round;
    use super::*;

    fn report(rounds: &[Round]) -> Report {
        let scale = Scale {
            packets: vec![10_000],
            destinations: 1,
            packet_bytes: 1400,
            repeat: 2,
            calls: 1,
            call_seconds: 1,
            lossy_packets: 1,
            seed: 5,
            play_destinations: Vec::new(),
            play_seconds: 1,
            only: Vec::new(),
        };
        let mut series = Series::new(PLAIN);
        rounds.iter().for_each(|round| series.add(round.clone()));
        let around = Circumstances {
            cpus: Some([0, 1]),
            load_before: 0.0,
            skipped: Vec::new(),
            ended: None,
        };
        let measured = Measured {
            series: &[series],
            calls: &[],
            lossy: &[outcome(Remedy::Resend, 0)],
            plays: &[],
        };
        Report::new(&scale, measured, around).expect("made")
    }

    #[test]
    fn what_was_lost_makes_the_document_invalid() {
        let good = round(2e7, 2000.0);
        assert_eq!(report(std::slice::from_ref(&good)).conditions.invalid, None);
        let bad = Round {
            delivered: 9_999,
            lost: 1,
            ..good.clone()
        };
        let report = report(&[good, bad]);
        let first = serde_json::to_value(&report.results[0]).expect("written");
        assert_eq!(first["delivered"], 9_999);
        let why = report.conditions.invalid.expect("invalid");
        assert!(why.contains("sendto/first_send, 10000 packets"), "{why}");
        assert!(why.contains("1 lost"), "{why}");
    }

    #[test]
    fn rows_have_the_fields_of_the_scenario_and_the_papers_figure() {
        let report = report(&[round(2e7, 2000.0), round(4e7, 4000.0)]);
        let row = serde_json::to_value(&report.results[0]).expect("written");
        assert_eq!(row["case"], "sendto/first_send");
        assert_eq!(row["seconds"], 0.03);
        assert_eq!(row["cpu_ns_per_packet"], 3000.0);
        assert_eq!(
            (&row["packets"], &row["repeat"]),
            (&10_000.into(), &2.into())
        );
        assert_eq!(row["conditions"]["paper_seconds"], 0.5);
        let row = serde_json::to_value(&report.results[1]).expect("written");
        assert_eq!(row["case"], "hythe/lossy-resend");
        assert_eq!((&row["value"], &row["lost"]), (&0.into(), &1000.into()));
    }
}
