//! Asks runners: which tasks there are, and to send one a signal.

use std::io::{BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hythe_node::Pool;

use super::error::TaskError;
use super::id::TaskId;
use super::message::{LINE_BYTES_MAX, Reply, Request, TaskInfo};
use super::place::{file, is_left_behind, jobs, socket_path};

/// A runner answers at once; one that was stopped by a signal does not.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// All tasks that run in a pool, in the order of their numbers, and the jobs whose runner does not
/// answer, with the reason.
///
/// # Errors
/// The pool's directory cannot be read.
pub fn list(pool: &Pool) -> Result<(Vec<TaskInfo>, Vec<TaskError>), TaskError> {
    let (mut tasks, mut silent) = (Vec::new(), Vec::new());
    for job in jobs(pool)? {
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
    match ask(pool, task.job(), &Request::Kill { task, signal })? {
        Some(Reply::Done) => Ok(()),
        None | Some(Reply::NoSuchTask) => Err(TaskError::NoSuchTask { task }),
        Some(Reply::Failed { reason }) => Err(TaskError::Runner {
            job: task.job(),
            reason,
        }),
        Some(other) => Err(unexpected(task.job(), &other)),
    }
}

/// `None`: there is no such job, or no more.
fn ask(pool: &Pool, job: u32, request: &Request) -> Result<Option<Reply>, TaskError> {
    let path = socket_path(&pool.path(), job);
    let mut stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::NotFound || is_left_behind(&error) => {
            return Ok(None);
        }
        Err(error) => return Err(file("connect to", &path, error)),
    };
    let asked = (|| {
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut reply = Vec::new();
        let limited = (&stream).take(LINE_BYTES_MAX as u64);
        BufReader::new(limited).read_until(b'\n', &mut reply)?;
        match reply.is_empty() {
            true => Ok(None),
            false => Ok(Some(serde_json::from_slice(&reply)?)),
        }
    })();
    asked.map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock => TaskError::Runner {
            job,
            reason: format!(
                "no answer for {} s; is it stopped?",
                REPLY_TIMEOUT.as_secs()
            ),
        },
        _ => file("ask", &path, error),
    })
}

fn unexpected(job: u32, reply: &Reply) -> TaskError {
    TaskError::Runner {
        job,
        reason: format!("an answer that makes no sense: {reply:?}"),
    }
}
