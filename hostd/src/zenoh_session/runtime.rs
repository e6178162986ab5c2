//! The threads of Zenoh: one sends and receives.
//!
//! Zenoh's TLS link (1.10.2) reads and writes a connection of rustls without a lock, by two threads
//! unless it is told otherwise; that is undefined behaviour
//! (<https://github.com/eclipse-zenoh/zenoh/issues/2557>), and with much to carry both ways
//! connections break. Zenoh takes its threads from the environment, which a program cannot change
//! for itself once it runs: so it begins again, as the same process. What one thread does must not
//! wait for another of its tasks: see `CongestionControl` in `tunnel`.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Zenoh's variable.
const VARIABLE: &str = "ZENOH_RUNTIME";
/// Tasks that receive run where those that send do.
const ONE_THREAD: &str = "(rx: (handover: tx), tx: (worker_threads: 1))";

/// Begins this program again with one thread for Zenoh's links, unless somebody has said which
/// there are to be; then it returns. Call it before anything is opened or started.
///
/// # Errors
/// This program cannot be found, or not be started.
pub fn on_one_thread() -> io::Result<()> {
    if std::env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    let mut again = Command::new(std::env::current_exe()?);
    if let Some(name) = name {
        again.arg0(name);
    }
    Err(again.args(arguments).env(VARIABLE, ONE_THREAD).exec())
}
