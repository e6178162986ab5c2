//! Plots as SVG, to stand inside a page: times by size, or by number of packets, one line for each system.

use std::collections::BTreeMap;
use std::error::Error;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

use super::document::{Document, Measurement};
use super::figure::Figure;
use crate::units;

pub(super) const WIDTH: u32 = 860;
pub(super) const HEIGHT: u32 = 420;
pub(super) const FONT: (&str, u32) = ("sans-serif", 13);
/// Told apart also by those who see no red and green (Okabe and Ito, 2008).
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// One point: size in bytes or number of packets, p50 and p99 in nanoseconds.
type Point = (u64, u64, u64);

/// Times of several systems, measured in one way.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    quantity: Quantity,
    /// By system, in the order of size.
    series: BTreeMap<String, Vec<Point>>,
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
    if measurement.calls.is_some() {
        // One number of calls makes no line.
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

/// What of a document can be drawn: cases with times of at least two sizes, or costs of at least two numbers of packets.
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
            });
            found.len() - 1
        });
        let series = found[place].series.entry(system.to_owned()).or_default();
        series.push(point);
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
    found
}

impl Figure for Plot {
    fn title(&self) -> &str {
        &self.title
    }

    /// Over sizes of many magnitudes both axes are logarithmic, that of sizes with powers of two; over few, as of
    /// one experiment, both begin at zero, so that what is saved can be read off. p99 stands above each p50 as a ring.
    fn draw<'a>(&self, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let points = || self.series.values().flatten();
        let sizes = Axis::of(self.quantity, points().map(|point| point.0));
        let times = range(points().flat_map(|point| [point.1, point.2]));
        let area = SVGBackend::with_string(into, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        match sizes.scale {
            Scale::Logarithmic => self.draw_on(&area, &sizes, (times.0..times.1).log_scale())?,
            Scale::Linear { .. } => self.draw_on(&area, &sizes, 0.0..times.1 * 0.55)?,
        }
        area.present()?;
        Ok(())
    }
}

impl Plot {
    fn draw_on<'a, T>(
        &self,
        area: &DrawingArea<SVGBackend<'a>, Shift>,
        sizes: &Axis,
        times: impl plotters::coord::ranged1d::AsRangedCoord<CoordDescType = T, Value = f64>,
    ) -> Result<(), Box<dyn Error + 'a>>
    where
        T: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(80)
            .build_cartesian_2d(sizes.low..sizes.high, times)?;
        chart
            .configure_mesh()
            .x_desc(self.quantity.name())
            .y_desc("p50 (line) and p99 (ring)")
            .x_labels(sizes.labels)
            .x_label_formatter(&|place| sizes.scale.label(self.quantity, *place))
            .y_label_formatter(&|time| nanoseconds(*time))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(WHITE)
            .draw()?;
        let place = |size| sizes.scale.place(size);
        for ((system, points), colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let line = points.iter().map(|point| (place(point.0), at(point.1)));
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)).point_size(3))?
                .label(system)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled())
                });
            let rings = points
                .iter()
                .map(|point| Circle::new((place(point.0), at(point.2)), 3, *colour));
            chart.draw_series(rings)?;
        }
        chart
            .configure_series_labels()
            .label_font(FONT)
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        Ok(())
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
    fn place(self, size: u64) -> f64 {
        match self {
            Self::Logarithmic => at(size).log2(),
            Self::Linear { unit } => at(size) / unit as f64,
        }
    }

    fn label(self, quantity: Quantity, place: f64) -> String {
        match self {
            Self::Logarithmic => quantity.show(place.exp2() as u64),
            Self::Linear { unit } if place.fract() == 0.0 => quantity.show(place as u64 * unit),
            Self::Linear { unit } => {
                let whole = quantity.show(unit);
                let name = whole.trim_start_matches("1 ");
                format!("{place:.1} {name}")
            }
        }
    }
}

/// The axis of sizes.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Where they are too many, the library leaves out some.
    labels: usize,
}

impl Axis {
    fn of(quantity: Quantity, sizes: impl Iterator<Item = u64> + Clone) -> Self {
        let least = at(sizes.clone().min().unwrap_or(1));
        let greatest = at(sizes.max().unwrap_or(1));
        if greatest / least <= FEW_MAGNITUDES {
            // The largest of 1, 1024 and so on that is not above all of them.
            let unit = match quantity {
                Quantity::Bytes => 1_u64 << (greatest.log2() as u32 / 10 * 10).min(60),
                Quantity::Packets => 1,
            };
            return Self {
                scale: Scale::Linear { unit },
                low: 0.0,
                high: greatest / unit as f64 * 1.05,
                labels: 9,
            };
        }
        // Whole powers of two around all sizes.
        let (low, high) = (least.log2().floor(), greatest.log2().ceil());
        Self {
            scale: Scale::Logarithmic,
            low: low - 0.5,
            high: high + 0.5,
            labels: (high - low) as usize + 2,
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

/// `250 ns`, `3.2 us`.
pub(super) fn nanoseconds(time: f64) -> String {
    match time {
        ..1e3 => format!("{time:.0} ns"),
        1e3..1e6 => format!("{:.1} us", time / 1e3),
        1e6..1e9 => format!("{:.1} ms", time / 1e6),
        _ => format!("{:.1} s", time / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::tests::{parsed, small};
    use super::*;

    #[test]
    fn one_plot_for_each_way_with_a_line_for_each_system() {
        let plots = plots(&parsed(&small()).expect("good"));
        assert_eq!(plots.len(), 1, "a rate is no line");
        assert_eq!(plots[0].title, "round trip poll/untouched");
        assert_eq!(plots[0].series["hythe"], [(64, 400, 800), (4096, 410, 820)]);
        let svg = plots[0].svg().expect("drawn");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(
            svg.contains("floor") && svg.contains("hythe") && svg.contains("4 KiB"),
            "{svg}"
        );
    }

    #[test]
    fn sizes_of_few_magnitudes_stand_on_linear_axes() {
        let mut document = small();
        for result in document["results"].as_array_mut().expect("a list") {
            let size = 1 << if result["size_bytes"] == 64 { 20 } else { 22 };
            result["size_bytes"] = json!(size);
        }
        let plots = plots(&parsed(&document).expect("good"));
        let svg = plots[0].svg().expect("drawn");
        let labels: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
        assert!(
            labels.contains(&"0 ns") && labels.contains(&"4 MiB"),
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
        let svg = plots[0].svg().expect("drawn");
        let labels: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
        assert!(
            labels.contains(&"packets") && labels.contains(&"20000"),
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
        plots[0].svg().expect("drawn");
    }
}
