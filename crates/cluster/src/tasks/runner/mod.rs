//! The runner of a job: starts its tasks, passes on what they print and the signals it gets, takes
//! their ends, and leaves nothing running.
//!
//! It is a process of its own, with one loop on one thread, and a thread that writes. Its tasks are
//! its children, each in a process group of its own, and die with it: it is the thread that calls
//! [`Runner::run`] that they are bound to. It supervises the `hythe run` that started it, and ends
//! all tasks when that is gone; and `hythe run` supervises it ([`Supervised`]).

mod answers;
mod clients;
mod descendants;
mod elsewhere;
#[cfg(test)]
mod fixture;
mod groups;
mod lines;
mod output;
mod part;
mod part_protocol;
mod program;
mod remote;
mod supervised;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hythe_node::{Node, Pool};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_child_subreaper};

use super::error::TaskError;
use super::id::{TASKS_MAX, TaskId};
use super::message::TaskEnd;
use super::place::Place;
use crate::HostName;
use clients::Clients;
use groups::Groups;
use output::Writer;
pub use output::{Output, Stream};
pub use part::{Part, PartOptions};
use program::{Program, Role, Running};
use remote::SharedPart;
pub use supervised::Supervised;

/// How long tasks that were asked to end may take, before they are killed.
const GRACE: Duration = Duration::from_secs(5);
/// How often the loop looks at what it cannot wait for.
const LOOK: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Read at one look, of one stream.
const READ_BYTES: usize = 16 << 10;

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
    /// Take processes in and spawn, also without tasks, until this process is asked to end.
    pub stays: bool,
    /// The name of this host, for errors; where an agent serves the pool, it is that of the realm.
    pub host: String,
    /// Its tasks have no number of a host in front, also where an agent serves the pool; so it
    /// has no tasks on others.
    pub is_local: bool,
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
    _node: Node,
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
        let here = match options.is_local {
            true => None,
            false => elsewhere::here(pool, &options.hosts)?,
        };
        if let Some((name, _)) = &here {
            options.host = name.to_string();
        }
        let place = Place::take(pool, here.map_or(0, |(_, number)| number))?;
        let node = Node::join(pool, &format!("job {}", place.job))?;
        Ok(Self {
            options,
            place,
            directory: pool.path(),
            _node: node,
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
        let mut job = Job {
            runner: self,
            tasks: Vec::new(),
            ends: Vec::new(),
            clients: Clients::default(),
            groups: Groups::default(),
            signals,
            asked_to_end: None,
            is_front_gone: false,
            next_index: 0,
            next_slot: 0,
            parts: Vec::new(),
            input: None,
        };
        let started = job.start();
        let ran = started.and_then(|()| job.run(writer));
        let left_elsewhere = job.left_elsewhere();
        let left_running = descendants::kill_all();
        ran.map(|()| JobEnd {
            tasks: job.ends,
            left_running: left_running + left_elsewhere,
        })
    }
}

/// A job that runs.
struct Job {
    runner: Runner,
    tasks: Vec<Running>,
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
    /// For a first task on another host.
    input: Option<elsewhere::Input>,
}

impl Job {
    fn start(&mut self) -> Result<(), TaskError> {
        let options = &self.runner.options;
        let mut words = vec![options.program.clone()];
        words.extend(options.arguments.iter().cloned());
        let program = Program {
            path: PathBuf::new(),
            words,
            environment: options.environment.clone(),
            directory: None,
        };
        let count = options.count;
        let places = self.places_in_turn(count);
        self.start_all(program, &places, None).map(drop)
    }

    /// So many numbers one behind the other that no task has. Those that the job began with keep
    /// theirs.
    fn free_indices(&mut self, count: u32) -> Option<u32> {
        let mut is_taken = [false; TASKS_MAX as usize];
        let kept = self.tasks.iter();
        for task in kept.filter(|task| task.end.is_none() || task.is_first()) {
            is_taken[task.role.id.index() as usize] = true;
        }
        let is_free = |first: &u32| {
            let range = *first as usize..first.saturating_add(count) as usize;
            let found = is_taken.get(range);
            found.is_some_and(|range| !range.contains(&true))
        };
        let (before, behind) = (0..self.next_index, self.next_index..TASKS_MAX);
        let first = behind.chain(before).find(is_free)?;
        self.next_index = (first + count) % TASKS_MAX;
        Some(first)
    }

