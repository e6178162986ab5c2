//! What the agent says while it runs: on standard error, which is a terminal, the journal of
//! systemd, or a file of bounded size.
//!
//! The program starts it before it runs the agent. `RUST_LOG` chooses what is said. Values come
//! from other hosts: none reaches a file or a terminal as it is. Never keeps a line back.

mod file;

use std::fmt;
use std::io::{self, IsTerminal as _, Stderr, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hythe_terminal::escaped;
use rustix::fs::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use self::file::LOG_BYTES_MAX;
use self::file::LogFile;
pub(crate) use self::file::open;
use crate::HostdError;

/// Zenoh warns of each address that does not answer.
const FILTER: &str = "warn,hythe=info,zenoh=error";

/// Starts it; where standard error is the file with this path, that is kept within
/// [`LOG_BYTES_MAX`], and what was there before once more beside it.
///
/// # Errors
/// `RUST_LOG` is no filter.
pub fn start(file: Option<PathBuf>) -> Result<(), HostdError> {
    let given = std::env::var("RUST_LOG").ok();
    let given = given.filter(|text| !text.is_empty());
    let filter: Targets = match &given {
        Some(text) => text.parse().map_err(|error| {
            HostdError::Agent(format!(
                "RUST_LOG=`{}` is no filter ({error}): try RUST_LOG=debug, or unset it",
                escaped(text)
            ))
        })?,
        // It is one: a test parses it.
        None => FILTER.parse().unwrap_or_default(),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Destination(
            file.map(|path| Arc::new(Mutex::new(LogFile::at(path)))),
        ))
        .with_ansi(io::stderr().is_terminal())
        .event_format(Line {
            is_journal: is_journal(),
        })
        .fmt_fields(fields());
    let started = tracing_subscriber::registry().with(lines).with(filter);
    started
        .try_init()
        .map_err(|error| HostdError::Agent(format!("the log: {error}")))
}

/// The journal knows the time itself, and takes the level from the front of a line.
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    fstat(io::stderr()).is_ok_and(|own| named == format!("{}:{}", own.st_dev, own.st_ino))
}

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

/// How an event looks: `TIME LEVEL TARGET: MESSAGE FIELD=VALUE`, or `<PRIORITY>TARGET: ...`.
struct Line {
    is_journal: bool,
}

impl<S, F> FormatEvent<S, F> for Line
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    F: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, F>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        if self.is_journal {
            write!(writer, "<{}>", priority(level))?;
        } else {
            SystemTime.format_time(&mut writer)?;
            write!(writer, " {level:5} ")?;
        }
        write!(writer, "{target}: ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Of syslog.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Where lines go.
#[derive(Debug)]
struct Destination(Option<Arc<Mutex<LogFile>>>);

impl<'a> MakeWriter<'a> for Destination {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter {
            file: self.0.clone(),
            stderr: io::stderr(),
        }
    }
}

/// For one line, which comes in one piece.
struct LineWriter {
    file: Option<Arc<Mutex<LogFile>>>,
    stderr: Stderr,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = &self.file {
            let file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.make_room(line.len());
        }
        self.stderr.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zenoh_speaks_of_errors_only_unless_it_is_asked_for_more() {
        let filter: Targets = FILTER.parse().expect("a filter");
        for (target, level, is_said) in [
            ("hythe_cluster::agent::host", Level::INFO, true),
            ("hythe_hostd::agent", Level::DEBUG, false),
            ("zenoh_transport::unicast", Level::WARN, false),
            ("zenoh", Level::ERROR, true),
            ("rustls", Level::WARN, true),
        ] {
            assert_eq!(filter.would_enable(target, &level), is_said, "{target}");
        }
    }
}
