//! The command line: help, completions and man pages all come from this definition.
//!
//! It names the arguments of every command, so no command but `completions` and `man`, which print
//! it, may name this file. Never acts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use hythe_core_command::CoreCommand;
use hythe_demo::command::{DemoArgs, StageArgs};
use hythe_hosts_command::HostCommand;
use hythe_jobs_command::{KillArgs, PartArgs, PartRunnerArgs, RunArgs, RunnerArgs};
use hythe_latency_command::LatencyCommand;
use hythe_media_command::MediaCommand;
use hythe_play::command::PlayArgs;
use hythe_preload_command::PreloadCommand;
use hythe_report::command::ReportArgs;

use crate::args::{Globals, HzArgs, POOL_VARIABLE, PoolCommand, PublishArgs, SubscribeArgs};
use crate::bench::BenchArgs;
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
    max_term_width = 100
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

/// The arguments in these words, the program's name first. An empty `HYTHE_POOL` names no pool, as
/// one that is not set.
pub(crate) fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    if std::env::var_os(POOL_VARIABLE).is_some_and(|value| value.is_empty()) {
        command = command.mut_arg("pool", |pool| pool.env(Resettable::Reset));
    }
    let mut matches = command.try_get_matches_from_mut(words)?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Probe this machine: which fast paths work, why not, and how to enable them
    #[command(after_help = "Example:\n  hythe doctor")]
    Doctor,
    /// Play an MP3 file from flash over an RTOS core to the wire, check it end to end, print what
    /// each hop cost
    #[command(after_help = "Examples:\n  hythe demo\n  hythe demo song.mp3 --board hosted --json")]
    Demo(DemoArgs),
    /// One stage of the demo, as a process of its own
    #[command(hide = true)]
    DemoStage(StageArgs),
    /// Play a movie whose picture and sound an RTOS core decodes, in step
    #[command(
        after_help = "Examples:\n  hythe play film.mp4 --video-out film.y4m --audio-out \
                            film.wav\n  hythe play film.mp4 --board hosted --json | jq \
                            .sync_error_ns"
    )]
    Play(PlayArgs),
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
    /// Find out what a program or a boot needs from flash, and read it ahead
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  hythe preload show /etc/hythe/boot.pack")]
    Preload(PreloadCommand),
    /// Send and receive media as RTP
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = "Example:\n  hythe media send film.ts --to rtp://192.0.2.7:5004 --sdp film.sdp"
    )]
    Media(MediaCommand),
    /// Run RTOS cores and look at them
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  hythe core run hosted --detach && hythe core status")]
    Core(CoreCommand),
    /// Let channels reach other hosts: make a realm of hosts, run this host's agent, look at it
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = "Example:\n  hythe host init && hythe host start && hythe host add camera.lan"
    )]
    Host(HostCommand),
    /// Run a program as one or many tasks, and wait for their end
    #[command(
        after_help = concat!(
            "The tasks find their rank in HYTHE_RANK, their number in HYTHE_SIZE.\n\n",
            "Examples:\n",
            "  hythe run -n 4 ./solve input.dat\n",
            "  hythe run -n 2 --label -x DEBUG=1 -- make test\n",
            "  hythe run --hosts a,b:2 ./solve input.dat\n",
            "  hythe run --stay &",
        )
    )]
    Run(RunArgs),
    /// The process that is the parent of a job's tasks
    #[command(hide = true)]
    TaskRunner(RunnerArgs),
    /// The tasks of another host's job, as its agent starts them
    #[command(hide = true)]
    TaskPart(PartArgs),
    /// The process that is their parent
    #[command(hide = true)]
    TaskPartRunner(PartRunnerArgs),
    /// List the tasks that run
    #[command(after_help = "Example:\n  hythe tasks --json | jq '.tasks[].pid'")]
    Tasks,
    /// Send a signal to a task, and to all processes of its group
    #[command(after_help = "Examples:\n  hythe kill 3.0\n  hythe kill 3.0 --signal USR1")]
    Kill(KillArgs),
    /// Measure real-time latency, of this machine or of an RTOS on a board, and compare
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe latency host --for 60 --load hog\n",
            "  hythe latency board mps2-an386",
        )
    )]
    Latency(LatencyCommand),
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
    /// Make one page, with plots, of the results of bench and latency runs
    #[command(after_help = "Example:\n  hythe report ipc.json -o report.html")]
    Report(ReportArgs),
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
    use clap::CommandFactory;

    #[test]
    fn definitions_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
