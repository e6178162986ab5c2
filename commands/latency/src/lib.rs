//! `hythe latency`: real-time latency, of this machine or of an RTOS on a board, measured, judged
//! and compared.
//!
//! One file per command; `output` is what all that measure end with, `channel` lends them a channel
//! of the pool. Never computes a figure: `hythe_latency` does.

mod alone;
mod board;
mod board_args;
mod board_output;
mod channel;
mod compare;
mod figures;
mod host;
mod output;
mod round_trip;
mod under_xen;
mod xen_args;

use clap::Subcommand;
use hythe_command::args::Globals;
use hythe_command::error::CliError;

/// What can be done about latency.
#[derive(Debug, Subcommand)]
pub enum LatencyCommand {
    /// Measure this machine: how late its timers are, and how long wake-ups by futex, eventfd and
    /// channel take
    ///
    /// Like cyclictest, it runs a thread of real-time priority on each CPU, with locked memory and
    /// without deep sleep states. If one of these is not permitted, it says so, also in the result.
    /// The measures run one after the other, each for the time of --for.
    #[command(
        after_help = "Examples:\n  hythe latency host\n  hythe latency host --for 60 --load hog --json > hog.json\n  hythe latency host --cpus 2-3 --priority 90 --interval 250 --loops 100000 --measure timer\n  hythe latency host --strict --fail-above timer:p99.9=50us --junit latency.xml --hgrm plots\n  hythe latency host --measure timer --rtla"
    )]
    Host(host::HostArgs),
    /// Measure FreeRTOS on a board: the six figures of Rhealstone, how late a timer is, and the
    /// round trip of a channel to Linux
    #[command(
        after_help = "Examples:\n  hythe latency board mps2-an386\n  hythe latency board virt-a53 --under xen-shared --load hog\n  hythe latency board virt-a53 --under xen-partitioned --json > partitioned.json"
    )]
    Board(board_args::BoardArgs),
    /// Compare results: the ratio at each percentile, with the conditions side by side
    ///
    /// The others are compared with the first file. Emulated times are compared with real ones, and
    /// times of different clocks with each other, only with --force.
    #[command(
        after_help = "Examples:\n  hythe latency compare idle.json hog.json\n  hythe latency compare before.json after.json --json | jq '.ratios[]'"
    )]
    Compare(compare::CompareArgs),
}

/// Runs a command of `hythe latency`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(command: LatencyCommand, globals: &Globals) -> Result<(), CliError> {
    match command {
        LatencyCommand::Host(args) => host::run(&args, globals),
        LatencyCommand::Board(args) => board::run(&args, globals),
        LatencyCommand::Compare(args) => compare::run(&args, globals),
    }
}
