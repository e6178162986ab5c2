//! A thread that writes what tasks print, so that a reader who stands still holds up the tasks and
//! not the runner.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::tasks::error::TaskError;

/// Pieces that may wait to be written.
const WAITING_MAX: usize = 64;

/// Which of its streams a task printed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// Whole lines of one task, or a part of a very long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Rank of the task.
    pub rank: u32,
    /// Where it printed them.
    pub stream: Stream,
    /// What it printed.
    pub bytes: Vec<u8>,
}

/// What writes a piece.
pub(super) type Write = Box<dyn FnMut(&Output) -> io::Result<()> + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    to: Option<SyncSender<Output>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// What found no place.
    pending: Option<Output>,
}

impl Writer {
    pub(super) fn start(write: Write) -> Result<Self, TaskError> {
        let (to, from) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("hythe-output".to_owned());
        let thread = thread.spawn(move || write_all(&from, write));
        let thread = thread.map_err(|source| TaskError::System {
            action: "start a thread for the output of tasks",
            source,
        })?;
        Ok(Self {
            to: Some(to),
            thread: Some(thread),
            pending: None,
        })
    }

    /// May more be read from tasks? False also when nobody reads any more what is written.
    pub(super) fn is_ready(&mut self) -> bool {
        match self.pending.take() {
            None => true,
            Some(output) => self.push(output),
        }
    }

    /// Has writing failed? Then nobody reads what tasks print.
    pub(super) fn is_broken(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Gives a piece to the thread. False: it keeps no more for now. Call only when ready.
    pub(super) fn push(&mut self, output: Output) -> bool {
        let Some(to) = &self.to else { return true };
        match to.try_send(output) {
            Ok(()) => true,
            Err(TrySendError::Full(output)) => {
                self.pending = Some(output);
                false
            }
            // Writing has failed: [`Writer::finish`] says why.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }

    /// Waits until all is written.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let (Some(to), Some(output)) = (&self.to, self.pending.take()) {
            let _ = to.send(output);
        }
        self.to = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            _ => Ok(()),
        }
    }
}

fn write_all(from: &Receiver<Output>, mut write: Write) -> io::Result<()> {
    from.iter().try_for_each(|output| write(&output))
}
