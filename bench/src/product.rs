//! The shipped command, where a scenario measures what its users run.

use std::path::PathBuf;

/// What to do where there is none.
pub(crate) const MISSING: &str = "no program `hythe` beside this one: `make bench` builds it";

/// The command that was built with this program.
pub(crate) fn hythe() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    // The tests' programs lie one folder deeper.
    let folders = own.ancestors().skip(1).take(2);
    let mut found = folders.map(|folder| folder.join("hythe"));
    found.find(|path| path.is_file())
}
