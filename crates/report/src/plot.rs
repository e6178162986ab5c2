//! Plots as SVG, to stand inside a page: times by size, or by number of packets, one line for each
//! system.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use super::axis::{self, Axis};
use super::chart::{self, Layout, Marks};
use super::document::{Document, Measurement};
use super::figure::{Figure, Key};
use super::table::Table;
use crate::units;

/// One point: size in bytes or number of packets, p50 and p99 in nanoseconds.
type Point = (u64, u64, u64);

/// Times of several systems, measured in one way.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    quantity: Quantity,
    /// By system, in the order of size.
    series: BTreeMap<String, Vec<Point>>,
    /// All systems of the document: each has the same colour in all of its plots.
    systems: Vec<String>,
}

/// What the horizontal axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Bytes,
    Packets,
}

impl Quantity {
    const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "payload",
            Self::Packets => "packets",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Bytes => ">payload",
            Self::Packets => ">packets",
        }
    }

    fn show(self, count: u64) -> String {
        match self {
            Self::Bytes => units::bytes(count),
            Self::Packets => count.to_string(),
        }
    }
}

/// A title, what the axis counts, and the place of a measurement on it.
fn place_of(measurement: &Measurement) -> Option<(String, Quantity, Point)> {
    let (_, way) = measurement.system_and_way();
    let size = measurement.size_bytes?;
    let sending = measurement.sending;
    if measurement.calls.is_some() || !measurement.sharing().is_empty() {
        // One number of calls makes no line, nor does one size for each number of ports.
        return None;
    }
    if let (Some(packets), Some(cpu)) = (sending.packets, measurement.cpu_ns_per_packet) {
        let p99 = measurement.cpu_ns_per_packet_p99.unwrap_or(cpu);
        let destinations = sending.destinations.unwrap_or(1);
        let title = format!("CPU per packet {way}, {size} bytes to {destinations}");
        let point = (packets, cpu.round() as u64, p99.round() as u64);
        return Some((title, Quantity::Packets, point));
    }
    let times = measurement.times()?;
    let title = format!("{} {way}", measurement.metric.replace('_', " "));
    Some((title, Quantity::Bytes, (size, times.p50, times.p99)))
}

/// What of a document can be drawn: cases with times of at least two sizes, or costs of at least
/// two numbers of packets.
pub(super) fn plots(document: &Document) -> Vec<Plot> {
    let mut found: Vec<Plot> = Vec::new();
    for measurement in &document.results {
        let Some((title, quantity, point)) = place_of(measurement) else {
            continue;
        };
        let (system, _) = measurement.system_and_way();
        let place = found.iter().position(|plot| plot.title == title);
        let place = place.unwrap_or_else(|| {
            let series = BTreeMap::new();
            found.push(Plot {
                title,
                quantity,
                series,
                systems: Vec::new(),
            });
            found.len() - 1
        });
        let series = &mut found[place].series;
        let known = series.get(system);
        let is_new = known.is_none_or(|points| points.iter().all(|known| known.0 != point.0));
        let name = if is_new {
            system.to_owned()
        } else {
            // The same under other conditions: no further point of that line.
            format!("{system} ({})", measurement.own_conditions().join(", "))
        };
        series.entry(name).or_default().push(point);
    }
    for plot in &mut found {
        plot.series
            .values_mut()
            .for_each(|points| points.sort_unstable());
    }
    for plot in &mut found {
        // One size makes no line; it is among the results below.
        plot.series.retain(|_, points| points.len() > 1);
    }
    found.retain(|plot| !plot.series.is_empty());
    let systems = found.iter().flat_map(|plot| plot.series.keys());
    let systems: BTreeSet<String> = systems.cloned().collect();
    for plot in &mut found {
        plot.systems = systems.iter().cloned().collect();
    }
    found
}

impl Figure for Plot {
    fn title(&self) -> &str {
        &self.title
    }

    fn caption(&self) -> String {
        let what = match self.quantity {
            Quantity::Bytes => "size of the payload",
            Quantity::Packets => "number of packets",
        };
        format!(
            "Across: {what}. Up: time, the median as a dot on a line, the 99th percentile as a ring. {}",
            self.scales()
        )
    }

