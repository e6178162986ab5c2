//! Which tasks have ended, as their runners say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, sync_channel};

use hythe_node::Pool;

use crate::tasks::client::unexpected;
use crate::tasks::error::TaskError;
use crate::tasks::id::{JobId, TaskId};
use crate::tasks::link::RunnerLink;
use crate::tasks::message::{Reply, Request};
use crate::tasks::place::socket_path;

/// A connection to a runner that a thread makes.
type Dialling = Receiver<Result<Option<RunnerLink>, TaskError>>;

/// Watches tasks of a pool. Used by [`Task`](super::Task), and by who is no task itself.
#[derive(Debug)]
pub struct Ends {
    pool: Pool,
    links: BTreeMap<JobId, RunnerLink>,
    dialling: Option<(JobId, Dialling)>,
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
            dialling: None,
            watched: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    /// Begins to connect to the runner of a job, if that is on another host: two agents take
    /// milliseconds for it. Where it cannot, it connects when it is asked.
    pub(super) fn dial_ahead(&mut self, job: JobId) {
        if job.host() == 0 || socket_path(&self.pool.path(), job).exists() {
            return;
        }
        let (pool, (dialled, dialling)) = (self.pool.clone(), sync_channel(1));
        let begun = hythe_sys::wait::spawn("hythe-runner", move || {
            // Nobody may want it any more.
            let _ = dialled.send(RunnerLink::connect(&pool, job));
        });
        self.dialling = begun.ok().map(|_| (job, dialling));
    }

    /// A new connection, or the one that was begun. That may be of a job that is gone since, or has
    /// come.
    fn connect(&mut self, job: JobId) -> Result<Option<RunnerLink>, TaskError> {
        if let Some((_, dialling)) = self.dialling.take_if(|(of, _)| *of == job)
            && let Ok(Ok(Some(link))) = dialling.recv()
        {
            return Ok(Some(link));
        }
        RunnerLink::connect(&self.pool, job)
    }

    /// Asks the runner of a job. `None`: it is gone, or never was.
    pub(super) fn ask(
        &mut self,
        job: JobId,
        request: &Request,
    ) -> Result<Option<Reply>, TaskError> {
        if !self.links.contains_key(&job) {
            let Some(link) = self.connect(job)? else {
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
    /// The runner does not answer for 5 s.
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
        Ok(self.take_in(task))
    }

    /// The same without asking. `None`: it has to be asked.
    pub(super) fn known(&mut self, task: TaskId) -> Option<bool> {
        let is_watched = self.watched.contains(&task) && !self.ended.contains(&task);
        is_watched.then(|| self.take_in(task))
    }

    /// Has it ended, by what has come?
    fn take_in(&mut self, task: TaskId) -> bool {
        let link = self.links.get_mut(&task.job_id());
        if link.is_none_or(|link| link.has_ended(task)) {
            self.ended.insert(task);
        }
        self.ended.contains(&task)
    }
}
