//! Waiting for something of a core while its process and its agent are watched.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::CoreError;
use crate::log::Log;
use crate::process::Process;

/// Why a life of the core is over.
pub(crate) enum Ended {
    /// The agent was told to stop.
    Stopped,
    /// Its process ended by itself.
    Died,
    /// It could not be started, or not be met.
    Failed(CoreError),
}

impl From<CoreError> for Ended {
    fn from(error: CoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<hythe_node::NodeError> for Ended {
    fn from(error: hythe_node::NodeError) -> Self {
        Self::Failed(error.into())
    }
}

/// What is watched beside the process, whatever else is waited for.
pub(crate) struct Watched<'a> {
    pub(crate) board: &'a str,
    pub(crate) bound: Duration,
    pub(crate) stop: &'a OwnedFd,
    pub(crate) log: &'a mut Log,
}

impl Watched<'_> {
    /// Is there still time?
    pub(crate) fn check(&self, deadline: Instant, what: &'static str) -> Result<(), Ended> {
        if Instant::now() < deadline {
            return Ok(());
        }
        let (board, log) = (self.board.to_owned(), self.log.excerpt());
        Err(CoreError::NoAnswer {
            board,
            what,
            bound: self.bound,
            log,
        }
        .into())
    }
}

/// Looks at nothing but the process and the agent for a while.
pub(crate) fn rest_watching(
    watched: &Watched<'_>,
    process: &Process,
    rest: Duration,
) -> Result<(), Ended> {
    let mut asked = [
        PollFd::new(watched.stop, PollFlags::IN),
        PollFd::new(process.pidfd(), PollFlags::IN),
    ];
    let ready = hythe_sys::wait::ready(&mut asked, rest);
    match (ready[0], ready[1]) {
        (true, _) => Err(Ended::Stopped),
        (false, true) => Err(Ended::Died),
        (false, false) => Ok(()),
    }
}

/// Waits for a descriptor, listening to the process meanwhile. True: it is ready.
pub(crate) fn poll_for(
    watched: &mut Watched<'_>,
    process: &Process,
    extra: Option<PollFd<'_>>,
    nap: Duration,
) -> Result<bool, Ended> {
    let mut asked = vec![
        PollFd::new(watched.stop, PollFlags::IN),
        PollFd::new(process.pidfd(), PollFlags::IN),
    ];
    let has_extra = extra.is_some();
    asked.extend(extra);
    let voices = asked.len();
    asked.extend(
        process
            .voices()
            .map(|voice| PollFd::from_borrowed_fd(voice, PollFlags::IN)),
    );
    let ready = hythe_sys::wait::ready(&mut asked, nap);
    drop(asked);
    let (stop, dead, extra) = (ready[0], ready[1], has_extra && ready[2]);
    for (voice, &heard) in process.voices().zip(&ready[voices..]) {
        let mut said = [0; 4096];
        if heard && let Ok(count) = rustix::io::read(voice, &mut said) {
            watched.log.add(&said[..count]);
            if count == 0 && !dead {
                // A closed voice stays ready: do not let it turn this wait into spinning.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    match (stop, dead) {
        (true, _) => Err(Ended::Stopped),
        (false, true) => Err(Ended::Died),
        (false, false) => Ok(extra),
    }
}
