//! A connection to a runner.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hythe_node::{Pool, hop};
use hythe_sys::own_file::OwnFile;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, recv};
use rustix::process::Pid;

use super::agent_link;
use super::agent_message::{AgentReply, AgentRequest};
use super::error::TaskError;
use super::id::{JobId, TaskId};
use super::message::{LINE_BYTES_MAX, Reply, Request};
use super::place::{connect_within, file, is_left_behind, socket_path};

/// A runner answers at once; one that was stopped by a signal does not.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// One that runs and does not answer has a machine that is busy, within reason.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);
/// One that starts tasks on another host answers when its agent has answered twice (10 s each at
/// most), and the part there twice (4 s each).
const SPAWN_TIMEOUT: Duration = Duration::from_secs(30);

/// It is over when the runner is gone, and all tasks of the job with it.
#[derive(Debug)]
pub(super) struct RunnerLink {
    job: JobId,
    /// For people: the runner's socket.
    path: PathBuf,
    stream: OwnFile<UnixStream>,
    /// Of the runner, or of the agent that leads to it.
    pid: Option<Pid>,
    /// What has come of a line.
    line: Vec<u8>,
    ended: BTreeSet<TaskId>,
    /// The barrier that has opened: the group's name, and who is missing.
    met: Option<(String, Option<TaskId>)>,
    /// Requests that were given up, whose answers may come yet.
    unanswered: u32,
    is_over: bool,
}

