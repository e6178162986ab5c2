//! One stage, run in a process of its own.

use hythe::{Node, Pool, PoolOptions};

use crate::demux;
use crate::error::DemoError;
use crate::play;
use crate::program::StageOutput;
use crate::storage;
use crate::task::{Stage, StageTask};

/// Runs one stage to its end and writes its report, a JSON document in one line.
///
/// # Errors
///
/// What ends the stage early.
pub fn run_stage(task: &StageTask, output: &mut dyn StageOutput) -> Result<(), DemoError> {
    die_with(task.parent)?;
    let pool = Pool::open(&PoolOptions::new(&task.pool))?;
    let report = match &task.stage {
        Stage::Storage(task) => {
            let node = Node::join(&pool, "storage")?;
            serde_json::to_string(&storage::run(&node, task)?)
        }
        Stage::Demux => serde_json::to_string(&demux::run(&Node::join(&pool, "demux")?)?),
        Stage::Play(task) => {
            serde_json::to_string(&play::run(&Node::join(&pool, "sender")?, task, output)?)
        }
    };
    output
        .line(&report.map_err(DemoError::Report)?)
        .map_err(DemoError::output)
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
