//! The tables of a comparison with PVM: messages within one host and between two, NetPIPE, and the
//! parallel programs; a column for each system, or for each size.

use super::axis;
use super::document::{Document, Measurement};
use super::reaches;
use super::table::Table;
use crate::units;

/// What stands above them.
pub(super) const NOTE: &str = "Medians. `hythe` runs the very files that `pvm` runs, not compiled again, by libraries of its own. Of a program: all of its time, and the part of it in which its tasks communicate, each the mean of the tasks; 4 tasks share 2 CPUs.";

const REACHES: [(&str, &str); 2] = [
    ("local", "Messages of PVM within one host, there and back"),
    (
        "remote",
        "Messages of PVM between two hosts, there and back",
    ),
];
const NETPIPE: &str = "NetPIPE between two hosts, one way";
const PROGRAMS: &str = "Parallel programs, by tasks and hosts";

/// Of a document of scenario `pvm`, those of which it has rows. None of any other.
pub(super) fn tables(document: &Document) -> Vec<(&'static str, Table)> {
    if document.bench != "pvm" {
        return Vec::new();
    }
    let messages = REACHES.iter().filter_map(|&(reach, title)| {
        let round_trips = of_metric(document, "round_trip");
        let rows: Vec<(String, &Measurement)> = round_trips
            .filter_map(|found| Some((reaches::rest_of(&found.case, reach)?, found)))
            .collect();
        Some((title, reaches::of_cases(&rows)?))
    });
    let rest = [
        netpipe(document).map(|table| (NETPIPE, table)),
        programs(document).map(|table| (PROGRAMS, table)),
    ];
    messages.chain(rest.into_iter().flatten()).collect()
}

fn of_metric<'a>(document: &'a Document, metric: &str) -> impl Iterator<Item = &'a Measurement> {
    let results = document.results.iter();
    results.filter(move |found| found.metric == metric)
}

/// Each once, as they come.
fn once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut each = Vec::new();
    for one in all {
        if !each.contains(&one) {
            each.push(one);
        }
    }
    each
}

/// A case is `system/REST`.
fn parts(found: &Measurement) -> (&str, &str) {
    found.case.split_once('/').unwrap_or((&found.case, ""))
}

fn median(found: &Measurement) -> Option<String> {
    Some(axis::time(found.times()?.p50 as f64))
}

/// A row for each size, from the smallest on.
fn netpipe(document: &Document) -> Option<Table> {
    let rows: Vec<&Measurement> = of_metric(document, "one_way").collect();
    let systems = once(rows.iter().map(|found| parts(found).0));
    let mut sizes = once(rows.iter().filter_map(|found| found.size_bytes));
    sizes.sort_unstable();
    let mut table = Table::new(&[">size"]);
    for system in &systems {
        table.column(format!(">{system}"));
    }
    for &size in &sizes {
        let cell = |system: &&str| {
            let mut of_it = rows.iter().filter(|found| parts(found).0 == *system);
            let found = of_it.find(|found| found.size_bytes == Some(size));
            found.and_then(|found| median(found)).unwrap_or_default()
        };
        let cells = std::iter::once(units::bytes(size)).chain(systems.iter().map(cell));
        table.row(cells.collect());
    }
    (!sizes.is_empty()).then_some(table)
}

/// A row for each program, tasks and hosts; of each system all of the time, and that in
/// communication.
fn programs(document: &Document) -> Option<Table> {
    let totals: Vec<&Measurement> = of_metric(document, "total").collect();
    let systems = once(totals.iter().map(|found| parts(found).0));
    let subjects = once(totals.iter().map(|found| parts(found).1));
    let mut table = Table::new(&["program"]);
    for system in &systems {
        table.column(format!(">{system}"));
        table.column(format!(">{system}, communicating"));
    }
    for &subject in &subjects {
        let mut cells = vec![subject.replace('/', " ")];
        for &system in &systems {
            for metric in ["total", "communication"] {
                let mut of_it = of_metric(document, metric);
                let found = of_it.find(|found| parts(found) == (system, subject));
                cells.push(found.and_then(median).unwrap_or_default());
            }
        }
        table.row(cells);
    }
    (!subjects.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::of_times;
    use super::*;

    #[test]
    fn pvm_comparison_shows_messages_netpipe_and_programs() {
        let rows = [
            ("pvm/local/direct/raw", "round_trip", 64, 20_000),
            ("hythe/local/direct/raw", "round_trip", 64, 2_000),
            ("hythe/remote/direct/raw", "round_trip", 1024, 9_000),
            ("hythe/local/direct/raw", "pack", 64, 777_000),
            ("tcp/remote/netpipe", "one_way", 1024, 6_000),
            ("tcp/remote/netpipe", "one_way", 1, 5_000),
            ("hythe/remote/netpipe", "one_way", 1, 4_000),
            ("pvm/jacobi/2x2", "total", 0, 80_000_000),
            ("pvm/jacobi/2x2", "communication", 0, 30_000_000),
            ("openmpi/jacobi/2x2", "total", 0, 70_000_000),
        ];
        assert!(tables(&of_times("ipc", &rows)).is_empty());
        let document = of_times("pvm", &rows);
        let tables = tables(&document);
        let titles: Vec<&str> = tables.iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, [REACHES[0].1, REACHES[1].1, NETPIPE, PROGRAMS]);
        let html: Vec<String> = { tables.iter() }
            .map(|(title, table)| table.html(title))
            .collect();
        for shown in ["pvm, direct, raw", "hythe, direct, raw", "20 us", "2 us"] {
            assert!(html[0].contains(shown), "{shown}: {}", html[0]);
        }
        assert!(!html[0].contains("777") && !html[0].contains("9 us"));
        assert!(html[1].contains("9 us") && !html[1].contains("pvm"));
        let places = ["1 B", "5 us", "4 us", "1 KiB", "6 us"].map(|shown| html[2].find(shown));
        assert!(places.is_sorted() && places[0].is_some(), "{}", html[2]);
        for shown in [
            "jacobi 2x2",
            "pvm, communicating",
            "80 ms",
            "30 ms",
            "openmpi",
            "70 ms",
        ] {
            assert!(html[3].contains(shown), "{shown}: {}", html[3]);
        }
    }
}
