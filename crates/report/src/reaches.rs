//! The tables of a host hop: what each system takes within one host and between two, and the
//! paper's two tables of it.

use super::axis;
use super::document::{Document, Measurement};
use super::table::Table;
use crate::units;

/// What stands above them.
pub(super) const NOTE: &str = "Medians of a message and its answer: poll spins, block sleeps in the kernel; filled is written and read each time, untouched is only forwarded. The paper measured both tables over the same four ways, TCP/IP, UDP/IP, System V shared memory and its shared region; its figures are not preserved. Each of the four is shown as it is fastest, filled, and so is PVM, where it was measured. Between two hosts System V shared memory is no way: the paper may have meant tasks that reach their daemon by it, and the daemons each other by the network.";

const REACHES: [Reach; 2] = [
    Reach {
        name: "local",
        ways: "The paper's first table: four ways within one host",
        all: "Within one host",
    },
    Reach {
        name: "remote",
        ways: "The paper's second table: four ways between two hosts",
        all: "Between two hosts",
    },
];

/// The paper's ways, and the systems that go them; below them what the paper was compared with.
const WAYS: [(&str, &[&str]); 7] = [
    ("TCP/IP", &["tcp"]),
    ("UDP/IP", &["udp"]),
    ("System V shared memory", &["sysv"]),
    ("shared region, and TLS between hosts", &["hythe-tls"]),
    ("shared region, and TCP between hosts", &["hythe-tcp"]),
    ("shared region, and AF_XDP between hosts", &["hythe-xdp"]),
    ("PVM 3.4, which has the paper's tasks", &["pvm"]),
];

/// Between whom, and what stands above its tables.
struct Reach {
    name: &'static str,
    ways: &'static str,
    all: &'static str,
}

/// Of a document of the host hop, for each reach: a row for each way of the paper, and one for each
/// case; a column for each size. None of any other.
pub(super) fn tables(document: &Document) -> Vec<(&'static str, Table)> {
    if document.bench != "host" {
        return Vec::new();
    }
    let mut tables = Vec::new();
    for Reach { name, ways, all } in REACHES {
        let rows: Vec<(String, &Measurement)> = document
            .results
            .iter()
            .filter_map(|found| Some((rest_of(&found.case, name)?, found)))
            .collect();
        tables.extend(of_ways(&rows).map(|table| (ways, table)));
        tables.extend(of_cases(&rows).map(|table| (all, table)));
    }
    tables
}

/// The fastest of each way.
fn of_ways(rows: &[(String, &Measurement)]) -> Option<Table> {
    let mut table = with_sizes(rows);
    let mut is_empty = true;
    for (way, systems) in WAYS {
        let is_of_it = |name: &str| {
            let mut words = name.split(", ");
            let is_system = words.next().is_some_and(|system| systems.contains(&system));
            is_system && words.last() == Some("filled")
        };
        let of_it: Vec<_> = rows.iter().filter(|(name, _)| is_of_it(name)).collect();
        if of_it.is_empty() {
            continue;
        }
        is_empty = false;
        table.row(cells(way, rows, |size| {
            let of_size = of_it.iter().filter(|(_, row)| row.size_bytes == Some(size));
            of_size.filter_map(|(_, row)| Some(row.times()?.p50)).min()
        }));
    }
    (!is_empty).then_some(table)
}

/// A row for each case, a column for each size.
pub(super) fn of_cases(rows: &[(String, &Measurement)]) -> Option<Table> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut table = with_sizes(rows);
    for &name in &names {
        table.row(cells(name, rows, |size| {
            let mut of_it = rows.iter().filter(|(of, _)| of == name);
            let found = of_it.find(|(_, row)| row.size_bytes == Some(size));
            found.and_then(|(_, row)| Some(row.times()?.p50))
        }));
    }
    (!names.is_empty()).then_some(table)
}

fn with_sizes(rows: &[(String, &Measurement)]) -> Table {
    let mut table = Table::new(&["way"]);
    for size in sizes(rows) {
        table.column(format!(">{}", units::bytes(size)));
    }
    table
}

/// The name, and the median of each size.
fn cells(
    name: &str,
    rows: &[(String, &Measurement)],
    median: impl Fn(u64) -> Option<u64>,
) -> Vec<String> {
    let shown = |size| median(size).map_or_else(String::new, |p50| axis::time(p50 as f64));
    let cells = std::iter::once(name.to_owned()).chain(sizes(rows).into_iter().map(shown));
    cells.collect()
}

fn sizes(rows: &[(String, &Measurement)]) -> Vec<u64> {
    let mut sizes: Vec<u64> = rows.iter().filter_map(|(_, row)| row.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Of a case `system/reach/wait/payload` of this reach: the rest of it.
pub(super) fn rest_of(case: &str, reach: &str) -> Option<String> {
    let mut words = case.split('/');
    let system = words.next()?;
    (words.next()? == reach).then(|| {
        let rest = words.map(|word| format!(", {word}"));
        rest.fold(system.to_owned(), |name, word| name + &word)
    })
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::of_times;
    use super::*;

    #[test]
    fn host_hop_has_table_per_reach_and_column_per_size() {
        let rows = [
            ("tcp/local/poll/filled", 64, 1_000),
            ("tcp/local/poll/filled", 1024, 2_000),
            ("tcp/local/block/filled", 64, 900_000),
            ("pvm/remote/block/filled", 64, 3_000),
            ("hythe-xdp/remote/poll/filled", 64, 4_000),
            ("hythe-xdp/remote/poll/untouched", 64, 1_500),
        ]
        .map(|(case, size, time)| (case, "round_trip", size, time));
        assert!(tables(&of_times("ipc", &rows)).is_empty());
        let document = of_times("host", &rows);
        let tables = tables(&document);
        let titles: Vec<&str> = tables.iter().map(|(title, _)| *title).collect();
        let [local, remote] = &REACHES;
        assert_eq!(titles, [local.ways, local.all, remote.ways, remote.all]);
        let html: Vec<String> = tables
            .iter()
            .map(|(title, table)| table.html(title))
            .collect();
        for shown in ["TCP/IP", "64 B", "1 KiB", "1 us", "2 us"] {
            assert!(html[0].contains(shown), "{shown}: {}", html[0]);
        }
        assert!(!html[0].contains("900 us"), "{}", html[0]);
        for shown in [
            "tcp, poll, filled",
            "64 B",
            "1 KiB",
            "1 us",
            "2 us",
            "900 us",
        ] {
            assert!(html[1].contains(shown), "{shown}: {}", html[1]);
        }
        for shown in ["AF_XDP", "4 us", "PVM 3.4", "3 us"] {
            assert!(html[2].contains(shown), "{shown}: {}", html[2]);
        }
        assert!(!html[2].contains("1.5 us") && !html[2].contains("TCP/IP"));
        assert!(!html[0].contains("PVM"), "{}", html[0]);
        assert!(html[3].contains("pvm, block, filled") && !html[3].contains("1 KiB"));
    }
}
