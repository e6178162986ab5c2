//! `hythe demo-stage`, hidden: one stage of the demo, as a process of its own.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use hythe_command::error::CliError;
use hythe_command::output;

use crate::{PlayTask, Stage, StageOutput, StageTask, StorageTask};

/// One stage, as a process of its own. For `hythe demo` itself.
#[derive(clap::Args, Clone, Debug)]
pub struct StageArgs {
    /// Process that started it.
    #[arg(long)]
    parent: u32,
    /// Name of the demo's pool.
    #[arg(long)]
    demo_pool: String,
    #[command(subcommand)]
    stage: StageCommand,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum StageCommand {
    /// Reads the file into the pool.
    Storage(StorageArgs),
    /// Hands frames on.
    Demux,
    /// Sends RTP.
    Play(PlayArgs),
}

#[derive(clap::Args, Clone, Debug)]
struct StorageArgs {
    /// The file.
    #[arg(long)]
    file: PathBuf,
    /// Where its audio ends.
    #[arg(long)]
    audio_bytes: u64,
    /// The region to read into: one that the core sees.
    #[arg(long)]
    region: u8,
}

#[derive(clap::Args, Clone, Debug)]
struct PlayArgs {
    /// Where to send.
    #[arg(long)]
    destination: SocketAddr,
    /// Samples a second.
    #[arg(long)]
    hz: u32,
    /// Channels.
    #[arg(long)]
    channels: u8,
    /// Buffers that will come from the core.
    #[arg(long)]
    parts: u64,
    /// They come from another host.
    #[arg(long)]
    across: bool,
}

/// Runs one stage; the demo reads what it prints.
pub fn run(args: StageArgs) -> Result<(), CliError> {
    let task = StageTask {
        parent: args.parent,
        pool: args.demo_pool,
        stage: match args.stage {
            StageCommand::Storage(args) => Stage::Storage(StorageTask {
                file: args.file,
                audio_bytes: args.audio_bytes,
                region: args.region,
            }),
            StageCommand::Demux => Stage::Demux,
            StageCommand::Play(args) => Stage::Play(PlayTask {
                destination: args.destination,
                hz: args.hz,
                channels: args.channels,
                parts: args.parts,
                across: args.across,
            }),
        },
    };
    Ok(crate::run_stage(&task, &mut Standard)?)
}

/// Standard output and standard error of this process.
struct Standard;

impl StageOutput for Standard {
    fn line(&mut self, line: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()
    }

    fn note(&mut self, event: &dyn Display) {
        output::note(event);
    }
}

/// The command that [`run`] reads `task` from.
pub(super) fn command(task: &StageTask) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["demo-stage", "--parent", &task.parent.to_string()]);
    command.args(["--demo-pool", &task.pool, task.stage.name()]);
    command.args(arguments(&task.stage));
    Ok(command)
}

fn arguments(stage: &Stage) -> Vec<OsString> {
    let option = |name: &str, value: &dyn Display| OsString::from(format!("--{name}={value}"));
    match stage {
        Stage::Storage(task) => {
            // Byte for byte: a name may begin with a dash, or not be UTF-8.
            let mut file = OsString::from("--file=");
            file.push(&task.file);
            vec![
                file,
                option("audio-bytes", &task.audio_bytes),
                option("region", &task.region),
            ]
        }
        Stage::Demux => Vec::new(),
        Stage::Play(task) => {
            let mut words = vec![
                option("destination", &task.destination),
                option("hz", &task.hz),
                option("channels", &task.channels),
                option("parts", &task.parts),
            ];
            words.extend(task.across.then(|| "--across".into()));
            words
        }
    }
}
