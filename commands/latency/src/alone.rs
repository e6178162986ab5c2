//! A core on a board with nobody beside it: what it tells, and what is seen of it from outside.

use std::fs;
use std::path::Path;

use hythe::core::{Board, Core};
use hythe_command::error::CliError;
use hythe_command::stop::Stop;
use hythe_command::workspace::{Purpose, Workspace};
use hythe_latency::result::Measurement;

use super::board_args::BoardArgs;
use super::board_output::{self, APP, BoardOutput, TimeLimit};
use super::figures::{self, Recorded};
use super::round_trip;

/// Questions without an answer, as the core counts them.
const DISCARDED_ROUND_TRIPS: &str = "discarded.round_trip";

/// The core without anybody beside it.
pub(super) fn alone(
    board: &Board,
    args: &BoardArgs,
    stop: &Stop,
) -> Result<(BoardOutput, Vec<Measurement>), CliError> {
    let workspace = Workspace::make(Purpose::Latency)?;
    let folder = workspace.files().join("record");
    fs::create_dir(&folder).map_err(CliError::file("make", &folder))?;
    if board.runs_alone(APP) {
        let output = board_output::alone(board, &folder, args.timeout, stop)?;
        let results = recorded(board, &output, &folder)?;
        return Ok((output, results));
    }
    let limits = (args.timeout, stop);
    let counted = match board.repeatable() {
        Some(_) => {
            let nothing = |_: &Core, _: TimeLimit<'_>| Ok(());
            Some(board_output::in_pool(board, &workspace, Some(&folder), limits, nothing)?.0)
        }
        None => None,
    };
    let answers =
        |core: &Core, time_limit: TimeLimit<'_>| round_trip::answer(&workspace, core, time_limit);
    let (mut output, from_linux) = board_output::in_pool(board, &workspace, None, limits, answers)?;
    let round_trips = round_trip::results(&case(board, &output), board, &mut output, &from_linux)?;
    let discarded = output.conditions.values.remove(DISCARDED_ROUND_TRIPS);
    let mut output = counted.unwrap_or(output);
    output
        .conditions
        .values
        .extend(discarded.map(|count| (DISCARDED_ROUND_TRIPS.to_owned(), count)));
    let mut results = recorded(board, &output, &folder)?;
    results.extend(round_trips);
    Ok((output, results))
}

fn case(board: &Board, output: &BoardOutput) -> String {
    format!("{}/none/{}", board.name(), output.conditions.values["load"])
}

/// By the core's clock, and from outside where the run was recorded.
fn recorded(
    board: &Board,
    output: &BoardOutput,
    folder: &Path,
) -> Result<Vec<Measurement>, CliError> {
    let case = case(board, output);
    let mut results = figures::by_guest(&case, output)?;
    if let Some(repeatable) = board.repeatable() {
        let recorded = Recorded {
            log: board_output::read(folder, &repeatable.log)?,
            edges: board_output::split(&board_output::read(folder, &repeatable.edges)?).0,
            instruction_ns: repeatable.instruction_ns,
        };
        results.extend(figures::from_outside(&case, output, &recorded)?);
    }
    Ok(results)
}
