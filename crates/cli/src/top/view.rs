//! How `hythe top` looks: drawn on a terminal, or as text.

use hythe_terminal::escaped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::model::{ChannelRow, ClassRow, Model, ParticipantRow, Slots, SortBy};
use crate::{objects, output, units};

/// Narrowest columns, in characters: what is narrower would move with each figure.
const NAME_WIDTH_MIN: usize = 8;
const FIGURE_WIDTH_MIN: usize = 5;
const CHANNELS: [&str; 7] = [
    "CHANNEL", ">PUB", ">SUB", ">MSG/S", ">BYTES/S", ">DROPS/S", ">WAITING",
];
const PARTICIPANTS: [&str; 8] = [
    "PARTICIPANT",
    ">NUMBER",
    ">PID",
    ">STATE",
    ">BUFFERS",
    ">BYTES",
    ">OLDEST",
    ">MISSED/S",
];
const CLASSES: [&str; 7] = [
    "REGION", ">PAYLOAD", ">SLOTS", ">FREE", ">HELD", ">QUEUED", ">USE",
];

/// What is shown, and how.
#[derive(Debug)]
pub(super) struct Shown {
    model: Model,
    sort_by: SortBy,
    scrolled: usize,
    pub(super) is_paused: bool,
}

impl Shown {
    pub(super) fn new(model: Model) -> Self {
        let mut shown = Self {
            model,
            sort_by: SortBy::default(),
            scrolled: 0,
            is_paused: false,
        };
        shown.model.sort(shown.sort_by);
        shown
    }

    pub(super) fn show(&mut self, model: Model) {
        self.model = model;
        self.model.sort(self.sort_by);
    }

    pub(super) fn sort_by_next(&mut self) {
        self.sort_by = self.sort_by.next();
        self.model.sort(self.sort_by);
    }

    /// Scrolls the channels; drawing stops it at their ends.
    pub(super) fn scroll_by(&mut self, rows: isize) {
        self.scrolled = self.scrolled.saturating_add_signed(rows);
    }
}

/// One look as text.
pub(super) fn text(model: &Model) -> String {
    let mut model = model.clone();
    model.sort(SortBy::Name);
    let table = |headings: &[&str], rows: Vec<Vec<String>>| output::table(headings, &rows);
    format!(
        "{}\n\n{}\n{}\n{}{}",
        head(&model),
        table(&CHANNELS, model.channels.iter().map(channel).collect()),
        table(
            &PARTICIPANTS,
            model.participants.iter().map(participant).collect()
        ),
        table(&CLASSES, model.classes.iter().map(class).collect()),
        objects::section(&model.objects),
    )
}

/// Draws it on the whole of a terminal.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &mut Shown) {
    let model = &shown.model;
    let height = |rows: usize| Constraint::Max(u16::try_from(rows + 2).unwrap_or(u16::MAX));
    let objects_height = match model.objects.len() {
        0 => Constraint::Length(0),
        rows => height(rows),
    };
    let [top, channels, participants, classes, objects, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(4),
        height(model.participants.len()),
        height(model.classes.len()),
        objects_height,
        Constraint::Length(1),
    ])
    .areas(frame.area());
    // One row of a table's area is its heading, one stays empty.
    let visible = usize::from(channels.height.saturating_sub(2));
    shown.scrolled = shown
        .scrolled
        .min(model.channels.len().saturating_sub(visible));
    frame.render_widget(Line::styled(head(model), bold()), top);
    let rows = model.channels.iter().skip(shown.scrolled).map(channel);
    draw_table(
        frame,
        channels,
        &CHANNELS,
        rows,
        sorted_column(shown.sort_by),
    );
    let rows = model.participants.iter().map(participant);
    draw_table(frame, participants, &PARTICIPANTS, rows, None);
    draw_table(
        frame,
        classes,
        &CLASSES,
        model.classes.iter().map(class),
        None,
    );
    let rows = model.objects.iter().map(objects::row);
    draw_table(frame, objects, &objects::COLUMNS, rows, None);
    frame.render_widget(keys_line(shown), keys);
}

fn keys_line(shown: &Shown) -> Line<'static> {
    let column = sorted_column(shown.sort_by).unwrap_or(0);
    let column = CHANNELS[column].trim_start_matches('>');
    let pause = if shown.is_paused {
        "p PAUSED"
    } else {
        "p pause"
    };
    Line::from(format!(
        "q quit  {pause}  s sorted by {column}  arrows scroll"
    ))
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    headings: &[&'static str],
    rows: impl Iterator<Item = Vec<String>>,
    marked: Option<usize>,
) {
    let heading = headings.iter().enumerate().map(|(column, heading)| {
        let mut style = bold();
        if marked == Some(column) {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        cell(heading.trim_start_matches('>').to_owned(), heading).style(style)
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let widths = widths(headings, &rows, area.width.into());
    let rows = rows.into_iter().map(|row| {
        Row::new(
            row.into_iter()
                .zip(headings)
                .map(|(text, heading)| cell(text, heading)),
        )
    });
    let heading = Row::new(heading).style(Style::new().fg(Color::Cyan));
    frame.render_widget(Table::new(rows, widths).header(heading), area);
}

/// Figures get what they need, and the names in front of them what is left of so many characters.
fn widths(headings: &[&str], rows: &[Vec<String>], available: usize) -> Vec<Constraint> {
    let widest = |column: usize, least: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|text| escaped(text).to_string().chars().count());
        let heading = headings[column].trim_start_matches('>').chars().count();
        cells.max().unwrap_or(0).max(heading).max(least)
    };
    let figures: Vec<usize> = (1..headings.len())
        .map(|column| widest(column, FIGURE_WIDTH_MIN))
        .collect();
    // Each has a blank in front.
    let taken: usize = figures.iter().map(|width| width + 1).sum();
    let left = available.saturating_sub(taken).max(NAME_WIDTH_MIN);
    let all = [widest(0, NAME_WIDTH_MIN).min(left)]
        .into_iter()
        .chain(figures);
    all.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)))
        .collect()
}

