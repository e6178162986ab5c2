//! The two tables of a host hop: what each system takes within one host, and between two.

use super::axis;
use super::document::{Document, Measurement};
use super::table::Table;
use crate::units;

/// What stands above them.
pub(super) const NOTE: &str = "Medians of a message and its answer: poll spins, block sleeps in the kernel; filled is written and read each time, untouched is only forwarded. The paper measured the same two cases over TCP/IP, UDP/IP, System V shared memory and its shared region; its figures are not preserved.";

const REACHES: [(&str, &str); 2] = [
    ("local", "Within one host"),
    ("remote", "Between two hosts"),
];

/// Both, of a document of the host hop: a row for each case, a column for each size. None of any
/// other.
pub(super) fn tables(document: &Document) -> Vec<(&'static str, Table)> {
    if document.bench != "host" {
        return Vec::new();
    }
    let tables = REACHES.map(|(reach, title)| Some((title, table(document, reach)?)));
    tables.into_iter().flatten().collect()
}

fn table(document: &Document, reach: &str) -> Option<Table> {
    let rows: Vec<(String, &Measurement)> = document
        .results
        .iter()
        .filter_map(|found| Some((name(&found.case, reach)?, found)))
        .collect();
    let mut sizes: Vec<u64> = rows.iter().filter_map(|(_, row)| row.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in &rows {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut table = Table::new(&["way"]);
    for &size in &sizes {
        table.column(format!(">{}", units::bytes(size)));
    }
    for &name in &names {
        let cell = |size: &u64| {
            let mut of_it = rows.iter().filter(|(of, _)| of == name);
            let found = of_it.find(|(_, row)| row.size_bytes == Some(*size));
            let times = found.and_then(|(_, row)| row.times());
            times.map_or_else(String::new, |times| axis::time(times.p50 as f64))
        };
        let cells = std::iter::once(name.to_owned()).chain(sizes.iter().map(cell));
        table.row(cells.collect());
    }
    (!names.is_empty()).then_some(table)
}

/// Of a case `system/reach/wait/payload` of this reach: the rest of it.
fn name(case: &str, reach: &str) -> Option<String> {
    let mut words = case.split('/');
    let system = words.next()?;
    (words.next()? == reach).then(|| {
        let rest = words.map(|word| format!(", {word}"));
        rest.fold(system.to_owned(), |name, word| name + &word)
    })
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::{parsed, small};
    use super::*;

    #[test]
    fn a_host_hop_has_a_table_for_each_reach_with_a_column_for_each_size() {
        let mut value = small();
        assert!(tables(&parsed(&value).expect("good")).is_empty());
        value["bench"] = "host".into();
        let mut row = value["results"][0].clone();
        let cases = [
            ("tcp/local/poll/filled", 64, 1_000),
            ("tcp/local/poll/filled", 1024, 2_000),
            ("pvm/remote/block/filled", 64, 3_000),
        ];
        let rows = cases.map(|(case, size, p50)| {
            row["case"] = case.into();
            row["size_bytes"] = size.into();
            for figure in ["min", "p50", "p99", "p999", "max"] {
                row[figure] = p50.into();
            }
            row.clone()
        });
        value["results"] = rows.to_vec().into();
        let document = parsed(&value).expect("good");
        let tables = tables(&document);
        let titles: Vec<&str> = tables.iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, ["Within one host", "Between two hosts"]);
        let html: Vec<String> = tables
            .iter()
            .map(|(title, table)| table.html(title))
            .collect();
        for shown in ["tcp, poll, filled", "64 B", "1 KiB", "1 us", "2 us"] {
            assert!(html[0].contains(shown), "{shown}: {}", html[0]);
        }
        assert!(html[1].contains("pvm, block, filled") && !html[1].contains("1 KiB"));
    }
}
