//! What a runner answers.

use rustix::process::Signal;

use super::Job;
use super::clients::Client;
use super::descriptors;
use super::groups::{Met, Refusal};
use super::running::Running;
use super::spawning::Spawned;
use crate::tasks::error::TaskError;
use crate::tasks::id::{TASKS_MAX, TaskId};
use crate::tasks::message::{PlaceKind, Reply, Request};

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

    /// `None`: it follows when tasks have been started.
    fn answer(
        &mut self,
        request: Request,
        client: &mut Client,
        after: &mut Afterwards,
    ) -> Option<Reply> {
        let mut running = self.tasks.iter().filter(|task| task.end.is_none());
        let mut tasks = self.tasks.iter().filter(|task| task.is_task());
        let reply = match request {
            Request::List => Reply::Tasks {
                tasks: running
                    .filter(|task| task.has_begun())
                    .map(|task| task.info())
                    .collect(),
            },
            Request::Kill { task, signal } => {
                let Some(found) = running.find(|running| running.role.id == task) else {
                    return Some(Reply::NoSuchTask);
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
            Request::Where { task } => self.place_of(task),
            Request::Reaches { host } => self.reaches(host),
            Request::Spawn(spawn) => {
                let result = self.begin_spawn(*spawn, client.from.as_ref(), client.key);
                return result.map(spawned);
            }
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
            Request::Meet { group, task, count } => {
                let met = self.groups.meet(&group, task, count);
                client.waiting = met.is_ok().then_some(task);
                met_or_not(met, after)
            }
            Request::StopWaiting { group, task } => match self.groups.stop_waiting(&group, task) {
                true => Reply::Done,
                false => Reply::NoSuchTask,
            },
            Request::Enrol { if_it_stays } => self.enrol(if_it_stays, client),
            Request::Depart { task } => match tasks.any(|running| running.role.id == task) {
                false => Reply::NoSuchTask,
                true => self.depart(task, client, after),
            },
            Request::End => {
                self.ask_to_end(Signal::TERM);
                Reply::Done
            }
            Request::From { host } => {
                // Whoever says it afterwards is there, and would be elsewhere.
                client.from.get_or_insert(host);
                Reply::Done
            }
        };
        Some(reply)
    }

    fn enrol(&mut self, if_it_stays: bool, client: &mut Client) -> Reply {
        if client.from.is_some() {
            return failed("it takes in programs of its own host".to_owned());
        }
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
        let Some(id) = self.runner.place.job.task(index) else {
            return failed("its numbers are used up".to_owned());
        };
        let host = &self.runner.options.host;
        if let Err(error) = descriptors::provide_for(self.tasks.len() + 1, 0, host) {
            return failed(error.to_string());
        }
        match Running::enrolled(&client.stream, id, &self.runner.options.host) {
            Ok(task) => {
                self.tasks.push(task);
                client.guest = Some(id);
                Reply::Enrolled { task: id }
            }
            Err(error) => failed(error.to_string()),
        }
    }

    /// It is no task any more, whatever its process does.
    fn depart(&mut self, id: TaskId, client: &mut Client, after: &mut Afterwards) -> Reply {
        client.guest.take_if(|guest| *guest == id);
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
        Reply::Done
    }

    /// Of several with this number that of the one that runs, else of the last.
    fn place_of(&self, task: TaskId) -> Reply {
        let kept = self.tasks.iter().rev();
        let kept = kept.filter(|one| one.role.id == task);
        let (mut ended, mut running) = (kept.clone(), kept.filter(|one| one.end.is_none()));
        let found = running.next().or_else(|| ended.next());
        let host = found.map(Running::host);
        let forgotten = self.places_of_ended.get(&task);
        match host.or(forgotten.map(String::as_str)) {
            Some(host) => Reply::Place {
                host: host.to_owned(),
            },
            None => Reply::NoSuchTask,
        }
    }

    fn reaches(&self, host: String) -> Reply {
        let own = &self.runner.options.host;
        let is_part_there = self.parts.iter().any(|part| {
            let part = part.borrow();
            part.host.as_str() == host && part.link.over.is_none()
        });
        match host == *own || is_part_there {
            true => Reply::Done,
            false => Reply::NoSuchPlace {
                what: PlaceKind::Host,
                wanted: host,
                host: own.clone(),
            },
        }
    }

    fn members(&self, group: &str) -> Reply {
        Reply::Members {
            members: self.groups.members(group),
        }
    }
}

/// How a spawn went.
pub(super) fn spawned(result: Result<Spawned, TaskError>) -> Reply {
    match result {
        Ok((first, count)) => Reply::Spawned { first, count },
        Err(TaskError::NoSuchPlace { wanted, host, what }) => Reply::NoSuchPlace {
            what: match what {
                "host" => PlaceKind::Host,
                _ => PlaceKind::Architecture,
            },
            wanted,
            host,
        },
        Err(error) => failed(error.to_string()),
    }
}

fn met_or_not(met: Result<Option<Met>, Refusal>, after: &mut Afterwards) -> Reply {
    match met {
        Ok(opened) => {
            after.met.extend(opened);
            Reply::Done
        }
        Err(Refusal::NotAMember) => Reply::NoSuchTask,
        Err(Refusal::Reason(reason)) => failed(reason),
    }
}

fn failed(reason: String) -> Reply {
    Reply::Failed { reason }
}
