//! Tasks that are being started. Where they run on other hosts that takes a while: agents are
//! asked, and parts. The runner does all else meanwhile.
//!
//! A spawn asks for permission, finds the places of its tasks, gives them numbers, asks the parts
//! on other hosts to start theirs, and starts those of this host when all have said that they did.
//! From the moment they have numbers they are tasks, whose ends others can wait for. When one of
//! them cannot be started, all others of the spawn are ended.

mod parts;
mod places;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;

use super::Job;
use super::descriptors;
use super::errands::Errand;
use super::participants;
use super::processes;
use super::program::{self, Program, Role};
use super::running::Running;
pub(super) use places::Opening;

use crate::HostName;
use crate::tasks::error::TaskError;
use crate::tasks::id::{TASKS_MAX, TaskId};
use crate::tasks::message::{OnHost, Place, Spawn, TaskEnd};

/// Those that are started together, all or none.
#[derive(Debug)]
pub(super) struct Spawning {
    key: u64,
    /// The connection over which it was asked for; `None`: the job begins with it.
    client: Option<u64>,
    program: Program,
    on_hosts: Vec<OnHost>,
    parent: Option<TaskId>,
    permission: Permission,
    /// Where those of this host begin, if it is not where the others do.
    directory_here: Option<PathBuf>,
    places: Places,
    /// Their numbers, as soon as they have some.
    roles: Vec<Role>,
    /// What is started on which other host.
    elsewhere: Vec<Elsewhere>,
    /// Why they are not all started.
    failure: Option<TaskError>,
}

/// What is to be known before anything is started. A thread finds it out: the agent, and file
/// systems, answer when they like.
#[derive(Debug)]
enum Permission {
    Given,
    Wanted {
        /// The agent must say that this host may have the program started.
        from: Option<HostName>,
        /// Where this host is to look for it, and where it begins here.
        on_host: Option<OnHost>,
    },
    Asked(Errand<Here>),
}

/// The program and where it begins, on this host; empty: as if nothing was said of it.
#[derive(Debug, Default)]
struct Here {
    path: PathBuf,
    directory: Option<PathBuf>,
}

/// Where they are started.
#[derive(Debug)]
enum Places {
    /// One for each; `None`: here.
    Known(Vec<Option<HostName>>),
    /// On the first of these hosts that has this architecture.
    Sought {
        architecture: String,
        hosts: VecDeque<HostName>,
        count: u32,
    },
}

/// Those of one other host.
#[derive(Debug)]
struct Elsewhere {
    host: HostName,
    roles: Vec<Role>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Unasked,
    Asked,
    Started,
}

/// The tasks of a spawn that have been started: the first of them, and how many.
pub(super) type Spawned = (TaskId, u32);

/// A spawn that is over: over which connection it was asked for, and how it went.
pub(super) type Finished = (Option<u64>, Result<Spawned, TaskError>);

impl Job {
    /// Has the tasks be started with which the job begins.
    pub(super) fn begin_first(&mut self) {
        let options = &self.runner.options;
        if options.count == 0 {
            return;
        }
        let mut words = vec![options.program.clone()];
        words.extend(options.arguments.iter().cloned());
        let program = Program {
            path: PathBuf::new(),
            words,
            environment: options.environment.clone(),
            directory: options.directory.clone(),
            terminal: self.terminal(),
        };
        let places = self.places_in_turn(options.count);
        self.add_spawn(
            None,
            program,
            None,
            Permission::Given,
            Places::Known(places),
            Vec::new(),
        );
    }

