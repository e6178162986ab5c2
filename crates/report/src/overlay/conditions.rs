//! What the documents depend on, side by side.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::document::{Document, plain};
use super::super::table::Table;
use super::Overlay;

impl Overlay<'_> {
    /// What the documents depend on, side by side: first what differs. None for a single one, whose
    /// own section has it.
    pub(crate) fn conditions(&self) -> Option<Table> {
        if self.documents.len() < 2 {
            return None;
        }
        let mut table = Table::wordy(&["condition"]);
        (0..self.documents.len()).for_each(|place| table.column(letter(place)));
        let names = self.documents.iter();
        let names = names.flat_map(|document| document.conditions.keys());
        let names: BTreeSet<&str> = names.map(String::as_str).collect();
        let names = FIXED.into_iter().chain(names);
        let rows = names.map(|name| {
            let documents = self.documents.iter();
            let values = documents.map(|document| condition(document, name));
            (name.replace('_', " "), values.collect::<Vec<_>>())
        });
        let (differing, same): (Vec<_>, Vec<_>) = rows.partition(|(_, values)| differs(values));
        for (is_marked, rows) in [(true, differing), (false, same)] {
            for (name, values) in rows {
                let values: Vec<String> =
                    values.into_iter().map(Option::unwrap_or_default).collect();
                table.side_by_side(name, &values, is_marked);
            }
        }
        Some(table)
    }
}

/// Do two of them say different things? Boards have other conditions than hosts: what only some say
/// is no difference.
fn differs(values: &[Option<String>]) -> bool {
    let mut said = values.iter().flatten();
    let first = said.next();
    said.any(|value| Some(value) != first)
}

/// What documents say outside of their conditions.
const FIXED: [&str; 4] = ["file", "command", "commit", "machine"];

fn condition(document: &Document, name: &str) -> Option<String> {
    match name {
        "file" => Some(document.file_name()),
        "command" => Some(document.command.clone()),
        "commit" => Some(document.commit.clone()),
        "machine" => Some(document.machine.to_string()),
        other => document.conditions.get(other).map(shown),
    }
}

/// Empty says as much as nothing, and nothing is seen of it.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        other => plain(other),
    }
}

/// `A` to `Z`, then `A1` and so on.
pub(super) fn letter(place: usize) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    match place / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::document::tests::parsed;
    use super::super::overlay;
    use super::super::tests::latency;
    use super::*;

    #[test]
    fn conditions_stand_side_by_side_those_that_differ_first() {
        let documents =
            ["idle", "hog"].map(|load| parsed(&latency(load, "timer", true)).expect("good"));
        let overlay = overlay(&documents).expect("good").expect("latencies");
        let html = overlay.conditions().expect("two").html("conditions");
        let load = html.find("<tr class=\"differs\"><td>load</td><td>idle</td><td>hog</td></tr>");
        let clock = html.find("<tr><td>clock</td><td colspan=\"2\">CLOCK_MONOTONIC</td></tr>");
        assert!(load.is_some() && load < clock, "{html}");
        assert!(html.contains("<td colspan=\"2\">none</td>"), "{html}");
    }

    #[test]
    fn letters_do_not_end() {
        assert_eq!([0, 25, 26, 53].map(letter), ["A", "Z", "A1", "B2"]);
    }
}
