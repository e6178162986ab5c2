//! The page: for each document its conditions, plots, results and ratios. What documents say is text, never markup.

use std::fmt::Display;

use serde_json::Value;

use super::document::{Document, Measurement};
use super::figure::figures;
use crate::error::CliError;
use crate::units;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
h1,h2,h3{line-height:1.2}table{border-collapse:collapse;margin:.5rem 0 1.5rem}\
th,td{padding:.15rem .7rem;border-bottom:1px solid #ddd;text-align:left}td.f,th.f{text-align:right;font-variant-numeric:tabular-nums}\
svg{max-width:100%;height:auto}.w{background:#fde8e8;border-left:4px solid #c00;padding:.5rem 1rem}code{background:#f4f4f4;padding:0 .2rem}";

/// A page, and how many plots are on it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) html: String,
    pub(super) plots: usize,
}

pub(super) fn render(documents: &[Document]) -> Result<Page, CliError> {
    let mut page = Page {
        html: format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Hythe: results</title>\n<style>{STYLE}</style></head><body>\n<h1>Results</h1>\n"
        ),
        plots: 0,
    };
    for document in documents {
        page.section(document)?;
    }
    page.html += "</body></html>\n";
    Ok(page)
}

impl Page {
    fn section(&mut self, document: &Document) -> Result<(), CliError> {
        self.add(&format!(
            "<h2>{} <small>{}</small></h2>\n",
            text(&document.bench),
            text(&document.path.display())
        ));
        if let Some(why) = document.conditions.get("invalid") {
            self.warn(&format!("This run is not valid: {}", plain(why)));
        }
        if document.machine.emulated {
            self.warn("Emulated time: it compares variants with each other and says nothing about hardware.");
        }
        self.conditions(document);
        for figure in figures(document)? {
            let (title, svg) = (figure.title(), figure.svg()?);
            self.add(&format!("<h3>{}</h3>\n{svg}\n", text(&title)));
            self.plots += 1;
        }
        self.results(document);
        self.ratios(document);
        Ok(())
    }

    fn conditions(&mut self, document: &Document) {
        let machine = &document.machine;
        let fixed = [
            ("command", document.command.clone()),
            ("commit", document.commit.clone()),
            (
                "machine",
                format!(
                    "{}, {}, Linux {}",
                    machine.cpu,
                    units::counted(machine.cpus, "CPU"),
                    machine.kernel
                ),
            ),
        ];
        let fixed = fixed.map(|(name, value)| vec![name.to_owned(), value]);
        let named = document
            .conditions
            .iter()
            .filter(|(name, _)| *name != "invalid");
        let named = named.map(|(name, value)| vec![name.replace('_', " "), plain(value)]);
        self.table(&["condition", ""], fixed.into_iter().chain(named));
    }

    fn results(&mut self, document: &Document) {
        self.add("<h3>All results</h3>\n");
        let headings = [
            "case",
            ">size",
            "metric",
            "unit",
            ">count",
            ">min",
            ">p50",
            ">p99",
            ">p99.9",
            ">max or value",
        ];
        self.table(&headings, document.results.iter().map(result));
    }

    fn ratios(&mut self, document: &Document) {
        if document.ratios.is_empty() {
            return;
        }
        self.add("<h3>Ratios within this run</h3>\n");
        let rows = document.ratios.iter().map(|ratio| {
            vec![
                ratio.name.clone() + &ratio.sending.suffix(),
                size(ratio.size_bytes),
                format!("{:.2}", ratio.value),
            ]
        });
        self.table(&["ratio", ">size", ">value"], rows);
    }

    /// A table; columns whose heading begins with `>` stand right.
    fn table(&mut self, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        self.add("<table>\n");
        let titles = headings
            .iter()
            .map(|heading| heading.trim_start_matches('>').to_owned());
        self.row("th", headings, &titles.collect::<Vec<_>>());
        rows.for_each(|cells| self.row("td", headings, &cells));
        self.add("</table>\n");
    }

    fn row(&mut self, tag: &str, headings: &[&str], cells: &[String]) {
        self.add("<tr>");
        for (cell, heading) in cells.iter().zip(headings) {
            let class = if heading.starts_with('>') {
                " class=\"f\""
            } else {
                ""
            };
            self.add(&format!("<{tag}{class}>{}</{tag}>", text(cell)));
        }
        self.add("</tr>\n");
    }

    fn warn(&mut self, what: &str) {
        self.add(&format!("<p class=\"w\">{}</p>\n", text(&what)));
    }

    fn add(&mut self, html: &str) {
        self.html += html;
    }
}

fn result(found: &Measurement) -> Vec<String> {
    let number = |figure: Option<u64>| figure.map_or_else(String::new, |figure| figure.to_string());
    let times = found.times();
    let value = found.value.or(found.seconds.filter(|_| times.is_none()));
    let last = value.map_or_else(
        || number(times.map(|times| times.max)),
        |value| format!("{value:.3}"),
    );
    vec![
        found.case.clone() + &found.sending.suffix(),
        size(found.size_bytes),
        found.metric.replace('_', " "),
        found.unit.clone().unwrap_or_else(|| "ns".to_owned()),
        number(found.count),
        number(times.map(|times| times.min)),
        number(times.map(|times| times.p50)),
        number(times.map(|times| times.p99)),
        number(times.map(|times| times.p999)),
        last,
    ]
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, units::bytes)
}

/// A condition as people read it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Text that is no markup.
fn text(what: &impl Display) -> String {
    let plain = what.to_string();
    plain
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::tests::{parsed, small};
    use super::*;

    #[test]
    fn everything_is_on_the_page_as_text_and_nothing_is_fetched() {
        let document = parsed(&small()).expect("good");
        let page = render(&[document]).expect("drawn");
        let html = &page.html;
        assert_eq!(page.plots, 1);
        for found in [
            "abc&lt;def",
            "A &amp; B",
            "hythe/poll/single",
            "5000000.000",
            "pinned",
            "0, 1",
            "2.00",
            "<svg",
        ] {
            assert!(html.contains(found), "no {found}");
        }
        for banned in ["<script", "src=", "href=", "@import", "url(", "abc<def"] {
            assert!(!html.contains(banned), "{banned}");
        }
        assert!(!html.contains("class=\"w\""));
        for tag in ["table", "tr", "td", "th", "h2", "h3", "svg", "body", "html"] {
            let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
            let opened = html.matches(&opened).count();
            assert_eq!(opened, html.matches(&closed).count(), "{tag}");
        }
    }

    #[test]
    fn runs_that_are_not_valid_or_emulated_say_so() {
        let mut document = small();
        document["machine"]["emulated"] = json!(true);
        document["conditions"]["invalid"] = json!("the floor is <slow>");
        let page = render(&[parsed(&document).expect("good")]).expect("drawn");
        assert!(page.html.contains("not valid: the floor is &lt;slow&gt;"));
        assert!(page.html.contains("nothing about hardware"));
    }
}
