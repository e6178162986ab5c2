//! The job's tasks on other hosts: where each is started, what their parts say, and their ends.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use hythe_node::Pool;

use super::input::Input;
use super::output::{Output, Stream, Writer};
use super::part_protocol::message::{FromPart, Start, ToPart};
use super::program::{Program, Role};
use super::remote::{STARTING, SharedPart};
use super::{Job, JobHost, JobOptions};
use crate::HostName;
use crate::tasks::agent_link;
use crate::tasks::agent_message::{AgentReply, AgentRequest};
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::message::{OnHost, TaskEnd};

/// How long parts may take to end what is left, and to say so.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(15);
/// Of one part at one look, so that one which never falls silent does not keep the runner from
/// all else.
const MESSAGES_PER_LOOK: usize = 256;

/// What every host calls itself, also one without a realm.
const LOCALHOST: &str = "localhost";

/// The hosts of a job that only an agent can lead to.
pub(super) fn others(options: &JobOptions) -> Vec<JobHost> {
    let names = [LOCALHOST, options.host.as_str()];
    let others = options.hosts.iter();
    let others = others.filter(|host| !names.contains(&host.name.as_str()));
    others.cloned().collect()
}

/// Gives `localhost` this host's name in the realm. Without a realm there is no other host, and
/// none to choose from.
pub(super) fn name_this_host(options: &mut JobOptions, name: Option<&HostName>) {
    let Some(name) = name else {
        options.hosts.clear();
        return;
    };
    let hosts = options.hosts.iter_mut();
    for host in hosts.filter(|host| host.name.as_str() == LOCALHOST) {
        host.name = name.clone();
    }
}

/// This host in its realm, if an agent serves the pool. A job with hosts needs one that knows a
/// number for it.
pub(super) fn here(pool: &Pool, hosts: &[JobHost]) -> Result<Option<(HostName, u32)>, TaskError> {
    match agent_link::ask(&pool.path(), &AgentRequest::Here) {
        Ok(Some((AgentReply::Here { host, number, .. }, _))) if number > 0 => {
            Ok(Some((host, number)))
        }
        Ok(None) if !hosts.is_empty() => Err(TaskError::NoAgent),
        Ok(Some((AgentReply::Here { host, .. }, _))) if !hosts.is_empty() => {
            Err(TaskError::Agent {
                reason: format!(
                    "host {host} has no number in its realm, as those added by an earlier release: \
                     remove and add it again"
                ),
            })
        }
        Err(error) if !hosts.is_empty() => Err(error),
        _ => Ok(None),
    }
}

/// May that host have a program started with this host's rights? The agent's rules say so.
pub(super) fn ask_permission(
    directory: &Path,
    host: HostName,
    program: String,
) -> Result<(), TaskError> {
    let request = AgentRequest::MaySpawn { host, program };
    match agent_link::ask(directory, &request)? {
        Some(_) => Ok(()),
        None => Err(TaskError::NoAgent),
    }
}

impl Job {
    /// The next places, by the slots of the hosts; `None`: this one.
    pub(super) fn places_in_turn(&mut self, count: u32) -> Vec<Option<HostName>> {
        let options = &self.runner.options;
        let slots = options.hosts.iter().flat_map(|host| {
            let name = (host.name.as_str() != options.host).then(|| host.name.clone());
            std::iter::repeat_n(name, host.slots as usize)
        });
        let slots: Vec<Option<HostName>> = slots.collect();
        if slots.is_empty() {
            return vec![None; count as usize];
        }
        let from = self.next_slot as usize % slots.len();
        self.next_slot = self.next_slot.wrapping_add(count);
        let turn = slots.iter().cycle().skip(from).take(count as usize);
        turn.cloned().collect()
    }

    /// The other hosts of the job.
    pub(super) fn others(&self) -> impl Iterator<Item = &HostName> {
        let options = &self.runner.options;
        let names = options.hosts.iter().map(|host| &host.name);
        let names = names.filter(|name| name.as_str() != options.host);
        names.chain(&self.added_hosts)
    }

