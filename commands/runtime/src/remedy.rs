//! What to do about an error, in commands and flags of `hythe`.
//!
//! The libraries' errors carry values and name no command: programs of any kind use them. Each
//! function here returns what the command appends to the text of such an error; it is empty where
//! the text says enough. Never prints.

use hythe::core::CoreError;
use hythe::core::tasks::TaskError;
#[cfg(feature = "media")]
use hythe::media::MediaError;
use hythe::{NodeError, PoolError};
#[cfg(feature = "latency")]
use hythe_latency::{LatencyError, host};
#[cfg(feature = "preload")]
use hythe_preload::PreloadError;
use hythe_terminal::escaped;

/// What to do about an error of this kind.
pub fn of_pool(error: &PoolError) -> String {
    let remedy = match error {
        PoolError::TooSmall { .. } => {
            ": --small for a small device, or --limit (participants, channels, ports, connections, \
             queue-segments, core-slots)"
        }
        PoolError::TableFull { .. } => " (`hythe pool create --limit`)",
        PoolError::LedgerFull { .. } => {
            " (`hythe pool create --limit core-slots=`, `hythe core run --class`)"
        }
        PoolError::TooManyRegions { .. } => " (`hythe core run --as`, --pool)",
        PoolError::QueueTooDeep { .. } => " (`hythe pool create --limit queue-segments=`)",
        // A pool keeps its sizes: another has to be made in its place.
        PoolError::TooLarge { bytes, .. } => {
            return format!(
                " (`hythe pool remove`, then `hythe pool create --class {bytes}x4`, or a larger --size)"
            );
        }
        _ => "",
    };
    remedy.to_owned()
}

/// What to do about an error of this kind.
pub fn of_node(error: &NodeError) -> String {
    match error {
        NodeError::NoSuchPool { name, .. } | NodeError::NoPoolOfUser { name, .. } => {
            format!(": `hythe pool create {}` makes it", escaped(name))
        }
        NodeError::InUse { .. } => " (--force)".to_owned(),
        NodeError::NoRoom { .. } => " (--size)".to_owned(),
        NodeError::TooLarge { .. } => " (--size, --small)".to_owned(),
        NodeError::PoolLost { what, .. } if what.contains("by force") => {
            " (`hythe pool remove --force`)".to_owned()
        }
        NodeError::CoreSilent { .. }
        | NodeError::CoreViolation { .. }
        | NodeError::CoreBlocked { .. }
        | NodeError::CoreFull { .. } => " (`hythe core status`)".to_owned(),
        NodeError::Pool(error) => of_pool(error),
        NodeError::Exhausted(full) => full.remedy.as_ref().map_or_else(
            || of_pool(&full.cause),
            |larger| format!(" (`hythe pool create --size {}M`)", larger.pool_bytes >> 20),
        ),
        _ => String::new(),
    }
}

/// What to do about an error of this kind.
pub fn of_core(error: &CoreError) -> String {
    match error {
        CoreError::AlreadyRunning { board, .. } => {
            format!("; `hythe core stop {}` stops it", escaped(board))
        }
        CoreError::NotRunning { board, .. } => {
            format!("; `hythe core run {}` starts it", escaped(board))
        }
        CoreError::WithoutAgent { .. } => {
            " (`hythe core stop` ends it, `hythe core run` starts it anew)".to_owned()
        }
        CoreError::OutOfReach { .. } => " (`hythe core stop`)".to_owned(),
        CoreError::NotRunnable { missing, .. }
            if missing.iter().any(|what| what.contains("only be measured")) =>
        {
            " (`hythe latency board`)".to_owned()
        }
        CoreError::ChannelTaken { channel, .. } => format!(
            "; `--as NAME` gives this core channels of its own, such as `NAME/{}`",
            escaped(channel)
        ),
        CoreError::BadName { .. } => " (--as)".to_owned(),
        CoreError::BadClasses { .. } => " (--class)".to_owned(),
        CoreError::Node(error) => of_node(error),
        _ => String::new(),
    }
}

