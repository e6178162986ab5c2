//! A core on a board with nobody beside it: what it tells, and what is seen of it from outside.

use std::fs;
use std::path::Path;

use hythe::core::{Board, Core};
use hythe_latency::result::Measurement;

use super::board_args::BoardArgs;
use super::figures::{self, Recorded};
use super::round_trip;
use super::told::{self, APP, Patience, Told};
use crate::error::CliError;
use crate::stop::Stop;
use crate::workspace::{Purpose, Workspace};

/// Questions without an answer, as the core counts them.
const DISCARDED_ROUND_TRIPS: &str = "discarded.round_trip";

/// The core without anybody beside it.
pub(super) fn alone(
    board: &Board,
    args: &BoardArgs,
    stop: &Stop,
) -> Result<(Told, Vec<Measurement>), CliError> {
    let workspace = Workspace::make(Purpose::Latency)?;
    let folder = workspace.files().join("record");
    fs::create_dir(&folder).map_err(CliError::file("make", &folder))?;
    if board.runs_alone(APP) {
        let told = told::alone(board, &folder, args.timeout, stop)?;
        let results = recorded(board, &told, &folder)?;
        return Ok((told, results));
    }
    let limits = (args.timeout, stop);
    let counted = match board.repeatable() {
        Some(_) => {
            let nothing = |_: &Core, _: Patience<'_>| Ok(());
            Some(told::in_pool(board, &workspace, Some(&folder), limits, nothing)?.0)
        }
        None => None,
    };
    let answers =
        |core: &Core, patience: Patience<'_>| round_trip::answer(&workspace, core, patience);
    let (mut told, from_linux) = told::in_pool(board, &workspace, None, limits, answers)?;
    let round_trips = round_trip::results(&case(board, &told), board, &mut told, &from_linux)?;
    let discarded = told.conditions.values.remove(DISCARDED_ROUND_TRIPS);
    let mut told = counted.unwrap_or(told);
    told.conditions
        .values
        .extend(discarded.map(|count| (DISCARDED_ROUND_TRIPS.to_owned(), count)));
    let mut results = recorded(board, &told, &folder)?;
    results.extend(round_trips);
    Ok((told, results))
}

fn case(board: &Board, told: &Told) -> String {
    format!("{}/none/{}", board.name(), told.conditions.values["load"])
}

/// By the core's clock, and from outside where the run was recorded.
fn recorded(board: &Board, told: &Told, folder: &Path) -> Result<Vec<Measurement>, CliError> {
    let case = case(board, told);
    let mut results = figures::by_guest(&case, told)?;
    if let Some(repeatable) = board.repeatable() {
        let recorded = Recorded {
            log: told::read(folder, &repeatable.log)?,
            edges: told::split(&told::read(folder, &repeatable.edges)?).0,
            instruction_ns: repeatable.instruction_ns,
        };
        results.extend(figures::from_outside(&case, told, &recorded)?);
    }
    Ok(results)
}