/// Figures stand right.
fn cell(text: String, heading: &str) -> Cell<'static> {
    let line = Line::from(escaped(&text).to_string());
    Cell::from(if heading.starts_with('>') {
        line.right_aligned()
    } else {
        line
    })
}

const fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

const fn sorted_column(by: SortBy) -> Option<usize> {
    Some(match by {
        SortBy::Name => 0,
        SortBy::Messages => 3,
        SortBy::Bytes => 4,
        SortBy::Drops => 5,
        SortBy::Waiting => 6,
    })
}

fn head(model: &Model) -> String {
    let Slots {
        total,
        free,
        held,
        queued,
    } = model.slots;
    format!(
        "pool {}: {free} free + {held} held + {queued} queued = {total} slots; rates over {:.1} s",
        escaped(&model.pool),
        model.seconds
    )
}

fn channel(row: &ChannelRow) -> Vec<String> {
    vec![
        row.name.clone(),
        row.publishers.to_string(),
        row.subscribers.to_string(),
        format!("{:.1}", row.messages_per_second),
        // Whole bytes will do.
        units::bytes(row.payload_bytes_per_second as u64),
        format!("{:.1}", row.dropped_per_second),
        row.waiting.to_string(),
    ]
}

fn participant(row: &ParticipantRow) -> Vec<String> {
    vec![
        row.name.clone(),
        row.participant.to_string(),
        row.pid.to_string(),
        row.state.to_owned(),
        row.buffers.to_string(),
        units::bytes(row.slot_bytes),
        row.longest_ms.map_or_else(String::new, units::milliseconds),
        format!("{:.1}", row.missed_per_second),
    ]
}

fn class(row: &ClassRow) -> Vec<String> {
    let Slots {
        total,
        free,
        held,
        queued,
    } = row.slots;
    let percent = u64::from(total - free.min(total)) * 100 / u64::from(total.max(1));
    vec![
        format!("{} {}", row.region, row.region_name),
        units::bytes(row.payload_bytes),
        total.to_string(),
        free.to_string(),
        held.to_string(),
        queued.to_string(),
        format!("{percent} %"),
    ]
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model::tests::two_seconds;
    use super::*;

    fn drawn(shown: &mut Shown, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
        terminal
            .draw(|frame| draw(frame, shown))
            .expect("in memory");
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>())
            .collect()
    }

    #[test]
    fn terminal_shows_channels_participants_and_classes() {
        let mut shown = Shown::new(two_seconds());
        let lines = drawn(&mut shown, 110, 30);
        let row = |start: &str| {
            let found = lines.iter().find(|line| line.starts_with(start));
            let found = found.unwrap_or_else(|| panic!("no {start} in {lines:#?}"));
            found
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert!(lines[0].starts_with("pool watched: "), "{lines:#?}");
        assert_eq!(
            row("busy"),
            ["busy", "1", "1", "3.0", "300", "B", "1.0", "3"]
        );
        assert_eq!(row("worker")[3..5], ["alive", "2"]);
        assert!(row("REGION").contains(&"QUEUED".to_owned()));
        assert!(lines[29].contains("sorted by CHANNEL") && !lines[29].contains("PAUSED"));
        shown.is_paused = true;
        shown.sort_by_next();
        let lines = drawn(&mut shown, 110, 30);
        assert!(lines[29].contains("PAUSED") && lines[29].contains("sorted by MSG/S"));
    }

    #[test]
    fn many_channels_scroll_and_small_terminals_do_no_harm() {
        let mut model = two_seconds();
        let row = model.channels[0].clone();
        let named = |number| ChannelRow {
            name: format!("channel-{number:02}"),
            ..row.clone()
        };
        model.channels = (0..50).map(named).collect();
        let mut shown = Shown::new(model);
        let shows = |shown: &mut Shown, name: &str| {
            drawn(shown, 100, 20)
                .iter()
                .any(|line| line.starts_with(name))
        };
        assert!(shows(&mut shown, "channel-00") && !shows(&mut shown, "channel-49"));
        shown.scroll_by(1000);
        assert!(shows(&mut shown, "channel-49") && !shows(&mut shown, "channel-00"));
        shown.scroll_by(-1000);
        assert!(shows(&mut shown, "channel-00"));
        for (width, height) in [(1, 1), (10, 3), (200, 4), (3, 60)] {
            drawn(&mut shown, width, height);
        }
    }

    #[test]
    fn names_get_what_figures_leave() {
        let name = "front/camera/left/stereo/raw";
        let mut model = two_seconds();
        model.channels[0].name = name.to_owned();
        model.participants[0].name = name.to_owned();
        let lines = drawn(&mut Shown::new(model), 80, 24);
        let whole = lines.iter().filter(|line| line.starts_with(name));
        assert_eq!(whole.count(), 2, "{lines:#?}");
        for heading in ["WAITING", "OLDEST", "MISSED/S", "QUEUED"] {
            assert!(lines.iter().any(|line| line.contains(heading)), "{heading}");
        }
    }

    #[test]
    fn text_has_the_same_figures() {
        let text = text(&two_seconds());
        let busy = text
            .lines()
            .find(|line| line.starts_with("busy"))
            .expect("there");
        let words: Vec<&str> = busy.split_whitespace().collect();
        assert_eq!(words, ["busy", "1", "1", "3.0", "300", "B", "1.0", "3"]);
        assert!(
            text.contains("worker") && text.contains("rates over 2.0 s"),
            "{text}"
        );
    }
}
