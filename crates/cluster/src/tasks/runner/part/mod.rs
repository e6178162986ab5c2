//! A part of a job on another host than its runner: the parent of the tasks there.
//!
//! The agent of the host starts it when another host's runner wants it and a rule permits it, with
//! the connection to that runner as its standard input. Like the runner it is two processes, each
//! of which ends everything when the other is killed; and it ends everything with that connection,
//! which ends with the runner, with either agent, and with the session of the two hosts.

mod input;
mod output;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hythe_node::Pool;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, getpid, set_child_subreaper};

use super::part_protocol::link::PartLink;
use super::part_protocol::message::{FromPart, Start, ToPart};
use super::program::{self, Program, Role};
use super::running::Running;
use super::{descendants, open_parent};
use input::Input;
use output::pass_on;

use crate::HostName;
use crate::tasks::agent_link;
use crate::tasks::agent_message::AgentRequest;
use crate::tasks::error::TaskError;
use crate::tasks::id::{JobId, TASKS_MAX};

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Of the runner at one look, so that its requests do not keep this part from all else.
const MESSAGES_PER_LOOK: usize = 256;
/// Reads of one stream of a task that has ended: more than a pipe keeps by default, and not
/// without end where others print into it.
const LAST_READS: usize = 8;
/// Why a program is not started: a name in it may be as long as the longest message.
const REASON_BYTES_MAX: usize = 8192;

/// For whom, and where, a part runs.
#[derive(Clone, Debug)]
pub struct PartOptions {
    /// The host of the runner.
    pub from: HostName,
    /// Of which job, as `HOST << 9 | JOB`.
    pub job: u32,
    /// This host.
    pub host: HostName,
    /// The name of the pool that the agent serves, for its tasks.
    pub pool_name: String,
    /// Its parent, which supervises it.
    pub front: u32,
    /// Changes what the runner sets for tasks to what holds on this host.
    pub adapt: fn(&mut Vec<(OsString, OsString)>),
}

/// A part that is to be run.
#[derive(Debug)]
pub struct Part {
    options: PartOptions,
    job: JobId,
    directory: PathBuf,
    front: OwnedFd,
    link: PartLink,
    tasks: Vec<Running>,
    whole_lines: bool,
    input: Input,
    is_ending: bool,
}

impl Part {
    /// `runner` is the connection to it.
    ///
    /// # Errors
    /// The kernel refuses something.
    pub fn new(pool: &Pool, options: PartOptions, runner: OwnedFd) -> Result<Self, TaskError> {
        let system = |action| move |source: io::Error| TaskError::System { action, source };
        let subreaper = set_child_subreaper(Some(getpid())).map_err(io::Error::from);
        subreaper.map_err(system("become a subreaper"))?;
        let front = open_parent(options.front).map_err(io::Error::from);
        let link = PartLink::new(UnixStream::from(runner));
        let unknown = || TaskError::Elsewhere {
            reason: format!("{} is the number of no job", options.job),
        };
        Ok(Self {
            job: JobId::from_number(options.job).ok_or_else(unknown)?,
            options,
            directory: pool.path(),
            front: front.map_err(system("watch the process that supervises this one"))?,
            link: link.map_err(system("read what the runner says"))?,
            tasks: Vec::new(),
            whole_lines: true,
            input: Input::default(),
            is_ending: false,
        })
    }

    /// Runs until the runner ends it, or is gone. Returns how many processes could not be ended.
    pub fn run(mut self) -> usize {
        self.link.say(&FromPart::Here {
            architecture: std::env::consts::ARCH.to_owned(),
        });
        loop {
            self.wait();
            let mut polled = [PollFd::new(&self.front, PollFlags::IN)];
            let is_front_gone = hythe_sys::wait::ready(&mut polled, Duration::ZERO)[0];
            self.link.flush();
            for _ in 0..MESSAGES_PER_LOOK {
                let Some(message) = self.link.next() else {
                    break;
                };
                self.obey(message);
            }
            if is_front_gone || self.link.over.is_some() {
                return descendants::kill_all();
            }
            if self.input.feed(&mut self.link).is_err() {
                self.input.to = None;
            }
            let is_read = self.read_output();
            self.take_ends();
            let all_ended = self.tasks.iter().all(|task| task.end.is_some());
            if self.is_ending && all_ended {
                // What tasks left running may hold their streams open.
                let left_running = descendants::kill_all();
                if is_read && self.read_output() {
                    return self.go(left_running);
                }
            }
        }
    }

