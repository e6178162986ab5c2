//! Logs, on standard error.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::CliError;

/// Starts logging. `RUST_LOG` (`debug`, `hythe_node=trace,warn`) overrides the number of `-v`.
pub(crate) fn start(verbose: u8) -> Result<(), CliError> {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => text.parse().map_err(|error| {
            CliError::WrongUse(format!(
                "RUST_LOG=`{text}` is not a filter ({error}); try RUST_LOG=debug"
            ))
        })?,
        _ => Targets::new().with_default(level),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
    Ok(())
}
