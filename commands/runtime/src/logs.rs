//! Logs, on standard error.

use hythe_terminal::escaped;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::CliError;

/// Values come from peers, files and the network: none of them reaches a terminal as it is.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        match field.name() {
            "message" => write!(writer, "{}", escaped(&value)),
            name => write!(writer, "{name}={}", escaped(&value)),
        }
    })
    .delimited(" ")
}

/// Starts logging. `RUST_LOG` (`debug`, `hythe_node=trace,warn`) overrides the number of `-v`.
pub fn start(verbose: u8) -> Result<(), CliError> {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => text.parse().map_err(|error| {
            CliError::WrongUse(format!(
                "RUST_LOG=`{}` is not a filter ({error}); try RUST_LOG=debug",
                escaped(&text)
            ))
        })?,
        _ => Targets::new().with_default(level),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .fmt_fields(fields());
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
    Ok(())
}
