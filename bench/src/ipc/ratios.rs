//! Every comparison that the series of a run allow, and what one subscriber more costs.

use super::case::{Case, FANS, Pattern, System, Wait, word};
use super::series::Series;
use super::setup::Step;
use super::subject::{Placement, Subject};
use crate::document::{Figures, Measurement, Pinned, Ratio};
use crate::statistics::{median, paired_ratio};

/// All of them.
pub(super) fn all(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for above in series {
        for below in series.iter().filter(|below| below.size == above.size) {
            if let Some(name) = comparison(above.subject, below.subject) {
                ratios.push(ratio(name, above, below));
            }
        }
    }
    ratios.extend(by_reserving(series));
    ratios.extend(by_size(series));
    ratios.extend(by_further_subscriber(series));
    ratios
}

fn ratio(name: String, above: &Series, below: &Series) -> Ratio {
    Ratio {
        name,
        size_bytes: above.size,
        value: paired_ratio(&above.figures(), &below.figures()),
    }
}

/// What the quotient of the two is called, if anybody wants to know it: hythe by its floor and its
/// protocol, others by hythe, one way of hythe by another.
fn comparison(above: Subject, below: Subject) -> Option<String> {
    let (Subject::Exchange(above, placement), Subject::Exchange(below, other_placement)) =
        (above, below)
    else {
        return None;
    };
    if placement != other_placement || above.subscribers != below.subscribers {
        return None;
    }
    let (systems, waits) = between(above, below)?;
    let metric = match above.pattern {
        Pattern::Untouched | Pattern::Filled | Pattern::Request => "p50",
        Pattern::Fan => "publish p50",
        Pattern::Single | Pattern::Batched | Pattern::Stream4 | Pattern::Stream32 => "rate",
    };
    let place = match placement {
        Placement::Apart => "",
        Placement::Shared => " shared",
    };
    let pattern = match (above.pattern, below.pattern) {
        (Pattern::Fan, _) => format!("fan-{}", above.subscribers),
        (one, other) if one == other => word(one),
        (one, other) => format!("{}/{}", word(one), word(other)),
    };
    Some(format!("{systems} {waits}{place} {pattern} {metric}"))
}

/// The systems and the ways of waiting, as a ratio names them.
fn between(above: Case, below: Case) -> Option<(String, String)> {
    let systems = || format!("{}/{}", word(above.system), word(below.system));
    let waits = || format!("{}/{}", word(above.wait), word(below.wait));
    let alike = (above.wait == below.wait, above.pattern == below.pattern);
    match (above.system, below.system, alike) {
        (System::Hythe, System::Floor | System::Protocol, (true, true))
        | (System::Protocol, System::Floor, (true, true)) => Some((systems(), word(above.wait))),
        (System::Floor | System::Protocol | System::Hythe, System::Hythe, (true, true)) => None,
        (_, System::Hythe, (true, true)) => Some((systems(), word(above.wait))),
        (System::Hythe, System::Hythe, (false, true)) if above.wait == Wait::Adaptive => {
            Some((word(System::Hythe), waits()))
        }
        (System::Hythe, System::Hythe, (true, false))
            if matches!(
                (above.pattern, below.pattern),
                (Pattern::Batched, Pattern::Single) | (Pattern::Request, Pattern::Untouched)
            ) =>
        {
            Some((word(System::Hythe), word(above.wait)))
        }
        _ => None,
    }
}

/// How much longer a pool takes to make than its space to reserve.
fn by_reserving(series: &[Series]) -> Option<Ratio> {
    let of = |step| {
        let mut steps = series.iter();
        steps.find(|series| series.subject == Subject::Setup(step))
    };
    let name = "hythe/floor create p50".to_owned();
    Some(ratio(name, of(Step::Create)?, of(Step::Reserve)?))
}

/// Is the way of a descriptor as long for a large message as for a small one?
fn by_size(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for wait in [Wait::Poll, Wait::Block, Wait::Adaptive] {
        let case = Case {
            system: System::Hythe,
            wait,
            pattern: Pattern::Untouched,
            subscribers: 1,
        };
        let subject = Subject::Exchange(case, Placement::Apart);
        let of_case = || series.iter().filter(|series| series.subject == subject);
        let smallest = of_case().min_by_key(|series| series.size);
        let largest = of_case().max_by_key(|series| series.size);
        if let (Some(smallest), Some(largest)) = (smallest, largest)
            && smallest.size < largest.size
        {
            let wait = word(wait);
            let name = format!("hythe {wait} untouched p50 largest/smallest size");
            ratios.push(ratio(name, largest, smallest));
        }
    }
    ratios
}

const SYSTEMS: [System; 2] = [System::Iceoryx2, System::Hythe];

/// Rows that follow from others: what one subscriber more adds to a publishing.
pub(super) fn further_subscribers(series: &[Series], pinned: &Pinned) -> Vec<Measurement> {
    let row = |system| {
        let (fewest, most) = fans_of(series, system)?;
        Some(Measurement {
            case: format!("{}/poll/further_subscriber", word(system)),
            size_bytes: most.size,
            metric: "publish",
            unit: "ns",
            count: fewest.count() + most.count(),
            figures: Figures::Value {
                value: median(further(fewest, most)),
            },
            kernel_copies: None,
            steady: None,
            conditions: pinned.clone(),
        })
    };
    SYSTEMS.into_iter().filter_map(row).collect()
}

