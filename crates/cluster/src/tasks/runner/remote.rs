//! The tasks of a job on other hosts: for each host a part there, to which its agent leads.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::lines::Lines;
use super::part_protocol::link::PartLink;
use super::part_protocol::message::{FromPart, Start, ToPart};
use crate::HostName;
use crate::frame::encode;
use crate::tasks::agent_link::{self, unexpected};
use crate::tasks::agent_message::{AgentReply, AgentRequest};
use crate::tasks::error::TaskError;
use crate::tasks::id::{JobId, TaskId};

/// How long a part may take to begin, and to start programs. Who asks a runner waits a little
/// longer.
pub(super) const STARTING: Duration = Duration::from_secs(4);
/// The most that is kept of what comes before an answer while nobody takes what tasks print. A part
/// passes on a megabyte of output while it starts programs, beside what was on its way: a few
/// buffers of sockets.
const EARLY_BYTES_MAX: usize = 16 << 20;
/// The longest path of a program that the kernel takes.
pub(super) const PROGRAM_BYTES_MAX: usize = 4096;

/// A part, as its runner sees it. Shared with the tasks there, which send their signals over it.
pub(super) type SharedPart = Rc<RefCell<RemotePart>>;

#[derive(Debug)]
pub(super) struct RemotePart {
    pub(super) host: HostName,
    /// The program for which it was begun: a rule there permits that.
    pub(super) program: String,
    /// How many other hosts of the job were named to it, or to one that was begun beside it: the
    /// first of them, since hosts are only added.
    pub(super) hosts_known: usize,
    pub(super) architecture: String,
    pub(super) link: PartLink,
    /// What it was asked to start, in order: so it answers.
    asked: VecDeque<Asked>,
    /// Those of the tasks that it was asked to start, of each number the last: at most as many as
    /// a job has numbers.
    ranks: BTreeMap<TaskId, u32>,
    /// What has come of lines of its tasks that are not whole, on standard error or not.
    lines: BTreeMap<(TaskId, bool), Lines>,
    /// What came before an answer, and is heard later.
    early: VecDeque<FromPart>,
    early_bytes: usize,
    /// Its tasks know that it is gone.
    pub(super) is_lost: bool,
    /// It has said all, and how many processes it could not end.
    pub(super) left_running: Option<u32>,
}

/// Tasks that a part was asked to start.
#[derive(Debug)]
pub(super) struct Asked {
    /// With others, as one of these spawns.
    pub(super) spawn: u64,
    pub(super) tasks: Vec<TaskId>,
    since: Instant,
}

impl RemotePart {
    /// Has the agent start one, for a program first. Waits for it, within a bound.
    pub(super) fn open(
        directory: &Path,
        host: &HostName,
        job: JobId,
        program: &str,
        hosts: &[HostName],
    ) -> Result<Self, TaskError> {
        let request = AgentRequest::Part {
            host: host.clone(),
            job,
            program: program.to_owned(),
            hosts: hosts.to_vec(),
        };
        let stream = match agent_link::ask(directory, &request)? {
            Some((AgentReply::Connected, stream)) => stream,
            Some((other, _)) => return Err(unexpected(&other)),
            None => return Err(TaskError::NoAgent),
        };
        let link = PartLink::new(stream).map_err(|source| TaskError::System {
            action: "read what a part says",
            source,
        })?;
        let mut part = Self::new(host.clone(), link);
        program.clone_into(&mut part.program);
        part.hosts_known = hosts.len();
        part.greet()?;
        Ok(part)
    }

    pub(super) fn new(host: HostName, link: PartLink) -> Self {
        Self {
            host,
            program: String::new(),
            hosts_known: 0,
            architecture: String::new(),
            link,
            asked: VecDeque::new(),
            ranks: BTreeMap::new(),
            lines: BTreeMap::new(),
            early: VecDeque::new(),
            early_bytes: 0,
            is_lost: false,
            left_running: None,
        }
    }

    pub(super) fn shared(self) -> SharedPart {
        Rc::new(RefCell::new(self))
    }

