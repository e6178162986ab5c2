//! What commands print: a document for machines or a text for people, never both.
//!
//! A document that grows while the command runs ([`Growing`]) is one JSON document all the same,
//! closed also if the command fails.
//!
//! Everything for people passes through here, and what a terminal would obey is escaped on its way:
//! names from outside are escaped where they are put into a line, so that they cannot make a line
//! of their own, and each whole text once more.

use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal, Write};

use hythe_terminal::{escaped, escaped_lines, is_control};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::error::CliError;
use crate::screen::Screen;

/// Prints `document` as JSON, or the text that `human` makes of it.
pub fn print<T: Serialize>(
    json: bool,
    document: &T,
    human: impl FnOnce(&T) -> String,
) -> Result<(), CliError> {
    write(made(json, document, human)?.as_bytes())
}

/// Names one behind the other.
pub fn list_or_nobody(names: &[String]) -> String {
    if names.is_empty() {
        "nobody".to_owned()
    } else {
        names.join(", ")
    }
}

/// As [`print()`], on standard error: for a command that becomes another program, whose output
/// standard output is.
pub fn print_aside<T: Serialize>(
    json: bool,
    document: &T,
    human: impl FnOnce(&T) -> String,
) -> Result<(), CliError> {
    let text = made(json, document, human)?;
    // Nobody may be left to read it, and the program is started all the same.
    let _ = io::stderr().write_all(text.as_bytes());
    Ok(())
}

fn made<T: Serialize>(
    json: bool,
    document: &T,
    human: impl FnOnce(&T) -> String,
) -> Result<String, CliError> {
    let mut text = if json {
        to_json(document)?
    } else {
        escaped_lines(&human(document)).to_string()
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Prints one line for people on standard error, under the command's name.
pub fn note(line: impl Display) {
    let line = line.to_string();
    // Nobody may be left to read it, and nothing depends on it.
    let _ = writeln!(io::stderr(), "hythe: {}", escaped(&line));
}

/// As [`note`], of an error, which may have more than one line.
pub fn note_error(error: impl Display) {
    let lines = error.to_string();
    let _ = writeln!(io::stderr(), "hythe: {}", escaped_lines(&lines));
}

/// Prints text for people on standard output, at once.
pub fn say(text: &str) -> Result<(), CliError> {
    write(escaped_lines(text).to_string().as_bytes())
}

/// Prints bytes that another program is to read: as they are, but on a terminal as text for people.
pub fn write_data(bytes: &[u8]) -> Result<(), CliError> {
    match io::stdout().is_terminal() {
        true => say(&String::from_utf8_lossy(bytes)),
        false => write(bytes),
    }
}

/// Prints bytes as they are, at once.
pub fn write(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .map_err(CliError::Output)
}

/// As [`write()`], on standard error: what a program that runs for this command prints there.
pub fn write_aside(bytes: &[u8]) -> io::Result<()> {
    io::stderr().write_all(bytes)
}

fn to_json<T: Serialize>(document: &T) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(document);
    text.map(shown_json)
        .map_err(|error| CliError::Output(error.into()))
}

/// The same document without any character that a terminal obeys: of the serializer's own there are
/// line breaks only, others stand in strings, where an escape means the same.
fn shown_json(text: String) -> String {
    let is_unsafe = |character| character != '\n' && is_control(character);
    if !text.contains(is_unsafe) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) {
            // All of them are below U+10000. Writing to a string does not fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A JSON object whose list grows while the command runs: a head, the items one by one, a tail.
#[derive(Debug)]
pub struct Growing {
    items: u64,
}

impl Growing {
    /// Prints the members of `head` and opens the list `name` behind them.
    pub fn begin<T: Serialize>(head: &T, name: &str) -> Result<Self, CliError> {
        write(format!("{{{},\n\"{name}\": [", members(head)?).as_bytes())?;
        Ok(Self { items: 0 })
    }

    /// Prints one more item.
    pub fn push<T: Serialize>(&mut self, item: &T) -> Result<(), CliError> {
        let comma = if self.items == 0 { "" } else { "," };
        self.items += 1;
        write(format!("{comma}\n{}", compact(item)?).as_bytes())
    }

    /// Closes the list and prints the members of `tail`.
    pub fn end<T: Serialize>(self, tail: &T) -> Result<(), CliError> {
        write(format!("],\n{}}}\n", members(tail)?).as_bytes())
    }
}

fn compact<T: Serialize>(document: &T) -> Result<String, CliError> {
    let text = serde_json::to_string(document);
    text.map(shown_json)
        .map_err(|error| CliError::Output(error.into()))
}

/// An object without its braces.
fn members<T: Serialize>(document: &T) -> Result<String, CliError> {
    let object = compact(document)?;
    let inside = object
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    Ok(inside.unwrap_or_default().to_owned())
}

/// Columns under their headings, each as wide as its widest cell. Cells of a column that starts
/// with `>` stand right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| escaped(cell).to_string()).collect())
        .collect();
    let titles: Vec<&str> = headings
        .iter()
        .map(|heading| heading.trim_start_matches('>'))
        .collect();
    let widths: Vec<usize> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .chain([title.chars().count()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut made = String::new();
        for ((cell, width), heading) in cells.zip(&widths).zip(headings) {
            // Writing to a string does not fail.
            let _ = if heading.starts_with('>') {
                write!(made, "{cell:>width$}  ")
            } else {
                write!(made, "{cell:<width$}  ")
            };
        }
        text.push_str(made.trim_end());
        text.push('\n');
    };
    line(&mut titles.iter().copied());
    for row in &rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// A bar on standard error while something takes long; nothing where that is not a terminal.
/// Drawing it never waits, so that a terminal that nobody reads holds up nothing.
pub fn progress(total: Option<u64>) -> ProgressBar {
    let target = match Screen::open() {
        Some(screen) => ProgressDrawTarget::term_like(Box::new(screen)),
        None => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(total, target);
    let look = if total.is_some() {
        "{bar:40} {pos}/{len} {per_sec}, {eta} left"
    } else {
        "{spinner} {pos} {per_sec}"
    };
    match ProgressStyle::with_template(look) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "10".to_owned()],
            vec!["longer".to_owned(), "9".to_owned()],
        ];
        assert_eq!(
            table(&["NAME", ">N"], &rows),
            "NAME     N\na       10\nlonger   9\n"
        );
    }

    #[test]
    fn cell_stays_in_its_row_and_moves_no_cursor() {
        let rows = [vec!["a\n\u{1b}[2J".to_owned(), "1".to_owned()]];
        assert_eq!(
            table(&["NAME", ">N"], &rows),
            "NAME          N\na\\n\\u{1b}[2J  1\n"
        );
    }

    #[test]
    fn document_has_no_terminal_control_characters() {
        let name = "a\u{1b}\u{7f}\u{9b}2J\u{202e}\u{2028}ü";
        let text = to_json(&serde_json::json!({ "name": name })).expect("plain");
        assert!(
            !text.contains(|found| found != '\n' && is_control(found)),
            "{text:?}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).expect("a document");
        assert_eq!(read["name"], name);
    }

    #[test]
    fn members_are_an_object_without_braces() {
        #[derive(Serialize)]
        struct Two {
            a: u8,
            b: &'static str,
        }
        assert_eq!(
            members(&Two { a: 1, b: "}" }).expect("plain"),
            r#""a":1,"b":"}""#
        );
    }
}