    /// Starts a task at each of these places, with numbers one behind the other, or none. Returns
    /// the first of them.
    fn start_all(
        &mut self,
        mut program: Program,
        places: &[Option<HostName>],
        parent: Option<TaskId>,
    ) -> Result<Option<TaskId>, TaskError> {
        let before = self.tasks.len();
        // Fits: far fewer are asked for, or it is refused here.
        let size = places.len() as u32;
        let running = self.tasks.iter().filter(|task| task.end.is_none());
        let too_many = TaskError::TooManyTasks {
            asked: size.saturating_add(u32::try_from(running.count()).unwrap_or(u32::MAX)),
        };
        let Some(first) = self.free_indices(size) else {
            return Err(too_many);
        };
        let job = self.runner.place.job;
        let roles = (0..size).filter_map(|rank| {
            Some(Role {
                id: job.task(first + rank)?,
                rank,
                size,
                parent,
            })
        });
        let roles: Vec<(Role, &Option<HostName>)> = roles.zip(places).collect();
        let started = self.start_here(&mut program, &roles).and_then(|()| {
            let elsewhere = elsewhere::by_host(&roles);
            elsewhere
                .into_iter()
                .try_for_each(|(host, roles)| self.start_elsewhere(&program, &host, &roles))
        });
        if let Err(error) = started {
            self.abandon(before);
            return Err(error);
        }
        // Those of other hosts came last.
        self.tasks[before..].sort_by_key(|task| task.role.rank);
        Ok(self.tasks.get(before).map(|task| task.role.id))
    }

    fn start_here(
        &mut self,
        program: &mut Program,
        roles: &[(Role, &Option<HostName>)],
    ) -> Result<(), TaskError> {
        let host = self.runner.options.host.clone();
        for (role, _) in roles.iter().filter(|(_, place)| place.is_none()) {
            if program.path.as_os_str().is_empty() {
                let name = program.words.first().cloned().unwrap_or_default();
                program.path = program::find(&name, &host)?;
            }
            let input = match (role.rank, role.parent) {
                (0, None) => Stdio::inherit(),
                _ => Stdio::null(),
            };
            self.tasks
                .push(Running::start(program, *role, &host, input)?);
        }
        Ok(())
    }

    /// Kills those that were started before one could not be. They keep their numbers.
    fn abandon(&mut self, first: usize) {
        let abandoned = self.tasks.iter().skip(first);
        abandoned.for_each(|task| task.signal(Signal::KILL));
    }

    /// Until all tasks have ended, and all that they printed is written.
    fn run(&mut self, mut writer: Writer) -> Result<(), TaskError> {
        let mut last_look: Option<Instant> = None;
        loop {
            let is_ready = writer.is_ready();
            let has_parts = !self.are_parts_done(last_look);
            let is_last_look = last_look.is_some();
            if !is_last_look || !is_ready || has_parts {
                self.wait(is_ready, is_last_look);
            }
            self.look_at_front();
            self.pass_on_signals();
            self.clients.accept(&self.runner.place.listener);
            self.answer_clients();
            let is_read =
                !is_ready || (self.read_output(&mut writer) & self.hear_parts(&mut writer));
            self.feed_input();
            self.take_ends()?;
            self.kill_late_ones();
            if self.is_front_gone || writer.is_broken() {
                break;
            }
            if is_last_look && is_ready && is_read && self.are_parts_done(last_look) {
                break;
            }
            self.forget_ended();
            if !is_last_look && self.is_over() {
                self.end_parts();
                // What they left running may hold their streams open.
                descendants::kill_all();
                last_look = Some(Instant::now());
            }
        }
        if self.is_front_gone {
            // Nobody may read any more: what waits to be written is left.
            return Ok(());
        }
        writer.finish().map_err(|source| TaskError::System {
            action: "write what tasks print",
            source,
        })
    }

    /// Who has enrolled does not hold the job up: that is no process of it.
    fn is_over(&self) -> bool {
        let mut children = self.tasks.iter().filter(|task| task.is_child());
        let has_ended = children.all(|task| task.end.is_some());
        has_ended && (!self.runner.options.stays || self.asked_to_end.is_some())
    }

    /// Tasks that came later and of which all is known and written.
    fn forget_ended(&mut self) {
        self.tasks
            .retain(|task| task.end.is_none() || task.is_first() || task.is_printing());
    }