    fn legend(&self) -> Vec<Key> {
        let mut keys = Key::lines(self.series.keys().map(String::as_str));
        for key in &mut keys {
            key.series = self.colour_of(&key.name);
        }
        keys
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["system", self.quantity.heading(), ">p50", ">p99"]);
        for (system, points) in &self.series {
            for (size, p50, p99) in points {
                let times = [p50, p99].map(|time| axis::time(*time as f64));
                let mut cells = vec![system.clone(), self.quantity.show(*size)];
                cells.extend(times);
                table.row(cells);
            }
        }
        table
    }

    /// Over sizes of many magnitudes both axes are logarithmic, that of sizes with powers of two;
    /// over few, as of one experiment, both begin at zero, so that what is saved can be read off.
    /// p99 stands above each p50 as a ring.
    fn draw<'a>(&self, layout: &Layout, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let scale = self.scale();
        let place = |size| scale.place(size);
        let time = |time| match scale {
            Scale::Logarithmic => at(time).log10(),
            Scale::Linear { .. } => at(time),
        };
        let mut marked = Vec::new();
        for (system, points) in &self.series {
            let series = self.colour_of(system);
            let medians = points.iter().map(|point| (place(point.0), time(point.1)));
            let rings = points.iter().map(|point| (place(point.0), time(point.2)));
            marked.push((series, Marks::Dotted(medians.collect())));
            marked.push((series, Marks::Rings(rings.collect())));
        }
        let (across, up) = self.axes(scale);
        chart::draw(into, layout, (&across, &up), &marked)
    }
}

impl Plot {
    fn points(&self) -> impl Iterator<Item = &Point> + Clone {
        self.series.values().flatten()
    }

    fn colour_of(&self, system: &str) -> usize {
        let mut systems = self.systems.iter();
        systems.position(|known| known == system).unwrap_or(0)
    }

    fn scale(&self) -> Scale {
        let sizes = self.points().map(|point| point.0);
        Scale::of(self.quantity, sizes)
    }

    fn scales(&self) -> &'static str {
        match self.scale() {
            Scale::Logarithmic => "Both scales are logarithmic.",
            Scale::Linear { .. } => "Both scales begin at zero.",
        }
    }

    fn axes(&self, scale: Scale) -> (Axis, Axis) {
        let sizes = self.points().map(|point| scale.place(point.0));
        let least = sizes.clone().fold(f64::MAX, f64::min);
        let most = sizes.fold(f64::MIN, f64::max);
        let times = range(self.points().flat_map(|point| [point.1, point.2]));
        let (name, up) = (self.quantity.name(), "p50 (dot), p99 (ring)");
        match (scale, self.quantity) {
            (Scale::Logarithmic, Quantity::Bytes) => (
                Axis::whole(name, (least - 0.5, most + 0.5), |power| {
                    units::bytes(power.exp2() as u64)
                }),
                Axis::logarithmic(up, times, axis::time),
            ),
            (Scale::Logarithmic, Quantity::Packets) => (
                Axis::whole(name, (least - 0.5, most + 0.5), |power| {
                    axis::count(power.exp2())
                }),
                Axis::logarithmic(up, times, axis::time),
            ),
            (Scale::Linear { unit }, quantity) => {
                let name = match quantity {
                    Quantity::Bytes => {
                        format!("{name}, {}", units::bytes(unit).trim_start_matches("1 "))
                    }
                    Quantity::Packets => name.to_owned(),
                };
                let label = if unit == 1 { axis::count } else { axis::number };
                (
                    Axis::linear(name, (0.0, most * 1.05), label),
                    Axis::linear(up, (0.0, times.1 * 0.55), axis::time),
                )
            }
        }
    }
}

/// How figures are placed on the axes of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// In powers of two.
    Logarithmic,
    /// In so many bytes or packets.
    Linear { unit: u64 },
}

/// Sizes that differ by at most this factor are drawn on a linear axis.
const FEW_MAGNITUDES: f64 = 16.0;

impl Scale {
    fn of(quantity: Quantity, sizes: impl Iterator<Item = u64> + Clone) -> Self {
        let least = at(sizes.clone().min().unwrap_or(1));
        let greatest = at(sizes.max().unwrap_or(1));
        if greatest / least > FEW_MAGNITUDES {
            return Self::Logarithmic;
        }
        // The largest of 1, 1024 and so on that is not above all of them.
        let unit = match quantity {
            Quantity::Bytes => 1_u64 << (greatest.log2() as u32 / 10 * 10).min(60),
            Quantity::Packets => 1,
        };
        Self::Linear { unit }
    }