    /// Asks a part to start these, for that spawn.
    pub(super) fn start_elsewhere(
        &mut self,
        part: &SharedPart,
        spawn: u64,
        program: &Program,
        roles: &[Role],
        on_host: Option<OnHost>,
    ) -> Result<(), TaskError> {
        let first = roles.first();
        let has_input = first.is_some_and(|role| role.rank == 0 && role.parent.is_none());
        let bytes = |text: &std::ffi::OsString| text.as_bytes().to_vec();
        let environment = program.environment.iter();
        let environment = environment.filter(|(name, _)| name != "HYTHE_POOL");
        let start = Start {
            tasks: roles.iter().map(|role| (role.id, role.rank)).collect(),
            size: first.map_or(0, |role| role.size),
            parent: first.and_then(|role| role.parent),
            words: program.words.iter().map(bytes).collect(),
            environment: environment
                .map(|(name, value)| (bytes(name), bytes(value)))
                .collect(),
            needs_directory: program.directory.is_some(),
            on_host,
            directory: program
                .directory
                .clone()
                .or_else(|| std::env::current_dir().ok()),
            terminal: program.terminal,
            whole_lines: self.runner.options.whole_lines,
            has_input,
        };
        part.borrow_mut().ask(spawn, start)?;
        if has_input {
            self.input = Some(Input::new(part));
        }
        Ok(())
    }

    /// Takes in what parts answer that were asked to start tasks. This is heard also while nobody
    /// takes what tasks print.
    pub(super) fn hear_answers(&mut self) {
        for part in self.parts.clone() {
            while part.borrow().is_asked() {
                let answer = part.borrow_mut().next_answer(MESSAGES_PER_LOOK);
                let Some(answer) = answer else { break };
                self.take_answer(&part, answer);
            }
            let left = part.borrow().left_for_answer();
            if left.is_some_and(|left| left.is_zero()) {
                // What it starts later nobody would know of.
                let reason = format!("no answer for {} s", STARTING.as_secs());
                part.borrow_mut().give_up(reason);
            }
            if part.borrow().link.over.is_some() {
                self.fail_asked(&part);
            }
        }
    }

    /// Takes in what parts say. True: there is nothing more for now.
    pub(super) fn hear_parts(&mut self, writer: &mut Writer) -> bool {
        // What tasks of this host print may have filled it at this look.
        if !writer.is_ready() {
            return false;
        }
        let mut is_dry = true;
        for part in self.parts.clone() {
            part.borrow_mut().link.flush();
            for _ in 0..MESSAGES_PER_LOOK {
                let message = part.borrow_mut().next();
                let Some(message) = message else { break };
                if !self.heed(&part, message, writer) {
                    return false;
                }
            }
            if part.borrow().has_messages() || part.borrow_mut().end_lines() {
                is_dry = false;
            } else if part.borrow().link.over.is_some() {
                self.lose(&part);
            }
        }
        is_dry
    }

    /// False: the writer takes no more for now.
    fn heed(&mut self, part: &SharedPart, message: FromPart, writer: &mut Writer) -> bool {
        match message {
            FromPart::Output {
                task,
                is_error,
                bytes,
            } => {
                // What it left running may print when it has ended.
                let rank = part.borrow().rank(task);
                let Some(rank) = rank else { return true };
                let bytes = match self.runner.options.whole_lines {
                    true => part.borrow_mut().whole_lines(task, is_error, &bytes),
                    false => bytes,
                };
                if bytes.is_empty() {
                    return true;
                }
                return writer.push(Output {
                    rank,
                    stream: if is_error { Stream::Error } else { Stream::Out },
                    bytes,
                });
            }
            FromPart::Ended { task, code, signal } => {
                let mut of_part = self.tasks.iter_mut().filter(|running| running.is_of(part));
                let found =
                    of_part.find(|running| running.role.id == task && running.end.is_none());
                if let Some(found) = found {
                    found.note_end(TaskEnd {
                        task,
                        rank: found.role.rank,
                        code,
                        signal,
                        is_lost: false,
                    });
                }
            }
            FromPart::InputTaken(bytes) => {
                if let Some(input) = &mut self.input {
                    input.note_taken(part, bytes);
                }
            }
            FromPart::Over { left_running } => {
                part.borrow_mut().left_running = Some(left_running);
            }
            answer @ (FromPart::Here { .. }
            | FromPart::Started { .. }
            | FromPart::Failed { .. }) => self.take_answer(part, answer),
        }
        true
    }

