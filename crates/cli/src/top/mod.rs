//! `hythe top`: a live view of a pool.
//!
//! `model` makes figures of two looks, `view` draws them, `screen` owns the terminal; here is the
//! loop. It only looks: it takes no place in the pool and delays nobody.

mod model;
mod screen;
mod view;

use std::io::{IsTerminal, stdin, stdout};
use std::time::{Duration, Instant};

use clap::Args;
use hythe::Pool;

use self::model::Model;
use self::screen::{Key, Screen};
use self::view::Shown;
use crate::args::Globals;
use crate::error::CliError;
use crate::rates::Counts;
use crate::stop::{LOOK, Stop};
use crate::{list, objects, output, units};

/// What the first rates are over, unless the interval is shorter.
const FIRST_LOOK: Duration = Duration::from_millis(200);

/// How to watch.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "1")]
    interval: Duration,
    /// Print one look as text and end; with --json, the only way
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &TopArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let pool = globals.open()?;
    let mut watch = Watch::new(&pool);
    if args.once || globals.json {
        let due = Instant::now() + args.interval;
        while !stop.asked() && Instant::now() < due {
            stop.sleep_until(due);
        }
        return output::print(globals.json, &watch.look()?, view::text);
    }
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(CliError::WrongUse(
            "top draws on a terminal, and this is none: `hythe top --once` prints one look, `hythe list --json` is for machines".to_owned(),
        ));
    }
    let mut screen = Screen::enter()?;
    watch_live(args, &stop, &mut watch, &mut screen)
}

fn watch_live(
    args: &TopArgs,
    stop: &Stop,
    watch: &mut Watch<'_>,
    screen: &mut Screen,
) -> Result<(), CliError> {
    // Rates over no time at all are nonsense: the first look comes a little later.
    stop.sleep_until(Instant::now() + args.interval.min(FIRST_LOOK));
    let mut shown = Shown::new(watch.look()?);
    let mut due = Instant::now() + args.interval;
    while !stop.asked() {
        screen.draw(|frame| view::draw(frame, &mut shown))?;
        let left = due.saturating_duration_since(Instant::now());
        match screen.key(left.min(LOOK))? {
            Some(Key::Quit) => break,
            Some(Key::Pause) => shown.is_paused = !shown.is_paused,
            Some(Key::Sort) => shown.sort_by_next(),
            Some(Key::Up) => shown.scroll_by(-1),
            Some(Key::Down) => shown.scroll_by(1),
            None => {}
        }
        if Instant::now() >= due {
            due = Instant::now() + args.interval;
            if !shown.is_paused {
                shown.show(watch.look()?);
            }
        }
    }
    Ok(())
}

/// A pool under watch.
struct Watch<'a> {
    pool: &'a Pool,
    before: Counts,
}

impl<'a> Watch<'a> {
    fn new(pool: &'a Pool) -> Self {
        let before = Counts::of(Instant::now(), &pool.snapshot().ports);
        Self { pool, before }
    }

    /// What happened since the last look.
    fn look(&mut self) -> Result<Model, CliError> {
        self.pool.check_found()?;
        self.pool.finish_recoveries();
        let snapshot = self.pool.snapshot();
        let now = Instant::now();
        let name = self.pool.options().name();
        let state = |member: &_| list::state(self.pool, member);
        let mut model = Model::new(name, &self.before, now, &snapshot, state);
        // What cannot be read is not shown: `hythe list` says why.
        model.objects = objects::list(self.pool).unwrap_or_default();
        self.before = Counts::of(now, &snapshot.ports);
        Ok(model)
    }
}