    /// Says that it is over, and waits until that is taken.
    fn go(mut self, left_running: usize) -> usize {
        self.link.say(&FromPart::Over {
            left_running: u32::try_from(left_running).unwrap_or(u32::MAX),
        });
        let start = Instant::now();
        while !self.link.is_flushed() && self.link.over.is_none() && start.elapsed() < LAST_WORDS {
            let mut polled = [PollFd::from_borrowed_fd(self.link.as_fd(), PollFlags::OUT)];
            let _ = hythe_sys::wait::poll_or_sleep(&mut polled, LOOK);
            self.link.flush();
        }
        left_running
    }

    fn wait(&self) {
        let running = self.tasks.iter().filter(|task| task.end.is_none());
        // An end is taken when there is room for what was printed before it.
        let running = running.filter(|_| self.link.has_room());
        let mut waited_for: Vec<PollFd<'_>> = running
            .filter_map(|task| task.pidfd.as_ref())
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        waited_for.push(PollFd::new(&self.front, PollFlags::IN));
        let link = self.link.as_fd();
        waited_for.push(PollFd::from_borrowed_fd(link, self.link.wanted(true)));
        if let Some(to) = self
            .input
            .to
            .as_ref()
            .filter(|_| !self.input.pending.is_empty())
        {
            waited_for.push(PollFd::new(to, PollFlags::OUT));
        }
        if self.link.has_room() {
            let printed = self.tasks.iter().flat_map(|task| &task.printed);
            let open = printed.filter_map(|printed| printed.from.as_ref());
            waited_for.extend(open.map(|from| PollFd::new(from, PollFlags::IN)));
        }
        let timeout = match (self.link.has_received(), self.is_ending) {
            (true, _) => Duration::ZERO,
            (false, true) => LOOK,
            (false, false) => LONGEST_WAIT,
        };
        // What it says is found out anew. Refused, it has slept.
        let _ = hythe_sys::wait::poll_or_sleep(&mut waited_for, timeout);
    }

    fn obey(&mut self, message: ToPart) {
        match message {
            ToPart::Start(start) if !self.are_numbers_right(&start) => {
                // It would be taken for tasks of others, or is no runner.
                self.link
                    .give_up("numbers of tasks that it cannot have".to_owned());
            }
            ToPart::Start(start) => {
                let before = self.tasks.len();
                let answer = match self.start(*start) {
                    Ok(program) => FromPart::Started {
                        pids: self.tasks[before..].iter().map(Running::pid).collect(),
                        program: program.to_string_lossy().into_owned(),
                    },
                    Err(error) => {
                        let abandoned = self.tasks.iter().skip(before);
                        abandoned.for_each(|task| task.signal(Signal::KILL));
                        refusal(&error)
                    }
                };
                self.link.say(&answer);
            }
            ToPart::Signal { task, signal } => {
                let found = self.tasks.iter().find(|running| running.role.id == task);
                if let (Some(found), Some(signal)) = (found, Signal::from_named_raw(signal)) {
                    found.signal(signal);
                }
            }
            ToPart::Input(bytes) => {
                if !self.input.take_in(bytes) {
                    self.link.give_up("too much input".to_owned());
                }
            }
            ToPart::End => {
                self.is_ending = true;
                self.tasks.iter().for_each(|task| task.signal(Signal::KILL));
            }
        }
    }

    /// Are these tasks of this job, none of them twice, and not more than there can be?
    fn are_numbers_right(&self, start: &Start) -> bool {
        let mut numbers = BTreeSet::new();
        let mut given = start.tasks.iter().map(|(id, _)| *id);
        let are_own = given.all(|id| id.job_id() == self.job && numbers.insert(id))
            && start
                .parent
                .is_none_or(|parent| parent.job_id() == self.job);
        // Those that were killed have given their numbers back, and may not have ended yet.
        let running = self.tasks.iter().filter(|task| task.end.is_none()).count();
        are_own && running + numbers.len() <= 2 * TASKS_MAX as usize
    }

