//! Spawning tasks: the runner of the job starts them.

use std::path::{Path, PathBuf};

use super::Task;
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::message::{OnHost, Place, Reply, Request, Spawn};

/// Where tasks are spawned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnPlace {
    /// On the hosts of the job in turn: those of `hythe run --hosts`, else its own.
    #[default]
    Anywhere,
    /// On this host of the job.
    Host(String),
    /// On a host of the job of this architecture, as Rust names it.
    Architecture(String),
    /// Each task on its own host: as many names as tasks. Hosts of the realm that are not the
    /// job's yet become it.
    Each(Vec<String>),
}

/// What to spawn.
#[derive(Clone, Debug)]
pub struct SpawnOptions {
    program: String,
    arguments: Vec<String>,
    count: u32,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    place: SpawnPlace,
    on_hosts: Vec<OnHost>,
}

impl SpawnOptions {
    /// One task of this program: a path, or a name that `PATH` leads to.
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            arguments: Vec::new(),
            count: 1,
            environment: Vec::new(),
            directory: None,
            place: SpawnPlace::Anywhere,
            on_hosts: Vec::new(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// How many tasks; default 1.
    #[must_use]
    pub const fn count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// One more variable of their environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The directory in which they begin; default: that of the job.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// On this host `program` is looked for in these folders first, 16 at most, and tasks begin in
    /// that directory, if one is named. Its own names: `$NAME` is its `HOME`, `USER`, `LOGNAME` or
    /// `PVM_...`, what is relative begins at home. A rule has to permit the path that is found.
    #[must_use]
    pub fn on_host(
        mut self,
        host: &str,
        program: &str,
        folders: &[String],
        directory: Option<&str>,
    ) -> Self {
        self.on_hosts.push(OnHost {
            host: host.to_owned(),
            program: program.to_owned(),
            folders: folders.to_vec(),
            directory: directory.map(str::to_owned),
        });
        self
    }

    /// Where; default: anywhere.
    #[must_use]
    pub fn place(mut self, place: SpawnPlace) -> Self {
        self.place = place;
        self
    }
}

impl Task {
    /// Spawns tasks of this job, all or none. Their standard input is empty, what they print comes
    /// out as that of the others. Their failure does not end the job.
    ///
    /// # Errors
    /// The program is missing, too many tasks: [`TaskError::Runner`] says what its runner says;
    /// [`TaskError::NoSuchPlace`].
    pub fn spawn(&self, options: &SpawnOptions) -> Result<Vec<TaskId>, TaskError> {
        let job = self.id().job_id();
        let request = Request::Spawn(Box::new(Spawn {
            parent: self.id(),
            program: options.program.clone(),
            arguments: options.arguments.clone(),
            count: options.count,
            environment: options.environment.clone(),
            directory: options.directory.clone(),
            place: match &options.place {
                SpawnPlace::Anywhere => Place::Anywhere,
                SpawnPlace::Host(name) => Place::Host(name.clone()),
                SpawnPlace::Architecture(name) => Place::Architecture(name.clone()),
                SpawnPlace::Each(names) => Place::Each(names.clone()),
            },
            on_hosts: options.on_hosts.clone(),
        }));
        if options.count == 0 {
            return Ok(Vec::new());
        }
        let failed = |reason: String| TaskError::Runner {
            job: job.job(),
            reason,
        };
        let reply = self.ends().ask(job, &request)?;
        match reply {
            Some(Reply::Spawned { first, count }) if count == options.count => {
                let indices = first.index()..first.index().saturating_add(count);
                Ok(indices.filter_map(|index| job.task(index)).collect())
            }
            Some(Reply::NoSuchPlace { what, wanted, host }) => Err(TaskError::NoSuchPlace {
                what: what.as_str(),
                wanted,
                host,
            }),
            Some(Reply::Failed { reason }) => Err(failed(reason)),
            Some(other) => Err(failed(format!("an answer that makes no sense: {other:?}"))),
            None => Err(failed("it is gone".to_owned())),
        }
    }
}
