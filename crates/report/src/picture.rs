//! The table of the process hop as one SVG, for a README: what hythe and others take for the same
//! messages, where hythe loses, and on which machine and day. Made of one document of scenario
//! `ipc`.
//!
//! Never takes a figure from elsewhere: what the document does not have is a dash.

use super::axis;
use super::document::{Document, Measurement, plain};
use super::table::text;
use super::units;
use crate::error::ReportError;

const WIDTH: u32 = 860;
const MARGIN: u32 = 16;
/// Of the names of systems.
const NAMES_WIDTH: u32 = 214;
const ROW_HEIGHT: u32 = 24;
const TITLE_HEIGHT: u32 = 34;
/// Two lines of words over each column.
const HEAD_HEIGHT: u32 = 44;
const LINE_HEIGHT: u32 = 19;
const TITLE: &str = "Messages between two processes";
/// Of the lines below the table, about.
const LINE_LETTERS: usize = 118;

const SYSTEMS: [(&str, &str); 12] = [
    ("floor", "a bare ring (the floor)"),
    ("hythe", "Hythe"),
    ("iceoryx2", "iceoryx2"),
    ("iceoryx", "iceoryx (C++)"),
    ("cyclonedds", "Cyclone DDS, shared memory"),
    ("aeron", "Aeron IPC (Java)"),
    ("openmpi", "Open MPI"),
    ("mpich", "MPICH"),
    ("unix", "Unix socket, copied"),
    ("pipe", "pipe, copied"),
    ("sysv", "System V memory, copied"),
    ("protocol", "Hythe's stores alone"),
];

/// What is compared: heading in two lines, the case without its system, and the size.
struct Column {
    heading: [&'static str; 2],
    way: &'static str,
    size_bytes: u64,
}

const fn column(heading: [&'static str; 2], way: &'static str, size_bytes: u64) -> Column {
    Column {
        heading,
        way,
        size_bytes,
    }
}

const COLUMNS: [Column; 6] = [
    column(["forwarded", "1 MiB"], "poll/untouched", 1 << 20),
    column(["written, read", "64 B"], "poll/filled", 64),
    column(["written, read", "64 KiB"], "poll/filled", 64 << 10),
    column(["written, read", "1 MiB"], "poll/filled", 1 << 20),
    column(["asleep", "64 B"], "block/filled", 64),
    column(["one way", "64 B"], "poll/single", 64),
];

/// By the bare ring: name of the ratio, and what it is of.
const BY_FLOOR: [(&str, &str); 5] = [
    ("hythe/floor poll untouched p50", "time forwarded"),
    ("hythe/floor poll filled p50", "time written and read"),
    ("hythe/floor poll single rate", "rate one way"),
    ("hythe/floor poll stream-4 rate", "rate of a stream, 4 deep"),
    (
        "hythe/floor poll stream-32 rate",
        "rate of a stream, 32 deep",
    ),
];

/// One figure of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    /// Nanoseconds: less is better.
    Time(f64),
    /// Messages in a second: more is better.
    Rate(f64),
}

impl Cell {
    fn of(measurement: &Measurement) -> Option<Self> {
        match (measurement.times(), measurement.value) {
            (Some(times), _) => Some(Self::Time(times.p50 as f64)),
            (None, Some(rate)) => Some(Self::Rate(rate)),
            (None, None) => None,
        }
    }

    fn is_better_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Time(own), Self::Time(other)) => own < other,
            (Self::Rate(own), Self::Rate(other)) => own > other,
            _ => false,
        }
    }

    fn label(self) -> String {
        match self {
            Self::Time(ns) => axis::time(three_digits(ns)),
            Self::Rate(rate) => format!("{}/s", axis::count(three_digits(rate))),
        }
    }
}

/// More would say something about the day only.
fn three_digits(value: f64) -> f64 {
    let above = value.abs().log10().floor() - 2.0;
    if !above.is_finite() {
        return value;
    }
    let unit = 10_f64.powf(above);
    (value / unit).round() * unit
}

/// A system that was measured, with a cell for each column.
struct Row {
    system: &'static str,
    name: &'static str,
    cells: Vec<Option<Cell>>,
}

/// # Errors
///
/// [`ReportError::Document`] for a document of another scenario, or without a row of hythe's.
pub(super) fn svg(document: &Document) -> Result<String, ReportError> {
    let refused = |reason: &str| ReportError::Document {
        path: document.path.clone(),
        reason: reason.to_owned(),
    };
    if document.bench != "ipc" {
        return Err(refused(
            "a picture is made of a result of `hythe bench ipc`",
        ));
    }
    let rows = rows(document);
    let own = rows.iter().find(|row| row.system == "hythe");
    let own = own.ok_or_else(|| refused("it has no result of hythe's to compare with"))?;
    Ok(draw(document, &rows, own))
}

