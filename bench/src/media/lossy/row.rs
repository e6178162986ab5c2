//! What was measured of a way that loses, as a row of the document.

use hythe_rtp::loss::fec::Protection;
use hythe_rtp::receive::requests::Limits;
use serde::Serialize;

use super::expected::Expected;
use super::{BUFFER, DELAY, LOSS, LossyCase, PACKET_BYTES, Passed, Remedy, Streamed, Taken};
use super::{TAIL_PACKETS, shape};

/// One run, from all three sides.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct LossyOutcome {
    pub(in super::super) case: LossyCase,
    pub(in super::super) streamed: Streamed,
    pub(in super::super) passed: Passed,
    pub(in super::super) taken: Taken,
}

impl LossyOutcome {
    /// Why the figures are not to be trusted: something was lost where nothing should be, or came
    /// out as it was not sent.
    pub(in super::super) fn invalid(&self) -> Option<String> {
        let Self {
            case,
            streamed,
            passed,
            taken,
        } = self;
        let all = u64::from(case.packets) + u64::from(TAIL_PACKETS);
        let to_way = streamed.packets + streamed.resent + streamed.parity;
        let at_way = passed.media + passed.parity;
        let faults = [
            (
                streamed.packets != all,
                format!("{} of {all} packets were sent", streamed.packets),
            ),
            (
                streamed.unsent > 0,
                format!("the sender's network refused {}", streamed.unsent),
            ),
            (
                to_way != at_way,
                format!("{to_way} datagrams were sent and {at_way} came to the way"),
            ),
            (
                passed.crowded > 0,
                format!("{} were too many on the way", passed.crowded),
            ),
            (
                taken.dropped > 0,
                format!("the receiver's sockets dropped {}", taken.dropped),
            ),
            (taken.wrong > 0, format!("{} came out wrong", taken.wrong)),
        ];
        let found: Vec<String> = faults
            .into_iter()
            .filter_map(|(is_so, what)| is_so.then_some(what))
            .collect();
        (!found.is_empty()).then(|| format!("{case}: {}", found.join(", ")))
    }
}

/// Packets that were sent, lost on the way, repaired, and missing in the end.
#[derive(Debug, Serialize)]
pub(in super::super) struct LossyRow {
    pub(in super::super) case: String,
    /// Of a packet, header included.
    size_bytes: u16,
    metric: &'static str,
    unit: &'static str,
    /// Packets that are missing.
    value: u64,
    /// That count.
    pub(in super::super) packets: u32,
    destinations: u8,
    /// From the first packet to the last.
    seconds: f64,
    /// By the way, of media and of what was sent again, those behind the packets that count
    /// included.
    pub(in super::super) lost: u64,
    pub(in super::super) lost_parity: u64,
    /// Reports and requests of the receiver.
    pub(in super::super) lost_back: u64,
    pub(in super::super) repaired: u64,
    pub(in super::super) repaired_by_parity: u64,
    requested: u64,
    resent: u64,
    parity: u64,
    pub(in super::super) missing: u64,
    /// Of those that are missing, what came later than the buffer waits.
    pub(in super::super) late: u64,
    /// The share of packets that are missing.
    pub(in super::super) residual: f64,
    /// What repair leaves, by computation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) predicted: Option<f64>,
    /// Fewest and most packets that chance leaves but once in a million runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) expected: Option<[u32; 2]>,
    pub(in super::super) conditions: LossyConditions,
}

/// What such a row depends on.
#[derive(Debug, Serialize)]
pub(in super::super) struct LossyConditions {
    pub(in super::super) way: &'static str,
    loss: f64,
    delay_ns: u64,
    buffer_ns: u64,
    seed: u64,
    bits_per_second: u64,
    pub(in super::super) repair: String,
}

