//! The job's tasks on other hosts: where each is started, what their parts say, and their ends.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use hythe_node::Pool;
use rustix::event::{PollFd, PollFlags};

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
        for part in self.parts.clone() {
            part.borrow_mut().link.flush();
            loop {
                let message = part.borrow_mut().next();
                let Some(message) = message else { break };
                if !self.heed(&part, message, writer) {
                    return false;
                }
            }
            if part.borrow().link.over.is_some() {
                self.lose(&part);
            }
        }
        true
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
                if let Some(input) = &mut self.input {
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
        let mut bytes = vec![0; BYTES_MAX];
        // At its end, or where it cannot be read, the task is told so.
        let read = rustix::io::read(&stdin, &mut bytes).unwrap_or(0);
        bytes.truncate(read);
        input.underway += read;
        input.is_ended = read == 0;
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