    /// Asks it to start tasks, all or none, for that spawn.
    pub(super) fn ask(&mut self, spawn: u64, start: Start) -> Result<(), TaskError> {
        let ranks = start.tasks.clone();
        let start = ToPart::Start(Box::new(start));
        // One that is too long is refused, and ends nothing that runs there.
        encode(&start, &mut Vec::new()).map_err(|error| self.error(error.to_string()))?;
        self.link.say(&start);
        for (task, rank) in &ranks {
            self.note_rank(*task, *rank);
        }
        self.asked.push_back(Asked {
            spawn,
            tasks: ranks.into_iter().map(|(task, _)| task).collect(),
            since: Instant::now(),
        });
        Ok(())
    }

    pub(super) fn note_rank(&mut self, task: TaskId, rank: u32) {
        self.ranks.insert(task, rank);
    }

    /// That of a task which it was asked to start, also when that has ended.
    pub(super) fn rank(&self, task: TaskId) -> Option<u32> {
        self.ranks.get(&task).copied()
    }

    /// Is an answer due?
    pub(super) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// How long the next answer may take yet.
    pub(super) fn left_for_answer(&self) -> Option<Duration> {
        let first = self.asked.front()?;
        Some(STARTING.saturating_sub(first.since.elapsed()))
    }

    /// What an answer is to. `None`: it was not asked.
    pub(super) fn answered(&mut self) -> Option<Asked> {
        let answered = self.asked.pop_front();
        if let Some(next) = self.asked.front_mut() {
            // It starts one after the other.
            next.since = Instant::now();
        }
        answered
    }

    /// What it will not answer any more.
    pub(super) fn take_asked(&mut self) -> VecDeque<Asked> {
        std::mem::take(&mut self.asked)
    }

    /// The next answer among so many messages; what else comes is kept.
    pub(super) fn next_answer(&mut self, most: usize) -> Option<FromPart> {
        for _ in 0..most {
            match self.link.next()? {
                answer @ (FromPart::Started { .. } | FromPart::Failed { .. }) => {
                    return Some(answer);
                }
                other => self.keep(other),
            }
        }
        None
    }

    /// The next that is no answer.
    pub(super) fn next(&mut self) -> Option<FromPart> {
        let Some(early) = self.early.pop_front() else {
            return self.link.next();
        };
        self.early_bytes -= kept_bytes(&early);
        Some(early)
    }

    /// The whole lines that there are now of what a task prints.
    pub(super) fn whole_lines(&mut self, task: TaskId, is_error: bool, bytes: &[u8]) -> Vec<u8> {
        let lines = self.lines.entry((task, is_error)).or_default();
        let whole = lines.push(bytes);
        if lines.is_empty() {
            self.lines.remove(&(task, is_error));
        }
        whole
    }

    /// Nothing more comes: lines that are not whole end here, as if their tasks had ended them.
    /// False: there are none.
    pub(super) fn end_lines(&mut self) -> bool {
        let is_over = self.link.over.is_some() || self.left_running.is_some();
        let open: Vec<(TaskId, bool)> = self.lines.keys().copied().collect();
        for (task, is_error) in open.iter().copied().filter(|_| is_over) {
            let bytes = b"\n".to_vec();
            self.keep(FromPart::Output {
                task,
                is_error,
                bytes,
            });
        }
        is_over && !open.is_empty()
    }

    /// Is nothing more to come?
    pub(super) fn is_done(&self) -> bool {
        self.early.is_empty() && (self.left_running.is_some() || self.link.over.is_some())
    }

    /// Has anything come that no wait for its connection shows?
    pub(super) fn has_news(&self) -> bool {
        self.has_messages() || (self.link.over.is_some() && !self.is_lost)
    }

    /// Has more been read than was heard?
    pub(super) fn has_messages(&self) -> bool {
        !self.early.is_empty() || self.link.has_received()
    }

