//! Programs that nobody started as tasks, and tasks that leave their job.

use hythe_node::{Pool, PoolOptions};

use super::ends::Ends;
use super::{Role, Task, TaskOptions};
use crate::tasks::client::unexpected;
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::link::RunnerLink;
use crate::tasks::message::{Reply, Request};
use crate::tasks::place::jobs;

impl Task {
    /// This process, which nobody started as a task, becomes one: of the job `hythe run --stay`
    /// with the least number that there is in the pool. A process that is started as a task and
    /// has [left](Task::leave) comes into its own job, with another number.
    ///
    /// It is one until the value is dropped, or the process ends. The job neither ends it nor
    /// waits for it.
    ///
    /// # Errors
    /// [`TaskError::NoJob`]; the runner refuses; the pool's.
    pub fn enrol(pool: &PoolOptions, options: &TaskOptions) -> Result<Self, TaskError> {
        let pool = Pool::open(pool)?;
        let own: Option<TaskId> = super::number("HYTHE_TASK").ok();
        let staying = jobs(&pool)?.into_iter().map(|job| (job, true));
        let candidates = own
            .map(|own| (own.job_id(), false))
            .into_iter()
            .chain(staying);
        let mut refused = None;
        for (job, if_it_stays) in candidates {
            let Some(mut link) = RunnerLink::connect(&pool, job)? else {
                continue;
            };
            match link.ask(&Request::Enrol { if_it_stays }) {
                Ok(Some(Reply::Enrolled { task })) => {
                    let mut ends = Ends::new(&pool);
                    ends.keep(job, link);
                    let role = Role {
                        id: task,
                        rank: 0,
                        size: 1,
                        parent: None,
                    };
                    return Self::start(&pool, role, ends, options);
                }
                Ok(Some(Reply::Failed { reason })) => {
                    refused = Some(TaskError::Runner {
                        job: job.job(),
                        reason,
                    });
                }
                Ok(Some(other)) => refused = Some(unexpected(job, &other)),
                Ok(None) => {}
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or(TaskError::NoJob))
    }

    /// Leaves the job while the process goes on: waits until others have received what was sent, or
    /// have ended, for at most the [linger time](TaskOptions::linger), and is a task that has ended
    /// to all of them from then on.
    ///
    /// # Errors
    /// The runner does not answer; then it has left all the same when the process ends.
    pub fn leave(self) -> Result<(), TaskError> {
        self.mail.linger();
        let (id, job) = (self.id(), self.id().job_id());
        let request = Request::Depart { task: id };
        let reply = self.ends().ask(job, &request)?;
        match reply {
            // With its runner all tasks of a job are over.
            Some(Reply::Done | Reply::NoSuchTask) | None => Ok(()),
            Some(other) => Err(unexpected(job, &other)),
        }
    }

    /// Ends the job of this task, as `SIGTERM` to its `hythe run` does: all that it started is
    /// asked to end, and killed after 5 s.
    ///
    /// # Errors
    /// The runner does not answer.
    pub fn end_job(&self) -> Result<(), TaskError> {
        let job = self.id().job_id();
        let reply = self.ends().ask(job, &Request::End)?;
        match reply {
            Some(Reply::Done) | None => Ok(()),
            Some(other) => Err(unexpected(job, &other)),
        }
    }
}
