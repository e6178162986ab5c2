//! Asks runners: which tasks there are, and to send one a signal.

use hythe_node::Pool;

use super::agent_link;
use super::agent_message::{AgentReply, AgentRequest};
use super::error::TaskError;
use super::id::{JobId, TaskId};
use super::link::RunnerLink;
use super::message::{Reply, Request, TaskInfo};
use super::place::{jobs, remove_left_behind};

/// All tasks that run in a pool, in the order of their numbers, and the jobs whose runner does not
/// answer, with the reason.
///
/// # Errors
/// The pool's directory cannot be read.
pub fn list(pool: &Pool) -> Result<(Vec<TaskInfo>, Vec<TaskError>), TaskError> {
    let (mut tasks, mut silent) = (Vec::new(), Vec::new());
    for job in jobs(pool)?.into_iter().chain(jobs_of_others(pool)?) {
        match ask(pool, job, &Request::List) {
            Ok(Some(Reply::Tasks { tasks: found })) => tasks.extend(found),
            Ok(Some(other)) => silent.push(unexpected(job, &other)),
            // It ended meanwhile, or its runner was killed, and all its tasks with it.
            Ok(None) => {}
            Err(error) => silent.push(error),
        }
    }
    tasks.sort_by_key(|info| info.task);
    Ok((tasks, silent))
}

/// Sends a signal to a task and all of its process group.
///
/// # Errors
/// [`TaskError::NoSuchTask`]; the runner does not answer, or may not.
pub fn kill(pool: &Pool, task: TaskId, signal: i32) -> Result<(), TaskError> {
    match ask(pool, task.job_id(), &Request::Kill { task, signal })? {
        Some(Reply::Done) => Ok(()),
        None | Some(Reply::NoSuchTask) => Err(TaskError::NoSuchTask { task }),
        Some(Reply::Failed { reason }) => Err(TaskError::Runner {
            job: task.job(),
            reason,
        }),
        Some(other) => Err(unexpected(task.job_id(), &other)),
    }
}

/// `None`: there is no such job, or no more.
fn ask(pool: &Pool, job: JobId, request: &Request) -> Result<Option<Reply>, TaskError> {
    match RunnerLink::connect(pool, job)? {
        Some(mut link) => link.ask(request),
        None => {
            remove_left_behind(&pool.path(), job);
            Ok(None)
        }
    }
}

/// Jobs of other hosts that have tasks on this one, as its agent knows.
fn jobs_of_others(pool: &Pool) -> Result<Vec<JobId>, TaskError> {
    match agent_link::ask(&pool.path(), &AgentRequest::Here)? {
        Some((AgentReply::Here { jobs, .. }, _)) => Ok(jobs),
        Some((other, _)) => Err(agent_link::unexpected(&other)),
        None => Ok(Vec::new()),
    }
}

pub(super) fn unexpected(job: JobId, reply: &Reply) -> TaskError {
    TaskError::Runner {
        job: job.job(),
        reason: format!("an answer that makes no sense: {reply:?}"),
    }
}
