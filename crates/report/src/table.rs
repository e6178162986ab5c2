//! Tables as HTML. What stands in a cell is text, never markup.

use std::fmt::Display;

/// Rows below headings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Columns of numbers stand right: those whose heading begins with `>`.
    headings: Vec<String>,
    /// Of long words, which may be broken anywhere.
    is_wordy: bool,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// Each with the number of columns that it takes.
    cells: Vec<(String, usize)>,
    is_marked: bool,
}

impl Table {
    pub(super) fn new(headings: &[&str]) -> Self {
        Self {
            headings: headings.iter().map(|&heading| heading.to_owned()).collect(),
            is_wordy: false,
            rows: Vec::new(),
        }
    }

    /// Of values that may be long words: they are broken anywhere, where numbers never are.
    pub(super) fn wordy(headings: &[&str]) -> Self {
        Self {
            is_wordy: true,
            ..Self::new(headings)
        }
    }

    /// With one more column.
    pub(super) fn column(&mut self, heading: String) {
        self.headings.push(heading);
    }

    /// A cell for each heading.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headings.len(), "{cells:?}");
        self.rows.push(Row {
            cells: cells.into_iter().map(|cell| (cell, 1)).collect(),
            is_marked: false,
        });
    }

    /// A name and values side by side, of which neighbours that are the same stand once. It can be
    /// marked, so that it is seen.
    pub(super) fn side_by_side(&mut self, name: String, values: &[String], is_marked: bool) {
        let mut cells = vec![(name, 1)];
        let runs = values.chunk_by(|one, next| one == next);
        cells.extend(runs.map(|run| (run[0].clone(), run.len())));
        self.rows.push(Row { cells, is_marked });
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// In a box of its own that can be moved sideways, so that a wide table does not make the page
    /// wider than a phone.
    pub(super) fn html(&self, about: &str) -> String {
        let mut html = format!(
            "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\"><table{}>\n<thead><tr>",
            text(&about),
            if self.is_wordy {
                " class=\"wordy\""
            } else {
                ""
            }
        );
        for heading in &self.headings {
            let name = text(&heading.trim_start_matches('>'));
            html += &format!("<th scope=\"col\"{}>{name}</th>", side(heading));
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            html += if row.is_marked {
                "<tr class=\"differs\">"
            } else {
                "<tr>"
            };
            let mut at = 0;
            for (cell, span) in &row.cells {
                let side = self.headings.get(at).map_or("", |heading| side(heading));
                at += span;
                let span = match span {
                    1 => String::new(),
                    several => format!(" colspan=\"{several}\""),
                };
                html += &format!("<td{side}{span}>{}</td>", text(cell));
            }
            html += "</tr>\n";
        }
        html + "</tbody></table></div>\n"
    }
}

fn side(heading: &str) -> &'static str {
    if heading.starts_with('>') {
        " class=\"number\""
    } else {
        ""
    }
}

/// Text that is no markup.
pub(super) fn text(what: &impl Display) -> String {
    let plain = what.to_string();
    plain
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text_and_neighbours_that_are_the_same_stand_once() {
        let mut table = Table::new(&["name", ">A", ">B", "C"]);
        table.row(["<b>", "1", "2", "3"].map(str::to_owned).to_vec());
        let values = ["1", "1", "2"].map(str::to_owned);
        table.side_by_side("x".to_owned(), &values, true);
        let html = table.html("a \"table\"");
        for found in [
            "aria-label=\"a &quot;table&quot;\"",
            "<th scope=\"col\">name</th><th scope=\"col\" class=\"number\">A</th>",
            "<tr><td>&lt;b&gt;</td><td class=\"number\">1</td><td class=\"number\">2</td><td>3</td></tr>",
            "<tr class=\"differs\"><td>x</td><td class=\"number\" colspan=\"2\">1</td><td>2</td></tr>",
        ] {
            assert!(html.contains(found), "no {found} in {html}");
        }
    }
}