impl RunnerLink {
    /// `None`: there is no such job, or no more.
    pub(super) fn connect(pool: &Pool, job: JobId) -> Result<Option<Self>, TaskError> {
        let path = socket_path(&pool.path(), job);
        let stream = match connect_within(&path, REPLY_TIMEOUT) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::NotFound || is_left_behind(&error) => {
                match elsewhere(&pool.path(), job)? {
                    Some(stream) => stream,
                    None => return Ok(None),
                }
            }
            Err(error) => return Err(file("connect to", &path, error)),
        };
        let limited = stream.set_write_timeout(Some(REPLY_TIMEOUT));
        limited.map_err(|error| file("connect to", &path, error))?;
        Ok(Some(Self::new(stream, job, path)))
    }

    fn new(stream: UnixStream, job: JobId, path: PathBuf) -> Self {
        Self {
            job,
            path,
            pid: socket_peercred(&stream).ok().map(|peer| peer.pid),
            stream: OwnFile::new(stream),
            line: Vec::new(),
            ended: BTreeSet::new(),
            met: None,
            unanswered: 0,
            is_over: false,
        }
    }

    /// `None`: the runner is gone.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Option<Reply>, TaskError> {
        let timeout = match request {
            Request::Spawn(_) => SPAWN_TIMEOUT,
            _ => REPLY_TIMEOUT,
        };
        self.ask_within(request, timeout, BUSY_TIMEOUT)
    }

    /// Within `timeout` of a runner that is stopped, within `busy` more of one that runs.
    fn ask_within(
        &mut self,
        request: &Request,
        timeout: Duration,
        busy: Duration,
    ) -> Result<Option<Reply>, TaskError> {
        self.check_open()?;
        let start = Instant::now();
        let sent = self.send(request);
        let is_sent = sent.is_ok();
        match sent.and_then(|()| self.receive_unless_stopped(timeout, busy)) {
            Ok(reply) => {
                self.is_over |= reply.is_none();
                Ok(reply)
            }
            Err(error) => match error.kind() {
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                    self.is_over = true;
                    Ok(None)
                }
                ErrorKind::WouldBlock => {
                    // If its answer comes later, it is not that to the next request.
                    self.unanswered += u32::from(is_sent);
                    Err(self.error(format!(
                        "no answer for {} s; is it stopped?",
                        start.elapsed().as_secs()
                    )))
                }
                _ => Err(self.error(error.to_string())),
            },
        }
    }

    /// Takes in what has come, without waiting. Has this task ended?
    pub(super) fn has_ended(&mut self, task: TaskId) -> Result<bool, TaskError> {
        self.take_in(|link| link.ended.contains(&task))?;
        Ok(self.is_over || self.ended.contains(&task))
    }

    /// An error: the program has closed its descriptor, whose number may be another file's.
    fn check_open(&self) -> Result<(), TaskError> {
        match self.stream.is_open() {
            true => Ok(()),
            false => Err(hop::descriptor_lost(self.path.clone()).into()),
        }
    }

    /// A task with this number has begun: an end that was told is that of an earlier one.
    pub(super) fn note_begun(&mut self, task: TaskId) {
        self.ended.remove(&task);
    }

    /// Takes in what has come, without waiting: a barrier of this group that has opened, and the
    /// member that is missing there. An error: the runner is gone.
    pub(super) fn take_met(&mut self, group: &str) -> Result<Option<Option<TaskId>>, TaskError> {
        self.take_in(|link| link.met.is_some())?;
        match self.met.take() {
            Some((of, missing)) if of == group => Ok(Some(missing)),
            // Of a barrier that this task has given up.
            _ if self.is_over => Err(self.error("it is gone".to_owned())),
            _ => Ok(None),
        }
    }

    /// What becomes readable when the runner says something.
    pub(super) fn poll_handle(&self) -> Result<OwnedFd, TaskError> {
        let handle = self.stream.as_fd().try_clone_to_owned();
        handle.map_err(|error| self.error(error.to_string()))
    }

    /// An error: the program has closed the connection's descriptor.
    fn take_in(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<(), TaskError> {
        let mut part = [0; 1024];
        // An end may have come together with the answer before it.
        while let Ok(Some(_)) = self.take_line() {}
        while !self.is_over && !is_enough(self) {
            // Nearly always nothing is there. Before reading, it is asked whose descriptor this is.
            let peek = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            if matches!(
                recv(&self.stream, &mut [0; 1], peek),
                Err(Errno::WOULDBLOCK)
            ) {
                break;
            }
            self.check_open()?;
            match recv(&self.stream, &mut part, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.is_over = true,
                Ok((read, _)) => {
                    self.line.extend_from_slice(&part[..read]);
                    // Nothing was asked, so these are ends.
                    while let Ok(Some(_)) = self.take_line() {}
                    self.is_over |= self.line.len() > LINE_BYTES_MAX;
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => break,
                // Reset: the runner was killed before it read what it was asked.
                Err(_) => self.is_over = true,
            }
        }
        Ok(())
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        (&*self.stream).write_all(&line)
    }

    /// Waits longer for a runner that has not been stopped.
    fn receive_unless_stopped(
        &mut self,
        timeout: Duration,
        busy: Duration,
    ) -> io::Result<Option<Reply>> {
        match self.receive(timeout) {
            Err(error)
                if error.kind() == ErrorKind::WouldBlock && !self.pid.is_some_and(is_stopped) =>
            {
                self.receive(busy)
            }
            received => received,
        }
    }

    fn receive(&mut self, timeout: Duration) -> io::Result<Option<Reply>> {
        self.stream.set_read_timeout(Some(timeout))?;
        let mut part = [0; 4096];
        loop {
            if let Some(reply) = self.take_line()? {
                return Ok(Some(reply));
            }
            match (&*self.stream).read(&mut part) {
                Ok(0) => return Ok(None),
                Ok(read) => self.line.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.line.len() > LINE_BYTES_MAX {
                return Err(io::Error::other("its answer is too long"));
            }
        }
    }

    /// The next whole line that was asked for.
    fn take_line(&mut self) -> io::Result<Option<Reply>> {
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            match serde_json::from_slice(&line)? {
                Reply::Ended { task } => {
                    self.ended.insert(task);
                }
                Reply::Met { group, missing } => self.met = Some((group, missing)),
                _ if self.unanswered > 0 => self.unanswered -= 1,
                reply => return Ok(Some(reply)),
            }
        }
        Ok(None)
    }

    fn error(&self, reason: String) -> TaskError {
        TaskError::Runner {
            job: self.job.job(),
            reason,
        }
    }
}

/// The runner is on another host, if the job has a host's number: the agent leads there.
fn elsewhere(directory: &Path, job: JobId) -> Result<Option<UnixStream>, TaskError> {
    if job.host() == 0 {
        return Ok(None);
    }
    match agent_link::ask(directory, &AgentRequest::Runner { job }) {
        Ok(Some((AgentReply::Connected, stream))) => Ok(Some(stream)),
        // It would be on this one.
        Ok(Some((AgentReply::Here { .. }, _))) => Ok(None),
        Ok(Some((other, _))) => Err(agent_link::unexpected(&other)),
        // Its host is gone, or takes this one for none of the job: all of it is over here.
        Ok(None) | Err(TaskError::Agent { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// By a signal, or by a debugger.
fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // `PID (NAME) STATE …`, where the name may have brackets.
    let stat = String::from_utf8_lossy(&stat);
    let state = stat.rsplit_once(") ");
    state.is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, kill_process};

    use super::*;
    use hythe_testing::{eventually, let_time_pass};

    fn link(stream: UnixStream) -> RunnerLink {
        let job = JobId::new(0, 1).expect("in range");
        RunnerLink::new(stream, job, PathBuf::from("runner"))
    }

    fn say(mut runner: &UnixStream, replies: &[Reply]) {
        for reply in replies {
            let mut line = serde_json::to_vec(reply).expect("plain");
            line.push(b'\n');
            runner.write_all(&line).expect("written");
        }
    }

    #[test]
    fn answer_that_comes_late_is_not_that_to_the_next_request() {
        let (stream, runner) = UnixStream::pair().expect("a pair");
        let mut link = link(stream);
        let soon = Duration::from_millis(1);
        for _ in 0..2 {
            assert!(link.ask_within(&Request::List, soon, soon).is_err());
        }
        let late = Reply::Tasks { tasks: Vec::new() };
        say(&runner, &[late.clone(), late, Reply::Done]);
        assert_eq!(
            link.ask(&Request::End).expect("answered"),
            Some(Reply::Done)
        );
        say(&runner, &[Reply::NoSuchTask]);
        let next = link.ask(&Request::End).expect("answered");
        assert_eq!(next, Some(Reply::NoSuchTask));
    }

    #[test]
    fn busy_runner_gets_longer_than_a_stopped_one() {
        let (stream, runner) = UnixStream::pair().expect("a pair");
        let mut link = link(stream);
        let (soon, late) = (Duration::from_millis(1), Duration::from_secs(120));
        // This process, which runs.
        let answering = std::thread::spawn(move || {
            let_time_pass(Duration::from_millis(30), "longer than the first time-out");
            say(&runner, &[Reply::Done]);
            runner
        });
        let answered = link.ask_within(&Request::End, soon, late);
        assert_eq!(answered.expect("answered"), Some(Reply::Done));
        let _runner = answering.join().expect("no panic");

        let mut stopped = std::process::Command::new("sleep");
        let mut stopped = stopped.arg("600").spawn().expect("sleep");
        let pid = Pid::from_child(&stopped);
        kill_process(pid, Signal::STOP).expect("a child");
        eventually("it is stopped", || is_stopped(pid));
        link.pid = Some(pid);
        let refused = link.ask_within(&Request::End, soon, late);
        let refused = refused.expect_err("no answer").to_string();
        assert!(refused.contains("is it stopped?"), "{refused}");
        stopped.kill().expect("a child");
        stopped.wait().expect("a child");
    }

    #[test]
    fn end_that_comes_with_the_answer_before_it_is_seen() {
        let (stream, runner) = UnixStream::pair().expect("a pair");
        let task: TaskId = "1.2".parse().expect("in range");
        let mut link = link(stream);
        say(&runner, &[Reply::Done, Reply::Ended { task }]);
        let answer = link.ask(&Request::Watch { task }).expect("answered");
        assert_eq!(answer, Some(Reply::Done));
        assert!(link.has_ended(task).expect("open"));
        let other: TaskId = "1.3".parse().expect("in range");
        assert!(!link.has_ended(other).expect("open"));
        drop(runner);
        assert!(link.has_ended(other).expect("open"), "with its runner");
    }
}
