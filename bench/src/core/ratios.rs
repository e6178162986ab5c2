//! Every comparison that the series of a run allow.

use clap::ValueEnum as _;

use super::case::{Case, Payload, System, Wait, word};
use super::series::Series;
use crate::document::Ratio;
use crate::statistics::paired_ratio;

/// What a ratio of the largest by the smallest size ends with.
pub(super) const BY_SIZE: &str = "p50 largest/smallest size";

/// All of them.
pub(super) fn all(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for below in series.iter().filter(|one| one.case.system == System::Hythe) {
        for (system, name) in [
            (System::Copy, by_copy(below.case)),
            (System::Agent, by_agent(below.case)),
        ] {
            let wanted = Case {
                system,
                ..below.case
            };
            let above = series
                .iter()
                .find(|other| other.case == wanted && other.size == below.size);
            ratios.extend(above.map(|above| ratio(name, above, below)));
        }
    }
    ratios.extend(by_size(series));
    ratios
}

/// How many times as long the copy takes.
pub(super) fn by_copy(case: Case) -> String {
    format!("copy/hythe {} {} p50", word(case.wait), word(case.payload))
}

/// How many times as long the same takes with its rings through the agent.
pub(super) fn by_agent(case: Case) -> String {
    let (wait, payload) = (word(case.wait), word(case.payload));
    format!("agent/eventfd {wait} {payload} p50")
}

fn ratio(name: String, above: &Series, below: &Series) -> Ratio {
    Ratio {
        name,
        size_bytes: above.size,
        value: paired_ratio(&above.medians(), &below.medians()),
    }
}

/// Is the way of a descriptor as long for a large message as for a small one?
fn by_size(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for system in [System::Hythe, System::Copy] {
        for &wait in Wait::value_variants() {
            let case = Case {
                system,
                wait,
                payload: Payload::Untouched,
            };
            let of_case = || series.iter().filter(|series| series.case == case);
            let smallest = of_case().min_by_key(|series| series.size);
            let largest = of_case().max_by_key(|series| series.size);
            if let (Some(smallest), Some(largest)) = (smallest, largest)
                && smallest.size < largest.size
            {
                let name = format!("{} {} untouched {BY_SIZE}", word(system), word(wait));
                ratios.push(ratio(name, largest, smallest));
            }
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::super::series::made::times;
    use super::*;

    #[test]
    fn ratios_compare_like_with_like() {
        let poll = |system, payload| (system, Wait::Poll, payload);
        let series = [
            times(poll(System::Hythe, Payload::Untouched), 8, &[100, 400]),
            times(poll(System::Copy, Payload::Untouched), 8, &[80, 320]),
            times(poll(System::Hythe, Payload::Untouched), 1024, &[110, 440]),
            times(poll(System::Copy, Payload::Filled), 8, &[80, 320]),
            times(
                (System::Copy, Wait::Bell, Payload::Untouched),
                1024,
                &[80, 320],
            ),
            times(
                (System::Hythe, Wait::Bell, Payload::Untouched),
                8,
                &[80, 300],
            ),
            times(
                (System::Agent, Wait::Bell, Payload::Untouched),
                8,
                &[160, 600],
            ),
        ];
        let found: Vec<_> = all(&series)
            .into_iter()
            .map(|ratio| (ratio.name, ratio.size_bytes, ratio.value))
            .collect();
        let expected = [
            ("copy/hythe poll untouched p50".to_owned(), 8, 0.8),
            ("agent/eventfd bell untouched p50".to_owned(), 8, 2.0),
            (
                "hythe poll untouched p50 largest/smallest size".to_owned(),
                1024,
                1.1,
            ),
        ];
        assert_eq!(found, expected);
    }
}
