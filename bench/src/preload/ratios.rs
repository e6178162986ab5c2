//! Figures by one another.
//!
//! A difference is given by the *spread*: the larger of the two ranges from the fastest boot to the
//! slowest. Names end with the file system. Never compares across file systems.

use super::application::Recorded;
use super::case::Way;
use super::series::Series;
use crate::document::Ratio;

/// All that can be made of these.
pub(super) fn of(series: &[Series], recorded: &[Recorded]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    ratios.extend(both(series, Way::Plain));
    ratios.extend(savings(series));
    ratios.extend(by_bound(series));
    ratios.extend(both(series, Way::Readahead));
    ratios.extend(both(series, Way::Vmtouch));
    ratios.extend(
        pairs(series, Way::Plain, Way::Budget).map(|(plain, budget)| {
            named("plain-budget by spread", plain, by_spread(plain, budget))
        }),
    );
    ratios.extend(series.iter().filter_map(kept));
    let applications = pairs(series, Way::ApplicationPlain, Way::ApplicationPreload);
    ratios.extend(applications.map(|(plain, preload)| {
        let quotient = plain.median() / preload.median();
        named("application-plain/application-preload", plain, quotient)
    }));
    ratios.extend(recorded.iter().map(|recorded| Ratio {
        name: format!("extents in both of two recordings {}", recorded.file_system),
        size_bytes: recorded.bytes,
        value: recorded.agreement,
    }));
    ratios.retain(|ratio| ratio.value.is_finite());
    ratios
}

/// Two ways, on each file system at each size that has both.
pub(super) fn pairs(
    series: &[Series],
    one: Way,
    other: Way,
) -> impl Iterator<Item = (&Series, &Series)> {
    let of = move |way: Way| series.iter().filter(move |series| series.way == way);
    of(one).filter_map(move |one| {
        let place = (one.file_system, one.size);
        let other = of(other).find(|other| (other.file_system, other.size) == place)?;
        Some((one, other))
    })
}

/// What the plain way takes longer.
pub(super) fn saved((plain, preload): (&Series, &Series)) -> f64 {
    plain.median() - preload.median()
}

fn named(name: &str, series: &Series, value: f64) -> Ratio {
    Ratio {
        name: format!("{name} {}", series.file_system),
        size_bytes: series.size,
        value,
    }
}

/// How much longer the first takes.
fn by_spread(slower: &Series, faster: &Series) -> f64 {
    (slower.median() - faster.median()) / slower.range().max(faster.range())
}

/// A way by ours, as quotient and as difference.
fn both(series: &[Series], way: Way) -> impl Iterator<Item = Ratio> {
    pairs(series, way, Way::Preload).flat_map(move |(other, ours)| {
        let quotient = other.median() / ours.median();
        let difference = by_spread(other, ours);
        [
            named(&format!("{way}/preload"), other, quotient),
            named(&format!("{way}-preload by spread"), other, difference),
        ]
    })
}

/// What is saved at a size, by what is saved at the next smaller one.
fn savings(series: &[Series]) -> impl Iterator<Item = Ratio> {
    let pairs: Vec<_> = pairs(series, Way::Plain, Way::Preload).collect();
    let mut ratios = Vec::new();
    for step in pairs.windows(2) {
        if step[0].0.file_system == step[1].0.file_system {
            let grown = saved(step[1]) / saved(step[0]);
            ratios.push(named("saved by saved at the size before", step[1].0, grown));
        }
    }
    ratios.into_iter()
}

fn by_bound(series: &[Series]) -> impl Iterator<Item = Ratio> {
    pairs(series, Way::Preload, Way::Bound)
        .map(|(preload, bound)| named("preload/bound", preload, preload.median() / bound.fastest()))
}

/// Nothing read ahead, nothing kept: that falls short, too.
fn kept(series: &Series) -> Option<Ratio> {
    let is_ours = matches!(series.way, Way::Preload | Way::Budget);
    let name = format!("pages kept until use, {}", series.way);
    is_ours.then(|| named(&name, series, series.kept().unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::super::bars;
    use super::super::case::FileSystem;
    use super::super::series::tests::{outcome, series};
    use super::*;

    const MIB: usize = 1 << 20;

    fn ratio(series: &[Series], name: &str, size: usize) -> f64 {
        let ratios = of(series, &[]);
        let found = ratios
            .iter()
            .find(|ratio| ratio.name == name && ratio.size_bytes == size);
        found
            .unwrap_or_else(|| panic!("no {name} in {ratios:?}"))
            .value
    }

    #[test]
    fn differences_are_measured_by_the_larger_range() {
        let all = [
            series(Way::Plain, MIB, &[1000, 1100, 1050]),
            series(Way::Preload, MIB, &[600, 540, 550]),
        ];
        // 1050 - 550 by 100.
        assert_eq!(ratio(&all, "plain-preload by spread ubifs", MIB), 5.0);
        let quotient = ratio(&all, "plain/preload ubifs", MIB);
        assert!((quotient - 1050.0 / 550.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_saved_is_compared_with_the_size_before() {
        let all = [
            series(Way::Plain, MIB, &[1000]),
            series(Way::Preload, MIB, &[500]),
            series(Way::Plain, 2 * MIB, &[2000]),
            series(Way::Preload, 2 * MIB, &[1000]),
        ];
        let name = "saved by saved at the size before ubifs";
        assert_eq!(ratio(&all, name, 2 * MIB), 2.0);
    }

    #[test]
    fn bound_is_the_fastest_boot_and_the_bar_stands_from_two_mib_up() {
        let all = [
            series(Way::Preload, 2 * MIB, &[1000, 1150, 1200]),
            series(Way::Bound, 2 * MIB, &[1000, 1200, 1100]),
        ];
        let name = "preload/bound ubifs";
        assert!((ratio(&all, name, 2 * MIB) - 1.15).abs() < 1e-9);
        let bar = |size_bytes| {
            bars::of_ratio(&Ratio {
                name: name.to_owned(),
                size_bytes,
                value: 1.0,
            })
        };
        assert_eq!(bar(MIB), None);
        assert!(bar(2 * MIB).is_some_and(|bar| bar.is_met_by(1.15) && !bar.is_met_by(1.16)));
    }

    #[test]
    fn nothing_read_ahead_misses_the_bar() {
        let mut budget = Series::new(FileSystem::Ubifs, Way::Budget, MIB);
        budget.add(outcome(&[1], 0, 0));
        let name = "pages kept until use, budget ubifs";
        assert_eq!(ratio(&[budget], name, MIB), 0.0);
    }

    #[test]
    fn file_systems_are_never_compared_with_each_other() {
        let mut plain = Series::new(FileSystem::Ext4, Way::Plain, MIB);
        plain.add(outcome(&[1000], 0, 0));
        let all = [plain, series(Way::Preload, MIB, &[500])];
        let names: Vec<String> = of(&all, &[]).into_iter().map(|ratio| ratio.name).collect();
        assert_eq!(names, ["pages kept until use, preload ubifs"]);
    }
}
