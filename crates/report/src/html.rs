//! The page: latencies laid over each other; then for each document its conditions, figures,
//! results and ratios. What documents say is text, never markup.

use super::chart::{LAYOUTS, Shape};
use super::document::{Document, Measurement, plain};
use super::drawn::figures;
use super::figure::{Figure, Key};
use super::overlay::{Overlay, Untimed, overlay};
use super::palette;
use super::paper;
use super::reaches;
use super::style;
use super::table::{Table, text};
use super::tasks;
use crate::error::ReportError;
use crate::units;

const EMULATED: &str =
    "Emulated time: it compares variants with each other and says nothing about hardware.";

/// A page, and how many plots are on it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) html: String,
    pub(super) plots: usize,
}

pub(super) fn render(documents: &[Document]) -> Result<Page, ReportError> {
    let overlay = overlay(documents)?;
    let mut page = Page {
        html: style::head(),
        plots: 0,
    };
    page.contents(overlay.as_ref(), documents);
    if let Some(overlay) = &overlay {
        page.latencies(overlay)?;
    }
    for (place, document) in documents.iter().enumerate() {
        page.section(place, document)?;
    }
    page.html += "</main></body></html>\n";
    Ok(page)
}

impl Page {
    /// Where everything is, on a page that may be long.
    fn contents(&mut self, overlay: Option<&Overlay<'_>>, documents: &[Document]) {
        self.add("<nav aria-label=\"Contents\"><ul>\n");
        if let Some(overlay) = overlay {
            let links = links(overlay);
            self.add(&format!(
                "<li><a href=\"#latency\">Latency</a>: {links}</li>\n"
            ));
        }
        for (place, document) in documents.iter().enumerate() {
            let (bench, path) = (text(&document.bench), text(&document.file_name()));
            self.add(&format!(
                "<li><a href=\"#d{place}\">{bench}</a> <small>{path}</small></li>\n"
            ));
        }
        self.add("</ul></nav>\n");
    }

    fn latencies(&mut self, overlay: &Overlay<'_>) -> Result<(), ReportError> {
        self.add("<section><h2 id=\"latency\">Latency</h2>\n");
        if overlay.is_emulated() {
            self.warn(EMULATED);
        }
        if let Some(table) = overlay.conditions() {
            self.add("<p>What the results depend on, by document; what differs comes first.</p>\n");
            self.add(&table.html("Conditions side by side"));
        }
        self.untimed(overlay);
        for (place, group) in overlay.groups.iter().enumerate() {
            self.add(&format!(
                "<h3 id=\"m{place}\">{}</h3>\n<p class=\"soft\">{}</p>\n",
                text(&group.title),
                text(&group.note)
            ));
            for (place, figure) in group.figures.iter().enumerate() {
                // The first has the percentiles, which people look for.
                self.figure(figure.as_ref(), "h4", place == 0)?;
            }
        }
        self.add("</section>\n");
        Ok(())
    }

    /// Where a reader would look for a timeline, and there is none.
    fn untimed(&mut self, overlay: &Overlay<'_>) {
        let untimed = overlay.untimed();
        if untimed.is_empty() {
            return;
        }
        self.add("<p>No timeline of outliers, since no times of single samples were kept, of:</p>\n<ul>\n");
        for Untimed {
            case,
            measures,
            why,
        } in &untimed
        {
            let [case, measures, why] = [case, measures, why].map(text);
            self.add(&format!("<li>{case} ({measures}): {why}</li>\n"));
        }
        self.add("</ul>\n");
    }

    fn section(&mut self, place: usize, document: &Document) -> Result<(), ReportError> {
        self.add(&format!(
            "<section><h2 id=\"d{place}\">{} <small>{}</small></h2>\n",
            text(&document.bench),
            text(&document.path.display())
        ));
        if let Some(why) = document.conditions.get("invalid") {
            self.warn(&format!("This run is not valid: {}", plain(why)));
        }
        if document.machine.emulated {
            self.warn(EMULATED);
        }
        self.conditions(document);
        self.tables(reaches::NOTE, &reaches::tables(document));
        self.tables(tasks::NOTE, &tasks::tables(document));
        for figure in figures(document)? {
            self.figure(figure.as_ref(), "h3", false)?;
        }
        self.results(document);
        self.ratios(document);
        self.paper(document);
        self.add("</section>\n");
        Ok(())
    }

