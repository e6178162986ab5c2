//! `hythe preload`: what a program or a boot needs from storage, recorded, shown and read ahead.
//!
//! One file per command. Never decides what is read: `hythe_preload` does.

mod finish;
mod merge;
mod record;
mod replay;
mod report;
mod show;
mod sort_list;
mod tree;

use clap::Subcommand;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::remedy;
use hythe_terminal::escaped;

/// What can be done with packs.
#[derive(Debug, Subcommand)]
pub enum PreloadCommand {
    /// Record which parts of files a command or a boot reads from storage, and write them as a pack
    ///
    /// Needs root. While it records, the kernel's read-ahead is off, which makes the machine
    /// slower. A command runs with a cold page cache, in a mount namespace of its own.
    #[command(
        after_help = "Examples:\n  hythe preload record -o app.pack -- /usr/bin/app --once\n  hythe preload record -o app.pack --for 20 -- /usr/bin/service\n  hythe preload record -o /etc/hythe/boot.pack --boot --until /run/system-is-up --for 120"
    )]
    Record(record::RecordArgs),
    /// The process that puts back what a recording changes
    #[command(hide = true, name = "record-guard")]
    RecordGuard,
    /// Read ahead what a pack lists, then start the program that needs it
    ///
    /// Files that are not what was recorded are skipped and named. What does not fit the budget is
    /// left out, the least needed first, and reading ahead ends at once when memory becomes scarce.
    #[command(
        after_help = "Examples:\n  hythe preload replay app.pack -- /usr/bin/app --full-screen\n  hythe preload replay boot.pack --budget 25% --priority idle --json"
    )]
    Replay(replay::ReplayArgs),
    /// Mark the end of a start-up: enter into the pack's history how long it took, and how much of
    /// what was read ahead was used
    ///
    /// Call it once for each start-up, from a systemd unit, a script, or the program itself. It
    /// counts for the last replay, or for preload-init. Only root sees which pages were used.
    #[command(
        after_help = "Examples:\n  hythe preload finish app.pack\n  hythe preload finish boot.pack --boot --auto"
    )]
    Finish(finish::FinishArgs),
    /// Print the start-ups in a pack's history: did reading ahead help?
    #[command(after_help = "Example:\n  hythe preload report app.pack")]
    Report(report::ReportArgs),
    /// Print what a pack holds, in the order in which it was first needed
    #[command(after_help = "Example:\n  hythe preload show boot.pack --json | jq .bytes")]
    Show(show::ShowArgs),
    /// Merge the packs of several recordings into one
    ///
    /// It has every page that one of them needed, in the order of the first pack, then what the
    /// others add. The packs must be of one system: if two of them recorded a file differently, the
    /// file is named and nothing is written.
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe preload merge first.pack second.pack third.pack -o app.pack\n",
            "  hythe preload merge boot.pack app.pack -o boot.pack --force",
        )
    )]
    Merge(merge::MergeArgs),
    /// Print the list by which an image builder lays out files in the order of the pack
    ///
    /// mksquashfs takes it as it is. mkfs.erofs takes no list: it keeps the order of a tar archive,
    /// which tar makes by the list of the whole tree.
    #[command(
        after_help = "Examples:\n  hythe preload sort-list boot.pack > boot.sort && mksquashfs root/ root.squashfs -sort boot.sort\n  hythe preload sort-list boot.pack --for erofs --tree root/ |\n    tar -C root --null --no-recursion -T - -c | mkfs.erofs --tar=f --sort=none -E^inline_data root.erofs"
    )]
    SortList(sort_list::SortListArgs),
}

/// Runs a command of `hythe preload`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(command: PreloadCommand, globals: &Globals) -> Result<(), CliError> {
    match command {
        PreloadCommand::Record(args) => record::run(&args, globals),
        PreloadCommand::RecordGuard => record::run_guard(),
        PreloadCommand::Finish(args) => finish::run(&args, globals),
        PreloadCommand::Report(args) => report::run(&args, globals),
        PreloadCommand::Replay(args) => replay::run(&args, globals),
        PreloadCommand::Show(args) => show::run(&args, globals),
        PreloadCommand::Merge(args) => merge::run(&args, globals),
        PreloadCommand::SortList(args) => sort_list::run(&args, globals),
    }
}

/// Reads a pack; what is wrong with it is said with its name.
fn open(path: &std::path::Path) -> Result<hythe_preload::pack::Pack, CliError> {
    use hythe_preload::PreloadError;

    hythe_preload::pack::Pack::read(path).map_err(|error| match error {
        named @ PreloadError::File { .. } => named.into(),
        other => CliError::Failed(format!(
            "cannot use {}: {other}{}; record it again with hythe preload record",
            escaped(&path),
            remedy::of_preload(&other)
        )),
    })
}
