//! Bars as SVG: what a packet costs by each method, on a logarithmic axis.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{self, Axis};
use super::chart::Layout;
use super::document::{Document, Measurement};
use super::figure::{Figure, Key};
use super::palette;
use super::plot::at;
use super::table::Table;

const BAR_HEIGHT: u32 = 26;
/// Of a name above its bar, where there is no room beside it.
const NAME_HEIGHT: u32 = 18;
/// Of axis and margins.
const FRAME_HEIGHT: u32 = 76;
/// Of the names beside their bars.
const NAMES_WIDTH: u32 = 200;
/// Powers of ten, and few others: more of them would overlap.
const X_LABELS: usize = 5;
/// Between two bars, on either side.
const GAP: u32 = 4;
/// Of the figure behind a bar.
const FIGURE_WIDTH: f64 = 64.0;
const MARGIN: u32 = 12;
/// Half of the first label reaches out to the left, where no names stand.
const LABEL_OVERHANG: u32 = 16;

/// The same packets, sent in several ways.
#[derive(Debug)]
pub(super) struct Bars {
    title: String,
    work: Work,
    /// Case and nanoseconds, the dearest first.
    costs: Vec<(String, u64)>,
}

/// What is sent; only costs of the same are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    size_bytes: Option<u64>,
    destinations: Option<u64>,
    calls: Option<u64>,
    packets: Option<u64>,
}

impl Work {
    fn of(measurement: &Measurement) -> Self {
        let calls = measurement.calls;
        Self {
            size_bytes: measurement.size_bytes,
            destinations: measurement.sending.destinations,
            calls,
            // A sender that stood still for a while has sent fewer.
            packets: measurement.sending.packets.filter(|_| calls.is_none()),
        }
    }

    /// The same but for the number of packets.
    fn is_like(self, other: Self) -> bool {
        let packets = self.packets;
        self == Self { packets, ..other }
    }

    fn title(self) -> String {
        let bytes = self
            .size_bytes
            .map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
        let what = match (self.calls, self.packets) {
            (Some(calls), _) => format!(", {calls} calls"),
            (None, Some(packets)) => {
                let destinations = self.destinations.unwrap_or(1);
                format!(", {packets} packets to {destinations}")
            }
            (None, None) => String::new(),
        };
        format!("CPU per packet by method{bytes}{what}")
    }
}

/// One figure for each kind of work that is done in more than one way: that of the most packets.
pub(super) fn bars(document: &Document) -> Vec<Bars> {
    let mut found: Vec<Bars> = Vec::new();
    for measurement in &document.results {
        let Some(cost) = measurement.cpu_ns_per_packet else {
            continue;
        };
        let work = Work::of(measurement);
        let place = found.iter().position(|bars| bars.work.is_like(work));
        let place = place.unwrap_or_else(|| {
            found.push(Bars {
                title: String::new(),
                work,
                costs: Vec::new(),
            });
            found.len() - 1
        });
        found[place].add(work, &measurement.case, cost.round() as u64);
    }
    for bars in &mut found {
        bars.title = bars.work.title();
        bars.costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    }
    found.retain(|bars| bars.costs.len() > 1);
    found
}

impl Bars {
    fn add(&mut self, work: Work, case: &str, cost: u64) {
        if work.packets > self.work.packets {
            self.work = work;
            self.costs.clear();
        }
        // A case with several figures of other things has one cost.
        let is_new = self.costs.iter().all(|(known, _)| known != case);
        if work == self.work && is_new {
            self.costs.push((case.to_owned(), cost));
        }
    }
}

impl Figure for Bars {
    fn title(&self) -> &str {
        &self.title
    }

    fn caption(&self) -> String {
        "Time of the sender's CPU for each packet and destination, on a logarithmic scale, the dearest first; what is ours has another colour.".to_owned()
    }