    /// The drawing in each layout, of which the page shows one, with what it says in words and
    /// figures.
    fn figure(
        &mut self,
        figure: &dyn Figure,
        heading: &str,
        is_open: bool,
    ) -> Result<(), ReportError> {
        let (title, caption) = (text(&figure.title()), text(&figure.caption()));
        self.add(&format!("<figure><{heading}>{title}</{heading}>\n"));
        let legend = figure.legend();
        let names: Vec<String> = legend.iter().map(|key| text(&key.name)).collect();
        for layout in LAYOUTS {
            let svg = figure.svg(&layout)?;
            let id = format!("f{}-{}", self.plots, layout.class);
            let named = format!(
                "<svg class=\"{}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" ",
                layout.class
            );
            let said = format!(
                ">\n<title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{caption} {}</desc>\n",
                names.join("; ")
            );
            let svg = svg.replacen("<svg ", &named, 1).replacen(">\n", &said, 1);
            self.add(&svg);
        }
        self.legend(&legend);
        let open = if is_open { " open" } else { "" };
        let table = figure.table().html(figure.title());
        self.add(&format!(
            "<figcaption>{caption}</figcaption>\n<details{open}><summary>Figures</summary>\n{table}</details></figure>\n"
        ));
        self.plots += 1;
        Ok(())
    }

    fn legend(&mut self, keys: &[Key]) {
        if keys.is_empty() {
            return;
        }
        self.add("<ul class=\"legend\">\n");
        for key in keys {
            let conditions = if key.conditions.is_empty() {
                String::new()
            } else {
                format!(" <small>{}</small>", text(&key.conditions))
            };
            let (drawn, name) = (drawn(key), text(&key.name));
            self.add(&format!(
                "<li>{drawn}<span>{name}{conditions}</span></li>\n"
            ));
        }
        self.add("</ul>\n");
    }

    fn conditions(&mut self, document: &Document) {
        let mut table = Table::wordy(&["condition", ""]);
        let fixed = [
            ("command", document.command.clone()),
            ("commit", document.commit.clone()),
            ("machine", document.machine.to_string()),
        ];
        for (name, value) in fixed {
            table.row(vec![name.to_owned(), value]);
        }
        let named = document.conditions.iter();
        for (name, value) in named.filter(|(name, _)| *name != "invalid") {
            table.row(vec![name.replace('_', " "), plain(value)]);
        }
        self.add(&table.html("Conditions"));
    }

    fn results(&mut self, document: &Document) {
        self.add("<h3>All results</h3>\n");
        let mut table = Table::new(&[
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
        ]);
        document
            .results
            .iter()
            .for_each(|found| table.row(result(found)));
        self.add(&table.html("All results"));
    }

    fn ratios(&mut self, document: &Document) {
        if document.ratios.is_empty() {
            return;
        }
        self.add("<h3>Ratios within this run</h3>\n");
        let mut table = Table::new(&["ratio", ">size", ">value"]);
        for ratio in &document.ratios {
            table.row(vec![
                ratio.name.clone() + &ratio.sending.suffix(),
                size(ratio.size_bytes),
                format!("{:.2}", ratio.value),
            ]);
        }
        self.add(&table.html("Ratios"));
    }

    /// Each below its title, the note above the first.
    fn tables(&mut self, note: &str, tables: &[(&str, Table)]) {
        for (place, (title, table)) in tables.iter().enumerate() {
            self.add(&format!("<h3>{}</h3>\n", text(title)));
            if place == 0 {
                self.add(&format!("<p class=\"soft\">{}</p>\n", text(&note)));
            }
            self.add(&table.html(title));
        }
    }

    fn paper(&mut self, document: &Document) {
        let Some((note, table)) = paper::beside(document) else {
            return;
        };
        self.add(&format!(
            "<h3>What the paper measured</h3>\n<p class=\"soft\">{}</p>\n",
            text(&note)
        ));
        self.add(&table.html("What the paper measured"));
    }

    fn warn(&mut self, what: &str) {
        self.add(&format!("<p class=\"warning\">{}</p>\n", text(&what)));
    }

    fn add(&mut self, html: &str) {
        self.html += html;
    }
}

