//! What a runner answers.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::process::Signal;

use super::Job;
use super::clients::Client;
use super::groups::{Met, Refusal};
use super::program::{Program, Running};
use crate::HostName;
use crate::tasks::error::TaskError;
use crate::tasks::id::{TASKS_MAX, TaskId};
use crate::tasks::message::{self, PlaceKind, Reply, Request, Spawn};

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
            Request::Spawn(spawn) => match self.spawn(*spawn, client.from.as_ref()) {
                Ok(reply) => reply,
                Err(TaskError::NoSuchPlace { wanted, host, what }) => Reply::NoSuchPlace {
                    what: match what {
                        "host" => PlaceKind::Host,
                        _ => PlaceKind::Architecture,
                    },
                    wanted,
                    host,
                },
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
        }
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

    fn members(&self, group: &str) -> Reply {
        Reply::Members {
            members: self.groups.members(group),
        }
    }

    /// `from`: the host of who asks, if it is another one.
    fn spawn(&mut self, spawn: Spawn, from: Option<&HostName>) -> Result<Reply, TaskError> {
        // Before anything becomes as long as the number says.
        if spawn.count > TASKS_MAX {
            return Err(TaskError::TooManyTasks { asked: spawn.count });
        }
        // Hosts are asked for their architecture by parts there, which this host's rights begin.
        let asks_hosts = matches!(spawn.place, message::Place::Architecture(_));
        if let Some(from) = from.filter(|_| asks_hosts) {
            self.ask_permission(from, &spawn.program)?;
        }
        let places = self.places(&spawn.place, spawn.count, &spawn.program)?;
        if let Some(from) = from.filter(|_| !asks_hosts) {
            // What is started there, a rule there permits this host; elsewhere it would be started
            // with this host's rights.
            if places.iter().any(|place| place.as_ref() != Some(from)) {
                self.ask_permission(from, &spawn.program)?;
            }
        }
        let mut words = vec![OsString::from(spawn.program)];
        words.extend(spawn.arguments.into_iter().map(OsString::from));
        let mut environment = self.runner.options.environment.clone();
        let given = spawn.environment.into_iter();
        environment.extend(given.map(|(name, value)| (name.into(), value.into())));
        let program = Program {
            path: PathBuf::new(),
            words,
            environment,
            directory: spawn.directory,
        };
        match self.start_all(program, &places, Some(spawn.parent))? {
            Some(first) => Ok(Reply::Spawned {
                first,
                count: spawn.count,
            }),
            None => Err(TaskError::TooManyTasks { asked: 0 }),
        }
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

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn spawn(job: &Job, count: u32, place: message::Place) -> Spawn {
        Spawn {
            parent: job.runner.place.job.task(0).expect("in range"),
            program: "true".to_owned(),
            arguments: Vec::new(),
            count,
            environment: Vec::new(),
            directory: None,
            place,
        }
    }

    #[test]
    fn a_number_of_tasks_is_refused_before_there_is_a_place_for_each() {
        let (_root, mut job) = fixture::job();
        let refused = job.spawn(spawn(&job, u32::MAX, message::Place::Anywhere), None);
        let Err(TaskError::TooManyTasks { asked }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(asked, u32::MAX);
    }

    #[test]
    fn the_rule_is_asked_before_hosts_are_looked_through_for_another_one() {
        let (_root, mut job) = fixture::job();
        let from: HostName = "b".parse().expect("a name");
        let of_none = || message::Place::Architecture("none".to_owned());
        let own = job.spawn(spawn(&job, 1, of_none()), None);
        assert!(matches!(own, Err(TaskError::NoSuchPlace { .. })), "{own:?}");
        // No agent knows a rule.
        let asked = job.spawn(spawn(&job, 1, of_none()), Some(&from));
        assert!(matches!(asked, Err(TaskError::NoAgent)), "{asked:?}");
    }
}
