//! `hythe preload finish`: start-up is over.
//!
//! Never measures anything itself.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_preload::runs::{self, Advice, Finish, FinishOptions, Run, off};
use hythe_terminal::escaped;
use serde::Serialize;

use super::replay::RUNS_WANTED_TEXT;
use super::report;

/// Which start-up is over.
#[derive(Args, Debug)]
pub struct FinishArgs {
    /// The pack
    pack: PathBuf,
    /// Measure from the start of the machine. A boot without reading ahead counts as a run to
    /// compare with
    #[arg(long)]
    boot: bool,
    /// Judge by the history, for packs of preload-init: skip reading ahead in some boots, compare
    /// the medians of so many boots of each kind, and switch the pack off if reading ahead did not
    /// help
    #[arg(long, value_name = "RUNS", num_args = 0..=1, require_equals = true, default_missing_value = RUNS_WANTED_TEXT)]
    auto: Option<NonZeroUsize>,
    /// Directory with the state that the replay has written [default: /run/hythe-preload, and
    /// before that $XDG_RUNTIME_DIR/hythe-preload for other users than root]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Directory that the pack's paths are relative to
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    /// None: it is the boot in which the pack was recorded.
    run: Option<Run>,
    /// What happens at the next start-up, where that is judged here.
    next: Option<String>,
}

pub(crate) fn run(args: &FinishArgs, globals: &Globals) -> Result<(), CliError> {
    let mut options = FinishOptions {
        from_boot: args.boot,
        root: args.root.clone(),
        ..FinishOptions::default()
    };
    if let Some(directory) = &args.run_dir {
        options.run_directories = vec![directory.clone()];
    }
    let document = match runs::finish(&args.pack, &options)? {
        Finish::Recorded => Document {
            run: None,
            next: args.auto.map(|_| "read ahead".to_owned()),
        },
        Finish::Entered(finished) => Document {
            next: match args.auto {
                Some(wanted) => Some(judge(args, &finished, wanted.get())?),
                None => None,
            },
            run: Some(finished.run),
        },
    };
    output::print(globals.json, &document, text)
}

fn judge(args: &FinishArgs, finished: &runs::Finished, wanted: usize) -> Result<String, CliError> {
    // Who was switched off, and not for one run, stays so until somebody removes the switch.
    let advice = runs::advise(&finished.entries, finished.run.pack, wanted);
    off::set_for_next(&args.pack, &advice)?;
    let switch = off::path(&args.pack);
    Ok(match advice {
        Advice::Read if off::reason(&args.pack)?.is_some() => {
            format!("{} keeps the pack off", escaped(&switch))
        }
        Advice::Read => "read ahead".to_owned(),
        Advice::LeaveUnread { why } => format!("left unread, to compare with: {why}"),
        Advice::SwitchOff { reason } => {
            tracing::warn!(
                "switching {} off: {reason}; remove {} to switch it on",
                escaped(&args.pack),
                escaped(&switch)
            );
            format!("switched off: {reason}")
        }
    })
}

fn text(document: &Document) -> String {
    let mut text = match &document.run {
        Some(run) => report::start_up(run),
        None => "the pack was recorded in this boot: nothing was read ahead".to_owned(),
    };
    text.push('\n');
    for limit in document.run.iter().flat_map(|run| &run.usage.limits) {
        text.push_str(&format!("note: {limit}\n"));
    }
    if let Some(next) = &document.next {
        text.push_str(&format!("next time: {next}\n"));
    }
    text
}