    /// Has tasks be started that a client wants, from that host if it is another one. Returns the
    /// answer, if it is known already.
    pub(super) fn begin_spawn(
        &mut self,
        spawn: Spawn,
        from: Option<&HostName>,
        client: u64,
    ) -> Option<Result<Spawned, TaskError>> {
        // Before anything becomes as long as the number says.
        if spawn.count == 0 || spawn.count > TASKS_MAX {
            return Some(Err(TaskError::TooManyTasks { asked: spawn.count }));
        }
        // With the rights of this host. What is started on theirs, a rule there permits this one.
        let asks_hosts = matches!(spawn.place, Place::Architecture(_));
        let places = match self.places(&spawn.place, spawn.count) {
            Ok(places) => places,
            Err(error) => return Some(Err(error)),
        };
        let is_of_others = |from: &&HostName| match &places {
            Places::Known(places) => places.iter().any(|place| place.as_ref() != Some(*from)),
            Places::Sought { .. } => true,
        };
        let asking = from.filter(|from| asks_hosts || is_of_others(from));
        let own = &self.runner.options.host;
        let is_here = matches!(&places, Places::Known(places) if places.contains(&None));
        let mut on_hosts = spawn.on_hosts.iter().filter(|_| is_here);
        let on_host = on_hosts.find(|on| on.host == *own).cloned();
        let permission = match (asking.cloned(), on_host) {
            (None, None) => Permission::Given,
            (from, on_host) => Permission::Wanted { from, on_host },
        };
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
            terminal: self.terminal(),
        };
        self.add_spawn(
            Some(client),
            program,
            Some(spawn.parent),
            permission,
            places,
            spawn.on_hosts,
        );
        let mut spawning = self.spawnings.pop()?;
        let finished = self.advance_one(&mut spawning);
        if finished.is_none() {
            self.spawnings.push(spawning);
        }
        finished
    }

    fn add_spawn(
        &mut self,
        client: Option<u64>,
        program: Program,
        parent: Option<TaskId>,
        permission: Permission,
        places: Places,
        on_hosts: Vec<OnHost>,
    ) {
        self.last_spawn += 1;
        self.spawnings.push(Spawning {
            key: self.last_spawn,
            client,
            program,
            on_hosts,
            parent,
            permission,
            directory_here: None,
            places,
            roles: Vec::new(),
            elsewhere: Vec::new(),
            failure: None,
        });
    }

    /// Goes on with all of them as far as it can, and returns those that are over.
    pub(super) fn advance_spawnings(&mut self) -> Vec<Finished> {
        self.errands.clear();
        self.may_go_on = false;
        self.take_openings();
        let mut finished = Vec::new();
        // What one needs another may have begun: each looks anew.
        for mut spawning in std::mem::take(&mut self.spawnings) {
            match self.advance_one(&mut spawning) {
                Some(result) => finished.push((spawning.client, result)),
                None => self.spawnings.push(spawning),
            }
        }
        finished
    }

    /// `None`: it waits for something.
    fn advance_one(&mut self, spawning: &mut Spawning) -> Option<Result<Spawned, TaskError>> {
        let error = match self.asked_to_end {
            // Those that run have got the signal by which the job ends.
            Some(_) => TaskError::Elsewhere {
                reason: "the job ends".to_owned(),
            },
            None => match self.advance(spawning) {
                Ok(spawned) => return spawned.map(Ok),
                Err(error) => {
                    self.signal_begun(&spawning.roles, Signal::KILL);
                    error
                }
            },
        };
        self.end_waiting(&spawning.roles);
        Some(Err(error))
    }

    fn advance(&mut self, spawning: &mut Spawning) -> Result<Option<Spawned>, TaskError> {
        if let Some(failure) = spawning.failure.take() {
            return Err(failure);
        }
        if !self.is_permitted(spawning)? || !self.has_places(spawning)? {
            return Ok(None);
        }
        if spawning.roles.is_empty() {
            self.give_numbers(spawning)?;
        }
        for index in 0..spawning.elsewhere.len() {
            if spawning.elsewhere[index].progress == Progress::Unasked {
                self.ask_part(spawning, index)?;
            }
        }
        let mut others = spawning.elsewhere.iter();
        if !others.all(|other| other.progress == Progress::Started) {
            return Ok(None);
        }
        self.start_here(spawning)?;
        // As many as places were asked for: at most 512.
        let count = spawning.roles.len() as u32;
        Ok(spawning.roles.first().map(|role| (role.id, count)))
    }

    /// Gives them numbers, one behind the other; from now on they are tasks.
    fn give_numbers(&mut self, spawning: &mut Spawning) -> Result<(), TaskError> {
        let Places::Known(places) = &spawning.places else {
            return Ok(());
        };
        // Before other hosts have any work.
        if places.contains(&None) && spawning.program.path.as_os_str().is_empty() {
            let name = spawning.program.words.first().cloned().unwrap_or_default();
            spawning.program.path = program::find(&name, &self.runner.options.host)?;
        }
        // Fits: far fewer are asked for, or it is refused before.
        let size = places.len() as u32;
        let running = self.tasks.iter().filter(|task| task.end.is_none()).count();
        let here = places.iter().filter(|place| place.is_none()).count();
        let own = &self.runner.options.host;
        let is_here = |task: &&Running| {
            let has_begun_here = task.is_child() && task.part().is_none() && task.host() == own;
            has_begun_here && task.end.is_none()
        };
        let running_here = self.tasks.iter().filter(is_here);
        let running_here: Vec<_> = running_here.map(Running::pid).collect();
        let to_start = here
            + self
                .tasks
                .iter()
                .filter(|task| task.is_waiting_on(own))
                .count();
        participants::provide_for(self.runner.node.pool(), here, &running_here)?;
        // Those of other hosts are clients, too.
        descriptors::provide_for(running + size as usize, to_start, own)?;
        processes::provide_for(to_start, own)?;
        let Some(first) = self.free_indices(size) else {
            return Err(TaskError::TooManyTasks {
                asked: size.saturating_add(u32::try_from(running).unwrap_or(u32::MAX)),
            });
        };
        let (job, parent) = (self.runner.place.job, spawning.parent);
        let roles = (0..size).filter_map(|rank| {
            Some(Role {
                id: job.task(first + rank)?,
                rank,
                size,
                parent,
            })
        });
        spawning.roles = roles.collect();
        for (role, place) in spawning.roles.iter().zip(places) {
            let host = place.as_ref().map(HostName::as_str);
            let host = host.unwrap_or(&self.runner.options.host);
            self.tasks.push(Running::waiting(*role, host));
            let Some(host) = place else { continue };
            let mut others = spawning.elsewhere.iter_mut();
            match others.find(|other| other.host == *host) {
                Some(other) => other.roles.push(*role),
                None => spawning.elsewhere.push(Elsewhere {
                    host: host.clone(),
                    roles: vec![*role],
                    progress: Progress::Unasked,
                }),
            }
        }
        Ok(())
    }

    fn start_here(&mut self, spawning: &Spawning) -> Result<(), TaskError> {
        let host = self.runner.options.host.clone();
        let mut program = spawning.program.clone();
        if let Some(directory) = &spawning.directory_here {
            program.directory = Some(directory.clone());
        }
        if let Some(missing) = program.directory.as_ref().filter(|path| !path.is_dir()) {
            let directory = missing.to_string_lossy().into_owned();
            return Err(TaskError::NoDirectory { host, directory });
        }
        for role in &spawning.roles {
            let waits = |task: &&mut Running| task.is_waiting() && task.end.is_none();
            let Some(task) = self.task(role.id).filter(waits) else {
                continue;
            };
            let input = match (role.rank, role.parent) {
                (0, None) => Stdio::inherit(),
                _ => Stdio::null(),
            };
            task.begin(Running::start(&program, *role, &host, input)?);
        }
        Ok(())
    }

    fn task(&mut self, id: TaskId) -> Option<&mut Running> {
        let mut tasks = self.tasks.iter_mut();
        tasks.find(|task| task.role.id == id && task.end.is_none())
    }

    fn signal_begun(&mut self, roles: &[Role], signal: Signal) {
        for role in roles {
            let task = self.task(role.id).filter(|task| !task.is_waiting());
            if let Some(task) = task {
                task.signal(signal);
            }
        }
    }

    /// Those that nobody has begun to start end by the signal that they were to get.
    fn end_waiting(&mut self, roles: &[Role]) {
        for role in roles {
            let Some(task) = self.task(role.id).filter(|task| task.is_waiting()) else {
                continue;
            };
            let signal = task.signal_to_come().unwrap_or(Signal::TERM);
            task.note_end(TaskEnd {
                task: role.id,
                rank: role.rank,
                code: None,
                signal: Some(signal.as_raw()),
                is_lost: false,
            });
        }
    }
}
