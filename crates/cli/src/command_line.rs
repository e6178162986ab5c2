//! The command line: help, completions and man pages all come from this definition.
//!
//! It names the arguments of every command that is not a program of its own, so no command but
//! `completions` and `man`, which print it, may name this file. Never acts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use hythe_command::commands::SHOWN;
use hythe_command::front::{MAX_TERM_WIDTH, without_empty_pool};

use crate::args::{Globals, HzArgs, PoolCommand, PublishArgs, SubscribeArgs};
use crate::bench::BenchArgs;
use crate::error::CliError;
use crate::hop;
use crate::record::RecordArgs;
use crate::replay::ReplayArgs;
use crate::top::TopArgs;

/// One pool of shared memory, from flash to wire.
#[derive(Debug, Parser)]
#[command(
    name = "hythe",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = MAX_TERM_WIDTH
)]
#[command(
    after_help = concat!(
        "Examples:\n",
        "  hythe pool create --size 32M\n",
        "  hythe sub greetings &\n",
        "  echo good morning | hythe pub greetings",
    )
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands in the order of the help.
const ORDER: [&str; 24] = [
    "doctor",
    "demo",
    "play",
    "pool",
    "list",
    "who",
    "top",
    "pub",
    "sub",
    "hz",
    "record",
    "replay",
    "preload",
    "media",
    "core",
    "host",
    "run",
    "tasks",
    "kill",
    "latency",
    "bench",
    "report",
    "completions",
    "man",
];

/// The arguments in these words, the program's name first.
pub(crate) fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let mut command = without_empty_pool(with_hops(SHOWN.map(hop::summary)));
    let mut matches = command.try_get_matches_from_mut(words)?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// All commands, with the arguments of those programs that are installed.
pub(crate) fn whole() -> Result<clap::Command, CliError> {
    let hops: Result<Vec<_>, _> = SHOWN.into_iter().map(hop::described).collect();
    Ok(with_hops(hops?))
}

fn with_hops(hops: impl IntoIterator<Item = clap::Command>) -> clap::Command {
    let all = Arguments::command().subcommands(hops);
    ORDER.iter().enumerate().fold(all, |all, (place, name)| {
        all.mut_subcommand(*name, |command| command.display_order(place))
    })
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Probe this machine: which fast paths work, why not, and how to enable them
    #[command(after_help = "Example:\n  hythe doctor")]
    Doctor,
    /// Make, show and remove pools
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  hythe pool create camera --size 64M")]
    Pool(PoolCommand),
    /// Show participants and channels
    #[command(after_help = "Example:\n  hythe list --json | jq '.channels[].name'")]
    List,
    /// Show who holds which buffers, and for how long
    #[command(after_help = "Example:\n  hythe who --pool camera")]
    Who,
    /// Watch channels, participants and the use of the pool, live
    #[command(
        after_help = concat!(
            "Keys: q ends, p pauses, s sorts by the next column, the arrows scroll.\n\n",
            "Examples:\n",
            "  hythe top --interval 0.5\n",
            "  hythe top --once",
        )
    )]
    Top(TopArgs),
    /// Publish from standard input or a file
    #[command(name = "pub")]
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  echo good morning | hythe pub greetings\n",
            "  hythe pub frames frame.raw --repeat 100 --rate 25\n",
            "  hythe pub blocks image.bin --size 64K\n",
            "  hythe pub settings limits.json --history 1 --linger 3600",
        )
    )]
    Publish(PublishArgs),
    /// Print what arrives on a channel
    #[command(name = "sub")]
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe sub greetings\n",
            "  hythe sub frames --count 1 --timeout 5 --raw > frame.raw\n",
            "  hythe sub frames --policy evict-oldest --depth 2\n",
            "  hythe sub settings --history 1 --count 1\n",
            "  hythe sub orders --policy block --block 5",
        )
    )]
    Subscribe(SubscribeArgs),
    /// Print the rates of a channel, without taking part in it
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe hz frames --count 10\n",
            "  hythe hz frames --gaps --interval 5",
        )
    )]
    Hz(HzArgs),
    /// Record a channel into a file
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe record frames -o frames.hythe --for 10\n",
            "  hythe record frames -o frames.hythe --policy evict-oldest --json",
        )
    )]
    Record(RecordArgs),
    /// Publish a recording again, at its original timing
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe replay frames.hythe --wait 10\n",
            "  hythe replay frames.hythe --channel again --speed 2 --from 5\n",
            "  hythe replay frames.hythe --list",
        )
    )]
    Replay(ReplayArgs),
    /// Run a benchmark, with its baselines and peers in the same run
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe bench ipc\n",
            "  hythe bench ipc --json --sizes 64,65536 > ipc.json\n",
            "  hythe bench core --board hosted\n",
            "  hythe bench preload --fs jffs2\n",
            "  hythe bench media --repeat 10",
        )
    )]
    Bench(BenchArgs),
    /// Print the completions of a shell
    #[command(after_help = "Example:\n  hythe completions bash > /etc/bash_completion.d/hythe")]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write the man pages into a directory
    #[command(after_help = "Example:\n  hythe man /usr/local/share/man/man1")]
    Man {
        /// Where to; made if it is missing
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_consistent() {
        let command = with_hops(SHOWN.map(hop::summary));
        let names = command.get_subcommands().map(clap::Command::get_name);
        let names: Vec<&str> = names.collect();
        assert!(names.iter().all(|name| ORDER.contains(name)), "{names:?}");
        assert_eq!(names.len(), ORDER.len());
        command.debug_assert();
    }
}
