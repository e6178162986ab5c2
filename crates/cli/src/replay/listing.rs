//! `hythe replay --list`: what is in a recording.

use std::fs::File;
use std::path::Path;

use hythe::recording::{Reader, RecordingError};
use hythe_terminal::escaped;
use serde::Serialize;

use super::carried;
use crate::args::Globals;
use crate::error::CliError;
use crate::record::failed;
use crate::{output, units};

/// Places without messages that the text names.
const GAPS_SHOWN: usize = 10;

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
    /// Messages that the recorder missed; not known of a recording that was not ended in order.
    dropped: Option<u64>,
    /// Where.
    gaps: Vec<GapDocument>,
    complete: bool,
    /// Behind the last whole record.
    dropped_bytes: u64,
}

/// Messages that are missing in front of a record.
#[derive(Serialize)]
struct GapDocument {
    record: u64,
    missed: u64,
}

/// What a walk through all records finds.
#[derive(Default)]
struct Walked {
    first_time_ns: u64,
    gaps: Vec<GapDocument>,
}

pub(super) fn run(
    path: &Path,
    reader: &mut Reader<&File>,
    globals: &Globals,
) -> Result<(), CliError> {
    let walked = walk(reader).map_err(failed("read", path))?;
    let (header, summary) = (reader.header(), reader.summary());
    let seconds = summary.last_time_ns as f64 / 1e9;
    let between_ns = summary.last_time_ns.saturating_sub(walked.first_time_ns);
    let document = Document {
        file: path,
        channel: &header.channel,
        carries: carried(header).to_string(),
        started_unix_ns: header.started_unix_ns,
        records: summary.records,
        payload_bytes: summary.payload_bytes,
        seconds,
        // So many distances lie between so many messages.
        messages_per_second: match between_ns {
            0 => 0.0,
            _ => summary.records.saturating_sub(1) as f64 / (between_ns as f64 / 1e9),
        },
        dropped: summary.dropped,
        gaps: walked.gaps,
        complete: summary.is_complete,
        dropped_bytes: summary.dropped_bytes,
    };
    output::print(globals.json, &document, text)
}

fn walk(reader: &mut Reader<&File>) -> Result<Walked, RecordingError> {
    let mut walked = Walked::default();
    // Without losses, only the first is of interest.
    let is_all = reader.summary().dropped != Some(0);
    while let Some(record) = reader.next()? {
        if record.number == 0 {
            walked.first_time_ns = record.time_ns;
        }
        if record.missed_before > 0 {
            walked.gaps.push(GapDocument {
                record: record.number,
                missed: record.missed_before,
            });
        }
        if !is_all {
            break;
        }
    }
    Ok(walked)
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
        Some(missed) => format!("; {missed} missed while it was recorded"),
        None if found.dropped_bytes == 0 => "\nit was not ended in order".to_owned(),
        None => format!(
            "\nit was not ended in order; left out behind the last whole record: {}",
            units::bytes(found.dropped_bytes)
        ),
    };
    for GapDocument { record, missed } in found.gaps.iter().take(GAPS_SHOWN) {
        let messages = units::counted(*missed, "message");
        text += &format!("\n  {messages} missing before message {record}");
    }
    if let Some(more) = found.gaps.len().checked_sub(GAPS_SHOWN + 1) {
        let more = units::counted(more as u64 + 1, "more place");
        text += &format!("\n  and at {more} (--json has all)");
    }
    text
}
