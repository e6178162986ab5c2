//! The arguments of the commands that have no folder of their own for them.
//!
//! Every command's help ends with an example, in `after_help`. Never acts, and never names a
//! command: `command_line` puts them together.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use hythe::{ClassPlan, PoolOptions};
pub(crate) use hythe_command::args::Globals;

use crate::units;

/// What can be done with pools.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// List your pools
    #[command(after_help = "Example:\n  hythe pool list")]
    List,
    /// Make a pool
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe pool create --size 32M\n",
            "  hythe pool create camera --class 8294400x8 --class 2Kx512\n",
            "  hythe pool create shared --group video --group-access write\n",
            "  hythe pool create fleet --limit participants=200 --limit connections=16384\n",
            "  hythe pool create sensor --small --size 2M",
        )
    )]
    Create(PoolCreateArgs),
    /// Show a pool: geometry and the sum that led to it, regions, use
    #[command(after_help = "Example:\n  hythe pool show camera")]
    Show(PoolNameArgs),
    /// Remove a pool that nobody uses
    #[command(after_help = "Example:\n  hythe pool remove camera")]
    Remove(PoolRemoveArgs),
    /// Remove semaphores and message queues by name: each goes when nobody has it open
    #[command(after_help = "Example:\n  hythe pool unlink /orders")]
    Unlink(PoolUnlinkArgs),
}

/// Which semaphores and message queues.
#[derive(Args, Debug)]
pub(crate) struct PoolUnlinkArgs {
    /// Their names, with or without the slash (`hythe list` shows them)
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// Only semaphores
    #[arg(long, conflicts_with = "queue")]
    pub(crate) semaphore: bool,
    /// Only message queues
    #[arg(long)]
    pub(crate) queue: bool,
}

/// Which pool, by position.
#[derive(Args, Debug)]
pub(crate) struct PoolNameArgs {
    /// The pool; default: that of --pool
    pub(crate) name: Option<String>,
}

impl PoolNameArgs {
    /// The pool named by position, else that of `--pool`.
    pub(crate) fn options(&self, globals: &Globals) -> PoolOptions {
        self.name
            .as_deref()
            .map_or_else(|| globals.options(), PoolOptions::new)
    }
}

/// What to make.
#[derive(Args, Debug)]
pub(crate) struct PoolCreateArgs {
    #[command(flatten)]
    pub(crate) which: PoolNameArgs,
    /// Size of the whole pool, control tables included: 64M, 1G [default: the least of 64M, an
    /// eighth of the memory (of the machine or a control group), and half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(crate) size: Option<usize>,
    /// One more class of slots beside the usual ones, as payload x count: 8294400x4; may be
    /// repeated. Without --size the pool is as much larger
    #[arg(long, value_name = "SIZExCOUNT", value_parser = units::parse_class)]
    pub(crate) class: Vec<ClassPlan>,
    /// No other classes than those of --class: the pool is as large as they need
    #[arg(long, requires = "class", conflicts_with = "size")]
    pub(crate) exact: bool,
    /// Tables for a small device: 8 participants, 64 channels, 192 ports, 128 connections. 2M are
    /// enough then
    #[arg(long)]
    pub(crate) small: bool,
    /// Another limit than the usual one, or that of --small, as name=count: participants, channels,
    /// ports, connections, queue-segments (of 32 queued messages) or core-slots (of the regions of
    /// cores and the wire, together); may be repeated
    #[arg(long, value_name = "NAME=COUNT", value_parser = units::parse_limit)]
    pub(crate) limit: Vec<units::Limit>,
    /// Permissions of the slots, in octal: 640 lets a group read, 660 take part in everything
    #[arg(long, value_name = "MODE", value_parser = units::parse_mode, default_value = "600")]
    pub(crate) mode: u32,
    /// Give the pool to a group that you are in, by name or number
    #[arg(long, value_name = "GROUP", value_parser = units::parse_group)]
    pub(crate) group: Option<u32>,
    /// What the group may do: only subscribe, or take part in everything [default: read]
    #[arg(
        long,
        value_name = "ACCESS",
        requires = "group",
        conflicts_with = "mode"
    )]
    pub(crate) group_access: Option<GroupAccessArg>,
    /// Every page is touched when a process joins (those of a core's region: when a port of it
    /// meets the core), not when it is first used
    #[arg(long)]
    pub(crate) prefault: bool,
    /// Every page is locked into memory when a process joins (those of a core's region: when a port
    /// of it meets the core)
    #[arg(long)]
    pub(crate) mlock: bool,
    /// Put the slots on huge pages, those that network cards send from, too: a hugetlbfs mount
    #[arg(long, value_name = "DIR")]
    pub(crate) huge_pages: Option<PathBuf>,
    /// Add the region that network cards send from (2.75 MiB) now, so that too little memory is
    /// said here; else the first program adds it whose messages could leave by `hythe host wire`
    #[arg(long)]
    pub(crate) card_region: bool,
}

