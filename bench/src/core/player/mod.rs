//! The last comparison of the paper: a player whose decoder runs on the other core. `hythe play`
//! plays the same movie with each of its methods, in turns.
//!
//! `film` finds the movie, `program` runs one player, `case` is what is compared, `metric` by what,
//! `report` makes rows and ratios of it, `table` shows them beside the paper's figures. Rounds go
//! over all systems, so that what is compared was measured next to each other. Players and cores
//! have the two CPUs together, and divide them as the scheduler likes.

mod case;
mod film;
mod metric;
mod program;
mod report;
mod table;

use std::path::Path;

use indicatif::ProgressBar;

use self::case::System;
use self::program::{Film, Played};
use super::args::CoreArguments;
use super::board;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::others::Others;
use crate::times::{RunConditions, TimesReport};
use crate::{cpus, machine, product};

pub(crate) use self::table::render;

/// The program of the core.
const APP: &str = "player";

/// All rounds of a system.
#[derive(Debug)]
struct Series {
    system: System,
    rounds: Vec<Played>,
}

/// Measures what the arguments ask for.
pub(crate) fn run(
    arguments: &CoreArguments,
    film: Option<&Path>,
) -> Result<TimesReport, BenchError> {
    machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let Some(cpus) = cpus::choose()? else {
        return Err(BenchError::Unable(
            "a player and its core run on two CPUs, and this process may use one only".to_owned(),
        ));
    };
    // Players and cores inherit it.
    cpus::pin_to(&cpus)?;
    let board = board::find(&arguments.board, APP)?;
    let program = product::hythe().ok_or_else(|| BenchError::Unable(product::MISSING.into()))?;
    let film = Film {
        program,
        board: board.name().to_owned(),
        path: film::find(film)?,
    };
    let rounds = arguments.scale().rounds;
    let (mut series, mut skipped) = (Vec::new(), Vec::new());
    for system in System::ALL {
        match film.has_method(system)? {
            true => series.push(Series::new(system)),
            false => skipped.push(format!("{system}/plays: this `hythe` has no such method")),
        }
    }
    let others = Others::watch(&cpus, &[])?;
    // Shown on a terminal only.
    let bar = ProgressBar::new(series.len() as u64 * u64::from(rounds));
    for _ in 0..rounds {
        for series in &mut series {
            let played = film.play(series.system, &lookout)?;
            series.rounds.push(played);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let run = RunConditions {
        cpus,
        rounds,
        load_before,
        others: others.share()?,
        skipped,
        objection: report::objection(&series),
    };
    report::of(&series, run)
}

impl Series {
    const fn new(system: System) -> Self {
        Self {
            system,
            rounds: Vec::new(),
        }
    }
}