    /// Starts them all, and returns the program's path.
    fn start(&mut self, start: Start) -> Result<PathBuf, TaskError> {
        let words: Vec<OsString> = start.words.into_iter().map(OsString::from_vec).collect();
        let name = words.first().cloned().unwrap_or_default();
        let host = self.options.host.as_str();
        let on_host = start.on_host.unwrap_or_default();
        let may = |path: &Path| self.ask_permission(&path.to_string_lossy());
        let mut path = match on_host.find(may) {
            Ok(path) => path,
            Err(refused) => {
                self.ask_permission(&name.to_string_lossy())?;
                program::find(&name, host).map_err(|error| refused.unwrap_or(error))?
            }
        };
        let directory = match on_host.directory(host)? {
            Some(directory) => Some(directory),
            None => self.directory_of(start.directory, start.needs_directory)?,
        };
        if let Some(directory) = directory.as_ref().filter(|_| path.is_relative()) {
            path = directory.join(path);
        }
        let given = start.environment.into_iter();
        let given =
            given.map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value)));
        let mut environment: Vec<(OsString, OsString)> = given.collect();
        (self.options.adapt)(&mut environment);
        environment.push(("HYTHE_POOL".into(), self.options.pool_name.clone().into()));
        let program = Program {
            path,
            words,
            environment,
            directory,
        };
        self.whole_lines = start.whole_lines;
        for (id, rank) in start.tasks {
            let role = Role {
                id,
                rank,
                size: start.size,
                parent: start.parent,
            };
            let has_input = start.has_input && rank == 0;
            let input = if has_input {
                Stdio::piped()
            } else {
                Stdio::null()
            };
            let mut task = Running::start(&program, role, host, input)?;
            if has_input {
                self.input.to = task.take_input();
            }
            self.tasks.push(task);
        }
        Ok(program.path)
    }

    /// The rule for this program is asked each time: it may be another than the first.
    fn ask_permission(&self, program: &str) -> Result<(), TaskError> {
        let request = AgentRequest::MaySpawn {
            host: self.options.from.clone(),
            program: program.to_owned(),
        };
        match agent_link::ask(&self.directory, &request)? {
            Some(_) => Ok(()),
            None => Err(TaskError::Agent {
                reason: format!("no agent runs on host {}", self.options.host),
            }),
        }
    }

    /// Where they begin: where the runner is, if there is such a directory here, else at home.
    fn directory_of(
        &self,
        wanted: Option<PathBuf>,
        is_needed: bool,
    ) -> Result<Option<PathBuf>, TaskError> {
        let is_there = |path: &Path| path.is_dir();
        match wanted {
            Some(path) if is_there(&path) => Ok(Some(path)),
            Some(path) if is_needed => Err(TaskError::Program {
                host: self.options.host.to_string(),
                path,
                source: ErrorKind::NotADirectory.into(),
            }),
            _ => Ok(std::env::var_os("HOME").map(PathBuf::from)),
        }
    }

    /// True: there is nothing more to read for now.
    fn read_output(&mut self) -> bool {
        let mut is_dry = true;
        for task in &mut self.tasks {
            for is_error in [false, true] {
                if !self.link.has_room() {
                    return false;
                }
                let read = pass_on(task, is_error, self.whole_lines, &mut self.link);
                is_dry &= read.unwrap_or(0) == 0;
            }
        }
        is_dry
    }

    fn take_ends(&mut self) {
        for task in &mut self.tasks {
            if !self.link.has_room() {
                break;
            }
            if let Ok(Some(end)) = task.take_end() {
                // The runner forgets one that was spawned when it hears of the end.
                for is_error in [false, true] {
                    let reads = (0..LAST_READS)
                        .map_while(|_| pass_on(task, is_error, self.whole_lines, &mut self.link));
                    reads.for_each(drop);
                }
                self.link.say(&FromPart::Ended {
                    task: end.task,
                    code: end.code,
                    signal: end.signal,
                });
            }
        }
        self.tasks
            .retain(|task| task.end.is_none() || task.is_printing());
    }
}

fn refusal(error: &TaskError) -> FromPart {
    let mut reason = error.to_string();
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    FromPart::Failed { reason }
}

#[cfg(test)]
mod tests {
    use super::super::part_protocol::message::INPUT_BYTES_MAX;
    use super::*;
    use crate::tasks::id::TaskId;

    /// Job 1 of host 2.
    const JOB: JobId = JobId::new(2, 1).expect("in range");

    fn part() -> (Part, PartLink) {
        let (here, there) = UnixStream::pair().expect("a pair");
        let host = |name: &str| name.parse().expect("a name");
        let part = Part {
            job: JOB,
            options: PartOptions {
                from: host("a"),
                job: JOB.number(),
                host: host("b"),
                pool_name: "test".to_owned(),
                front: 0,
                adapt: |_| {},
            },
            directory: PathBuf::new(),
            front: here.try_clone().expect("duplicated").into(),
            link: PartLink::new(here).expect("set"),
            tasks: Vec::new(),
            whole_lines: true,
            input: Input::default(),
            is_ending: false,
        };
        (part, PartLink::new(there).expect("set"))
    }