/// Those with any figure.
fn rows(document: &Document) -> Vec<Row> {
    let rows = SYSTEMS.into_iter().map(|(system, name)| Row {
        system,
        name,
        cells: COLUMNS
            .iter()
            .map(|column| cell(document, system, column))
            .collect(),
    });
    rows.filter(|row| row.cells.iter().any(Option::is_some))
        .collect()
}

fn cell(document: &Document, system: &str, column: &Column) -> Option<Cell> {
    let is_it = |row: &&Measurement| {
        row.system_and_way() == (system, column.way)
            && row.size_bytes == Some(column.size_bytes)
            && matches!(row.metric.as_str(), "round_trip" | "rate")
            && !is_shared(row)
    };
    document.results.iter().find(is_it).and_then(Cell::of)
}

/// Were both sides on one CPU?
fn is_shared(row: &Measurement) -> bool {
    let pinned = row
        .conditions
        .get("pinned")
        .and_then(|cpus| cpus.as_array());
    pinned.is_some_and(|cpus| cpus.len() == 2 && cpus[0] == cpus[1])
}

fn draw(document: &Document, rows: &[Row], own: &Row) -> String {
    let lines = [losses(document), vec![reading()], wrapped(&about(document))].concat();
    let table_end = TITLE_HEIGHT + HEAD_HEIGHT + ROW_HEIGHT * rows.len() as u32;
    let height = table_end + LINE_HEIGHT * (lines.len() as u32 + 1) + MARGIN;
    let mut out = format!(
        "<svg role=\"img\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <title>{TITLE}</title><desc>{}</desc>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n",
        text(&said(rows))
    );
    add(&mut out, (MARGIN, 22), "font-weight=\"bold\"", TITLE);
    for (place, column) in COLUMNS.iter().enumerate() {
        for (line, words) in column.heading.into_iter().enumerate() {
            let y = TITLE_HEIGHT + 16 + 17 * line as u32;
            add(&mut out, (right_of(place), y), NUMBER, words);
        }
    }
    for (place, row) in rows.iter().enumerate() {
        draw_row(
            &mut out,
            TITLE_HEIGHT + HEAD_HEIGHT + ROW_HEIGHT * place as u32,
            row,
            own,
        );
    }
    for (place, line) in lines.iter().enumerate() {
        let y = table_end + LINE_HEIGHT * (place as u32 + 1);
        add(
            &mut out,
            (MARGIN, y),
            "font-size=\"13\" fill=\"#444444\"",
            line,
        );
    }
    out + "</svg>\n"
}

const NUMBER: &str = "text-anchor=\"end\"";

fn draw_row(out: &mut String, top: u32, row: &Row, own: &Row) {
    let is_own = row.system == own.system;
    let (line, base) = (WIDTH - 2 * MARGIN, top + 17);
    if is_own {
        out.push_str(&format!(
            "<rect x=\"{MARGIN}\" y=\"{top}\" width=\"{line}\" height=\"{ROW_HEIGHT}\" fill=\"#E3EEF9\"/>\n"
        ));
    }
    out.push_str(&format!(
        "<rect x=\"{MARGIN}\" y=\"{top}\" width=\"{line}\" height=\"1\" fill=\"#CCCCCC\"/>\n"
    ));
    add(out, (MARGIN + 6, base), "", row.name);
    for (place, cell) in row.cells.iter().enumerate() {
        let beats = cell.zip(own.cells[place]);
        let beats = beats.is_some_and(|(cell, own)| cell.is_better_than(own));
        let look = match beats {
            true => format!("{NUMBER} font-weight=\"bold\""),
            false => NUMBER.to_owned(),
        };
        let label = cell.map_or_else(|| "-".to_owned(), Cell::label);
        add(out, (right_of(place), base), &look, &label);
    }
}

/// Where the numbers of a column end.
const fn right_of(place: usize) -> u32 {
    let width = (WIDTH - 2 * MARGIN - NAMES_WIDTH) / COLUMNS.len() as u32;
    MARGIN + NAMES_WIDTH + width * (place as u32 + 1) - 6
}

fn add(out: &mut String, (x, y): (u32, u32), look: &str, words: &str) {
    out.push_str(&format!(
        "<text x=\"{x}\" y=\"{y}\" {look}>{}</text>\n",
        text(&words)
    ));
}

/// Hythe by the bare ring, whoever wins.
fn losses(document: &Document) -> Vec<String> {
    let lines = BY_FLOOR.iter().filter_map(|(name, what)| {
        let named = document.ratios.iter().filter(|ratio| ratio.name == *name);
        let values: Vec<String> = named
            .map(|ratio| {
                let size = ratio.size_bytes.map_or_else(String::new, units::bytes);
                format!("{size} {:.2}", ratio.value)
            })
            .collect();
        (!values.is_empty()).then(|| format!("{what}: {}", values.join(", ")))
    });
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => wrapped(&format!("Hythe by the bare ring: {}.", lines.join("; "))),
    }
}

