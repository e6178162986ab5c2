//! The tasks of a job on other hosts: for each host a part there, to which its agent leads.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::part_protocol::link::PartLink;
use super::part_protocol::message::{FromPart, Start, ToPart};
use crate::HostName;
use crate::tasks::agent_link::{self, unexpected};
use crate::tasks::agent_message::{AgentReply, AgentRequest};
use crate::tasks::error::TaskError;
use crate::tasks::id::JobId;

/// How long a part may take to begin, and to start programs. Who asks a runner waits a little
/// longer.
const STARTING: Duration = Duration::from_secs(4);

/// A part, as its runner sees it. Shared with the tasks there, which send their signals over it.
pub(super) type SharedPart = Rc<RefCell<RemotePart>>;

#[derive(Debug)]
pub(super) struct RemotePart {
    pub(super) host: HostName,
    pub(super) architecture: String,
    pub(super) link: PartLink,
    /// What came while an answer was waited for.
    early: VecDeque<FromPart>,
    /// It has said all, and how many processes it could not end.
    pub(super) left_running: Option<u32>,
}

impl RemotePart {
    /// Has the agent start one, for a program first.
    pub(super) fn open(
        directory: &Path,
        host: &HostName,
        job: JobId,
        program: &str,
        hosts: &[HostName],
    ) -> Result<SharedPart, TaskError> {
        let request = AgentRequest::Part {
            host: host.clone(),
            job,
            program: program.to_owned(),
            hosts: hosts.to_vec(),
        };
        let stream = match agent_link::ask(directory, &request)? {
            Some((AgentReply::Connected, stream)) => stream,
            Some((other, _)) => return Err(unexpected(&other)),
            None => return Err(TaskError::NoAgent),
        };
        let link = PartLink::new(stream).map_err(|source| TaskError::System {
            action: "read what a part says",
            source,
        })?;
        let mut part = Self {
            host: host.clone(),
            architecture: String::new(),
            link,
            early: VecDeque::new(),
            left_running: None,
        };
        match part.answer()? {
            FromPart::Here { architecture } => part.architecture = architecture,
            other => return Err(part.error(format!("it begins with {other:?}"))),
        }
        Ok(Rc::new(RefCell::new(part)))
    }

    /// Starts tasks there, all or none. Returns their process ids, and the program's path.
    pub(super) fn start(&mut self, start: Start) -> Result<(Vec<u32>, String), TaskError> {
        let count = start.tasks.len();
        self.link.say(&ToPart::Start(Box::new(start)));
        match self.answer()? {
            FromPart::Started { pids, program } if pids.len() == count => Ok((pids, program)),
            FromPart::Failed { reason } => Err(TaskError::Elsewhere { reason }),
            other => Err(self.error(format!("an answer that makes no sense: {other:?}"))),
        }
    }

    /// The next that is no answer.
    pub(super) fn next(&mut self) -> Option<FromPart> {
        self.early.pop_front().or_else(|| self.link.next())
    }

    /// Is nothing more to come?
    pub(super) fn is_done(&self) -> bool {
        self.early.is_empty() && (self.left_running.is_some() || self.link.over.is_some())
    }

    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Waits for an answer; what else comes is kept.
    fn answer(&mut self) -> Result<FromPart, TaskError> {
        let start = Instant::now();
        loop {
            match self.link.next() {
                Some(
                    other @ (FromPart::Output { .. }
                    | FromPart::Ended { .. }
                    | FromPart::InputTaken(_)
                    | FromPart::Over { .. }),
                ) => self.early.push_back(other),
                Some(answer) => return Ok(answer),
                None => {}
            }
            if let Some(reason) = &self.link.over {
                return Err(self.error(reason.clone()));
            }
            let left = STARTING.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(self.error(format!("no answer for {} s", STARTING.as_secs())));
            }
            self.link.flush();
            let wanted = self.link.wanted(true);
            let mut polled = [PollFd::from_borrowed_fd(self.link.as_fd(), wanted)];
            let _ = hythe_sys::wait::poll_or_sleep(&mut polled, left);
        }
    }

    fn error(&self, reason: String) -> TaskError {
        TaskError::Elsewhere {
            reason: format!("host {}: its part of the job: {reason}", self.host),
        }
    }
}
