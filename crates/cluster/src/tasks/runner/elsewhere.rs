//! The job's tasks on other hosts: where each is started, what their parts say, and their ends.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hythe_node::Pool;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::output::{Output, Stream, Writer};
use super::part_protocol::message::{BYTES_MAX, FromPart, INPUT_BYTES_MAX, Start, ToPart};
use super::program::{Program, Role, Running};
use super::remote::{RemotePart, SharedPart};
use super::{Job, JobHost};
use crate::HostName;
use crate::tasks::agent_link;
use crate::tasks::agent_message::{AgentReply, AgentRequest};
use crate::tasks::error::TaskError;
use crate::tasks::message::{Place, TaskEnd};

/// How long parts may take to end what is left, and to say so.
const LAST_WORDS: Duration = Duration::from_secs(15);
/// Of one part at one look, so that one which never falls silent does not keep the runner from
/// all else.
const MESSAGES_PER_LOOK: usize = 256;

/// Standard input for a first task on another host.
#[derive(Debug)]
pub(super) struct Input {
    part: SharedPart,
    /// Sent, and not taken.
    underway: usize,
    is_ended: bool,
}

impl Input {
    /// May more be read?
    pub(super) fn takes(&self) -> bool {
        !self.is_ended && self.underway + BYTES_MAX <= INPUT_BYTES_MAX
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

/// What is started on which other host.
pub(super) fn by_host(roles: &[(Role, &Option<HostName>)]) -> Vec<(HostName, Vec<Role>)> {
    let mut by_host: BTreeMap<&HostName, Vec<Role>> = BTreeMap::new();
    for (role, place) in roles {
        if let Some(host) = place {
            by_host.entry(host).or_default().push(*role);
        }
    }
    let owned = by_host.into_iter();
    owned.map(|(host, roles)| (host.clone(), roles)).collect()
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

    /// Where tasks of this program are started that were asked for so. An error: there is no such
    /// place in the job.
    pub(super) fn places(
        &mut self,
        place: &Place,
        count: u32,
        program: &str,
    ) -> Result<Vec<Option<HostName>>, TaskError> {
        let own = self.runner.options.host.clone();
        let no_such = |what, wanted: &str| TaskError::NoSuchPlace {
            what,
            wanted: wanted.to_owned(),
            host: own.clone(),
        };
        let others: Vec<HostName> = self.others().cloned().collect();
        let found = match place {
            Place::Anywhere => return Ok(self.places_in_turn(count)),
            Place::Host(name) if *name == own => None,
            Place::Host(name) => {
                let found = others.into_iter().find(|host| host.as_str() == name);
                Some(found.ok_or_else(|| no_such("host", name))?)
            }
            Place::Architecture(name) if name == std::env::consts::ARCH => None,
            Place::Architecture(name) => {
                let mut found = None;
                for host in others {
                    // What they are is known when there is a part.
                    if self.part(&host, program)?.borrow().architecture == *name {
                        found = Some(host);
                        break;
                    }
                }
                Some(found.ok_or_else(|| no_such("architecture", name))?)
            }
        };
        Ok(vec![found; count as usize])
    }

    /// May that host have a program started with this host's rights? The agent's rules say so.
    pub(super) fn ask_permission(&self, host: &HostName, program: &str) -> Result<(), TaskError> {
        let request = AgentRequest::MaySpawn {
            host: host.clone(),
            program: program.to_owned(),
        };
        match agent_link::ask(&self.runner.directory, &request)? {
            Some(_) => Ok(()),
            None => Err(TaskError::NoAgent),
        }
    }

    fn others(&self) -> impl Iterator<Item = &HostName> {
        let options = &self.runner.options;
        let names = options.hosts.iter().map(|host| &host.name);
        names.filter(|name| name.as_str() != options.host)
    }

    pub(super) fn start_elsewhere(
        &mut self,
        program: &Program,
        host: &HostName,
        roles: &[Role],
    ) -> Result<(), TaskError> {
        let name = program
            .words
            .first()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let part = self.part(host, &name)?;
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
            directory: program
                .directory
                .clone()
                .or_else(|| std::env::current_dir().ok()),
            whole_lines: self.runner.options.whole_lines,
            has_input,
        };
        let (pids, path) = part.borrow_mut().start(start)?;
        let started = roles.iter().zip(pids);
        let started = started.map(|(role, pid)| Running::remote(&part, *role, pid, &path));
        self.tasks.extend(started);
        if has_input {
            self.input = Some(Input {
                part,
                underway: 0,
                is_ended: false,
            });
        }
        Ok(())
    }

    /// The part on a host, which is begun if there is none, or none any more.
    fn part(&mut self, host: &HostName, program: &str) -> Result<SharedPart, TaskError> {
        let found = self.parts.iter().find(|part| {
            let part = part.borrow();
            part.host == *host && part.link.over.is_none()
        });
        if let Some(part) = found {
            return Ok(SharedPart::clone(part));
        }
        let hosts: Vec<HostName> = self.others().cloned().collect();
        let runner = &self.runner;
        let part = RemotePart::open(&runner.directory, host, runner.place.job, program, &hosts)?;
        self.parts.push(SharedPart::clone(&part));
        Ok(part)
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
            if part.borrow().has_messages() {
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
                let of_part = self.tasks.iter().filter(|running| running.is_of(part));
                let found = of_part.into_iter().find(|running| running.role.id == task);
                let Some(found) = found else { return true };
                return writer.push(Output {
                    rank: found.role.rank,
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
                let own = self.input.as_mut();
                if let Some(input) = own.filter(|input| Rc::ptr_eq(&input.part, part)) {
                    input.underway = input.underway.saturating_sub(bytes as usize);
                }
            }
            FromPart::Over { left_running } => {
                part.borrow_mut().left_running = Some(left_running);
            }
            // It was not asked.
            FromPart::Here { .. } | FromPart::Started { .. } | FromPart::Failed { .. } => {}
        }
        true
    }

    /// Its host, an agent, or the link there is gone: all that runs there ends, or has ended.
    fn lose(&mut self, part: &SharedPart) {
        part.borrow_mut().is_lost = true;
        let running = self.tasks.iter_mut().filter(|task| task.is_of(part));
        for task in running.filter(|task| task.end.is_none()) {
            task.note_end(TaskEnd {
                task: task.role.id,
                rank: task.role.rank,
                code: None,
                signal: None,
                is_lost: true,
            });
        }
    }

    /// Sends on what comes in for a first task on another host.
    pub(super) fn feed_input(&mut self) {
        let Some(input) = self.input.as_mut().filter(|input| input.takes()) else {
            return;
        };
        let stdin = std::io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if !hythe_sys::wait::ready(&mut polled, Duration::ZERO)[0] {
            return;
        }
        let Some(bytes) = read_input(&stdin) else {
            return;
        };
        input.underway += bytes.len();
        input.is_ended = bytes.is_empty();
        input.part.borrow_mut().link.say(&ToPart::Input(bytes));
    }

    /// All tasks have ended: parts end what these left running.
    pub(super) fn end_parts(&mut self) {
        self.input = None;
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
        left.map(|left| left as usize).sum()
    }
}

/// What there is; empty at its end, and where it cannot be read: the task is told so. `None`:
/// nothing for now.
fn read_input(from: impl AsFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; BYTES_MAX];
    let read = match rustix::io::read(from, &mut bytes) {
        Ok(read) => read,
        Err(Errno::INTR | Errno::AGAIN) => return None,
        Err(_) => 0,
    };
    bytes.truncate(read);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::fixture;
    use super::super::part_protocol::link::PartLink;
    use super::*;

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
        job.tasks.push(Running::remote(&part, role, 1, "/bin/x"));
        job.parts.push(SharedPart::clone(&part));
        (root, job, part, there, role)
    }

