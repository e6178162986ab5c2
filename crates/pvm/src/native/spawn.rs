//! Spawning on hosts: all tasks at once, so that they are siblings; where that is refused, host by
//! host, so that one which refuses does not stand in the way of others.

use hythe_cluster::tasks::{self, SpawnOptions, SpawnPlace, TaskError};

use super::place::places_text;
use super::{KILL, Native, programs};
use crate::code::Code;
use crate::hostfile::Settings;
use crate::machine::{Host, Reply, Request, Spawn};
use crate::numbers::tid_of;
use crate::session::variables;
use crate::tid::{FIRST_HOST, Tid};

/// What is started: a path, or a name that is looked for there.
type Named = (String, Vec<String>);

impl Native {
    pub(super) fn spawn_at_places(&mut self, spawn: &Spawn) -> Vec<Result<Tid, Code>> {
        let own = self.identity.task.host();
        let found = programs::find(spawn);
        let is_here = |host: &Host| host.host == own;
        let (here, others): (Vec<Host>, Vec<Host>) =
            spawn.places.iter().cloned().partition(is_here);
        let mut outcomes = Vec::new();
        let is_sought_here = here.iter().any(|host| !host.settings.folders.is_empty());
        let places = match found {
            // It may be elsewhere.
            None if !is_sought_here => {
                outcomes.extend(here.iter().map(|_| Err(Code::NO_FILE)));
                others
            }
            _ => spawn.places.clone(),
        };
        if places.is_empty() {
            return outcomes;
        }
        let named = found.unwrap_or_else(|| (spawn.program.clone(), spawn.arguments.clone()));
        match self.start(spawn, &named, &places) {
            Ok(started) => outcomes.extend(started),
            Err(error) => {
                let mut by_host: Vec<Vec<Host>> = Vec::new();
                for place in &places {
                    match by_host.iter_mut().find(|hosts| hosts[0] == *place) {
                        Some(hosts) => hosts.push(place.clone()),
                        None => by_host.push(vec![place.clone()]),
                    }
                }
                match by_host.len() {
                    1 => outcomes.extend(self.start_on_one(spawn, &named, &places, Some(error))),
                    _ => by_host.iter().for_each(|places| {
                        outcomes.extend(self.start_on_one(spawn, &named, places, None));
                    }),
                }
            }
        }
        outcomes
    }

    /// `refused` is why it did not go with all of these places, which are of one host.
    fn start_on_one(
        &mut self,
        spawn: &Spawn,
        named: &Named,
        places: &[Host],
        refused: Option<TaskError>,
    ) -> Vec<Result<Tid, Code>> {
        let is_here = places[0].host == self.identity.task.host();
        let first = match refused {
            Some(error) => Err(error),
            None => self.start(spawn, named, places),
        };
        let bare = (spawn.program.clone(), spawn.arguments.clone());
        let outcome = match first {
            // It may have another path there.
            Err(_) if !is_here && bare.0 != named.0 && !spawn.is_debugged => {
                self.start(spawn, &bare, places)
            }
            first => first,
        };
        outcome.unwrap_or_else(|error| {
            tracing::warn!(%error, "tasks cannot be spawned");
            self.refusal = Some(error.to_string());
            let Settings {
                folders, directory, ..
            } = &places[0].settings;
            let code = match is_here && folders.is_empty() && directory.is_none() {
                true => Code::OUT_OF_RESOURCES,
                // It is not there, nor its directory, or no rule there permits it: the same for who
                // asks.
                false => Code::NO_FILE,
            };
            vec![Err(code); places.len()]
        })
    }

    fn start(
        &mut self,
        spawn: &Spawn,
        (program, arguments): &Named,
        places: &[Host],
    ) -> Result<Vec<Result<Tid, Code>>, TaskError> {
        // Fits: they are as many as were asked for, or fewer.
        let mut options = SpawnOptions::new(program).count(places.len() as u32);
        if self.realm_number != 0 {
            let names = places.iter().map(|host| host.name.clone());
            options = options.place(SpawnPlace::Each(names.collect()));
        }
        for argument in arguments {
            options = options.argument(argument);
        }
        let hosts = places.iter().map(|host| host.host);
        options = options
            .variable(variables::PLACES, &places_text(hosts))
            .variable(variables::PARENT, &self.identity.task.number().to_string());
        for (name, value) in &spawn.variables {
            options = options.variable(name, value);
        }
        if let Some(directory) = std::env::var_os("PVM_WD") {
            options = options.directory(directory.as_ref());
        }
        let mut named: Vec<&Host> = Vec::new();
        for place in places {
            let Settings {
                folders, directory, ..
            } = &place.settings;
            if named.contains(&place) || (folders.is_empty() && directory.is_none()) {
                continue;
            }
            named.push(place);
            // A debugger is none of their programs.
            let folders: Vec<String> = match spawn.is_debugged {
                true => Vec::new(),
                false => folders
                    .iter()
                    .map(|one| of_architecture(one, place))
                    .collect(),
            };
            let directory = directory.as_ref().map(|one| of_architecture(one, place));
            let directory = directory.as_deref();
            options = options.on_host(&place.name, &spawn.program, &folders, directory);
        }
        let spawned = self.task.spawn(&options)?.into_iter().zip(places);
        let hosts = self.hosts_now(places);
        let outcomes = spawned.map(|(task, place)| {
            if hosts
                .as_ref()
                .is_some_and(|hosts| !hosts.contains(&place.host))
            {
                // It was taken out meanwhile, by a task that may not have seen this one.
                let _ = tasks::kill(&self.pool, task, KILL);
                return Err(Code::NO_HOST);
            }
            tid_of(task, place.host).ok_or(Code::OUT_OF_RESOURCES)
        });
        Ok(outcomes.collect())
    }

    /// Those of the machine. `None`: all of these places are on the first, which is always there,
    /// or the machine does not answer any more.
    fn hosts_now(&mut self, places: &[Host]) -> Option<Vec<Tid>> {
        if places.iter().all(|place| place.host == FIRST_HOST) {
            return None;
        }
        match self.link.ask(&Request::Hosts) {
            Ok(Reply::Hosts(hosts)) => Some(hosts.iter().map(|host| host.host).collect()),
            _ => None,
        }
    }
}

/// With the architecture of a host, which its agent does not know by PVM's name.
fn of_architecture(named: &str, place: &Host) -> String {
    named.replace("$PVM_ARCH", &place.architecture)
}