    /// Its host, an agent, or the link there is gone: all that runs there ends, or has ended.
    fn lose(&mut self, part: &SharedPart) {
        part.borrow_mut().is_lost = true;
        let running = self.tasks.iter().filter(|task| task.is_of(part));
        let running: Vec<TaskId> = running.map(|task| task.role.id).collect();
        running.into_iter().for_each(|task| self.note_lost(task));
    }

    /// This task ends, or has ended, and nobody knows how.
    pub(super) fn note_lost(&mut self, id: TaskId) {
        let mut tasks = self.tasks.iter_mut();
        if let Some(task) = tasks.find(|task| task.role.id == id && task.end.is_none()) {
            task.note_end(TaskEnd {
                task: id,
                rank: task.role.rank,
                code: None,
                signal: None,
                is_lost: true,
            });
        }
    }

    /// Parts that do not end tasks which were killed are given up, and those tasks are lost.
    pub(super) fn give_up_parts(&self) {
        for task in self.tasks.iter().filter(|task| task.end.is_none()) {
            if let Some(part) = task.part() {
                let mut part = part.borrow_mut();
                part.link.give_up("it does not end its tasks".to_owned());
            }
        }
    }

    /// All tasks have ended: parts end what these left running.
    pub(super) fn end_parts(&mut self) {
        self.input = None;
        // One that is there later ends with its connection.
        self.openings.clear();
        for part in &self.parts {
            part.borrow_mut().link.say(&ToPart::End);
        }
    }

    /// Have they said all, or can be waited for no longer? `since` they were asked to end.
    pub(super) fn are_parts_done(&self, since: Option<Instant>) -> bool {
        let is_late = since.is_some_and(|since| since.elapsed() > LAST_WORDS);
        is_late || self.parts.iter().all(|part| part.borrow().is_done())
    }