    fn legend(&self) -> Vec<Key> {
        Vec::new()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["method", ">CPU per packet"]);
        for (case, cost) in &self.costs {
            table.row(vec![case.clone(), axis::time(*cost as f64)]);
        }
        table
    }

    /// One bar for each case, its figure behind it, ours in another colour.
    fn draw<'a>(&self, layout: &Layout, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let count = self.costs.len();
        let (names_width, name_height) = if layout.is_narrow() {
            (LABEL_OVERHANG, NAME_HEIGHT)
        } else {
            (NAMES_WIDTH, 0)
        };
        let height = FRAME_HEIGHT + (BAR_HEIGHT + name_height) * count as u32;
        let area = SVGBackend::with_string(into, (layout.width, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let scale = self.scale(f64::from(layout.width - names_width - 2 * MARGIN));
        let mut chart = ChartBuilder::on(&area)
            .margin(MARGIN)
            .x_label_area_size(46)
            .y_label_area_size(names_width)
            .build_cartesian_2d(scale.scale(X_LABELS), (0..count - 1).into_segmented())?;
        // From the bottom up.
        let name = |place: &SegmentValue<usize>| match place {
            SegmentValue::CenterOf(place) if !layout.is_narrow() => {
                let bar = self.costs.get((count - 1).wrapping_sub(*place));
                bar.map_or_else(String::new, |(case, _)| case.clone())
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_desc(&scale.name)
            .x_label_formatter(&|place| scale.label(*place))
            .y_labels(count)
            .y_label_formatter(&name)
            .label_style(layout.letters())
            .axis_desc_style(layout.letters())
            .set_all_tick_mark_size(4)
            .draw()?;
        let letters = TextStyle::from(layout.letters().into_font());
        let behind = letters.pos(Pos::new(HPos::Left, VPos::Center));
        let above = letters.pos(Pos::new(HPos::Left, VPos::Bottom));
        for (place, (case, cost)) in self.costs.iter().rev().enumerate() {
            let colour = palette::colour(usize::from(!case.starts_with("hythe/")));
            let end = at(*cost).log10();
            let corners = [
                (scale.low, SegmentValue::Exact(place)),
                (end, SegmentValue::Exact(place + 1)),
            ];
            let mut bar = Rectangle::new(corners, colour.filled());
            bar.set_margin(GAP + name_height, GAP, 0, 0);
            chart.draw_series([bar])?;
            let down = name_height as i32 / 2;
            let figure = Text::new(axis::time(at(*cost)), (6, down), behind.clone());
            let middle = SegmentValue::CenterOf(place);
            chart.draw_series([EmptyElement::at((end, middle.clone())) + figure])?;
            if layout.is_narrow() {
                let name = Text::new(
                    case.clone(),
                    (2, down - BAR_HEIGHT as i32 / 2),
                    above.clone(),
                );
                chart.draw_series([EmptyElement::at((scale.low, middle)) + name])?;
            }
        }
        area.present()?;
        Ok(())
    }
}

impl Bars {
    /// From a power of ten, so that bars tell how many times as much, to where the longest has its
    /// figure behind it.
    fn scale(&self, width: f64) -> Axis {
        let costs = || self.costs.iter().map(|(_, cost)| at(*cost));
        let least = costs().fold(f64::MAX, f64::min);
        // Some room in front of the shortest.
        let low = 10_f64.powf((least / 1.5).log10().floor());
        let most = costs().fold(0.0, f64::max);
        let decades = (most / low).log10();
        let high = most * 10_f64.powf(decades * FIGURE_WIDTH / (width - FIGURE_WIDTH));
        Axis::logarithmic("CPU time for each packet", (low, high), axis::time)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::chart::LAYOUTS;
    use super::super::document::tests::{parsed, small};
    use super::*;

    fn row(case: &str, packets: u64, destinations: u64, cost: f64) -> Value {
        json!({"case": case, "size_bytes": 1400, "metric": "first_send_to_last_check",
            "packets": packets, "destinations": destinations, "seconds": 0.01, "cpu_ns_per_packet": cost})
    }

    #[test]
    fn each_kind_of_work_has_a_bar_for_each_case() {
        let mut document = small();
        let call = |case: &str, metric: &str, packets: u64| {
            json!({"case": case, "size_bytes": 172, "metric": metric, "calls": 2000, "packets": packets,
                "seconds": 10, "cpu_ns_per_packet": 900.0})
        };
        document["results"] = json!([
            row("hythe/prepared", 10_000, 1, 80.0),
            row("hythe/prepared", 50_000, 1, 90.4),
            row("sendto/first_send", 50_000, 1, 2500.0),
            row("gso/prepared", 50_000, 1, 100.0),
            row("hythe/prepared", 10_000, 16, 60.0),
            call("sendto/calls", "spacing_error_sent", 1_000_000),
            call("sendto/calls", "spacing_error_received", 1_000_000),
            call("hythe/calls", "spacing_error_sent", 999_000),
        ]);
        let found = bars(&parsed(&document).expect("good"));
        let titles: Vec<&str> = found.iter().map(Figure::title).collect();
        let expected = [
            "CPU per packet by method, 1400 bytes, 50000 packets to 1",
            "CPU per packet by method, 172 bytes, 2000 calls",
        ];
        assert_eq!(titles, expected, "one way to sixteen is no comparison");
        let expected = [
            ("sendto/first_send", 2500),
            ("gso/prepared", 100),
            ("hythe/prepared", 90),
        ];
        let expected = expected.map(|(case, cost)| (case.to_owned(), cost));
        assert_eq!(found[0].costs, expected);
        assert_eq!(found[1].costs.len(), 2, "one for each case");
        let svg = found[0].svg(&LAYOUTS[0]).expect("drawn");
        let labels: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
        for label in ["sendto/first_send", "hythe/prepared", "2.5 us", "90 ns"] {
            assert!(labels.contains(&label), "no {label}: {labels:?}");
        }
    }

    #[test]
    fn extremes_can_be_drawn() {
        let mut document = small();
        document["results"] = json!([row("a/b", 1, 1, 0.0), row("c/d", 1, 1, 1e18)]);
        let found = bars(&parsed(&document).expect("good"));
        for layout in LAYOUTS {
            found[0].svg(&layout).expect("drawn");
        }
    }
}
