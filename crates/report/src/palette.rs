//! The colours of a page, by light and by dark, and what tells lines apart for those who see no
//! colours.
//!
//! Figures are drawn in the colours for light, written into the SVG; the page's style replaces each
//! where dark is preferred. So a figure that is cut out of the page still is one.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// Red, green, blue.
type Rgb = [u8; 3];

/// One colour in both.
#[derive(Clone, Copy, Debug)]
struct Shade {
    light: Rgb,
    dark: Rgb,
}

/// What a series is drawn with. After Okabe and Ito (2008), whose colours stay apart for those who
/// see no red and green; darkened or lightened until each stands out from the paper at 3 to 1 or
/// more, as WCAG 2.1 asks of graphics.
#[derive(Clone, Copy, Debug)]
struct Ink {
    shade: Shade,
    /// Lengths of line and gap; none: an unbroken line.
    dashes: &'static str,
}

/// So many series fit into one figure.
pub(super) const SERIES: usize = INKS.len();

const INKS: [Ink; 8] = [
    ink([0, 114, 178], [86, 180, 233], ""),
    ink([200, 80, 0], [255, 140, 66], "7 3"),
    ink([0, 132, 96], [47, 214, 163], "2 3"),
    ink([168, 72, 128], [242, 154, 200], "10 3 2 3"),
    ink([148, 104, 0], [240, 192, 64], "4 2"),
    ink([96, 64, 168], [190, 166, 245], "12 4"),
    ink([68, 68, 68], [208, 208, 208], "1 2"),
    ink([110, 76, 48], [206, 170, 130], "8 2 2 2 2 2"),
];

const fn ink(light: Rgb, dark: Rgb, dashes: &'static str) -> Ink {
    Ink {
        shade: Shade { light, dark },
        dashes,
    }
}

const PAPER: Shade = Shade {
    light: [255, 255, 255],
    dark: [20, 23, 27],
};
const TEXT: Shade = Shade {
    light: [0, 0, 0],
    dark: [232, 232, 232],
};
/// What is said beside.
const SOFT: Shade = Shade {
    light: [80, 80, 80],
    dark: [176, 180, 186],
};
const LINK: Shade = Shade {
    light: [0, 90, 156],
    dark: [120, 190, 250],
};
const RULE: Shade = Shade {
    light: [208, 208, 208],
    dark: [62, 67, 74],
};
/// Behind a warning.
const WARNING: Shade = Shade {
    light: [253, 232, 232],
    dark: [70, 28, 28],
};
const WARNING_EDGE: Shade = Shade {
    light: [192, 0, 0],
    dark: [255, 110, 110],
};

const NAMED: [(&str, Shade); 7] = [
    ("paper", PAPER),
    ("text", TEXT),
    ("soft", SOFT),
    ("link", LINK),
    ("rule", RULE),
    ("warning", WARNING),
    ("edge", WARNING_EDGE),
];

/// The colour of a series; after the last comes the first again.
pub(super) fn colour(place: usize) -> RGBColor {
    let [red, green, blue] = INKS[place % SERIES].shade.light;
    RGBColor(red, green, blue)
}

/// The same as it stands in the SVG.
pub(super) fn hex_of(place: usize) -> String {
    hex(INKS[place % SERIES].shade.light)
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The rules of the page that know colours.
pub(super) fn style() -> String {
    let inks = INKS.iter().enumerate();
    let inks = inks.map(|(place, ink)| (format!("s{place}"), ink.shade));
    let named = NAMED
        .iter()
        .map(|(name, shade)| ((*name).to_owned(), *shade));
    let (mut light, mut dark) = (String::new(), String::new());
    for (name, shade) in named.chain(inks) {
        // Writing to a string does not fail.
        let _ = write!(light, "--{name}:{};", hex(shade.light));
        let _ = write!(dark, "--{name}:{};", hex(shade.dark));
    }
    let mut style = format!(
        ":root{{color-scheme:light dark;{light}}}\n@media(prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    );
    let drawn = [(PAPER, "paper".to_owned()), (TEXT, "text".to_owned())];
    let inks = INKS.iter().enumerate();
    let drawn = drawn
        .into_iter()
        .chain(inks.map(|(place, ink)| (ink.shade, format!("s{place}"))));
    for (shade, name) in drawn {
        let colour = hex(shade.light);
        let _ = writeln!(
            style,
            "svg [fill=\"{colour}\"]{{fill:var(--{name})}}svg [stroke=\"{colour}\"]{{stroke:var(--{name})}}"
        );
    }
    for (place, ink) in INKS
        .iter()
        .enumerate()
        .filter(|(_, ink)| !ink.dashes.is_empty())
    {
        let (colour, dashes) = (hex_of(place), ink.dashes);
        let _ = writeln!(
            style,
            "svg polyline[stroke=\"{colour}\"]{{stroke-dasharray:{dashes}}}"
        );
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of WCAG 2.1.
    fn luminance(colour: Rgb) -> f64 {
        let linear = colour.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn both(shade: Shade, behind: Shade) -> f64 {
        contrast(shade.light, behind.light).min(contrast(shade.dark, behind.dark))
    }

    #[test]
    fn everything_stands_out_from_what_is_behind_it() {
        assert!((contrast([0, 0, 0], [255, 255, 255]) - 21.0).abs() < 0.01);
        for ink in INKS {
            assert!(both(ink.shade, PAPER) >= 3.0, "{ink:?}");
        }
        for (words, behind) in [(TEXT, PAPER), (SOFT, PAPER), (LINK, PAPER), (TEXT, WARNING)] {
            assert!(both(words, behind) >= 4.5, "{words:?} on {behind:?}");
        }
    }

    #[test]
    fn palette_gives_series_distinct_colours_and_dashes() {
        for (place, ink) in INKS.iter().enumerate() {
            let others = INKS[..place].iter();
            assert!(
                others.clone().all(|other| other.dashes != ink.dashes
                    && other.shade.light != ink.shade.light
                    && other.shade.dark != ink.shade.dark),
                "{ink:?}"
            );
            assert!(ink.shade.light != TEXT.light && ink.shade.light != PAPER.light);
        }
        assert_eq!(colour(SERIES), colour(0));
    }

    #[test]
    fn style_replaces_what_is_drawn() {
        let style = style();
        for rule in [
            "svg [fill=\"#FFFFFF\"]{fill:var(--paper)}",
            "svg [stroke=\"#0072B2\"]{stroke:var(--s0)}",
            "@media(prefers-color-scheme:dark)",
            "--s0:#56B4E9;",
        ] {
            assert!(style.contains(rule), "no {rule} in {style}");
        }
    }
}
