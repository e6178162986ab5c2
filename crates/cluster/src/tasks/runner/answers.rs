//! What a runner answers.

use std::ffi::OsString;

use rustix::process::Signal;

use super::Job;
use super::clients::Client;
use super::groups::{Met, Refusal};
use super::program::{self, Program, Running};
use crate::tasks::error::TaskError;
use crate::tasks::id::{TASKS_MAX, TaskId};
use crate::tasks::message::{Reply, Request, Spawn};

/// What clients are told when all have been answered.
#[derive(Debug, Default)]
struct Afterwards {
    met: Vec<Met>,
    departed: Vec<TaskId>,
}

impl Job {
    pub(super) fn answer_clients(&mut self) {
        let mut clients = std::mem::take(&mut self.clients);
        let mut after = Afterwards::default();
        let gone = clients.serve(|request, client| self.answer(request, client, &mut after));
        self.clients = clients;
        self.tell_met(after.met);
        for task in after.departed {
            self.clients.tell_end(task);
        }
        for task in &mut self.tasks {
            if gone.contains(&task.role.id) {
                task.note_gone();
            }
        }
    }

    pub(super) fn tell_met(&mut self, met: Vec<Met>) {
        for met in met {
            for task in met.tasks {
                self.clients.tell_met(task, &met.group, met.missing);
            }
        }
    }

    fn answer(&mut self, request: Request, client: &mut Client, after: &mut Afterwards) -> Reply {
        let mut running = self.tasks.iter().filter(|task| task.end.is_none());
        let mut tasks = self.tasks.iter().filter(|task| task.is_task());
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
            Request::Watch { task } => match tasks.any(|running| running.role.id == task) {
                false => Reply::NoSuchTask,
                true => client.watch(task),
            },
            Request::Spawn(spawn) => match self.spawn(*spawn) {
                Ok(reply) => reply,
                Err(error) => failed(error.to_string()),
            },
            Request::Join { group, task } => match tasks.any(|running| running.role.id == task) {
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
            Request::Meet { group, task, count } => match self.groups.meet(&group, task, count) {
                Ok(opened) => {
                    client.waiting = Some(task);
                    after.met.extend(opened);
                    Reply::Done
                }
                Err(Refusal::NotAMember) => Reply::NoSuchTask,
                Err(Refusal::Reason(reason)) => failed(reason),
            },
            Request::StopWaiting { group, task } => match self.groups.stop_waiting(&group, task) {
                true => Reply::Done,
                false => Reply::NoSuchTask,
            },
            Request::Enrol { if_it_stays } => self.enrol(if_it_stays, client),
            Request::Depart { task } => {
                if !tasks.any(|running| running.role.id == task) {
                    return Reply::NoSuchTask;
                }
                client.guest.take_if(|guest| *guest == task);
                self.depart(task, after);
                Reply::Done
            }
            Request::End => {
                self.ask_to_end(Signal::TERM);
                Reply::Done
            }
        }
    }

    fn enrol(&mut self, if_it_stays: bool, client: &mut Client) -> Reply {
        if self.asked_to_end.is_some() || (if_it_stays && !self.runner.options.stays) {
            return failed("it takes nobody in".to_owned());
        }
        if client.guest.is_some() {
            return failed("this process has enrolled already".to_owned());
        }
        let Some(index) = self.free_indices(1) else {
            return failed(
                TaskError::TooManyTasks {
                    asked: TASKS_MAX + 1,
                }
                .to_string(),
            );
        };
        let Some(id) = TaskId::new(self.runner.place.job, index) else {
            return failed("its numbers are used up".to_owned());
        };
        match Running::enrolled(&client.stream, id) {
            Ok(task) => {
                self.tasks.push(task);
                client.guest = Some(id);
                Reply::Enrolled { task: id }
            }
            Err(error) => failed(error.to_string()),
        }
    }

    /// It is no task any more, whatever its process does.
    fn depart(&mut self, id: TaskId, after: &mut Afterwards) {
        after.met.extend(self.groups.forget(id));
        let mut tasks = self.tasks.iter_mut().filter(|task| task.role.id == id);
        if let Some(task) = tasks.find(|task| task.is_task()) {
            match task.is_child() {
                true => {
                    task.has_departed = true;
                    after.departed.push(id);
                }
                false => task.note_gone(),
            }
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
        match self.start_all(&program, spawn.count, Some(spawn.parent))? {
            Some(first) => Ok(Reply::Spawned {
                first,
                count: spawn.count,
            }),
            None => Err(TaskError::TooManyTasks { asked: 0 }),
        }
    }
}

fn failed(reason: String) -> Reply {
    Reply::Failed { reason }
}
