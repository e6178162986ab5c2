//! Which hosts are believed that a task of theirs has sent a message.
//!
//! The number of its sender stands in a message, and another host may write any there. The agent
//! says from which host a message is; the runner of the sender's job says on which host that task
//! runs. Where they differ, or nobody knows of such a task, the message is a lie. What comes from
//! processes of this pool is believed, as all that they do to it.
//!
//! A host that lies costs this task a bounded number of questions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ends::Ends;
use crate::tasks::error::TaskError;
use crate::tasks::id::{JobId, TaskId};
use crate::tasks::message::{Reply, Request};

/// Lies of one host about which runners are asked; what it says of tasks that are not known yet is
/// no more believed then.
const LIES_MAX: u32 = 32;
/// Tasks whose hosts are known; more are asked about again.
const KNOWN_MAX: usize = 4096;
/// So long nothing is asked on a host whose runners do not answer.
const PAUSE: Duration = Duration::from_secs(60);

/// Where tasks of other hosts run, as far as it was asked for.
#[derive(Debug)]
pub(super) struct Senders {
    own: JobId,
    ends: Arc<Mutex<Ends>>,
    known: BTreeMap<TaskId, Arc<str>>,
    lies: BTreeMap<Arc<str>, u32>,
    /// Numbers of hosts whose runners did not answer, and since when.
    silent: BTreeMap<u32, Instant>,
}

impl Senders {
    pub(super) const fn new(own: TaskId, ends: Arc<Mutex<Ends>>) -> Self {
        Self {
            own: own.job_id(),
            ends,
            known: BTreeMap::new(),
            lies: BTreeMap::new(),
            silent: BTreeMap::new(),
        }
    }

    /// Does this task run on that host?
    ///
    /// # Errors
    /// The runner of the own job does not answer. Of another job that is no: a host that lies may
    /// have chosen it.
    pub(super) fn is_on(&mut self, task: TaskId, host: &Arc<str>) -> Result<bool, TaskError> {
        // A job that began where there was no agent has tasks on its own host only.
        if task.host() == 0 {
            return Ok(false);
        }
        if self.known.get(&task).is_some_and(|known| known == host) {
            return Ok(true);
        }
        if self.lies.get(host).is_some_and(|lies| *lies >= LIES_MAX) {
            return Ok(false);
        }
        // A number that was another task's before may be one's on that host now.
        let place = self.ask(task)?;
        let is_on = place.as_deref() == Some(&**host);
        match is_on {
            true => {
                if self.known.len() >= KNOWN_MAX {
                    self.known.clear();
                }
                self.known.insert(task, Arc::clone(host));
            }
            false => {
                let lies = self.lies.entry(Arc::clone(host)).or_default();
                *lies += 1;
                tracing::warn!(%task, %host, lies, "a message is not from the task that it names");
            }
        }
        Ok(is_on)
    }

    /// `None`: nobody knows.
    fn ask(&mut self, task: TaskId) -> Result<Option<String>, TaskError> {
        let job = task.job_id();
        let since = self.silent.get(&job.host());
        if job != self.own && since.is_some_and(|since| since.elapsed() < PAUSE) {
            return Ok(None);
        }
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = ends.ask(job, &Request::Where { task });
        drop(ends);
        match asked {
            Ok(Some(Reply::Place { host })) => Ok(Some(host)),
            Ok(_) => Ok(None),
            Err(error) if job == self.own => Err(error),
            Err(_) => {
                self.silent.insert(job.host(), Instant::now());
                Ok(None)
            }
        }
    }
}