    /// Processes that parts could not end.
    pub(super) fn left_elsewhere(&self) -> usize {
        let left = self.parts.iter();
        let left = left.filter_map(|part| part.borrow().left_running);
        left.fold(0, |all: usize, left| all.saturating_add(left as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::super::part_protocol::link::PartLink;
    use super::super::running::Running;
    use super::*;
    use crate::tasks::message::{Reply, Request};
    use hythe_testing::eventually;

    /// A job that has this task on another host, and the part's end there.
    fn with_task() -> (tempfile::TempDir, Job, SharedPart, PartLink, Role) {
        let (root, mut job) = fixture::job();
        let (part, there) = fixture::part("b");
        let role = Role {
            id: job.runner.place.job.task(0).expect("in range"),
            rank: 0,
            size: 1,
            parent: None,
        };
        job.tasks.push(Running::remote(&part, role));
        part.borrow_mut().note_rank(role.id, role.rank);
        job.parts.push(SharedPart::clone(&part));
        (root, job, part, there, role)
    }

    #[test]
    fn part_has_news_while_writer_is_full() {
        let (_root, mut job, part, mut there, role) = with_task();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let mut writer = Writer::start(Box::new(move |_| {
            let _ = gate.recv();
            Ok(())
        }))
        .expect("a thread");
        for _ in 0..200 {
            there.say(&FromPart::Output {
                task: role.id,
                is_error: false,
                bytes: b"line\n".to_vec(),
            });
        }
        there.say(&FromPart::Ended {
            task: role.id,
            code: Some(3),
            signal: None,
        });
        assert!(!job.hear_parts(&mut writer), "it takes no more");
        assert!(part.borrow().has_news(), "though nothing more comes");
        drop(open);
        eventually("it takes the rest", || job.hear_parts(&mut writer));
        assert!(!part.borrow().has_news());
        let end = job.tasks[0].take_end().expect("no error").expect("its end");
        assert_eq!((end.code, end.is_lost), (Some(3), false));
    }

    #[test]
    fn long_lines_of_other_hosts_stay_whole() {
        let (_root, mut job, part, mut there, role) = with_task();
        let (to, printed) = std::sync::mpsc::channel();
        let mut writer = Writer::start(Box::new(move |output: &Output| {
            let _ = to.send(output.bytes.clone());
            Ok(())
        }))
        .expect("a thread");
        let task = role.id;
        let mut say = |bytes: &[u8]| {
            let (is_error, bytes) = (false, bytes.to_vec());
            there.say(&FromPart::Output {
                task,
                is_error,
                bytes,
            });
        };
        // As a part cuts what is long.
        for piece in [&b"on"[..], b"e", b"\ntw"] {
            say(piece);
        }
        assert!(job.hear_parts(&mut writer));
        // Its end is that of the last line.
        drop(there);
        while !job.hear_parts(&mut writer) {}
        assert!(part.borrow().is_done());
        writer.finish().expect("written");
        let printed: Vec<Vec<u8>> = printed.iter().collect();
        assert_eq!(printed, [b"one\n".to_vec(), b"tw\n".to_vec()]);
    }

    #[test]
    fn part_that_never_falls_silent_is_left_for_all_else() {
        let (_root, mut job, part, mut there, role) = with_task();
        let mut writer = Writer::start(Box::new(|_| Ok(()))).expect("a thread");
        for _ in 0..=MESSAGES_PER_LOOK {
            there.say(&FromPart::InputTaken(0));
        }
        assert!(!job.hear_parts(&mut writer) && part.borrow().has_news());
        // Its end waits until all has been heard.
        drop(there);
        part.borrow_mut().link.give_up("gone".to_owned());
        assert!(job.hear_parts(&mut writer) && !part.borrow().has_news());
        let end = job.tasks[0].take_end().expect("no error").expect("its end");
        assert_eq!((end.task, end.is_lost), (role.id, true));
    }

    #[test]
    fn job_reaches_its_own_host_and_those_with_a_part() {
        let (_root, mut job, part, _there, _) = with_task();
        let mut asking = fixture::Asking::connect(&mut job);
        let mut reaches = |job: &mut Job, host: &str| {
            let host = host.to_owned();
            match asking.ask(job, &Request::Reaches { host }) {
                Reply::Done => true,
                Reply::NoSuchPlace { .. } => false,
                other => panic!("{other:?}"),
            }
        };
        let reached = ["a", "b", "c"].map(|host| reaches(&mut job, host));
        assert_eq!(reached, [true, true, false]);
        part.borrow_mut().link.give_up("gone".to_owned());
        assert!(!reaches(&mut job, "b"));
    }

    #[test]
    fn ended_task_keeps_its_host() {
        let (_root, mut job, _part, mut there, mut role) = with_task();
        role.parent = Some(role.id);
        job.tasks[0].role = role;
        let mut asking = fixture::Asking::connect(&mut job);
        let task = role.id;
        let asked = Request::Where { task };
        let on_b = Reply::Place {
            host: "b".to_owned(),
        };
        assert_eq!(asking.ask(&mut job, &asked), on_b);
        let (code, signal) = (Some(0), None);
        there.say(&FromPart::Ended { task, code, signal });
        fixture::look(&mut job);
        job.forget_ended();
        assert!(job.tasks.is_empty());
        assert_eq!(asking.ask(&mut job, &asked), on_b);
        let other = job.runner.place.job.task(1).expect("in range");
        let asked = Request::Where { task: other };
        assert_eq!(asking.ask(&mut job, &asked), Reply::NoSuchTask);
        // The number is another's.
        job.tasks.push(Running::waiting(role, "a"));
        let asked = Request::Where { task };
        let on_a = Reply::Place {
            host: "a".to_owned(),
        };
        assert_eq!(asking.ask(&mut job, &asked), on_a);
    }

    #[test]
    fn output_of_orphan_is_printed_after_end_of_task() {
        let (_root, mut job, _part, mut there, mut role) = with_task();
        // One that was spawned is forgotten when it has ended.
        role.parent = Some(role.id);
        job.tasks[0].role = role;
        let (code, signal) = (Some(0), None);
        let task = role.id;
        there.say(&FromPart::Ended { task, code, signal });
        fixture::look(&mut job);
        job.forget_ended();
        assert!(job.tasks.is_empty());
        let line = |bytes: &[u8]| FromPart::Output {
            task,
            is_error: false,
            bytes: bytes.to_vec(),
        };
        there.say(&line(b"late\n"));
        let (written, outputs) = std::sync::mpsc::channel();
        let write = move |output: &Output| {
            let _ = written.send(output.clone());
            Ok(())
        };
        let mut writer = Writer::start(Box::new(write)).expect("a thread");
        job.hear_parts(&mut writer);
        writer.finish().expect("written");
        let outputs: Vec<(u32, Vec<u8>)> = outputs
            .iter()
            .map(|output| (output.rank, output.bytes))
            .collect();
        assert_eq!(outputs, [(0, b"late\n".to_vec())]);
    }
}