/// To each metric, and behind it in brackets to what else is of it.
fn links(overlay: &Overlay<'_>) -> String {
    let mut links = String::new();
    let groups = overlay.groups.iter().enumerate();
    let groups: Vec<_> = groups.collect();
    for of_one in groups.chunk_by(|(_, one), (_, next)| one.base == next.base) {
        let link = |place: usize, name: &str| format!("<a href=\"#m{place}\">{}</a>", text(&name));
        let (place, first) = of_one[0];
        if !links.is_empty() {
            links += ", ";
        }
        links += &link(place, &first.title);
        let others = of_one[1..].iter().map(|(place, group)| {
            let rest = group.title.strip_prefix(&first.base);
            let rest = rest.unwrap_or(&group.title).trim_start_matches(", ");
            // An emulated board beside a real one: the same measure by another clock.
            let by_clock = format!("by {}", group.clock);
            link(*place, if rest.is_empty() { &by_clock } else { rest })
        });
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            links += &format!(" [{}]", others.join(", "));
        }
    }
    links
}

/// What a series looks like in its figure.
fn drawn(key: &Key) -> String {
    let colour = palette::hex_of(key.series);
    let mark = match key.shape {
        None => format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"3\" points=\"0,6 34,6\"/>"
        ),
        Some(Shape::Dot) => format!("<circle cx=\"17\" cy=\"6\" r=\"4\" fill=\"{colour}\"/>"),
        Some(Shape::Ring) => {
            format!("<circle cx=\"17\" cy=\"6\" r=\"4\" fill=\"none\" stroke=\"{colour}\"/>")
        }
        Some(Shape::Cross) => format!("<path stroke=\"{colour}\" d=\"M13,2 21,10 M13,10 21,2\"/>"),
        Some(Shape::Triangle) => {
            format!("<polygon fill=\"{colour}\" points=\"17,1 22,11 12,11\"/>")
        }
    };
    format!("<svg class=\"key\" width=\"34\" height=\"12\" aria-hidden=\"true\">{mark}</svg>")
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
        found.case.clone() + &found.sending.suffix() + &found.sharing(),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::tests::{parsed, small};
    use super::super::overlay::tests::latency;
    use super::*;

    /// Nothing is fetched, everything that was opened is closed, and every drawing says what it is.
    fn check(html: &str) {
        for banned in ["<script", "src=", "@import", "url(", "abc<def"] {
            assert!(!html.contains(banned), "{banned}");
        }
        let own = html.matches("href=\"#").count() + html.matches("href=\"data:,\"").count();
        assert_eq!(
            html.matches("href=").count(),
            own,
            "places on the page only"
        );
        for tag in [
            "table", "tr", "td", "thead", "h2", "h3", "h4", "svg", "title", "desc", "figure",
            "details", "ul", "li", "section", "div", "main", "body", "html",
        ] {
            let [alone, with] = [">", " "].map(|end| html.matches(&format!("<{tag}{end}")).count());
            assert_eq!(
                alone + with,
                html.matches(&format!("</{tag}>")).count(),
                "{tag}"
            );
        }
        let drawn = html.matches("role=\"img\" aria-labelledby=\"f").count();
        assert_eq!(drawn, html.matches("<desc id=\"f").count());
        let mut ids: Vec<&str> = html
            .split(" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id is given once");
        for target in html
            .split("href=\"#")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
        {
            assert!(ids.binary_search(&target).is_ok(), "{target}");
        }
    }

    #[test]
    fn latencies_come_first_with_note_of_missing_timeline() {
        let documents = [
            ("idle", "timer", true),
            ("hog", "timer", true),
            ("hog", "futex_wake", false),
        ];
        let documents = documents
            .map(|(load, metric, times)| parsed(&latency(load, metric, times)).expect("good"));
        let page = render(&documents).expect("drawn");
        check(&page.html);
        assert_eq!(page.plots, 3 + 2);
        for found in [
            "timer: latency against percentile",
            "timer: timeline of outliers",
            "No timeline of outliers",
            "<li>host/cpu0/hog (futex wake): measured before",
            "host/cpu0/idle [A]",
            "memory locked: true.",
            "the 256 largest of 1000",
            "<details open>",
        ] {
            assert!(page.html.contains(found), "no {found}");
        }
    }

    #[test]
    fn measure_by_several_clocks_has_a_link_to_each() {
        let mut documents = [(); 2].map(|()| latency("idle", "timer", true));
        documents[1]["conditions"]["clock"] = json!("a counter");
        let documents = documents.map(|document| parsed(&document).expect("good"));
        let page = render(&documents).expect("drawn");
        check(&page.html);
        let links = "<a href=\"#m0\">timer</a> [<a href=\"#m1\">by a counter</a>]";
        assert!(page.html.contains(links), "{}", page.html);
    }

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
        check(html);
        assert!(!html.contains("class=\"warning\""));
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