fn reading() -> String {
    "Medians; there and back but for one way. Bold: better than Hythe.".to_owned()
}

/// On what, when, of which version; and that it is not valid, if so.
fn about(document: &Document) -> String {
    let condition = |name| document.conditions.get(name).map(plain);
    let date = condition("date").map_or_else(String::new, |date| format!("{date}, "));
    let commit: String = document.commit.chars().take(8).collect();
    let mut about = format!(
        "{}, {date}commit {commit}, {}.",
        document.machine, document.command
    );
    if let Some(why) = condition("invalid") {
        about += &format!(" This run is not valid: {why}.");
    }
    about
}

/// In lines that fit, broken between words.
fn wrapped(words: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < LINE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The table for who cannot see it.
fn said(rows: &[Row]) -> String {
    let of_row = |row: &Row| {
        let cells = row.cells.iter().zip(&COLUMNS);
        let cells = cells.filter_map(|(cell, column)| {
            let heading = column.heading.join(" ");
            Some(format!("{heading} {}", (*cell)?.label()))
        });
        format!("{}: {}", row.name, cells.collect::<Vec<_>>().join(", "))
    };
    rows.iter().map(of_row).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::document::tests::{parsed, small};
    use super::*;

    fn row(case: &str, size_bytes: u64, p50: u64) -> Value {
        json!({"case": case, "size_bytes": size_bytes, "metric": "round_trip", "unit": "ns",
            "count": 10, "min": 1, "p50": p50, "p99": p50, "p999": p50, "max": p50,
            "conditions": {"pinned": [0, 1]}})
    }

    fn run() -> Value {
        let mut document = small();
        let mut shared = row("hythe/block/filled", 64, 1);
        shared["conditions"] = json!({"pinned": [0, 0]});
        document["results"] = json!([
            row("hythe/poll/filled", 64, 1234),
            row("iceoryx2/poll/filled", 64, 5678),
            row("unix/poll/filled", 64, 999),
            shared,
            {"case": "hythe/poll/single", "metric": "rate", "unit": "msg/s", "size_bytes": 64,
                "value": 5_123_456.0},
            {"case": "aeron/poll/single", "metric": "rate", "unit": "msg/s", "size_bytes": 64,
                "value": 9e6},
        ]);
        document["conditions"]["date"] = json!("2026-11-27");
        document
    }

    fn drawn(document: &Value) -> String {
        svg(&parsed(document).expect("good")).expect("drawn")
    }

    #[test]
    fn table_has_machine_and_day_and_marks_what_is_better() {
        let picture = drawn(&run());
        for found in [
            ">1.23 us</text>",
            ">5.12 M/s</text>",
            "font-weight=\"bold\">999 ns</text>",
            "font-weight=\"bold\">9 M/s</text>",
            ">Aeron IPC (Java)</text>",
            "2026-11-27",
            "A &amp; B",
            "commit abc&lt;def",
        ] {
            assert!(picture.contains(found), "no {found} in {picture}");
        }
        assert!(!picture.contains("font-weight=\"bold\">5.68 us"));
        assert!(!picture.contains("MPICH"), "nothing of it was measured");
        assert!(!picture.contains(">1 ns<"), "both sides shared a CPU");
        assert!(picture.contains("time forwarded: 64 B 2.00"), "{picture}");
    }

    #[test]
    fn run_that_is_not_valid_says_so() {
        let mut document = run();
        document["conditions"]["invalid"] = json!("others <ran>");
        let picture = drawn(&document);
        assert!(
            picture.contains("not valid: others &lt;ran&gt;"),
            "{picture}"
        );
    }

    #[test]
    fn other_documents_make_no_picture() {
        let refused = |document: &Value| {
            svg(&parsed(document).expect("good"))
                .expect_err("refused")
                .to_string()
        };
        let mut other = run();
        other["bench"] = json!("core");
        assert!(refused(&other).contains("hythe bench ipc"));
        let mut nothing = run();
        nothing["results"] = json!([row("pipe/poll/filled", 64, 5)]);
        assert!(refused(&nothing).contains("no result of hythe's"));
    }

    #[test]
    fn three_digits_are_enough() {
        let labels = [0.0, 7.0, 1234.0, 999_960.0].map(|ns| Cell::Time(ns).label());
        assert_eq!(labels, ["0 ns", "7 ns", "1.23 us", "1 ms"]);
        assert_eq!(Cell::Rate(5_678_901.0).label(), "5.68 M/s");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let words = "word ".repeat(60);
        let lines = wrapped(words.trim_end());
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= LINE_LETTERS));
        assert_eq!(lines.join(" "), words.trim_end());
    }
}
