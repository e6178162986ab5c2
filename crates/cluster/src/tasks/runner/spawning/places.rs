//! Where tasks are started: whether that is permitted, and the parts on other hosts. Never waits:
//! an errand asks the agent.

use std::ffi::OsString;

use super::super::Job;
use super::super::elsewhere::ask_permission;
use super::super::errands::Errand;
use super::super::program;
use super::super::remote::{RemotePart, SharedPart};
use super::{Here, Permission, Places, Spawning};
use crate::HostName;
use crate::tasks::error::TaskError;
use crate::tasks::message::{OnHost, Place};

/// Other hosts of a job: as many as an agent takes.
const HOSTS_MAX: usize = 256;
/// Of what is begun for no spawn: they are counted from 1 on.
const NO_SPAWN: u64 = 0;

/// A part that is begun on another host.
#[derive(Debug)]
pub(in crate::tasks::runner) struct Opening {
    host: HostName,
    /// For whose program; [`NO_SPAWN`]: to permit more.
    spawn: u64,
    part: Errand<RemotePart>,
}

impl Job {
    /// Where tasks are to be started that were asked for so. An error: there is no such place.
    pub(super) fn places(&mut self, place: &Place, count: u32) -> Result<Places, TaskError> {
        let own = &self.runner.options.host;
        let here = |place: Option<HostName>| Ok(Places::Known(vec![place; count as usize]));
        match place {
            Place::Anywhere => Ok(Places::Known(self.places_in_turn(count))),
            Place::Host(name) if name == own => here(None),
            Place::Host(name) => {
                let found = self.others().find(|host| host.as_str() == name).cloned();
                match found {
                    Some(host) => here(Some(host)),
                    None => Err(self.no_such_place("host", name)),
                }
            }
            Place::Each(names) if names.len() == count as usize => {
                // Who may have it started there is asked before it is.
                let place = |name: &String| match name == own {
                    true => Ok(None),
                    false => match name.parse() {
                        Ok(host) => Ok(Some(host)),
                        Err(_) => Err(self.no_such_place("host", name)),
                    },
                };
                let places: Result<_, TaskError> = names.iter().map(place).collect();
                places.map(Places::Known)
            }
            Place::Each(names) => {
                Err(self.no_such_place("host", names.last().map_or("", String::as_str)))
            }
            Place::Architecture(name) if name == std::env::consts::ARCH => here(None),
            Place::Architecture(name) => Ok(Places::Sought {
                architecture: name.clone(),
                hosts: self.others().cloned().collect(),
                count,
            }),
        }
    }

    fn no_such_place(&self, what: &'static str, wanted: &str) -> TaskError {
        TaskError::NoSuchPlace {
            what,
            wanted: wanted.to_owned(),
            host: self.runner.options.host.clone(),
        }
    }

    pub(super) fn is_permitted(&self, spawning: &mut Spawning) -> Result<bool, TaskError> {
        if let Permission::Wanted { from, on_host } = &spawning.permission {
            let directory = self.runner.directory.clone();
            let (from, on_host) = (from.clone(), on_host.clone());
            let (name, host) = (spawning.program.name(), self.runner.options.host.clone());
            let may = move |program: &str| match &from {
                Some(from) => ask_permission(&directory, from.clone(), program.to_owned()),
                None => Ok(()),
            };
            let asked = self
                .errands
                .start(move || look_here(on_host, &name, &host, may))?;
            if let Some(errand) = asked {
                spawning.permission = Permission::Asked(errand);
            }
        }
        if let Permission::Asked(errand) = &spawning.permission {
            let Some(result) = errand.result() else {
                return Ok(false);
            };
            let Here { path, directory } = result?;
            (spawning.program.path, spawning.directory_here) = (path, directory);
            spawning.permission = Permission::Given;
        }
        Ok(matches!(spawning.permission, Permission::Given))
    }

    pub(super) fn has_places(&mut self, spawning: &mut Spawning) -> Result<bool, TaskError> {
        let name = spawning.program.name();
        while let Places::Sought {
            architecture,
            hosts,
            count,
        } = &mut spawning.places
        {
            let Some(host) = hosts.front().cloned() else {
                return Err(self.no_such_place("architecture", architecture));
            };
            // What they are is known when there is a part.
            let Some(part) = self.part(&host, spawning.key, &name)? else {
                return Ok(false);
            };
            hosts.pop_front();
            if part.borrow().architecture == *architecture {
                spawning.places = Places::Known(vec![Some(host); *count as usize]);
            }
        }
        Ok(true)
    }

    /// The part on a host. `None`: it is being begun.
    pub(super) fn part(
        &mut self,
        host: &HostName,
        spawn: u64,
        program: &str,
    ) -> Result<Option<SharedPart>, TaskError> {
        self.add_host(host)?;
        self.widen_parts()?;
        // Who starts there may send to all at once.
        if self
            .openings
            .iter()
            .any(|opening| opening.spawn == NO_SPAWN)
        {
            return Ok(None);
        }
        let found = self.parts.iter().find(|part| {
            let part = part.borrow();
            part.host == *host && part.link.over.is_none()
        });
        if let Some(part) = found {
            return Ok(Some(SharedPart::clone(part)));
        }
        if !self.openings.iter().any(|opening| opening.host == *host) {
            self.open_part(host, spawn, program)?;
        }
        Ok(None)
    }