impl LossyRow {
    pub(in super::super) fn new(outcome: &LossyOutcome) -> Self {
        let LossyOutcome {
            case,
            streamed,
            passed,
            taken,
        } = *outcome;
        let expected = expected(case);
        let seconds = streamed.elapsed_ns as f64 / 1e9;
        Self {
            case: case.to_string(),
            size_bytes: PACKET_BYTES,
            metric: "missing",
            unit: "packets",
            value: taken.missing,
            packets: case.packets,
            destinations: 1,
            seconds,
            lost: passed.lost_media,
            lost_parity: passed.lost_parity,
            lost_back: passed.lost_back,
            repaired: taken.repaired,
            repaired_by_parity: taken.repaired_by_parity,
            requested: taken.requested,
            resent: streamed.resent,
            parity: streamed.parity,
            missing: taken.missing,
            late: taken.late,
            residual: taken.missing as f64 / f64::from(case.packets),
            predicted: expected.map(|expected| expected.residual),
            expected: expected.map(|expected| expected.range),
            conditions: LossyConditions {
                way: "a relay of our own in a network between the two, since this kernel has no netem",
                loss: LOSS,
                delay_ns: DELAY.as_nanos() as u64,
                buffer_ns: BUFFER.as_nanos() as u64,
                seed: case.seed,
                bits_per_second: (f64::from(PACKET_BYTES) * 8.0 * streamed.packets as f64
                    / seconds.max(1e-9)) as u64,
                repair: repair(case.remedy),
            },
        }
    }

    /// Are as many missing as was predicted, as far as chance allows? `None` where nothing is
    /// predicted.
    pub(in super::super) fn is_as_predicted(&self) -> Option<bool> {
        let [fewest, most] = self.expected?.map(u64::from);
        Some((fewest..=most).contains(&self.missing))
    }
}

fn expected(case: LossyCase) -> Option<Expected> {
    match case.remedy {
        Remedy::Nothing => Some(Expected::of_nothing(LOSS, case.packets)),
        // There is time for all tries: each takes 40 ms and some.
        Remedy::Resend => {
            let tries = Limits::default().times_max;
            Some(Expected::after_requests(tries, LOSS, case.packets))
        }
        Remedy::Columns | Remedy::Matrix => case
            .remedy
            .protection()
            .map(|protection| Expected::after_parity(shape(), protection, LOSS, case.packets)),
    }
}

fn repair(remedy: Remedy) -> String {
    let (columns, rows) = (shape().columns(), shape().rows());
    let of_matrix = |what: &str| {
        format!("SMPTE ST 2022-1, {what} of {rows} rows of {columns} packets, nothing is asked for")
    };
    match (remedy, remedy.protection()) {
        (Remedy::Resend, _) => {
            "asked for (RFC 4585) and sent again (RFC 4588), no parity".to_owned()
        }
        (_, Some(Protection::Both)) => of_matrix("columns and rows"),
        (_, Some(_)) => of_matrix("columns"),
        (_, None) => "none".to_owned(),
    }
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::*;

    pub(in super::super::super) fn outcome(remedy: Remedy, missing: u64) -> LossyOutcome {
        LossyOutcome {
            case: LossyCase {
                remedy,
                packets: 20_000,
                seed: 5,
            },
            streamed: Streamed {
                packets: 20_300,
                resent: 0,
                parity: 4060,
                refused: 0,
                unsent: 0,
                elapsed_ns: 28_420_000_000,
            },
            passed: Passed {
                media: 20_300,
                parity: 4060,
                lost_media: 1000,
                ..Passed::default()
            },
            taken: Taken {
                right: 20_000 - missing,
                missing,
                ..Taken::default()
            },
        }
    }

    #[test]
    fn share_is_as_predicted_or_not() {
        // 1.13 % of 20,000 are 226.
        for (missing, expected) in [(226, true), (200, true), (20, false), (700, false)] {
            let row = LossyRow::new(&outcome(Remedy::Columns, missing));
            assert_eq!(row.is_as_predicted(), Some(expected), "{missing}: {row:?}");
        }
        let row = LossyRow::new(&outcome(Remedy::Resend, 0));
        assert_eq!((row.is_as_predicted(), row.value), (Some(true), 0));
        assert!((7_990_000..8_010_000).contains(&row.conditions.bits_per_second));
    }

    #[test]
    fn what_was_not_lost_by_chance_makes_the_run_invalid() {
        let good = outcome(Remedy::Columns, 226);
        assert_eq!(good.invalid(), None);
        let mut bad = good;
        bad.passed.media -= 3;
        bad.taken.wrong = 1;
        let why = bad.invalid().expect("invalid");
        assert!(
            why.contains("24357 came to the way, 1 came out wrong"),
            "{why}"
        );
    }
}
