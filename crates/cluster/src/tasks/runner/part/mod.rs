//! A part of a job on another host than its runner: the parent of the tasks there.
//!
//! The agent of the host starts it when another host's runner wants it and a rule permits it, with
//! the connection to that runner as its standard input. Like the runner it is two processes, each
//! of which ends everything when the other is killed; and it ends everything with that connection,
//! which ends with the runner, with either agent, and with the session of the two hosts.

mod input;
mod output;
mod starting;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hythe_node::Pool;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, getpid, set_child_subreaper};

use super::part_protocol::link::PartLink;
use super::part_protocol::message::{FromPart, Start, ToPart};
use super::program::{Program, Role};
use super::running::Running;
use super::{descendants, descriptors, open_parent, participants, processes};
use input::Input;
use output::pass_on;
use starting::{Found, Starts, Wanted};

use crate::HostName;
use crate::tasks::error::TaskError;
use crate::tasks::id::{JobId, TASKS_MAX};

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Of the runner at one look, so that its requests do not keep this part from all else.
const MESSAGES_PER_LOOK: usize = 256;
/// Reads of one stream of a task that has ended: more than a pipe keeps by default, or a
/// pseudoterminal, of which one brings 4 KiB at most; and not without end where others print into
/// it.
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
    /// None in tests.
    pool: Option<Pool>,
    /// Of the pool.
    directory: PathBuf,
    front: OwnedFd,
    link: PartLink,
    tasks: Vec<Running>,
    starts: Starts,
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
            pool: Some(pool.clone()),
            directory: pool.path(),
            starts: Starts::new()?,
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
            self.go_on_starting();
            self.feed_input();
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
        let running = running.filter(|_| self.may_print());
        let mut waited_for: Vec<PollFd<'_>> = running
            .filter_map(|task| task.pidfd.as_ref())
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        waited_for.push(PollFd::new(&self.front, PollFlags::IN));
        let link = self.link.as_fd();
        waited_for.push(PollFd::from_borrowed_fd(link, self.link.wanted(true)));
        waited_for.push(PollFd::from_borrowed_fd(self.starts.as_fd(), PollFlags::IN));
        if let Some(to) = self
            .input
            .to
            .as_ref()
            .filter(|_| !self.input.pending.is_empty())
        {
            waited_for.push(PollFd::new(to, PollFlags::OUT));
        }
        if self.may_print() {
            let printed = self.tasks.iter().flat_map(|task| &task.printed);
            let open = printed.filter_map(|printed| printed.from.as_ref());
            waited_for.extend(open.map(|from| PollFd::new(from, PollFlags::IN)));
        }
        let timeout = match (self.link.has_received(), self.is_ending) {
            (true, _) => Duration::ZERO,
            (false, true) => LOOK,
            (false, false) => LONGEST_WAIT,
        };
        let left = self.starts.left().map(|left| left.max(LOOK));
        let timeout = left.map_or(timeout, |left| timeout.min(left));
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
            ToPart::Start(start) => self.starts.push(*start),
            ToPart::Signal { task, signal } => {
                let Some(signal) = Signal::from_named_raw(signal) else {
                    return;
                };
                if !self.starts.signal(task, signal) {
                    let found = self.tasks.iter().find(|running| running.role.id == task);
                    let _ = found.map(|found| found.signal(signal));
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

    /// Are these tasks of this job, some, none of them twice, and not more than there can be?
    fn are_numbers_right(&self, start: &Start) -> bool {
        let mut numbers = BTreeSet::new();
        let mut given = start.tasks.iter().map(|(id, _)| *id);
        let are_own = given.all(|id| id.job_id() == self.job && numbers.insert(id))
            && start
                .parent
                .is_none_or(|parent| parent.job_id() == self.job);
        // Those that were killed have given their numbers back, and may not have ended yet.
        let running = self.tasks.iter().filter(|task| task.end.is_none()).count();
        let all = running + self.starts.count() + numbers.len();
        are_own && !numbers.is_empty() && all <= 2 * TASKS_MAX as usize
    }

    /// Starts what all is known about, and answers.
    fn go_on_starting(&mut self) {
        if self.is_ending {
            for _ in self.starts.take_all() {
                let reason = "the job ends".to_owned();
                self.link.say(&FromPart::Failed { reason });
            }
        }
        while let Some((wanted, found)) = self.starts.next(&self.directory, &self.options) {
            let before = self.tasks.len();
            let answer = match found.and_then(|found| self.start(wanted, found)) {
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
    }

    /// Starts them all, and returns the program's path.
    fn start(&mut self, wanted: Wanted, found: Found) -> Result<PathBuf, TaskError> {
        let Wanted { start, signals } = wanted;
        let host = self.options.host.as_str();
        let more = start.tasks.len();
        let running = self.tasks.iter().filter(|task| task.end.is_none());
        let running: Vec<_> = running.map(Running::pid).collect();
        if let Some(pool) = &self.pool {
            participants::provide_for(pool, more, &running)?;
        }
        descriptors::provide_for(running.len() + more, more, host)?;
        processes::provide_for(more, host)?;
        let given = start.environment.into_iter();
        let given =
            given.map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value)));
        let mut environment: Vec<(OsString, OsString)> = given.collect();
        (self.options.adapt)(&mut environment);
        environment.push(("HYTHE_POOL".into(), self.options.pool_name.clone().into()));
        let program = Program {
            path: found.path,
            words: start.words.into_iter().map(OsString::from_vec).collect(),
            environment,
            directory: found.directory,
            terminal: start.terminal,
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
            if let Some(signal) = signals.get(&id) {
                task.signal(*signal);
            }
            if has_input {
                self.input.to = task.take_input();
            }
            self.tasks.push(task);
        }
        Ok(program.path)
    }

    fn feed_input(&mut self) {
        // One that is to read it has to be there first.
        if !self.starts.want_input() && self.input.feed(&mut self.link).is_err() {
            self.input.to = None;
        }
    }

    /// May what tasks print be passed on?
    fn may_print(&self) -> bool {
        self.link.has_room() && self.starts.lets_print()
    }

    /// True: there is nothing more to read for now.
    fn read_output(&mut self) -> bool {
        let mut is_dry = true;
        for task in &mut self.tasks {
            for is_error in [false, true] {
                if !(self.link.has_room() && self.starts.lets_print()) {
                    return false;
                }
                let read = pass_on(task, is_error, self.whole_lines, &mut self.link);
                if let Some(read) = read {
                    self.starts.note_printed(read);
                    is_dry &= read == 0;
                }
            }
        }
        is_dry
    }

    fn take_ends(&mut self) {
        for task in &mut self.tasks {
            if !(self.link.has_room() && self.starts.lets_print()) {
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
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::sync::mpsc::channel;

    use super::super::part_protocol::message::INPUT_BYTES_MAX;
    use super::super::terminal::WindowSize;
    use super::*;
    use crate::tasks::agent_message::{AGENT_SOCKET, AgentReply};
    use crate::tasks::id::TaskId;
    use hythe_testing::{Polling, eventually, eventually_some};

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
            pool: None,
            directory: PathBuf::new(),
            front: here.try_clone().expect("duplicated").into(),
            link: PartLink::new(here).expect("set"),
            tasks: Vec::new(),
            starts: Starts::new().expect("an eventfd"),
            whole_lines: true,
            input: Input::default(),
            is_ending: false,
        };
        (part, PartLink::new(there).expect("set"))
    }

    fn task(script: &str, input: Stdio) -> Running {
        task_on(None, script, input)
    }

    /// The same; its standard output is a terminal of that size.
    fn task_on(terminal: Option<WindowSize>, script: &str, input: Stdio) -> Running {
        let program = Program {
            path: PathBuf::from("/bin/sh"),
            words: ["sh", "-c", script].map(OsString::from).to_vec(),
            environment: Vec::new(),
            directory: None,
            terminal,
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
        // A pipe keeps it while nobody reads, a terminal less of it.
        say_all_before_end(None, 60_000);
        say_all_before_end(Some(WindowSize::default()), 3_000);
    }

    fn say_all_before_end(terminal: Option<WindowSize>, zeroes: usize) {
        let (mut part, mut runner) = part();
        let script = format!("head -c {zeroes} /dev/zero; printf end; printf aside >&2; exit 4");
        part.tasks.push(task_on(terminal, &script, Stdio::null()));
        let (mut out, mut error, mut ended) = (Vec::new(), Vec::new(), None);
        let mut polling = Polling::new("the end of the task");
        while ended.is_none() {
            polling.pause();
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
        // The end that a last line gets may come behind: another process that is being started
        // holds the pipe for a moment.
        let printed = |bytes: Vec<u8>| bytes.strip_suffix(b"\n").unwrap_or(&bytes).to_vec();
        assert_eq!((ended, printed(error)), (Some(4), b"aside".to_vec()));
        let out = printed(out);
        assert_eq!(out.len(), zeroes + "end".len());
        assert!(out.ends_with(b"end"));
        eventually("both streams are closed", || {
            part.read_output();
            part.take_ends();
            part.tasks.is_empty()
        });
    }

    #[test]
    fn refusal_fits_a_message_whatever_was_asked_for() {
        let reason = "ä\u{1}".repeat(30_000);
        let refused = refusal(&TaskError::Elsewhere { reason });
        assert!(crate::frame::encode(&refused, &mut Vec::new()).is_ok());
    }

    #[test]
    fn task_that_reads_nothing_holds_nobody_up() {
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
        eventually("its end", || task.take_end().expect("no error").is_some());
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

    fn id(id: &str) -> TaskId {
        id.parse().expect("a task")
    }

    fn start(ids: &[TaskId], parent: Option<TaskId>) -> ToPart {
        ToPart::Start(Box::new(Start {
            tasks: ids.iter().map(|id| (*id, 0)).collect(),
            size: 1,
            parent,
            words: vec![b"sleep".to_vec(), b"600".to_vec()],
            environment: Vec::new(),
            directory: None,
            needs_directory: false,
            on_host: None,
            terminal: None,
            whole_lines: true,
            has_input: false,
        }))
    }

    /// What the part says next.
    fn next(part: &mut Part, runner: &mut PartLink) -> FromPart {
        eventually_some("a message of the part", || {
            part.go_on_starting();
            part.take_ends();
            part.link.flush();
            runner.next()
        })
    }

    /// An agent that permits nothing before it is let. What it permits it does by connections.
    fn agent(directory: &Path) -> std::sync::mpsc::Sender<()> {
        let listener = UnixListener::bind(directory.join(AGENT_SOCKET)).expect("bound");
        let (let_it, is_let) = channel::<()>();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.ok()?;
                is_let.recv().ok()?;
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).ok()?;
                let reply = serde_json::to_string(&AgentReply::Permitted).ok()?;
                // Who asked may have given it up.
                let _ = stream.write_all(format!("{reply}\n").as_bytes());
            }
            Some(())
        });
        let_it
    }

    #[test]
    fn slow_program_search_blocks_no_other_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let let_it = agent(folder.path());
        let (mut part, mut runner) = part();
        part.directory = folder.path().to_owned();
        part.tasks.push(task("exec sleep 600", Stdio::null()));
        let running = id("2.1.0");
        let killed = |task| ToPart::Signal { task, signal: 9 };
        part.obey(start(&[id("2.1.1"), id("2.1.2")], None));
        part.go_on_starting();
        // To one that runs, and to one that is to.
        part.obey(killed(running));
        part.obey(killed(id("2.1.2")));
        let end = |task| FromPart::Ended {
            task,
            code: None,
            signal: Some(9),
        };
        assert_eq!(next(&mut part, &mut runner), end(running));
        let_it.send(()).expect("it waits");
        let started = next(&mut part, &mut runner);
        let FromPart::Started { pids, .. } = started else {
            panic!("{started:?}");
        };
        assert_eq!(pids.len(), 2);
        assert_eq!(next(&mut part, &mut runner), end(id("2.1.2")));
        // The next is refused in time: the runner does not give up those that run.
        part.obey(start(&[id("2.1.3")], None));
        part.obey(start(&[id("2.1.4")], None));
        let refused = next(&mut part, &mut runner);
        let FromPart::Failed { reason } = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("not found out within 3 s"), "{reason}");
        // And what waits behind it when the job ends, too.
        part.obey(ToPart::End);
        let refused = next(&mut part, &mut runner);
        let reason = "the job ends".to_owned();
        assert_eq!(refused, FromPart::Failed { reason });
        assert_eq!(next(&mut part, &mut runner), end(id("2.1.1")));
    }

    #[test]
    fn input_waits_for_the_task_that_is_to_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let let_it = agent(folder.path());
        let (mut part, mut runner) = part();
        part.directory = folder.path().to_owned();
        let ToPart::Start(mut wanted) = start(&[id("2.1.0")], None) else {
            panic!("it is one");
        };
        wanted.words = vec![b"cat".to_vec()];
        wanted.has_input = true;
        part.obey(ToPart::Start(wanted));
        part.go_on_starting();
        part.obey(ToPart::Input(b"line\n".to_vec()));
        part.obey(ToPart::Input(Vec::new()));
        part.feed_input();
        let_it.send(()).expect("it waits");
        let started = next(&mut part, &mut runner);
        assert!(matches!(started, FromPart::Started { .. }), "{started:?}");
        part.feed_input();
        assert_eq!(next(&mut part, &mut runner), FromPart::InputTaken(5));
        let task = id("2.1.0");
        let bytes = b"line\n".to_vec();
        let printed = FromPart::Output {
            task,
            is_error: false,
            bytes,
        };
        assert_eq!(next(&mut part, &mut runner), printed);
        let (code, signal) = (Some(0), None);
        let end = FromPart::Ended { task, code, signal };
        assert_eq!(next(&mut part, &mut runner), end);
    }

    #[test]
    fn runner_that_starts_tasks_of_others_is_given_up() {
        // Nobody permits it, which is said.
        let (mut part, mut runner) = part();
        part.obey(start(&[id("2.1.3"), id("2.1.4")], Some(id("2.1.0"))));
        let refused = next(&mut part, &mut runner);
        assert!(matches!(refused, FromPart::Failed { .. }), "{refused:?}");
        for lie in [
            // Nothing, of another host's job, of one without a host, of another of the same host,
            // twice.
            start(&[], None),
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