    /// False: too much is asked at a time.
    fn open_part(&mut self, host: &HostName, spawn: u64, program: &str) -> Result<bool, TaskError> {
        let (directory, job) = (self.runner.directory.clone(), self.runner.place.job);
        let hosts: Vec<HostName> = self.others().cloned().collect();
        let (on, program) = (host.clone(), program.to_owned());
        let opened = move || RemotePart::open(&directory, &on, job, &program, &hosts);
        let Some(part) = self.errands.start(opened)? else {
            return Ok(false);
        };
        self.openings.push(Opening {
            host: host.clone(),
            spawn,
            part,
        });
        Ok(true)
    }

    /// Takes a host into the job.
    fn add_host(&mut self, host: &HostName) -> Result<(), TaskError> {
        if self.others().any(|known| known == host) {
            return Ok(());
        }
        if self.others().count() >= HOSTS_MAX {
            return Err(TaskError::Elsewhere {
                reason: format!("host {host}: a job has {HOSTS_MAX} other hosts at most"),
            });
        }
        self.added_hosts.push(host.clone());
        Ok(())
    }

    /// Hosts with a part let those that came since reach their tasks: over one part more, since a
    /// part says what it permits when it begins.
    fn widen_parts(&mut self) -> Result<(), TaskError> {
        let known = self.others().count();
        for part in self.parts.clone() {
            let (host, program) = {
                let part = part.borrow();
                if part.link.over.is_some() || part.hosts_known >= known {
                    continue;
                }
                (part.host.clone(), part.program.clone())
            };
            let is_widened = |other: &SharedPart| {
                let other = other.borrow();
                other.host == host && other.hosts_known >= known && other.link.over.is_none()
            };
            let is_done = self.parts.iter().any(is_widened);
            if is_done || self.open_part(&host, NO_SPAWN, &program)? {
                // Once: what it refuses now, it would refuse again.
                part.borrow_mut().hosts_known = known;
            }
        }
        Ok(())
    }

    /// Takes in parts that are there. Where one is not, it was for that program: others ask anew.
    pub(super) fn take_openings(&mut self) {
        for opening in std::mem::take(&mut self.openings) {
            match opening.part.result() {
                None => self.openings.push(opening),
                Some(Ok(part)) => self.parts.push(part.shared()),
                Some(Err(error)) => self.fail(opening.spawn, error),
            }
        }
    }
}

