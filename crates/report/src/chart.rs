//! What all figures with two axes have in common: the frame, and marks for each series.

use std::error::Error;

use plotters::element::{Cross, TriangleMarker};
use plotters::prelude::*;

use super::axis::{Axis, Scale};
use super::palette;

/// How large a figure is. Each is drawn for a desk and for a phone: letters that shrink with the
/// drawing cannot be read there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Of the element: the page shows those that fit.
    pub(super) class: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
    /// As the library counts it: 1.24 times the height of a letter in pixels.
    pub(super) font: u32,
    left: u32,
    bottom: u32,
    /// Half of the last label reaches out there.
    right: u32,
    across: usize,
    up: usize,
}

pub(super) const LAYOUTS: [Layout; 2] = [WIDE, NARROW];

const WIDE: Layout = Layout {
    class: "wide",
    width: 860,
    height: 420,
    font: 17,
    left: 92,
    bottom: 52,
    right: 36,
    across: 10,
    up: 9,
};
/// A phone of 390 pixels less its margins.
const NARROW: Layout = Layout {
    class: "narrow",
    width: 358,
    height: 320,
    font: 15,
    left: 78,
    bottom: 48,
    right: 28,
    across: 4,
    up: 7,
};

impl Layout {
    /// The letters of labels.
    pub(super) const fn letters(&self) -> (&'static str, u32) {
        ("sans-serif", self.font)
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.width == NARROW.width
    }
}

/// What one series is drawn as.
#[derive(Clone, Debug)]
pub(super) enum Marks {
    /// A line through places.
    Line(Vec<(f64, f64)>),
    /// A line with a dot at each place.
    Dotted(Vec<(f64, f64)>),
    /// A ring at each place.
    Rings(Vec<(f64, f64)>),
    /// At each place a shape that belongs to the series as its colour does.
    Shapes(Vec<(f64, f64)>),
}

/// Marks and the number of their series.
pub(super) type Marked = (usize, Marks);

/// What tells apart series that have no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Dot,
    Triangle,
    Cross,
    Ring,
}

impl Shape {
    /// After the last comes the first again, in another colour.
    pub(super) const fn of(series: usize) -> Self {
        match series % 4 {
            0 => Self::Dot,
            1 => Self::Triangle,
            2 => Self::Cross,
            _ => Self::Ring,
        }
    }
}

type Frame<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Scale, Scale>>;

/// Draws the frame and everything in it.
pub(super) fn draw<'a>(
    into: &'a mut String,
    layout: &Layout,
    (across, up): (&Axis, &Axis),
    marked: &[Marked],
) -> Result<(), Box<dyn Error + 'a>> {
    let size = (layout.width, layout.height);
    let area = SVGBackend::with_string(into, size).into_drawing_area();
    area.fill(&WHITE)?;
    let mut frame: Frame<'_> = ChartBuilder::on(&area)
        .margin(4)
        .margin_top(12)
        .margin_right(layout.right)
        .x_label_area_size(layout.bottom)
        .y_label_area_size(layout.left)
        .build_cartesian_2d(
            across.scale(across.labels(layout.across)),
            up.scale(layout.up),
        )?;
    frame
        .configure_mesh()
        .x_desc(&across.name)
        .y_desc(&up.name)
        .x_label_formatter(&|place| across.label(*place))
        .y_label_formatter(&|place| up.label(*place))
        .label_style(layout.letters())
        .axis_desc_style(layout.letters())
        .set_all_tick_mark_size(4)
        .draw()?;
    for (series, marks) in marked {
        draw_marks(&mut frame, *series, marks)?;
    }
    area.present()?;
    Ok(())
}

fn draw_marks<'a>(
    frame: &mut Frame<'a>,
    series: usize,
    marks: &Marks,
) -> Result<(), Box<dyn Error + 'a>> {
    let colour = palette::colour(series);
    let line = colour.stroke_width(2);
    let (Marks::Line(places)
    | Marks::Dotted(places)
    | Marks::Rings(places)
    | Marks::Shapes(places)) = marks;
    if let Marks::Line(_) | Marks::Dotted(_) = marks {
        frame.draw_series([PathElement::new(places.clone(), line)])?;
    }
    let shape = match marks {
        Marks::Line(_) => return Ok(()),
        Marks::Dotted(_) => Shape::Dot,
        Marks::Rings(_) => Shape::Ring,
        Marks::Shapes(_) => Shape::of(series),
    };
    let at = places.iter().copied();
    match shape {
        Shape::Dot => frame.draw_series(at.map(|at| Circle::new(at, 3, colour.filled())))?,
        Shape::Ring => frame.draw_series(at.map(|at| Circle::new(at, 3, colour)))?,
        Shape::Cross => frame.draw_series(at.map(|at| Cross::new(at, 3, colour)))?,
        Shape::Triangle => {
            frame.draw_series(at.map(|at| TriangleMarker::new(at, 4, colour.filled())))?
        }
    };
    Ok(())
}
