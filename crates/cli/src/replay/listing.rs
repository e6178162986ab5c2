//! `hythe replay --list`: what is in a recording.

use std::fs::File;
use std::path::Path;

use hythe::recording::Reader;
use hythe_terminal::escaped;
use serde::Serialize;

use super::carried;
use crate::args::Globals;
use crate::error::CliError;
use crate::{output, units};

#[derive(Serialize)]
struct Document<'a> {
    file: &'a Path,
    channel: &'a str,
    #[serde(rename = "type")]
    carries: String,
    started_unix_ns: u64,
    records: u64,
    payload_bytes: u64,
    /// From the start of the recording to its last record.
    seconds: f64,
    messages_per_second: f64,
    /// By publishers, while it was recorded; not known of a recording that was not ended in order.
    dropped: Option<u64>,
    complete: bool,
    /// Behind the last whole record.
    dropped_bytes: u64,
}

pub(super) fn run(path: &Path, reader: &Reader<&File>, globals: &Globals) -> Result<(), CliError> {
    let (header, summary) = (reader.header(), reader.summary());
    let seconds = summary.last_time_ns as f64 / 1e9;
    let document = Document {
        file: path,
        channel: &header.channel,
        carries: carried(header).to_string(),
        started_unix_ns: header.started_unix_ns,
        records: summary.records,
        payload_bytes: summary.payload_bytes,
        seconds,
        messages_per_second: if seconds > 0.0 {
            summary.records as f64 / seconds
        } else {
            0.0
        },
        dropped: summary.dropped,
        complete: summary.is_complete,
        dropped_bytes: summary.dropped_bytes,
    };
    output::print(globals.json, &document, text)
}

fn text(found: &Document<'_>) -> String {
    let mut text = format!(
        "{}: channel {}, {}\n{} of {} in all over {:.3} s ({:.1}/s)",
        escaped(&found.file),
        escaped(found.channel),
        found.carries,
        units::counted(found.records, "message"),
        units::bytes(found.payload_bytes),
        found.seconds,
        found.messages_per_second
    );
    text += &match found.dropped {
        Some(dropped) => format!("; {dropped} dropped while it was recorded"),
        None => format!(
            "\nit was not ended in order; left out behind the last whole record: {}",
            units::bytes(found.dropped_bytes)
        ),
    };
    text
}
