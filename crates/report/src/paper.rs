//! What a paper measured, to stand beside our figures for the eye. Never part of a ratio: it is of
//! another machine.

use super::axis;
use super::document::Document;
use super::table::Table;
use crate::units;

/// What stands above the table of times between cores.
const CORE_NOTE: &str = "Between the two cores of an MP2530F (ARM926 at 350 MHz with Linux 2.6.20, ARM946 at 300 MHz with RTEMS 4.7), in 2010, before and after the paper's improvement. For orientation: another machine, its direction and repetitions not stated.";

/// What stands above the table of the player.
const PLAYER_NOTE: &str = "A player on the same machine, before and after the paper's improvement, which it reports as \"10 % or more better\": by what is not said. For orientation: another machine.";

/// Of a frame, in nanoseconds, before and after.
const SYNC_ERROR: [u64; 2] = [19_000_000, 24_000_000];

/// Bytes, and nanoseconds before and after. Of 8 to 128 bytes the paper has one figure.
const CORE: [(u64, u64, u64); 16] = [
    (8, 15_400, 14_000),
    (16, 15_400, 14_000),
    (32, 15_400, 14_000),
    (64, 15_400, 14_000),
    (128, 15_400, 14_000),
    (256, 16_600, 15_000),
    (512, 17_600, 16_000),
    (1 << 10, 19_800, 18_000),
    (8 << 10, 51_200, 46_700),
    (16 << 10, 106_300, 96_700),
    (32 << 10, 348_400, 316_700),
    (64 << 10, 751_500, 683_300),
    (128 << 10, 1_448_400, 1_316_700),
    (256 << 10, 2_874_600, 2_513_300),
    (512 << 10, 5_766_700, 5_242_500),
    (1 << 20, 11_506_000, 10_460_000),
];

/// The paper's figures of what the document has, and what stands above them; none of a scenario
/// that no paper measured.
pub(super) fn beside(document: &Document) -> Option<(&'static str, Table)> {
    if document.bench != "core" {
        return None;
    }
    let mut results = document.results.iter();
    Some(match results.any(|found| found.metric == "sync_error") {
        true => (PLAYER_NOTE, player()),
        false => (CORE_NOTE, between_cores(document)),
    })
}

fn player() -> Table {
    let mut table = Table::new(&["metric", ">before", ">after"]);
    let times = SYNC_ERROR.map(|time| axis::time(time as f64));
    let mut cells = vec!["synchronisation error of a frame".to_owned()];
    cells.extend(times);
    table.row(cells);
    table
}

/// Of the sizes that the document has.
fn between_cores(document: &Document) -> Table {
    let measured = |bytes| {
        let mut sizes = document.results.iter().map(|found| found.size_bytes);
        sizes.any(|size| size == Some(bytes))
    };
    let mut table = Table::new(&[">payload", ">before", ">after"]);
    for (bytes, before, after) in CORE.into_iter().filter(|(bytes, ..)| measured(*bytes)) {
        let times = [before, after].map(|time| axis::time(time as f64));
        let mut cells = vec![units::bytes(bytes)];
        cells.extend(times);
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::{parsed, small};
    use super::*;

    #[test]
    fn paper_stands_beside_the_core_hop_only() {
        let mut value = small();
        assert!(beside(&parsed(&value).expect("good")).is_none());
        value["bench"] = "core".into();
        let document = parsed(&value).expect("good");
        let (_, table) = beside(&document).expect("a table");
        let table = table.html("paper");
        // Of the two sizes that were measured, the paper has one.
        assert!(table.contains("64 B"), "{table}");
        assert!(
            !table.contains("4 KiB") && !table.contains("1 MiB"),
            "{table}"
        );
    }

    #[test]
    fn papers_player_stands_beside_ours() {
        let mut value = small();
        value["bench"] = "core".into();
        value["results"][0]["metric"] = "sync_error".into();
        let document = parsed(&value).expect("good");
        let (note, table) = beside(&document).expect("a table");
        assert!(note.starts_with("A player"), "{note}");
        let table = table.html("paper");
        assert!(table.contains("19") && !table.contains("64 B"), "{table}");
    }
}
