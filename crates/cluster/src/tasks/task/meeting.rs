//! A barrier for as many members of a group as are asked for. The runner of the job counts them.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::{LOOK, Task};
use crate::tasks::client::unexpected;
use crate::tasks::error::TaskError;
use crate::tasks::message::{Reply, Request};

impl Task {
    /// Waits until `count` members of a group of the job have come to this call, which may be
    /// fewer than it has, or more than have joined so far. All that wait ask for the same number.
    ///
    /// # Errors
    /// [`TaskError::Ended`] names a member that has ended, if fewer than `count` are left;
    /// [`TaskError::NotInGroup`]; [`TaskError::Late`]: `timeout` is over, and this task is not
    /// counted any more; [`TaskError::Runner`]: others wait for another number.
    pub fn barrier(&mut self, group: &str, count: u32, timeout: Duration) -> Result<(), TaskError> {
        let start = Instant::now();
        self.come(group, count)?;
        let handle = match self.ends().link(self.id().job_id()) {
            Some(link) => link.poll_handle()?,
            None => return Err(self.runner_gone()),
        };
        loop {
            if let Some(result) = self.met(group)? {
                return result;
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return self.stop_waiting(group, timeout);
            }
            // Others may have to send to each other before they come.
            self.keep_arrived()?;
            // The thread that sends may have read what woke this one: it looks again soon.
            let mut polled = [PollFd::new(&handle, PollFlags::IN)];
            let _ = hythe_sys::wait::poll_or_sleep(&mut polled, left.min(LOOK));
        }
    }

    fn come(&self, group: &str, count: u32) -> Result<(), TaskError> {
        let job = self.id().job_id();
        let request = Request::Meet {
            group: group.to_owned(),
            task: self.id(),
            count,
        };
        let reply = self.ends().ask(job, &request)?;
        match reply {
            Some(Reply::Done) => Ok(()),
            Some(Reply::NoSuchTask) => Err(TaskError::NotInGroup {
                task: self.id(),
                group: group.to_owned(),
            }),
            Some(Reply::Failed { reason }) => Err(TaskError::Group {
                group: group.to_owned(),
                reason,
            }),
            Some(other) => Err(unexpected(job, &other)),
            None => Err(self.runner_gone()),
        }
    }

    /// `None`: the barrier is closed.
    fn met(&self, group: &str) -> Result<Option<Result<(), TaskError>>, TaskError> {
        let mut ends = self.ends();
        let Some(link) = ends.link(self.id().job_id()) else {
            return Err(self.runner_gone());
        };
        let met = link.take_met(group)?;
        Ok(met.map(|missing| match missing {
            None => Ok(()),
            Some(task) => Err(TaskError::Ended { task }),
        }))
    }

    /// It may have opened meanwhile: what was said before the answer has come by then.
    fn stop_waiting(&self, group: &str, timeout: Duration) -> Result<(), TaskError> {
        let request = Request::StopWaiting {
            group: group.to_owned(),
            task: self.id(),
        };
        self.ends().ask(self.id().job_id(), &request)?;
        let late = || TaskError::Late {
            group: group.to_owned(),
            task: None,
            waited_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        self.met(group)?.unwrap_or_else(|| Err(late()))
    }

    fn runner_gone(&self) -> TaskError {
        TaskError::Runner {
            job: self.id().job(),
            reason: "it is gone".to_owned(),
        }
    }
}
