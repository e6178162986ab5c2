//! The table of tests of the paper on memory shared between the cores of a dual-core system: a line
//! for each of its tests, and the commands behind it. `make test-p1` shows it
//! (`HYTHE_TEST_P1=1`).
//!
//! Where the paper needs its own hardware a row says "not applicable". A row that fails says
//! FAILED and why, and the others go on; in the end the whole fails. Boards come from `make setup`.

mod rows;
mod table;

#[test]
fn papers_table_of_tests() {
    let all = std::env::var_os("HYTHE_TEST_P1").is_some();
    let failed = table::run(&rows::ROWS, all);
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}
