//! What a runner answers.

use std::ffi::OsString;

use rustix::process::Signal;

use super::Job;
use super::program::{self, Program};
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::message::{Reply, Request, Spawn};

/// The most ends that one client may wait for.
const WATCHED_MAX: usize = 1024;

impl Job {
    pub(super) fn answer_clients(&mut self) {
        let mut clients = std::mem::take(&mut self.clients);
        clients.serve(|request, watched| self.answer(request, watched));
        self.clients = clients;
    }

    fn answer(&mut self, request: Request, watched: &mut Vec<TaskId>) -> Reply {
        let mut running = self.tasks.iter().filter(|task| task.end.is_none());
        match request {
            Request::List => Reply::Tasks {
                tasks: running.map(|task| task.info()).collect(),
            },
            Request::Kill { task, signal } => {
                let Some(found) = running.find(|running| running.role.id == task) else {
                    return Reply::NoSuchTask;
                };
                match Signal::from_named_raw(signal) {
                    Some(signal) => {
                        found.signal(signal);
                        Reply::Done
                    }
                    None => failed(format!("{signal} is no signal")),
                }
            }
            Request::Watch { task } => match running.any(|running| running.role.id == task) {
                false => Reply::NoSuchTask,
                true if watched.len() < WATCHED_MAX => {
                    watched.push(task);
                    Reply::Done
                }
                true => failed(format!("{WATCHED_MAX} ends are waited for already")),
            },
            Request::Spawn(spawn) => match self.spawn(*spawn) {
                Ok(reply) => reply,
                Err(error) => failed(error.to_string()),
            },
            Request::Join { group, task } => match running.any(|running| running.role.id == task) {
                false => Reply::NoSuchTask,
                true => match self.groups.join(&group, task) {
                    Ok(()) => self.members(&group),
                    Err(reason) => failed(reason),
                },
            },
            Request::Leave { group, task } => match self.groups.leave(&group, task) {
                true => Reply::Done,
                false => Reply::NoSuchTask,
            },
            Request::Members { group } => self.members(&group),
        }
    }

    fn members(&self, group: &str) -> Reply {
        Reply::Members {
            members: self.groups.members(group),
        }
    }

    fn spawn(&mut self, spawn: Spawn) -> Result<Reply, TaskError> {
        let name = OsString::from(spawn.program);
        let path = program::find(&name, &self.runner.options.host)?;
        let mut words = vec![name];
        words.extend(spawn.arguments.into_iter().map(OsString::from));
        let mut environment = self.runner.options.environment.clone();
        let given = spawn.environment.into_iter();
        environment.extend(given.map(|(name, value)| (name.into(), value.into())));
        let program = Program {
            path,
            words,
            environment,
            directory: spawn.directory,
        };
        let first = self.tasks.len();
        self.start_all(&program, spawn.count, Some(spawn.parent))?;
        match self.tasks.get(first) {
            Some(task) => Ok(Reply::Spawned {
                first: task.role.id,
                count: spawn.count,
            }),
            None => Err(TaskError::TooManyTasks { asked: 0 }),
        }
    }
}

fn failed(reason: String) -> Reply {
    Reply::Failed { reason }
}