    fn task(script: &str, input: Stdio) -> Running {
        let program = Program {
            path: PathBuf::from("/bin/sh"),
            words: ["sh", "-c", script].map(OsString::from).to_vec(),
            environment: Vec::new(),
            directory: None,
        };
        let role = Role {
            id: "2.1.0".parse().expect("a task"),
            rank: 0,
            size: 1,
            parent: None,
        };
        Running::start(&program, role, "b", input).expect("started")
    }

    #[test]
    fn all_that_a_task_printed_is_said_before_its_end() {
        let (mut part, mut runner) = part();
        let script = "head -c 60000 /dev/zero; printf end; printf aside >&2; exit 4";
        part.tasks.push(task(script, Stdio::null()));
        let (mut out, mut error, mut ended) = (Vec::new(), Vec::new(), None);
        while ended.is_none() {
            std::thread::sleep(Duration::from_millis(1));
            part.take_ends();
            while let Some(message) = runner.next() {
                match message {
                    FromPart::Output {
                        is_error, bytes, ..
                    } => match is_error {
                        true => error.extend(bytes),
                        false => out.extend(bytes),
                    },
                    FromPart::Ended { code, .. } => ended = code,
                    other => panic!("{other:?}"),
                }
            }
            part.link.flush();
        }
        assert_eq!((ended, error), (Some(4), b"aside\n".to_vec()));
        assert_eq!(out.len(), 60_000 + "end\n".len());
        assert!(out.ends_with(b"end\n"));
        assert!(part.tasks.is_empty());
    }

    #[test]
    fn a_refusal_fits_a_message_whatever_was_asked_for() {
        let reason = "ä\u{1}".repeat(30_000);
        let refused = refusal(&TaskError::Elsewhere { reason });
        assert!(crate::frame::encode(&refused, &mut Vec::new()).is_ok());
    }

    #[test]
    fn a_task_that_reads_nothing_holds_nobody_up() {
        let (mut part, _runner) = part();
        let mut task = task("exec sleep 600", Stdio::piped());
        part.input.to = task.take_input();
        // More than its pipe keeps.
        for _ in 0..4 {
            part.obey(ToPart::Input(vec![0; INPUT_BYTES_MAX / 2]));
            part.input.feed(&mut part.link).expect("it is open");
            part.input.pending.truncate(INPUT_BYTES_MAX / 2);
        }
        assert!(!part.input.pending.is_empty());
        task.signal(Signal::KILL);
        while task.take_end().expect("no error").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn input_that_was_not_sent_for_is_too_much() {
        let (mut part, _runner) = part();
        // Nobody writes it anywhere meanwhile.
        let piece = vec![0; INPUT_BYTES_MAX / 2];
        part.obey(ToPart::Input(piece.clone()));
        part.obey(ToPart::Input(piece.clone()));
        assert!(part.link.over.is_none());
        part.obey(ToPart::Input(piece));
        assert!(part.link.over.is_some());
        assert_eq!(part.input.pending.len(), INPUT_BYTES_MAX);
    }

    #[test]
    fn a_runner_that_starts_tasks_of_others_is_given_up() {
        let id = |id: &str| -> TaskId { id.parse().expect("a task") };
        let start = |ids: &[TaskId], parent| {
            ToPart::Start(Box::new(Start {
                tasks: ids.iter().map(|id| (*id, 0)).collect(),
                size: 1,
                parent,
                words: vec![b"true".to_vec()],
                environment: Vec::new(),
                directory: None,
                needs_directory: false,
                on_host: None,
                whole_lines: true,
                has_input: false,
            }))
        };
        // Nobody permits it, which is said.
        let (mut part, mut runner) = part();
        part.obey(start(&[id("2.1.3"), id("2.1.4")], Some(id("2.1.0"))));
        let refused = runner.next();
        assert!(
            matches!(refused, Some(FromPart::Failed { .. })),
            "{refused:?}"
        );
        for lie in [
            // Of another host's job, of one without a host, of another of the same host, twice.
            start(&[id("1.1.0")], None),
            start(&[id("2.1.0"), id("1.0")], None),
            start(&[id("2.2.0")], None),
            start(&[id("2.1.0"), id("2.1.0")], None),
            start(&[id("2.1.0")], Some(id("1.1.0"))),
        ] {
            let (mut part, mut runner) = self::part();
            part.obey(lie.clone());
            assert!(part.link.over.is_some() && part.tasks.is_empty(), "{lie:?}");
            assert!(runner.next::<FromPart>().is_none() && runner.over.is_some());
        }
    }
}
