//! Tests that count pages of the page cache, which the machine may take back meanwhile.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A machine that takes pages back spoils a few of these in a row at most.
const TRIES: u32 = 5;

/// Runs a test that counts pages. Where DAMON runs, which takes back what nobody reads and the
/// marks of what somebody did, a test that fails is tried again.
pub fn count_pages(test: impl Fn()) {
    for _ in 1..TRIES {
        match catch_unwind(AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(panic) if !has_damon() => resume_unwind(panic),
            Err(_) => println!("failed where DAMON runs, which may be the reason: once more"),
        }
    }
    test();
}

/// Does a thread of DAMON's run?
fn has_damon() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.map(|entry| fs::read_to_string(entry.path().join("comm")));
    names.flatten().any(|name| name.starts_with("kdamond."))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_fails_always_fails() {
        let runs = Cell::new(0);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            count_pages(|| {
                runs.set(runs.get() + 1);
                panic!("wrong");
            });
        }));
        assert!(failed.is_err());
        assert_eq!(runs.get(), if has_damon() { TRIES } else { 1 });
    }

    #[test]
    fn what_passes_runs_once() {
        let runs = Cell::new(0);
        count_pages(|| runs.set(runs.get() + 1));
        assert_eq!(runs.get(), 1);
    }
}
