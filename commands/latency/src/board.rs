//! `hythe latency board`: runs `rtos/apps/rhealstone` on a board, alone or beside Linux under Xen,
//! takes what it tells, and times the edges on its pin from outside.
//!
//! The core measures by itself, before anything of Linux reaches it; only then, and where
//! instructions are counted in another run, Linux answers it (`round_trip`). Never judges the
//! figures.

use hythe::core::Board;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::stop::Stop;
use hythe_latency::result::Document;

use super::alone::alone;
use super::board_args::{BoardArgs, ClockArg, LoadArg};
use super::board_output::APP;
use super::figures::{conditions, document};
use super::under_xen;

pub(crate) fn run(args: &BoardArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let board = Board::find(&args.board)?;
    if !board.apps().iter().any(|app| app == APP) {
        return Err(CliError::Failed(format!(
            "board {} has no program `{APP}` to measure it with",
            board.name()
        )));
    }
    args.output.check_files()?;
    let document = match args.under.partition() {
        None if args.load != LoadArg::Idle
            || args.clock != ClockArg::Instructions
            || args.xen.is_given() =>
        {
            return Err(CliError::WrongUse(
                "--load, --clock and the options of Xen are for a core beside Linux: --under xen-shared or xen-partitioned".to_owned(),
            ));
        }
        None => {
            let (output, results) = alone(&board, args, &stop)?;
            document(&board, conditions(&board, &output, limits(&board)), results)
        }
        Some(partition) => under_xen::measure(&board, partition, args, &stop)?,
    };
    args.output.finish(&document, globals, text)
}

/// What these figures can and cannot show.
fn limits(board: &Board) -> &'static str {
    if board.is_emulated() {
        "emulated: instructions are counted, caches and buses take no time; for comparing configurations, no claim about hardware"
    } else {
        "FreeRTOS is a Linux process here: shows that the program works, says nothing about latency"
    }
}

fn text(document: &Document) -> String {
    let mut text = String::new();
    let mut case = "";
    for result in &document.results {
        if case != result.case {
            case = &result.case;
            text += &format!(
                "{case}\n{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}\n",
                "ns", "min", "p50", "p99", "p99.9", "max", "count", "exits"
            );
        }
        let exits = result
            .exits
            .map_or_else(String::new, |exits| format!("{exits:.3}"));
        text += &format!(
            "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {exits:>8}\n",
            result.metric,
            result.min,
            result.p50,
            result.p99,
            result.p999,
            result.max,
            result.count
        );
    }
    for ratio in &document.ratios {
        text += &format!("{}: {:.3}\n", ratio.name, ratio.value);
    }
    for (key, value) in &document.conditions {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        text += &format!("{key}: {value}\n");
    }
    text
}
