//! `hythe demo`: flash -> pool -> RTOS core decodes -> RTP, in processes of their own, checked end to end.
//!
//! ```text
//! storage process --file--> demux process --mp3--> core --pcm--> sender process --RTP--> ffmpeg --> WAV
//! ```
//!
//! [`run`] sets up the pool, the core and the receiver, starts the three stages as children of this program ([`Stage`], hidden
//! commands), waits for them, and compares what ffmpeg recorded with what minimp3 decodes on the host. Whatever happens, nothing
//! stays behind: children die with this process, the pool goes with [`crate::workspace::Workspace`].

mod children;
mod demux;
mod error;
mod orchestrate;
mod play;
mod reference;
mod report;
mod scan;
mod storage;

use std::path::PathBuf;
use std::time::Duration;

use hythe::{Node, Pool, PoolOptions};
use serde::{Deserialize, Serialize};

pub(crate) use error::DemoError;
pub(crate) use orchestrate::run;
use report::Verdict;
pub(crate) use report::render;

/// From storage to demultiplexer.
const CHANNEL_FILE: &str = "file";
/// From demultiplexer to core.
const CHANNEL_MP3: &str = "mp3";
/// From core to sender.
const CHANNEL_PCM: &str = "pcm";
/// How long a stage waits for its neighbour before it gives up. An emulated core on a busy machine is slow; ten seconds is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// When something was waited for and came, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Arrival {
    waiting_ns: u64,
    taken_ns: u64,
}

/// What `hythe demo` takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// MP3 file to play; default: the recording that `make setup` encoded.
    #[arg(value_name = "FILE.mp3")]
    pub(crate) file: Option<PathBuf>,
    /// Board whose core decodes; default: mps2-an386 where QEMU is installed, else hosted.
    #[arg(long, value_name = "NAME")]
    pub(crate) board: Option<String>,
    /// UDP port to send to, even; default: one that is free.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
}

/// One stage, as a process of its own. For `hythe demo` itself.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct StageArgs {
    /// Process that started it.
    #[arg(long)]
    parent: u32,
    /// Name of the demo's pool.
    #[arg(long)]
    demo_pool: String,
    #[command(subcommand)]
    stage: Stage,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Stage {
    /// Reads the file into the pool.
    Storage(storage::StorageArgs),
    /// Hands frames on.
    Demux,
    /// Sends RTP.
    Play(play::PlayArgs),
}

/// Runs one stage and prints its report, a JSON document, on standard output.
pub(crate) fn run_stage(args: &StageArgs) -> Result<(), DemoError> {
    die_with(args.parent)?;
    let pool = Pool::open(&PoolOptions::new(&args.demo_pool))?;
    let report = match &args.stage {
        Stage::Storage(stage) => {
            let node = Node::join(&pool, "storage")?;
            serde_json::to_string(&storage::run(&node, stage)?)
        }
        Stage::Demux => serde_json::to_string(&demux::run(&Node::join(&pool, "demux")?)?),
        Stage::Play(stage) => {
            serde_json::to_string(&play::run(&Node::join(&pool, "sender")?, stage)?)
        }
    };
    #[allow(clippy::print_stdout, reason = "a document for the parent process")]
    {
        println!("{}", report.map_err(DemoError::report)?);
    }
    Ok(())
}

/// Has the kernel end this process when its parent ends, however that happens.
fn die_with(parent: u32) -> Result<(), DemoError> {
    let system = |error: rustix::io::Errno| DemoError::System {
        action: "tie a stage to the demo",
        source: error.into(),
    };
    let signal = rustix::process::Signal::TERM;
    rustix::process::set_parent_process_death_signal(Some(signal)).map_err(system)?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == Some(parent) {
        Ok(())
    } else {
        Err(DemoError::Interrupted)
    }
}