    fn place(self, size: u64) -> f64 {
        match self {
            Self::Logarithmic => at(size).log2(),
            Self::Linear { unit } => at(size) / unit as f64,
        }
    }
}

/// Zero has no place on a logarithmic axis.
pub(super) fn at(figure: u64) -> f64 {
    figure.max(1) as f64
}

/// From half the least to twice the greatest.
pub(super) fn range(figures: impl Iterator<Item = u64> + Clone) -> (f64, f64) {
    let least = figures.clone().min().unwrap_or(1);
    let greatest = figures.max().unwrap_or(1);
    (at(least) / 2.0, at(greatest) * 2.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::chart::LAYOUTS;
    use super::super::document::tests::{parsed, small};
    use super::*;

    #[test]
    fn one_plot_for_each_way_with_a_line_for_each_system() {
        let plots = plots(&parsed(&small()).expect("good"));
        assert_eq!(plots.len(), 1, "a rate is no line");
        assert_eq!(plots[0].title, "round trip poll/untouched");
        assert_eq!(plots[0].series["hythe"], [(64, 400, 800), (4096, 410, 820)]);
        let svg = plots[0].svg(&LAYOUTS[0]).expect("drawn");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("64 B") && svg.contains("4 KiB"), "{svg}");
        let names: Vec<String> = plots[0].legend().into_iter().map(|key| key.name).collect();
        assert_eq!(names, ["floor", "hythe"]);
    }

    #[test]
    fn same_under_other_conditions_is_no_point_of_that_line() {
        let mut document = small();
        let mut other = document["results"][2].clone();
        other["conditions"] = json!({"pinned": [0, 0]});
        let results = document["results"].as_array_mut().expect("a list");
        results.push(other);
        // A way that only one of them has.
        for size in [64, 4096] {
            let mut alone = results[2].clone();
            alone["case"] = json!("hythe/poll/filled");
            alone["size_bytes"] = json!(size);
            results.push(alone);
        }
        let plots = plots(&parsed(&document).expect("good"));
        assert_eq!(plots[0].series["hythe"].len(), 2);
        assert_eq!(plots[0].series.len(), 2, "one size makes no line");
        let colours: Vec<usize> = plots.iter().map(|plot| plot.colour_of("hythe")).collect();
        assert_eq!(colours, [1, 1], "the same in both");
        assert_eq!(plots[1].legend()[0].series, 1);
    }

    #[test]
    fn sizes_of_few_magnitudes_stand_on_linear_axes() {
        let mut document = small();
        for result in document["results"].as_array_mut().expect("a list") {
            let size = 1 << if result["size_bytes"] == 64 { 20 } else { 22 };
            result["size_bytes"] = json!(size);
        }
        let plots = plots(&parsed(&document).expect("good"));
        let svg = plots[0].svg(&LAYOUTS[0]).expect("drawn");
        let labels: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
        assert!(
            labels.contains(&"0 ns") && labels.contains(&"4") && labels.contains(&"payload, MiB"),
            "{labels:?}"
        );
    }

    #[test]
    fn costs_of_packets_stand_over_their_number() {
        let mut document = small();
        let row = |packets: u64| {
            json!({"case": "hythe/prepared", "size_bytes": 1400, "metric": "first_send_to_last_check",
                "packets": packets, "destinations": 1, "seconds": 0.01, "cpu_ns_per_packet": 95.4,
                "cpu_ns_per_packet_p99": 120.0})
        };
        document["results"] = json!([row(10_000), row(50_000)]);
        let plots = plots(&parsed(&document).expect("good"));
        assert_eq!(plots[0].title, "CPU per packet prepared, 1400 bytes to 1");
        let points = [(10_000, 95, 120), (50_000, 95, 120)];
        assert_eq!(plots[0].series["hythe"], points);
        let svg = plots[0].svg(&LAYOUTS[0]).expect("drawn");
        let labels: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
        assert!(
            labels.contains(&"packets") && labels.contains(&"20 k"),
            "{labels:?}"
        );
    }

    #[test]
    fn extremes_can_be_drawn() {
        let mut document = small();
        for (result, time) in [(0, 0_u64), (1, u64::MAX)] {
            for key in ["min", "p50", "p99", "p999", "max"] {
                document["results"][result][key] = json!(time);
            }
            document["results"][result]["size_bytes"] = json!(time);
        }
        let plots = plots(&parsed(&document).expect("good"));
        plots[0].svg(&LAYOUTS[0]).expect("drawn");
    }
}