/// What a group may do.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GroupAccessArg {
    /// Subscribe, and read what is published; protects payload, not the tables
    /// (docs/guide/permissions.md)
    Read,
    /// Everything but removing the pool, and running cores
    Write,
}

/// What to remove.
#[derive(Args, Debug)]
pub(crate) struct PoolRemoveArgs {
    #[command(flatten)]
    pub(crate) which: PoolNameArgs,
    /// Also if somebody takes part: they keep what they have mapped, and meet nobody new
    #[arg(long)]
    pub(crate) force: bool,
}

/// What to publish, and how.
#[derive(Args, Debug)]
pub(crate) struct PublishArgs {
    /// The channel; made if there is none
    pub(crate) channel: String,
    /// What to publish; `-` is standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Cut the input into messages of this size; without it, the whole input is one message
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, conflicts_with = "lines")]
    pub(crate) size: Option<usize>,
    /// Cut the input into messages at line ends
    #[arg(long)]
    pub(crate) lines: bool,
    /// Publish the input so many times; 0: until interrupted
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    pub(crate) repeat: u64,
    /// Messages per second at most
    #[arg(long, value_name = "HERTZ", value_parser = units::parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Wait so many seconds for a first subscriber, and fail if there is none
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    pub(crate) wait: Option<std::time::Duration>,
    /// Keep the last so many messages for subscribers that come later and ask for them
    #[arg(long, value_name = "MESSAGES", default_value_t = 0, value_parser = units::parse_history)]
    pub(crate) history: u32,
    /// Let one message be held up for so many seconds, for all subscribers that ask to be waited
    /// for together
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "0.1")]
    pub(crate) send_timeout: std::time::Duration,
    /// Stay for so many seconds after the last message, for late subscribers
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    pub(crate) linger: Option<std::time::Duration>,
}

/// What to take, and how to show it.
#[derive(Args, Debug)]
pub(crate) struct SubscribeArgs {
    /// The channel; made if there is none
    pub(crate) channel: String,
    /// End after this many messages; fewer are a failure
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End when no message came for so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// Print the payload in hexadecimal; with --json all of it, instead of the first 256 bytes and
    /// the SHA-256 of a larger message
    #[arg(long, conflicts_with = "raw")]
    pub(crate) hex: bool,
    /// Print the payload as it is, and nothing else
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Messages that may wait, per publisher
    #[arg(long, value_name = "MESSAGES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub(crate) depth: u32,
    /// What publishers do when as many wait [default: drop-newest, or block if --block says for how
    /// long]
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<WhenFull>,
    /// Let publishers wait so many seconds for free capacity, as far as their --send-timeout
    /// allows, instead of dropping a message [default with --policy block: 5]
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    pub(crate) block: Option<std::time::Duration>,
    /// Ask each publisher for so many earlier messages first, as far as it keeps some
    #[arg(long, value_name = "MESSAGES", default_value_t = 0, value_parser = units::parse_history)]
    pub(crate) history: u32,
}

/// What happens to a message that meets a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhenFull {
    /// The publisher waits for free capacity, for as long as --block says
    Block,
    /// It passes the subscriber by
    DropNewest,
    /// It takes the place of the oldest that waits
    EvictOldest,
}

/// What to measure.
#[derive(Args, Debug)]
pub(crate) struct HzArgs {
    /// The channel
    pub(crate) channel: String,
    /// Seconds between two lines
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "1")]
    pub(crate) interval: std::time::Duration,
    /// Subscribe, and print the times between messages: least, mean, p99, greatest, deviation
    #[arg(long)]
    pub(crate) gaps: bool,
    /// End after this many lines [default: run until interrupted]
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}
