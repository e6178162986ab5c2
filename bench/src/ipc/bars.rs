//! What the project wants of the process hop, so that a person sees at once which figures fall
//! short. Says nothing about what others reach; the document for machines has figures only.

use crate::bar::Bar::{self, AtLeast, AtMost};
use crate::document::{Figures, Measurement, Ratio};

/// By name, whatever the size.
const RATIOS: &[(&str, Bar)] = &[
    ("hythe/floor poll untouched p50", AtMost(1.3)),
    ("hythe/protocol poll untouched p50", AtMost(1.15)),
    ("hythe/protocol poll single rate", AtLeast(0.8)),
    ("hythe/protocol poll batched rate", AtLeast(0.9)),
    ("hythe/floor poll stream-4 rate", AtLeast(0.9)),
    ("hythe/floor poll stream-32 rate", AtLeast(0.9)),
    ("hythe/floor block untouched p50", AtMost(1.0)),
    ("hythe poll request/untouched p50", AtMost(2.0)),
    ("iceoryx2/hythe poll untouched p50", AtLeast(3.5)),
    ("iceoryx2/hythe poll single rate", AtMost(0.5)),
    ("iceoryx2/hythe block untouched p50", AtLeast(1.5)),
    (
        "iceoryx2/hythe poll further_subscriber publish",
        AtLeast(1.0),
    ),
    ("hythe adaptive/poll untouched p50", AtMost(1.3)),
    ("hythe adaptive/block shared untouched p50", AtMost(1.2)),
    (
        "hythe poll untouched p50 largest/smallest size",
        AtMost(1.3),
    ),
];
/// What is written and read costs as much as at the floor, where it is enough to outweigh the way.
const FILLED: &[(&str, usize, Bar)] = &[
    ("hythe/floor poll filled p50", 64, AtMost(1.6)),
    ("hythe/floor poll filled p50", 64 << 10, AtMost(1.08)),
    ("hythe/floor poll filled p50", 1 << 20, AtMost(1.08)),
    ("iceoryx2/hythe poll filled p50", 64, AtLeast(2.5)),
];
/// The median, in nanoseconds or bytes.
const MEASUREMENTS: &[(&str, Bar)] = &[
    ("hythe/join", AtMost(1e6)),
    ("hythe/connect", AtMost(1e6)),
    ("hythe/create", AtMost(5e7)),
    ("hythe/idle-node", AtMost(300.0 * 1024.0)),
];

/// The bound of a ratio, if it has one.
pub(crate) fn of_ratio(ratio: &Ratio) -> Option<Bar> {
    let sized = FILLED
        .iter()
        .find(|(name, bytes, _)| (*name, *bytes) == (&ratio.name, ratio.size_bytes));
    sized
        .map(|(_, _, bar)| *bar)
        .or_else(|| find(RATIOS, &ratio.name))
}

/// The bound of a row, if it has one, and the figure that should keep it.
pub(crate) fn of_measurement(measurement: &Measurement) -> Option<(Bar, f64)> {
    let figure = match &measurement.figures {
        Figures::Times { percentiles, .. } => percentiles.p50 as f64,
        Figures::Value { value } => *value,
    };
    Some((find(MEASUREMENTS, &measurement.case)?, figure))
}

fn find(bars: &[(&str, Bar)], name: &str) -> Option<Bar> {
    let found = bars.iter().find(|(wanted, _)| *wanted == name);
    found.map(|(_, bar)| *bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(name: &str, size_bytes: usize) -> Option<Bar> {
        let name = name.to_owned();
        of_ratio(&Ratio {
            name,
            size_bytes,
            value: 1.0,
        })
    }

    #[test]
    fn bars_go_both_ways_and_to_the_sizes_that_are_meant() {
        let floor = ratio("hythe/floor poll untouched p50", 8).expect("a bar");
        assert!(floor.is_met_by(1.3) && !floor.is_met_by(1.31));
        let peer = ratio("iceoryx2/hythe poll untouched p50", 8).expect("a bar");
        assert!(peer.is_met_by(3.5) && !peer.is_met_by(3.4));
        assert!(!peer.is_met_by(f64::NAN) && !floor.is_met_by(f64::NAN));
        assert_eq!(ratio("hythe/floor poll filled p50", 8), None);
        assert_eq!(
            ratio("hythe/floor poll filled p50", 65_536),
            Some(AtMost(1.08))
        );
        assert_eq!(ratio("unix/hythe block filled p50", 64), None);
    }
}
