//! What the project wants of the media hop, so that a person sees at once which figures fall short.
//! The document for machines has the figures only.

use super::calls::CallRow;
use super::lossy::LossyRow;
use super::plays::{HYTHE_P99_NS_MAX, PlaysRow};
use super::ratios::Ratio;
use crate::bar::Bar;

/// With so many destinations or more, the cost of building packets is shared by enough.
const MANY: u16 = 16;

/// Off by more than this, in nanoseconds, calls do not sound as they should; of the 99th
/// percentile, on a machine that is otherwise idle.
const SPACING_ERROR_NS: f64 = 1e6;

/// The bound of the 99th percentile of the product's spacing error, wherever it was noted.
pub(super) fn of_calls(row: &CallRow) -> Option<Bar> {
    row.case
        .starts_with("hythe/calls")
        .then_some(Bar::AtMost(SPACING_ERROR_NS))
}

/// The bound of the 99th percentile of the product's lateness.
pub(super) fn of_plays(row: &PlaysRow) -> Option<Bar> {
    (row.case == "hythe/plays").then_some(Bar::AtMost(HYTHE_P99_NS_MAX))
}

/// What is wanted of a way that loses, in words, and whether it was kept.
pub(super) fn of_lossy(row: &LossyRow) -> Option<(String, bool)> {
    if row.case == "hythe/lossy-resend" {
        return Some(("none missing".to_owned(), row.missing == 0));
    }
    let (predicted, [fewest, most]) = row.predicted.zip(row.expected)?;
    let percent = predicted * 100.0;
    let wanted = format!("predicted {percent:.3} %, {fewest} to {most} packets");
    Some((wanted, row.is_as_predicted()?))
}

/// The bound of a ratio, if it has one.
pub(super) fn of_ratio(ratio: &Ratio) -> Option<Bar> {
    let bound = match (ratio.name.as_str(), ratio.destinations) {
        ("sendto/first_send by hythe/prepared: cpu", MANY..) => 20.0,
        ("sendto/first_send by hythe/prepared: cpu", _) => 15.0,
        ("sendto/first_send by hythe/first_send: cpu", _) => 5.0,
        ("sendto/first_send by hythe/headers: cpu", _) => 5.0,
        ("sendto/first_send by hythe/prepared: elapsed", 1) => 4.0,
        ("ffmpeg/first_send by hythe/prepared: cpu", _) => 20.0,
        ("ffmpeg/first_send by hythe/first_send: cpu", _) => 20.0,
        ("gstreamer/first_send by hythe/prepared: cpu", _) => 20.0,
        ("gstreamer/first_send by hythe/first_send: cpu", _) => 20.0,
        ("ffmpeg/plays by hythe/plays: cpu", 1) => 1.0 / 0.5,
        ("ffmpeg/plays by hythe/plays: cpu", _) => 1.0 / 0.35,
        ("gstreamer/plays by hythe/plays: cpu", 2..) => 1.0 / 0.55,
        _ => return None,
    };
    Some(Bar::AtLeast(bound))
}

#[cfg(test)]
mod tests {
    use super::super::lossy::Remedy;
    use super::super::lossy::tests::outcome;
    use super::*;

    #[test]
    fn what_repair_leaves_has_bars() {
        let of = |remedy, missing| {
            let row = LossyRow::new(&outcome(remedy, missing));
            of_lossy(&row).expect("a bar").1
        };
        assert!(of(Remedy::Resend, 0) && !of(Remedy::Resend, 1));
        assert!(of(Remedy::Columns, 226) && !of(Remedy::Columns, 900));
        assert!(of(Remedy::Nothing, 1000) && !of(Remedy::Nothing, 0));
    }

    #[test]
    fn more_is_wanted_of_many_destinations() {
        let bar = |name: &str, destinations| {
            of_ratio(&Ratio {
                name: name.to_owned(),
                size_bytes: 1400,
                packets: 10_000,
                destinations,
                value: 1.0,
            })
        };
        let prepared = "sendto/first_send by hythe/prepared: cpu";
        assert_eq!(bar(prepared, 1), Some(Bar::AtLeast(15.0)));
        assert_eq!(bar(prepared, 16), Some(Bar::AtLeast(20.0)));
        assert_eq!(bar("sendto/first_send by gso/prepared: cpu", 1), None);
    }
}
