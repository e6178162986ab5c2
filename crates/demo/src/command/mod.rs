//! `hythe demo`: its arguments, what the demo asks of the program that runs it, its result.
//!
//! `stage` is the hidden command that runs one stage; `table` shows the result to people; `across`
//! makes the two hosts of `--across`.

#[cfg(feature = "across")]
mod across;
mod stage;
mod table;
#[cfg(not(feature = "across"))]
mod without_across;

use std::cell::OnceCell;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::{Demo, DemoError, DemoOptions, Host, Pools, Program, StageTask, Verdict};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::remedy;
use hythe_command::stop::Stop;
use hythe_command::workspace::{Purpose, Workspace};
use indicatif::ProgressBar;

#[cfg(feature = "across")]
use self::across::Across;
#[cfg(not(feature = "across"))]
use self::without_across::Across;

pub use stage::{StageArgs, run as run_stage};

/// What `hythe demo` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct DemoArgs {
    /// MP3 file to play; default: the recording that `make setup` encoded.
    #[arg(value_name = "FILE.mp3")]
    file: Option<PathBuf>,
    /// Board whose core decodes; default: mps2-an386 where QEMU is installed, else hosted.
    #[arg(long, value_name = "NAME")]
    board: Option<String>,
    /// UDP port to send to, even; default: one that is free.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// On two hosts, each a network of its own: the file and the core on one, the sender on the
    /// other. Needs root, and the agent that `make hosts` builds.
    #[arg(long)]
    across: bool,
}

/// Whatever fails after somebody asked to stop is an interruption: a terminal's Ctrl-C may also
/// reach a child that is just being started, before it has a process group of its own.
pub fn run(args: DemoArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let verdict = match play(args, &stop) {
        Err(_) if stop.asked() => return Err(DemoError::Interrupted.into()),
        outcome => outcome?,
    };
    output::print(globals.json, &verdict, table::render)
}

fn play(args: DemoArgs, stop: &Stop) -> Result<Verdict, CliError> {
    let is_across = args.across;
    let demo = Demo::prepare(&DemoOptions {
        file: args.file,
        board: args.board,
        port: args.port,
    })?;
    let mut workspace = Workspace::make(Purpose::Demo)?;
    let across = match is_across {
        true => Some(Across::make(&mut workspace)?),
        false => None,
    };
    let program = ThisProgram {
        stop,
        bar: OnceCell::new(),
        across,
    };
    let pools = Pools {
        core: &workspace.pool,
        sender: program
            .across
            .as_ref()
            .map_or(&workspace.pool, Across::pool),
    };
    let outcome = demo.run(pools, workspace.files(), &program);
    if let Some(bar) = program.bar.get() {
        bar.finish_and_clear();
    }
    Ok(outcome?)
}

/// This program as the demo sees it.
struct ThisProgram<'a> {
    stop: &'a Stop,
    bar: OnceCell<ProgressBar>,
    across: Option<Across>,
}

impl Program for ThisProgram<'_> {
    fn stage(&self, task: &StageTask) -> io::Result<Command> {
        stage::command(task)
    }

    fn is_stop_requested(&self) -> bool {
        self.stop.asked()
    }

    fn go_to(&self, host: Host) -> io::Result<()> {
        self.across
            .as_ref()
            .map_or(Ok(()), |across| across.go_to(host))
    }

    fn part_hosts(&self) -> io::Result<u32> {
        self.across.as_ref().map_or(Ok(0), Across::part)
    }

    fn progress(&self, elapsed: Duration, length: Duration) {
        let bar = self
            .bar
            .get_or_init(|| output::progress(Some(length.as_secs())));
        bar.set_position(elapsed.as_secs());
    }
}

/// With what to do about it.
impl From<DemoError> for CliError {
    fn from(error: DemoError) -> Self {
        let remedy = remedy_of(&error);
        Self::Failed(format!("{error}{remedy}"))
    }
}

fn remedy_of(error: &DemoError) -> String {
    match error {
        DemoError::NoRecording { .. } => {
            ": `make setup` encodes one, or name an MP3 file".to_owned()
        }
        DemoError::NotBuilt { .. } => {
            ": `make setup` (or `cargo xtask boards`) builds it".to_owned()
        }
        DemoError::NoFreePorts { .. } => "; name one with --port".to_owned(),
        DemoError::FfmpegMissing => ": apt-get install ffmpeg".to_owned(),
        DemoError::Node(error) => remedy::of_node(error),
        DemoError::Media(error) => remedy::of_media(error),
        DemoError::Core(error) => remedy::of_core(error),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let path = PathBuf::from("boards/it");
        let said = |error| CliError::from(error).to_string();
        assert_eq!(
            said(DemoError::NoRecording { path: path.clone() }),
            "there is no recording at boards/it: `make setup` encodes one, or name an MP3 file"
        );
        assert_eq!(
            said(DemoError::NotBuilt {
                what: "the reference decoder",
                path
            }),
            "the reference decoder is missing at boards/it: \
             `make setup` (or `cargo xtask boards`) builds it"
        );
        assert_eq!(
            said(DemoError::NoFreePorts { attempts: 50 }),
            "no free pair of UDP ports in 50 tries; name one with --port"
        );
        assert_eq!(
            said(DemoError::FfmpegMissing),
            "ffmpeg is not installed: apt-get install ffmpeg"
        );
    }
}