    #[test]
    fn what_a_full_writer_left_is_news() {
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
        while !job.hear_parts(&mut writer) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!part.borrow().has_news());
        let end = job.tasks[0].take_end().expect("no error").expect("its end");
        assert_eq!((end.code, end.is_lost), (Some(3), false));
    }

    #[test]
    fn a_part_that_never_falls_silent_is_left_for_all_else() {
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
    fn only_the_part_that_gets_the_input_says_what_was_taken() {
        let (_root, mut job, part, mut there, _) = with_task();
        let mut writer = Writer::start(Box::new(|_| Ok(()))).expect("a thread");
        let (other, mut liar) = fixture::part("c");
        job.parts.push(other);
        job.input = Some(Input {
            part,
            underway: 10,
            is_ended: false,
        });
        liar.say(&FromPart::InputTaken(5));
        there.say(&FromPart::InputTaken(3));
        assert!(job.hear_parts(&mut writer));
        assert_eq!(job.input.map(|input| input.underway), Some(7));
    }

    #[test]
    fn input_that_does_not_come_yet_has_not_ended() {
        let (input, mut to) = UnixStream::pair().expect("a pair");
        input.set_nonblocking(true).expect("set");
        assert_eq!(read_input(&input), None);
        std::io::Write::write_all(&mut to, b"x").expect("written");
        assert_eq!(read_input(&input), Some(b"x".to_vec()));
        drop(to);
        assert_eq!(read_input(&input), Some(Vec::new()));
    }
}
