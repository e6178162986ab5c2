//! The runner of a job: starts its tasks, passes on what they print and the signals it gets, takes
//! their ends, and leaves nothing running.
//!
//! It is a process of its own, with one loop on one thread (`job`), a thread that writes, and
//! threads that ask the agent. Its tasks are
//! its children, each in a process group of its own, and die with it: it is the thread that calls
//! [`Runner::run`] that they are bound to. It supervises the `hythe run` that started it, and ends
//! all tasks when that is gone; and `hythe run` supervises it ([`Supervised`]).

mod answers;
mod clients;
mod descendants;
mod descriptors;
mod elsewhere;
mod errands;
#[cfg(test)]
mod fixture;
mod groups;
mod input;
mod job;
mod lines;
mod on_host;
mod output;
mod part;
mod part_protocol;
mod participants;
mod printed;
mod processes;
mod program;
mod remote;
mod running;
mod spawning;
mod supervised;
mod terminal;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use hythe_node::{Node, Pool};
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open, set_child_subreaper};

use super::error::TaskError;
use super::id::{TASKS_MAX, TaskId};
use super::message::TaskEnd;
use super::place::Place;
use crate::HostName;
use clients::Clients;
use errands::Errands;
use groups::Groups;
use input::Input;
use output::Writer;
pub use output::{Output, Stream};
pub use part::{Part, PartOptions};
use remote::SharedPart;
use running::Running;
use spawning::{Opening, Spawning};
pub use supervised::Supervised;

/// What to run.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// As it is named to it.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How many tasks.
    pub count: u32,
    /// Set for the tasks, beside what the runner has.
    pub environment: Vec<(OsString, OsString)>,
    /// Go on with the others when a task fails.
    pub keeps_going: bool,
    /// Pass on what they print in whole lines; else as it comes.
    pub whole_lines: bool,
    /// Their standard output is a pseudoterminal each; else, and where there is none, a pipe.
    pub has_terminal: bool,
    /// Where they begin; `None`: where the runner is.
    pub directory: Option<PathBuf>,
    /// Take processes in and spawn, also without tasks, until this process is asked to end.
    pub stays: bool,
    /// The name of this host, for errors; where an agent serves the pool, it is that of the realm.
    pub host: String,
    /// The hosts on which tasks are started, in turn; none: on this one.
    pub hosts: Vec<JobHost>,
}

/// A host of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobHost {
    /// Its name in the realm.
    pub name: HostName,
    /// How many tasks it gets before the next one does.
    pub slots: u32,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// The tasks that it began with, in the order in which they ended.
    pub tasks: Vec<TaskEnd>,
    /// Processes that could not be ended.
    pub left_running: usize,
}

impl JobEnd {
    /// That of the first task that failed; 0: all went well.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let mut codes = self.tasks.iter().map(TaskEnd::exit_code);
        codes.find(|code| *code != 0).unwrap_or(0)
    }
}

/// A job that is to be run.
#[derive(Debug)]
pub struct Runner {
    options: JobOptions,
    place: Place,
    /// Of the pool.
    directory: PathBuf,
    /// So that the pool is seen to be in use.
    node: Node,
    /// Of the process for which the job runs.
    front: Option<OwnedFd>,
}

impl Runner {
    /// Takes a number for the job. `front` is the parent of this process, for which the job runs:
    /// its end is the job's.
    ///
    /// # Errors
    /// No number is free; too many tasks; the pool.
    pub fn new(
        pool: &Pool,
        mut options: JobOptions,
        front: Option<u32>,
    ) -> Result<Self, TaskError> {
        if options.count > TASKS_MAX {
            return Err(TaskError::TooManyTasks {
                asked: options.count,
            });
        }
        let system = |action| {
            move |error: rustix::io::Errno| TaskError::System {
                action,
                source: error.into(),
            }
        };
        set_child_subreaper(Some(getpid())).map_err(system("become a subreaper"))?;
        let front = front.map(open_parent).transpose();
        let front = front.map_err(system("watch the process that wants the job"))?;
        let here = elsewhere::here(pool, &elsewhere::others(&options))?;
        if let Some((name, _)) = &here {
            options.host = name.to_string();
        }
        elsewhere::name_this_host(&mut options, here.as_ref().map(|(name, _)| name));
        let place = Place::take(pool, here.map_or(0, |(_, number)| number))?;
        let node = Node::join(pool, &format!("job {}", place.job))?;
        Ok(Self {
            options,
            place,
            directory: pool.path(),
            node,
            front,
        })
    }

    /// The job's number.
    #[must_use]
    pub const fn job(&self) -> u32 {
        self.place.job.job()
    }

    /// Runs the job to its end. `signals` brings numbers of signals, a byte each, that are to be
    /// passed on; `write` is called with what tasks print, on a thread of its own.
    ///
    /// # Errors
    /// A program cannot be started: none runs then. What is printed cannot be written; a signal of
    /// the broken pipe is no error of the tasks.
    pub fn run(
        self,
        signals: UnixStream,
        write: impl FnMut(&Output) -> io::Result<()> + Send + 'static,
    ) -> Result<JobEnd, TaskError> {
        let writer = Writer::start(Box::new(write))?;
        let system = |source| TaskError::System {
            action: "read signals",
            source,
        };
        signals.set_nonblocking(true).map_err(system)?;
        let mut job = Job::new(self, signals)?;
        let ran = job.run(writer);
        let left_elsewhere = job.left_elsewhere();
        let left_running = descendants::kill_all();
        ran.map(|()| JobEnd {
            tasks: job.ends,
            left_running: left_running + left_elsewhere,
        })
    }
}

/// A job that runs.
#[derive(Debug)]
struct Job {
    runner: Runner,
    tasks: Vec<Running>,
    /// Hosts of tasks that are forgotten: of each number the last, so that they are as many as
    /// there are numbers at most.
    places_of_ended: BTreeMap<TaskId, String>,
    ends: Vec<TaskEnd>,
    clients: Clients,
    groups: Groups,
    signals: UnixStream,
    /// Since when tasks have been asked to end.
    asked_to_end: Option<Instant>,
    is_front_gone: bool,
    /// Where the next number is looked for: each comes again as late as it can.
    next_index: u32,
    /// Which of the slots of all hosts the next task gets.
    next_slot: u32,
    /// On other hosts.
    parts: Vec<SharedPart>,
    /// Other hosts than those of the options, taken in since.
    added_hosts: Vec<HostName>,
    /// For a first task on another host.
    input: Option<Input>,
    /// What is being started.
    spawnings: Vec<Spawning>,
    /// One of them may go on, and nothing that is waited for shows it.
    may_go_on: bool,
    /// The key of the last of them.
    last_spawn: u64,
    /// Parts that are being begun.
    openings: Vec<Opening>,
    errands: Errands,
}

/// Refused if that process is not the parent: it has ended, or never was.
fn open_parent(front: u32) -> rustix::io::Result<OwnedFd> {
    let gone = rustix::io::Errno::SRCH;
    let front = i32::try_from(front)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(gone)?;
    let opened = pidfd_open(front, PidfdFlags::empty())?;
    // Looked at afterwards: until here the number was its own.
    match getppid() == Some(front) {
        true => Ok(opened),
        false => Err(gone),
    }
}
