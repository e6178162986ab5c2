//! What a paper measured, to stand beside our figures for the eye. Never part of a ratio: it is of
//! another machine.

use super::axis;
use super::document::Document;
use super::table::Table;
use crate::units;

/// What stands above the table.
pub(super) const CORE_NOTE: &str = "Between the two cores of an MP2530F (ARM926 at 350 MHz with Linux 2.6.20, ARM946 at 300 MHz with RTEMS 4.7), in 2010, before and after the paper's improvement. For orientation: another machine, its direction and repetitions not stated.";

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

/// The paper's times of the sizes that the document has; none of a scenario that no paper measured.
pub(super) fn beside(document: &Document) -> Option<Table> {
    if document.bench != "core" {
        return None;
    }
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
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::{parsed, small};
    use super::*;

    #[test]
    fn the_paper_stands_beside_the_core_hop_only() {
        let mut value = small();
        assert_eq!(beside(&parsed(&value).expect("good")), None);
        value["bench"] = "core".into();
        let document = parsed(&value).expect("good");
        let table = beside(&document).expect("a table").html("paper");
        // Of the two sizes that were measured, the paper has one.
        assert!(table.contains("64 B"), "{table}");
        assert!(
            !table.contains("4 KiB") && !table.contains("1 MiB"),
            "{table}"
        );
    }
}
