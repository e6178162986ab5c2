//! The stages as child processes: started, watched, ended.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::error::DemoError;
use crate::program::Program;
use crate::task::{Stage, StageTask};

/// How long a stage that has closed its output may take to end.
const END_BOUND: Duration = Duration::from_secs(1);

/// A stage that runs, killed when dropped.
#[derive(Debug)]
pub(super) struct StageProcess {
    name: &'static str,
    child: Child,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
    status: Option<ExitStatus>,
}

impl StageProcess {
    /// Starts a stage of the demo in `pool`.
    pub(super) fn start(
        program: &dyn Program,
        pool: &str,
        stage: Stage,
    ) -> Result<Self, DemoError> {
        let failed = |source| DemoError::System {
            action: "start a stage",
            source,
        };
        let name = stage.name();
        let task = StageTask {
            parent: std::process::id(),
            pool: pool.to_owned(),
            stage,
        };
        let mut command = program.stage(&task).map_err(failed)?;
        // A process group of its own: a terminal's Ctrl-C is for the demo, which then ends its
        // stages and says so.
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Nobody listens any more: the stage is being ended.
                    let _ = sender.send(line);
                }
            });
        }
        let complaints = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                // What was said before an error still counts.
                let _ = stderr.read_to_end(&mut said);
                String::from_utf8_lossy(&said).trim().to_owned()
            })
        });
        Ok(Self {
            name,
            child,
            lines,
            complaints,
            status: None,
        })
    }

    /// Waits for a line of standard output.
    pub(super) fn line(&mut self, timeout: Duration) -> Result<String, DemoError> {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                self.check()?;
            }
            // Its output is closed a moment before its end can be seen.
            Err(RecvTimeoutError::Disconnected) => {
                let deadline = Instant::now() + END_BOUND;
                while !self.check()? && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(5));
                }
                return Err(DemoError::Stalled(format!(
                    "the {} stage closed its output without a word",
                    self.name
                )));
            }
        }
        Err(DemoError::Stalled(format!(
            "the {} stage said nothing for {timeout:?}",
            self.name
        )))
    }

    /// Has it ended well?
    ///
    /// An error if it ended badly.
    pub(super) fn check(&mut self) -> Result<bool, DemoError> {
        if self.status.is_none() {
            let looked = self.child.try_wait();
            self.status = looked.map_err(|source| DemoError::System {
                action: "look at a stage",
                source,
            })?;
        }
        match self.status {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(self.failure(status)),
        }
    }

    /// The report of a stage that has ended well.
    pub(super) fn report<R: DeserializeOwned>(&mut self) -> Result<R, DemoError> {
        let line = self.line(Duration::from_secs(5))?;
        serde_json::from_str(&line).map_err(DemoError::Report)
    }

    fn failure(&mut self, status: ExitStatus) -> DemoError {
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok());
        let said = complaints
            .filter(|said| !said.is_empty())
            .map(|said| format!(": {said}"));
        DemoError::StageFailed {
            stage: self.name,
            how: format!("ended early ({status})"),
            said: said.unwrap_or_default(),
        }
    }
}

impl Drop for StageProcess {
    fn drop(&mut self) {
        if self.status.is_none() {
            // Gone already, or ended now: either way it is waited for.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits until all stages have ended well; asks `is_fine` now and then whether to go on.
pub(super) fn wait_for_all(
    stages: &mut [&mut StageProcess],
    bound: Duration,
    mut is_fine: impl FnMut() -> Result<(), DemoError>,
) -> Result<(), DemoError> {
    let start = Instant::now();
    loop {
        let mut ended = 0;
        for stage in stages.iter_mut() {
            ended += usize::from(stage.check()?);
        }
        if ended == stages.len() {
            return Ok(());
        }
        is_fine()?;
        if start.elapsed() > bound {
            let running = stages.iter().filter(|stage| stage.status.is_none());
            let running: Vec<&str> = running.map(|stage| stage.name).collect();
            return Err(DemoError::Stalled(format!(
                "{} still at work after {bound:?}",
                running.join(" and ")
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
