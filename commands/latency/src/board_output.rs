//! Parses the output of the measuring program on a board, from its channel or its serial line.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hythe::core::{Board, Core, CoreOptions, CoreState, run_alone};
use hythe::{Node, Subscriber, SubscriberOptions};
use hythe_command::error::CliError;
use hythe_command::stop::{LOOK, Stop};
use hythe_command::workspace::Workspace;
use hythe_latency::core::{Conditions, CoreHistogram, serial};

/// The program that measures.
pub(super) const APP: &str = "rhealstone";
/// The channel on which it tells.
const CHANNEL: &str = "latency";
/// Records that may wait for us.
const DEPTH: u32 = 32;
/// What a core may say that it tells of; more is a broken program.
const HISTOGRAMS_MAX: usize = 64;

/// What the measuring program on a board reported.
pub(super) struct BoardOutput {
    pub(super) conditions: Conditions,
    pub(super) histograms: Vec<CoreHistogram>,
}

/// How long is waited for a core.
#[derive(Clone, Copy)]
pub(super) struct TimeLimit<'a> {
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
    pub(super) stop: &'a Stop,
}

impl<'a> TimeLimit<'a> {
    /// How often is looked whether it has an end.
    pub(super) const LOOK: Duration = LOOK;

    /// From now on.
    pub(super) fn new(timeout: Duration, stop: &'a Stop) -> Self {
        Self {
            timeout,
            deadline: Instant::now() + timeout,
            stop,
        }
    }

    /// Shall be waited on? `what` is what the core has not come to.
    pub(super) fn check(self, core: &Core, what: &str) -> Result<(), CliError> {
        let status = core.status();
        let why = if self.stop.asked() {
            "interrupted".to_owned()
        } else if status.state == CoreState::Stopped {
            let reason = status.reason.unwrap_or_default();
            format!("the core ended {what}: {reason}")
        } else if Instant::now() > self.deadline {
            format!(
                "the core's time of {:?} was over {what}; --timeout gives it more",
                self.timeout
            )
        } else {
            return Ok(());
        };
        Err(CliError::Failed(why))
    }
}

impl BoardOutput {
    /// `next` gives one record after the other.
    fn take(mut next: impl FnMut() -> Result<Vec<u8>, CliError>) -> Result<Self, CliError> {
        let conditions = Conditions::read(&next()?)?;
        let count = conditions.histograms;
        if count > HISTOGRAMS_MAX {
            return Err(CliError::Failed(format!(
                "the core says that it has {count} histograms; {HISTOGRAMS_MAX} are the most"
            )));
        }
        let mut histograms = Vec::new();
        for _ in 0..count {
            histograms.push(CoreHistogram::read(&next()?)?);
        }
        Ok(Self {
            conditions,
            histograms,
        })
    }
}

/// Runs the core in the pool until it has reported everything; recorded into a folder, where there
/// is one. Before that it has Linux for as long as `meanwhile` takes, whose result comes back, too.
pub(super) fn in_pool<T>(
    board: &Board,
    workspace: &Workspace,
    record: Option<&Path>,
    (timeout, stop): (Duration, &Stop),
    meanwhile: impl FnOnce(&Core, TimeLimit<'_>) -> Result<T, CliError>,
) -> Result<(BoardOutput, T), CliError> {
    let node = Node::join(&workspace.pool, "hythe latency")?;
    let mut options = CoreOptions::default().app(APP).start_bound(timeout);
    if let Some(record) = record {
        options = options.record(record);
    }
    let core = Core::start_unless(&workspace.pool, board, &options, || stop.asked())?;
    let time_limit = TimeLimit::new(timeout, stop);
    let result = meanwhile(&core, time_limit)?;
    // It tells whoever attaches.
    let mut subscriber = node.subscriber(CHANNEL, &SubscriberOptions::default().depth(DEPTH))?;
    let output = BoardOutput::take(|| next(&mut subscriber, &core, time_limit))?;
    drop(subscriber);
    // It ends in order, and its emulator writes its record to the end.
    core.stop()?;
    Ok((output, result))
}

/// Runs a core that tells over its serial line and ends by itself.
pub(super) fn alone(
    board: &Board,
    record: &Path,
    timeout: Duration,
    stop: &Stop,
) -> Result<BoardOutput, CliError> {
    run_alone(board, APP, record, timeout, || stop.asked())?;
    let Some(repeatable) = board.repeatable() else {
        // Boards without memory or a record are refused when they are read.
        return Err(CliError::Failed("there is no record".to_owned()));
    };
    from_console(&split(&read(record, &repeatable.edges)?).1)
}

/// What came over a serial line behind the edges.
pub(super) fn from_console(console: &str) -> Result<BoardOutput, CliError> {
    let mut records = serial::records(console)?.into_iter();
    BoardOutput::take(|| {
        records.next().ok_or_else(|| {
            let said: Vec<&str> = console
                .lines()
                .filter(|line| !line.starts_with('@'))
                .collect();
            CliError::Failed(format!(
                "the core ended before it had reported everything; its console says: {}",
                said.join(" | ")
            ))
        })
    })
}

pub(super) fn read(record: &Path, name: &str) -> Result<Vec<u8>, CliError> {
    let path = record.join(name);
    fs::read(&path).map_err(CliError::file("read", path))
}

/// What came over a serial line: first the edges of the pin, then, in lines, the output of the
/// program.
pub(super) fn split(bytes: &[u8]) -> (Vec<u8>, String) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (edges, console) = bytes.split_at(end.unwrap_or(bytes.len()));
    (
        edges.to_vec(),
        String::from_utf8_lossy(console).into_owned(),
    )
}

/// The next record, as bytes of our own.
fn next(
    subscriber: &mut Subscriber,
    core: &Core,
    time_limit: TimeLimit<'_>,
) -> Result<Vec<u8>, CliError> {
    loop {
        if let Some(sample) = subscriber.take(TimeLimit::LOOK)? {
            return Ok(sample.to_vec());
        }
        time_limit.check(core, "before it had reported everything")?;
    }
}