/// May the program be started here, and where is it? As a part on another host finds it.
fn look_here(
    on_host: Option<OnHost>,
    name: &str,
    host: &str,
    may: impl Fn(&str) -> Result<(), TaskError>,
) -> Result<Here, TaskError> {
    let Some(on_host) = on_host else {
        return may(name).map(|()| Here::default());
    };
    let found = on_host.find(|path| may(&path.to_string_lossy()));
    may(name)?;
    let path = match found {
        Ok(path) => path,
        Err(refused) => {
            let usual = program::find(&OsString::from(name), host);
            usual.map_err(|error| refused.unwrap_or(error))?
        }
    };
    let directory = on_host.directory(host)?;
    Ok(Here { path, directory })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{Sender, channel};

    use super::super::super::fixture::{self, Asking, look};
    use super::super::super::part_protocol::message::ToPart;
    use super::*;
    use crate::tasks::agent_message::{AGENT_SOCKET, AgentReply, AgentRequest};
    use crate::tasks::message::{Reply, Request, Spawn};
    use hythe_testing::{Polling, eventually_some};

    fn spawn(job: &Job, count: u32, place: Place) -> Spawn {
        Spawn {
            count,
            place,
            ..fixture::spawn(job, "true")
        }
    }

    #[test]
    fn number_of_tasks_is_refused_before_there_is_a_place_for_each() {
        let (_root, mut job) = fixture::job();
        let refused = job.begin_spawn(spawn(&job, u32::MAX, Place::Anywhere), None, 1);
        let Some(Err(TaskError::TooManyTasks { asked })) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(asked, u32::MAX);
        let none = job.begin_spawn(spawn(&job, 0, Place::Anywhere), None, 1);
        assert!(matches!(none, Some(Err(_))), "{none:?}");
    }

    #[test]
    fn spawn_asks_rule_before_searching_other_hosts() {
        let (_root, mut job) = fixture::job();
        let from: HostName = "b".parse().expect("a name");
        let of_none = || Place::Architecture("none".to_owned());
        let own = job.begin_spawn(spawn(&job, 1, of_none()), None, 1);
        let refused = matches!(own, Some(Err(TaskError::NoSuchPlace { .. })));
        assert!(refused, "{own:?}");
        // No agent knows a rule.
        let asked = job.begin_spawn(spawn(&job, 1, of_none()), Some(&from), 1);
        let refused = asked.unwrap_or_else(|| {
            eventually_some("an answer", || {
                job.advance_spawnings().pop().map(|(_, refused)| refused)
            })
        });
        assert!(matches!(refused, Err(TaskError::NoAgent)), "{refused:?}");
    }

    /// An agent that answers so many requests as soon as it is let, and permits these programs.
    fn agent(job: &Job, requests: usize, permitted: Vec<String>) -> Sender<()> {
        let path = job.runner.directory.join(AGENT_SOCKET);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(path).expect("bound");
        let (let_it, is_let) = channel();
        std::thread::spawn(move || {
            // Not let: the test has failed.
            is_let.recv().ok()?;
            for stream in listener.incoming().take(requests) {
                let mut stream = stream.ok()?;
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).ok()?;
                let reply = match serde_json::from_str(&line).ok()? {
                    AgentRequest::MaySpawn { program, .. } if permitted.contains(&program) => {
                        AgentReply::Permitted
                    }
                    asked => AgentReply::Refused {
                        reason: format!("no rule: {asked:?}"),
                    },
                };
                let reply = serde_json::to_string(&reply).ok()?;
                stream.write_all(format!("{reply}\n").as_bytes()).ok()?;
            }
            Some(())
        });
        let_it
    }

    /// What a spawn on the job's own host becomes when the agent permits these programs: where it
    /// is, and where it begins.
    fn looked_here(
        on_host: &OnHost,
        requests: usize,
        permitted: &[&str],
    ) -> Result<(PathBuf, Option<PathBuf>), TaskError> {
        let (_root, mut job) = fixture::job();
        let permitted = permitted.iter().map(|program| (*program).to_owned());
        let let_it = agent(&job, requests, permitted.collect());
        let spawn = Spawn {
            on_hosts: vec![on_host.clone()],
            ..fixture::spawn(&job, &on_host.program)
        };
        let from: HostName = "b".parse().expect("a name");
        // Nobody has said anything yet: the runner goes on.
        assert!(job.begin_spawn(spawn, Some(&from), 1).is_none());
        let_it.send(()).expect("it waits");
        let mut spawning = job.spawnings.pop().expect("begun");
        let mut polling = Polling::new("an answer");
        while !job.is_permitted(&mut spawning)? {
            polling.pause();
        }
        Ok((spawning.program.path, spawning.directory_here))
    }

    #[test]
    fn first_host_skips_folder_that_no_rule_permits() {
        let root = tempfile::tempdir().expect("a folder");
        let worker = |folder: &str| {
            let folder = root.path().join(folder);
            std::fs::create_dir(&folder).expect("made");
            let path = folder.join("hythe-test-worker");
            std::os::unix::fs::symlink("/bin/sh", &path).expect("linked");
            path.to_str().expect("text").to_owned()
        };
        let [closed, open] = ["closed", "open"].map(worker);
        let folder = |path: &str| {
            let folder = Path::new(path).parent().expect("has one");
            folder.to_str().expect("text").to_owned()
        };
        let mut on_host = OnHost {
            host: "a".to_owned(),
            program: "hythe-test-worker".to_owned(),
            folders: [&closed, &open].map(|path| folder(path)).to_vec(),
            directory: Some("/".to_owned()),
        };
        let (path, directory) = looked_here(&on_host, 3, &[&open, "hythe-test-worker"])
            .expect("the second may be used");
        assert_eq!(path, Path::new(&open));
        assert_eq!(directory.as_deref(), Some(Path::new("/")));
        // The rule for its name is one besides.
        let refused = looked_here(&on_host, 3, &[&open]).expect_err("not by this name");
        assert!(!refused.to_string().contains("/open/"), "{refused}");
        // Who may not is not told whether it is there, and there is no other.
        let refused = looked_here(&on_host, 3, &["hythe-test-worker"]).expect_err("neither");
        assert!(refused.to_string().contains("/closed/"), "{refused}");
        on_host.directory = Some("/nowhere".to_owned());
        let refused = looked_here(&on_host, 3, &[&open, "hythe-test-worker"]);
        assert!(
            matches!(refused, Err(TaskError::NoDirectory { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn first_host_of_an_architecture_gets_them() {
        let (_root, mut job) = fixture::job();
        let mut parts = Vec::new();
        for (host, architecture) in [("b", "pdp11"), ("c", "vax"), ("d", "vax")] {
            let (part, there) = fixture::part(host);
            architecture.clone_into(&mut part.borrow_mut().architecture);
            fixture::add(&mut job, &part);
            parts.push(there);
        }
        let mut asking = Asking::connect(&mut job);
        let wanted = Place::Architecture("vax".to_owned());
        let wanted = spawn(&job, 2, wanted);
        asking.say(&Request::Spawn(Box::new(wanted)));
        look(&mut job);
        assert!(parts[0].next::<ToPart>().is_none());
        fixture::start(&mut parts[1], &[4, 5]);
        look(&mut job);
        let reply = asking.reply();
        assert!(
            matches!(reply, Reply::Spawned { count: 2, .. }),
            "{reply:?}"
        );
        assert!(job.tasks.iter().all(|task| task.info().host == "c"));
    }
}