    fn wait(&self, for_output: bool, is_last_look: bool) {
        let unfinished = self.tasks.iter().filter(|task| task.end.is_none());
        let mut waited_for: Vec<PollFd<'_>> = unfinished
            .filter_map(|task| task.pidfd.as_ref())
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        let parts: Vec<_> = self.parts.iter().map(|part| part.borrow()).collect();
        // One that is over would be ready for ever.
        let open = parts.iter().filter(|part| part.link.over.is_none());
        let wanted = open.map(|part| (part, part.link.wanted(for_output)));
        let wanted = wanted.filter(|(_, wanted)| !wanted.is_empty());
        waited_for.extend(
            wanted.map(|(part, wanted)| PollFd::from_borrowed_fd(part.link.as_fd(), wanted)),
        );
        let stdin = io::stdin();
        if self.input.as_ref().is_some_and(elsewhere::Input::takes) {
            waited_for.push(PollFd::new(&stdin, PollFlags::IN));
        }
        waited_for.push(PollFd::new(&self.signals, PollFlags::IN));
        let listener = self.runner.place.listener.as_fd();
        waited_for.push(PollFd::from_borrowed_fd(listener, PollFlags::IN));
        let front = self.runner.front.iter();
        waited_for.extend(front.map(|front| PollFd::new(front, PollFlags::IN)));
        waited_for.extend(self.clients.poll_fds());
        let timeout = match (for_output, self.asked_to_end) {
            (true, None) => LONGEST_WAIT,
            (true, Some(since)) => GRACE.saturating_sub(since.elapsed()).max(LOOK),
            (false, _) => LOOK,
        };
        let has_news = for_output && parts.iter().any(|part| part.has_news());
        let timeout = match (has_news, is_last_look) {
            // Each look takes some of it in.
            (true, _) => Duration::ZERO,
            (false, true) => timeout.min(LOOK),
            (false, false) => timeout,
        };
        if for_output {
            let printed = self.tasks.iter().flat_map(|task| &task.printed);
            let open = printed.filter_map(|printed| printed.from.as_ref());
            waited_for.extend(open.map(|from| PollFd::new(from, PollFlags::IN)));
        }
        // What it says is found out anew. Refused, it has slept.
        let _ = hythe_sys::wait::poll_or_sleep(&mut waited_for, timeout);
    }

    fn look_at_front(&mut self) {
        if let Some(front) = &self.runner.front {
            let mut polled = [PollFd::new(front, PollFlags::IN)];
            self.is_front_gone = hythe_sys::wait::ready(&mut polled, Duration::ZERO)[0];
        }
    }

    /// A second request to end kills.
    fn pass_on_signals(&mut self) {
        let mut numbers = [0; 16];
        let read = rustix::io::read(&self.signals, &mut numbers).unwrap_or(0);
        for number in &numbers[..read] {
            let Some(signal) = Signal::from_named_raw(i32::from(*number)) else {
                continue;
            };
            let asks_to_end = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
            let signal = match asks_to_end.contains(&signal) {
                true if self.asked_to_end.is_some() => Signal::KILL,
                true => {
                    self.asked_to_end = Some(Instant::now());
                    signal
                }
                false => signal,
            };
            self.signal_children(signal);
        }
    }

    fn signal_children(&self, signal: Signal) {
        let children = self.tasks.iter().filter(|task| task.is_child());
        children.for_each(|task| task.signal(signal));
    }

    fn ask_to_end(&mut self, signal: Signal) {
        self.asked_to_end = Some(Instant::now());
        self.signal_children(signal);
        // One that is stopped takes it only then.
        self.signal_children(Signal::CONT);
    }

    /// True: there is nothing more to read for now.
    fn read_output(&mut self, writer: &mut Writer) -> bool {
        let is_cut = self.runner.options.whole_lines;
        let mut bytes = [0; READ_BYTES];
        let mut is_dry = true;
        for task in &mut self.tasks {
            for (stream, printed) in [Stream::Out, Stream::Error]
                .into_iter()
                .zip(&mut task.printed)
            {
                let Some((lines, read)) = printed.read(&mut bytes, is_cut) else {
                    continue;
                };
                is_dry &= read == 0;
                let output = Output {
                    rank: task.role.rank,
                    stream,
                    bytes: lines,
                };
                if !output.bytes.is_empty() && !writer.push(output) {
                    return false;
                }
            }
        }
        is_dry
    }

    fn take_ends(&mut self) -> Result<(), TaskError> {
        let (mut has_failed, mut met) = (false, Vec::new());
        for task in &mut self.tasks {
            let taken = task.take_end().map_err(|source| TaskError::System {
                action: "wait for a task",
                source,
            })?;
            if let Some(end) = taken {
                tracing::debug!(task = %end.task, code = end.exit_code(), "a task has ended");
                self.clients.tell_end(end.task);
                met.extend(self.groups.forget(end.task));
                if task.is_first() {
                    has_failed |= end.exit_code() != 0;
                    self.ends.push(end);
                }
            }
        }
        self.tell_met(met);
        let goes_on = self.runner.options.keeps_going || self.runner.options.stays;
        if has_failed && !goes_on && self.asked_to_end.is_none() {
            self.ask_to_end(Signal::TERM);
        }
        Ok(())
    }

    fn kill_late_ones(&self) {
        if self
            .asked_to_end
            .is_some_and(|since| since.elapsed() >= GRACE)
        {
            self.signal_children(Signal::KILL);
        }
    }
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