/// What to do about an error of this kind.
pub fn of_task(error: &TaskError) -> String {
    match error {
        TaskError::NoControl { .. } => "; `hythe core run --app` runs one that does".to_owned(),
        TaskError::Down { board, .. } => format!(
            "; unless its agent starts it anew, `hythe core run {0}` does (`hythe core log {0}`)",
            escaped(board)
        ),
        TaskError::Silent { board, .. } => format!(
            " (`hythe core log {0}`; `hythe core stop {0}` ends it)",
            escaped(board)
        ),
        TaskError::Runs { board, task } | TaskError::TooMany { board, task, .. } => format!(
            " (`hythe core task stop {} {}`)",
            escaped(board),
            escaped(task)
        ),
        TaskError::StillRuns { board, task, .. } | TaskError::NotBegun { board, task } => format!(
            " (`hythe core task kill {} {}`)",
            escaped(board),
            escaped(task)
        ),
        TaskError::NotRunning { board, task } => format!(
            "; `hythe core task start {} {}` starts it",
            escaped(board),
            escaped(task)
        ),
        TaskError::Permanent { .. } => " (`hythe core stop`)".to_owned(),
        TaskError::Core(error) => of_core(error),
        _ => String::new(),
    }
}

#[cfg(feature = "media")]
/// What to do about an error of this kind.
pub fn of_media(error: &MediaError) -> String {
    match error {
        MediaError::Pool(error) => of_node(error),
        MediaError::NoInterface { .. } => "; `hythe media recv`: --interface NAME".to_owned(),
        _ => String::new(),
    }
}

#[cfg(feature = "preload")]
/// What to do about an error of this kind.
pub fn of_preload(error: &PreloadError) -> &'static str {
    match error {
        PreloadError::InodesDiffer { any_before: true } => " (that one with --any-inode, too)",
        PreloadError::InodesDiffer { any_before: false } => " (it was recorded with --any-inode)",
        PreloadError::NoRun { .. } => " (`hythe preload replay`)",
        PreloadError::NotPermitted => " (sudo hythe preload record …)",
        PreloadError::NoCommand => ": say --boot, or -- and a command",
        PreloadError::File { path, .. } if path.ends_with("drop_caches") => {
            "; --keep-caches records without dropping them"
        }
        _ => "",
    }
}

#[cfg(feature = "latency")]
/// What to do about an error of this kind.
pub fn of_latency(error: &LatencyError) -> &'static str {
    match error {
        LatencyError::NotComparable { .. } => "; --force compares them all the same",
        LatencyError::RecordLog { what } if what.contains("the CPU slept") => " (--clock host)",
        _ => "",
    }
}

/// Of something that a measurement of this host goes without.
#[cfg(feature = "latency")]
/// What to do about an error of this kind.
pub fn of_refusal(refusal: &host::Refusal) -> &'static str {
    let is_cpu = |what: &str| {
        let number = what.strip_prefix("cpu");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    match refusal.what.as_str() {
        "channel_wake" => " (--pool, --measure)",
        what if is_cpu(what) => " (--cpus)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CliError;

    fn missing() -> NodeError {
        NodeError::NoSuchPool {
            name: "camera".to_owned(),
            root: "/dev/shm/hythe".into(),
        }
    }

    #[test]
    fn command_says_what_to_do_whichever_crate_passes_the_error_on() {
        let said =
            "there is no pool `camera` in /dev/shm/hythe: `hythe pool create camera` makes it";
        for error in [CliError::from(missing()), CoreError::Node(missing()).into()] {
            assert_eq!(error.to_string(), said);
        }
    }

    #[test]
    fn full_table_names_the_flag() {
        let full = PoolError::TableFull {
            what: "port",
            limit: 4,
        };
        let said = CliError::from(NodeError::from(full)).to_string();
        assert!(said.starts_with("no free port: all 4 are in use"), "{said}");
        assert!(said.ends_with("(`hythe pool create --limit`)"), "{said}");
    }
}