    /// Waits until it says what it is, which it does first.
    fn greet(&mut self) -> Result<(), TaskError> {
        let start = Instant::now();
        loop {
            match self.link.next() {
                Some(FromPart::Here { architecture }) => {
                    self.architecture = architecture;
                    return Ok(());
                }
                Some(_) => return Err(self.give_up("it does not say first what it is".to_owned())),
                None => {}
            }
            if let Some(reason) = &self.link.over {
                return Err(self.error(reason.clone()));
            }
            let left = STARTING.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(self.give_up(format!("no answer for {} s", STARTING.as_secs())));
            }
            if self.link.has_received() {
                continue;
            }
            self.link.flush();
            let wanted = self.link.wanted(true);
            let mut polled = [PollFd::from_borrowed_fd(self.link.as_fd(), wanted)];
            let _ = hythe_sys::wait::poll_or_sleep(&mut polled, left);
        }
    }

    fn keep(&mut self, message: FromPart) {
        self.early_bytes += kept_bytes(&message);
        self.early.push_back(message);
        if self.early_bytes > EARLY_BYTES_MAX {
            self.give_up("too much before its answer".to_owned());
        }
    }

    /// Ends the connection, and with it all that the part has started.
    pub(super) fn give_up(&mut self, reason: String) -> TaskError {
        self.link.give_up(reason.clone());
        self.error(reason)
    }

    pub(super) fn error(&self, reason: String) -> TaskError {
        TaskError::Elsewhere {
            reason: format!("host {}: its part of the job: {reason}", self.host),
        }
    }
}

/// What a message that is kept takes of this process's memory.
fn kept_bytes(message: &FromPart) -> usize {
    let content = match message {
        FromPart::Output { bytes, .. } => bytes.len(),
        _ => 0,
    };
    size_of::<FromPart>() + content
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn start(words: Vec<Vec<u8>>) -> Start {
        Start {
            tasks: vec![("2.1.0".parse().expect("a task"), 0)],
            size: 1,
            parent: None,
            words,
            environment: Vec::new(),
            directory: None,
            needs_directory: false,
            on_host: None,
            terminal: None,
            whole_lines: true,
            has_input: false,
        }
    }

    #[test]
    fn what_is_too_long_to_say_leaves_the_part_as_it_was() {
        let (part, mut there) = fixture::part("b");
        let mut part = part.borrow_mut();
        let refused = part.ask(1, start(vec![vec![b'x'; 64 << 10]]));
        assert!(refused.is_err() && part.link.over.is_none() && !part.is_asked());
        assert!(there.next::<ToPart>().is_none() && there.over.is_none());
        part.ask(2, start(vec![b"x".to_vec()])).expect("short");
        assert!(matches!(there.next(), Some(ToPart::Start(_))));
        assert_eq!(part.answered().map(|asked| asked.spawn), Some(2));
    }

    #[test]
    fn answer_is_found_among_what_was_read_with_it() {
        let (part, mut there) = fixture::part("b");
        let mut part = part.borrow_mut();
        for count in 0..100 {
            there.say(&FromPart::InputTaken(count));
        }
        let answer = FromPart::Failed {
            reason: "no".to_owned(),
        };
        there.say(&answer);
        assert_eq!(part.next_answer(60), None, "so many are looked at");
        assert_eq!(part.next_answer(60), Some(answer));
        assert!(part.link.over.is_none() && part.has_news());
        for count in 0..100 {
            assert_eq!(part.next(), Some(FromPart::InputTaken(count)));
        }
        assert_eq!(part.early_bytes, 0);
        assert!(part.next().is_none() && !part.has_news());
    }

    #[test]
    fn part_says_first_what_it_is() {
        let (part, mut there) = fixture::part("b");
        let architecture = "pdp11".to_owned();
        there.say(&FromPart::Here { architecture });
        part.borrow_mut().greet().expect("it says so");
        assert_eq!(part.borrow().architecture, "pdp11");
        for lie in [FromPart::InputTaken(1), FromPart::Over { left_running: 0 }] {
            let (part, mut there) = fixture::part("b");
            there.say(&lie);
            assert!(part.borrow_mut().greet().is_err());
            assert!(there.next::<ToPart>().is_none() && there.over.is_some());
        }
        let (part, mut there) = fixture::part("b");
        assert!(part.borrow_mut().greet().is_err(), "silence has a bound");
        assert!(there.next::<ToPart>().is_none() && there.over.is_some());
    }

    #[test]
    fn what_comes_before_an_answer_has_a_bound() {
        let (part, _there) = fixture::part("b");
        let mut part = part.borrow_mut();
        let output = FromPart::Output {
            task: "2.1.0".parse().expect("a task"),
            is_error: false,
            bytes: vec![0; 1 << 20],
        };
        for _ in 0..15 {
            part.keep(output.clone());
        }
        assert!(part.link.over.is_none());
        part.keep(output);
        assert!(part.link.over.is_some());
    }
}
