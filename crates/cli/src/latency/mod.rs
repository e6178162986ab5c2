//! `hythe latency`: real-time latency, of an RTOS on a board.

mod board;
mod figures;
mod told;
mod under_xen;

use clap::Subcommand;

use crate::args::Globals;
use crate::error::CliError;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum LatencyCommand {
    /// Measure FreeRTOS on a board: the six figures of Rhealstone, and how late a timer is
    #[command(
        after_help = "Examples:\n  hythe latency board mps2-an386\n  hythe latency board virt-a53 --under xen-shared --load hog\n  hythe latency board virt-a53 --under xen-partitioned --json > partitioned.json"
    )]
    Board(board::BoardArgs),
}

pub(crate) fn run(command: LatencyCommand, globals: &Globals) -> Result<(), CliError> {
    match command {
        LatencyCommand::Board(args) => board::run(&args, globals),
    }
}
