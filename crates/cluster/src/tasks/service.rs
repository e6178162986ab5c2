//! What serves the tasks of jobs besides the runners, such as a machine of PVM: it listens in the
//! pool's directory, and tasks on other hosts are led there by the agents.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hythe_node::Pool;

use super::agent_link;
use super::agent_message::{AgentReply, AgentRequest, FoundHost, SERVICE_SOCKET};
use super::error::TaskError;
use super::id::TaskId;
use crate::HostName;

/// The host of a pool in its realm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// Its name.
    pub name: HostName,
    /// Its number; 0: it has none.
    pub number: u32,
}

/// This host in its realm. `None`: no agent serves the pool.
///
/// # Errors
/// The agent does not answer.
pub fn here(pool: &Pool) -> Result<Option<Here>, TaskError> {
    match agent_link::ask(&pool.path(), &AgentRequest::Here)? {
        Some((AgentReply::Here { host, number, .. }, _)) => Ok(Some(Here { name: host, number })),
        Some((other, _)) => Err(agent_link::unexpected(&other)),
        None => Ok(None),
    }
}

/// Asks another host what it is.
///
/// # Errors
/// It is not connected, or does not answer.
pub fn find_host(pool: &Pool, host: &HostName) -> Result<FoundHost, TaskError> {
    let request = AgentRequest::Facts { host: host.clone() };
    match agent_link::ask(&pool.path(), &request)? {
        Some((AgentReply::Facts(found), _)) => Ok(found),
        Some((other, _)) => Err(agent_link::unexpected(&other)),
        None => Err(TaskError::NoAgent),
    }
}

/// A connection that ends with the session of this host and another one: it is gone then.
///
/// # Errors
/// That host is not connected.
pub fn watch_host(pool: &Pool, host: &HostName) -> Result<UnixStream, TaskError> {
    let request = AgentRequest::Watch { host: host.clone() };
    match agent_link::ask(&pool.path(), &request)? {
        Some((AgentReply::Connected, stream)) => Ok(stream),
        Some((other, _)) => Err(agent_link::unexpected(&other)),
        None => Err(TaskError::NoAgent),
    }
}

/// Where what serves jobs of this pool takes connections of tasks on other hosts. Each begins with
/// the name of that host and a line break, written by the agent.
#[must_use]
pub fn service_socket(pool: &Pool) -> PathBuf {
    pool.path().join(SERVICE_SOCKET)
}

/// Connects a task with what serves its job, if that is on another host; `directory` is that of its
/// pool. `None`: it is on this one.
///
/// # Errors
/// The agent does not answer, or leads nowhere.
pub fn connect_to_service(directory: &Path, task: TaskId) -> Result<Option<UnixStream>, TaskError> {
    let job = task.job_id();
    if job.host() == 0 {
        return Ok(None);
    }
    match agent_link::ask(directory, &AgentRequest::Service { job })? {
        Some((AgentReply::Connected, stream)) => {
            let system = |source| TaskError::System {
                action: "wait without a bound at the agent",
                source,
            };
            stream.set_read_timeout(None).map_err(system)?;
            stream.set_write_timeout(None).map_err(system)?;
            Ok(Some(stream))
        }
        None | Some((AgentReply::Here { .. }, _)) => Ok(None),
        Some((other, _)) => Err(agent_link::unexpected(&other)),
    }
}
