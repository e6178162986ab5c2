//! Which tasks have ended, as their runners say.

use std::collections::{BTreeMap, BTreeSet};

use hythe_node::Pool;

use crate::tasks::client::unexpected;
use crate::tasks::error::TaskError;
use crate::tasks::id::{JobId, TaskId};
use crate::tasks::link::RunnerLink;
use crate::tasks::message::{Reply, Request};

/// Watches tasks of a pool. Used by [`Task`](super::Task), and by who is no task itself.
#[derive(Debug)]
pub struct Ends {
    pool: Pool,
    links: BTreeMap<JobId, RunnerLink>,
    watched: BTreeSet<TaskId>,
    ended: BTreeSet<TaskId>,
}

impl Ends {
    /// Watches none yet.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self {
            pool: pool.clone(),
            links: BTreeMap::new(),
            watched: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    /// Asks the runner of a job. `None`: it is gone, or never was.
    pub(super) fn ask(
        &mut self,
        job: JobId,
        request: &Request,
    ) -> Result<Option<Reply>, TaskError> {
        if !self.links.contains_key(&job) {
            let Some(link) = RunnerLink::connect(&self.pool, job)? else {
                return Ok(None);
            };
            self.links.insert(job, link);
        }
        let Some(link) = self.links.get_mut(&job) else {
            return Ok(None);
        };
        link.ask(request)
    }

    /// Keeps a connection to the runner of a job, in place of what there was.
    pub(super) fn keep(&mut self, job: JobId, link: RunnerLink) {
        self.links.insert(job, link);
    }

    /// The connection to the runner of a job, if there is one.
    pub(super) fn link(&mut self, job: JobId) -> Option<&mut RunnerLink> {
        self.links.get_mut(&job)
    }

    /// Has it ended, since it was asked for first? Its number may be another's by now.
    pub(super) fn was_seen_to_end(&mut self, task: TaskId) -> Result<bool, TaskError> {
        match self.ended.contains(&task) {
            true => Ok(true),
            false => self.has_ended(task),
        }
    }

    /// Has it ended? Its runner is asked once, and says it from then on by itself. Of one that has
    /// ended it is asked again: numbers come back.
    ///
    /// # Errors
    /// The runner does not answer for 5 s; the program has closed the connection to it.
    pub fn has_ended(&mut self, task: TaskId) -> Result<bool, TaskError> {
        if self.ended.contains(&task) {
            self.watched.remove(&task);
        }
        if !self.watched.contains(&task) {
            match self.ask(task.job_id(), &Request::Watch { task })? {
                Some(Reply::Done) => {
                    self.watched.insert(task);
                    self.ended.remove(&task);
                    if let Some(link) = self.links.get_mut(&task.job_id()) {
                        link.note_begun(task);
                    }
                }
                Some(Reply::Failed { reason }) => {
                    return Err(TaskError::Runner {
                        job: task.job(),
                        reason,
                    });
                }
                Some(Reply::NoSuchTask) | None => drop(self.ended.insert(task)),
                Some(other) => return Err(unexpected(task.job_id(), &other)),
            }
        }
        let has_ended = match self.links.get_mut(&task.job_id()) {
            Some(link) => link.has_ended(task)?,
            None => true,
        };
        if has_ended {
            self.ended.insert(task);
        }
        Ok(self.ended.contains(&task))
    }
}