fn by_further_subscriber(series: &[Series]) -> Option<Ratio> {
    let [above, below] = SYSTEMS.map(|system| fans_of(series, system));
    let ((above_fewest, above_most), (below_fewest, below_most)) = (above?, below?);
    let above = further(above_fewest, above_most);
    Some(Ratio {
        name: "iceoryx2/hythe poll further_subscriber publish".to_owned(),
        size_bytes: above_most.size,
        value: paired_ratio(&above, &further(below_fewest, below_most)),
    })
}

/// To the fewest and to the most subscribers.
fn fans_of(series: &[Series], system: System) -> Option<(&Series, &Series)> {
    let of = |subscribers| {
        let case = Case {
            system,
            wait: Wait::Poll,
            pattern: Pattern::Fan,
            subscribers,
        };
        let subject = Subject::Exchange(case, Placement::Apart);
        series.iter().find(|series| series.subject == subject)
    };
    Some((of(FANS[0])?, of(FANS[FANS.len() - 1])?))
}

/// In each round, the difference by the number of subscribers that make it.
fn further(fewest: &Series, most: &Series) -> Vec<f64> {
    let more = f64::from(FANS[FANS.len() - 1] - FANS[0]);
    let (fewest, most) = (fewest.figures(), most.figures());
    let pairs = fewest.iter().zip(&most);
    pairs.map(|(fewest, most)| (most - fewest) / more).collect()
}

#[cfg(test)]
mod tests {
    use super::super::series::made::{placed, rates, times};
    use super::*;

    fn found(series: &[Series]) -> Vec<(String, usize, f64)> {
        let ratios = all(series).into_iter();
        let parts = ratios.map(|ratio| (ratio.name, ratio.size_bytes, ratio.value));
        parts.collect()
    }

    fn expected<const N: usize>(rows: [(&str, usize, f64); N]) -> Vec<(String, usize, f64)> {
        let rows = rows.map(|(name, size, value)| (name.to_owned(), size, value));
        rows.into()
    }

    #[test]
    fn ratios_compare_like_with_like() {
        let series = [
            times("floor/poll/untouched", 8, &[100, 400]),
            times("hythe/poll/untouched", 8, &[150, 600]),
            times("iceoryx2/poll/untouched", 8, &[450, 1800]),
            times("hythe/poll/untouched", 64, &[300, 1200]),
            times("hythe/adaptive/untouched", 64, &[330, 1320]),
            times("unix/block/filled", 64, &[900, 900]),
            times("hythe/poll/request", 64, &[450, 1800]),
            times("hythe/block/request", 64, &[900, 900]),
            rates("floor/poll/single", &[8e6]),
            rates("hythe/poll/single", &[2e6]),
            rates("hythe/poll/batched", &[6e6]),
            rates("floor/poll/stream-4", &[2e3]),
            rates("hythe/poll/stream-4", &[1.9e3]),
            rates("hythe/poll/stream-32", &[1e3]),
        ];
        let wanted = expected([
            ("hythe/floor poll untouched p50", 8, 1.5),
            ("iceoryx2/hythe poll untouched p50", 8, 3.0),
            ("hythe adaptive/poll untouched p50", 64, 1.1),
            ("hythe poll request/untouched p50", 64, 1.5),
            ("hythe/floor poll single rate", 64, 0.25),
            ("hythe poll batched/single rate", 64, 3.0),
            ("hythe/floor poll stream-4 rate", 64, 0.95),
            ("hythe poll untouched p50 largest/smallest size", 64, 2.0),
        ]);
        assert_eq!(found(&series), wanted);
    }

    #[test]
    fn what_shares_a_cpu_is_compared_with_what_does() {
        let series = [
            times("hythe/block/untouched", 64, &[9000]),
            placed("hythe/block/untouched", Placement::Shared, 64, &[1000]),
            placed("hythe/adaptive/untouched", Placement::Shared, 64, &[1100]),
        ];
        let wanted = expected([("hythe adaptive/block shared untouched p50", 64, 1.1)]);
        assert_eq!(found(&series), wanted);
    }

    #[test]
    fn further_subscriber_costs_what_it_adds() {
        let series = [
            times("iceoryx2/poll/fan-1", 64, &[300]),
            times("hythe/poll/fan-1", 64, &[100]),
            times("iceoryx2/poll/fan-8", 64, &[1000]),
            times("hythe/poll/fan-8", 64, &[275]),
        ];
        let pinned = Pinned { pinned: vec![0, 1] };
        let rows = further_subscribers(&series, &pinned);
        let values: Vec<_> = rows
            .iter()
            .map(|row| (&row.case[..], &row.figures))
            .collect();
        assert!(
            matches!(values[..], [
            ("iceoryx2/poll/further_subscriber", Figures::Value { value: more }),
            ("hythe/poll/further_subscriber", Figures::Value { value: less }),
        ] if *more == 100.0 && *less == 25.0),
            "{values:?}"
        );
        let wanted = expected([
            ("iceoryx2/hythe poll fan-1 publish p50", 64, 3.0),
            ("iceoryx2/hythe poll fan-8 publish p50", 64, 1000.0 / 275.0),
            ("iceoryx2/hythe poll further_subscriber publish", 64, 4.0),
        ]);
        assert_eq!(found(&series), wanted);
    }
}
