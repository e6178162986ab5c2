//! What is told of: on standard error, as the programs do that this library is loaded into.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::OnceLock;

/// A line if the environment wants to know: `HYTHE_SHM_LOG=1`.
pub(crate) fn tell(line: Arguments<'_>) {
    static IS_WANTED: OnceLock<bool> = OnceLock::new();
    if *IS_WANTED.get_or_init(|| std::env::var_os("HYTHE_SHM_LOG").is_some_and(|said| said == "1"))
    {
        say(line);
    }
}

/// A line.
pub(crate) fn say(line: Arguments<'_>) {
    // Nobody may be there to read it, which is no reason to fail.
    let _ = std::io::stderr().write_all(format!("hythe_shm: {line}\n").as_bytes());
}
