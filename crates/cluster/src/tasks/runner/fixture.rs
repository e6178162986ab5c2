//! What the unit tests of the runner begin with: a job, and a part whose other end the test has.
//! Never starts a process.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use hythe_node::{Node, Pool, PoolOptions};
use tempfile::TempDir;

use super::output::Writer;
use super::part_protocol::link::PartLink;
use super::part_protocol::message::{FromPart, ToPart};
use super::remote::{RemotePart, SharedPart};
use super::{Job, JobHost, JobOptions, Place, Runner};
use crate::tasks::error::TaskError;
use crate::tasks::message::{self, Reply, Request, Spawn};
use crate::tasks::place::socket_path;

/// A job of host a without tasks and other hosts, in a pool that no agent serves.
pub(super) fn job() -> (TempDir, Job) {
    let root = tempfile::tempdir().expect("a directory");
    let options = PoolOptions::new("test").root(root.path()).bytes(16 << 20);
    let pool = Pool::open_or_create(&options).expect("a pool");
    let options = JobOptions {
        program: "true".into(),
        arguments: Vec::new(),
        count: 0,
        environment: Vec::new(),
        keeps_going: false,
        whole_lines: true,
        has_terminal: true,
        directory: None,
        stays: false,
        host: "a".to_owned(),
        hosts: Vec::new(),
    };
    let runner = Runner {
        options,
        place: Place::take(&pool, 1).expect("a number"),
        directory: pool.path(),
        node: Node::join(&pool, "job").expect("joined"),
        front: None,
    };
    let signals = UnixStream::pair().expect("a pair").0;
    let job = Job::new(runner, signals).expect("an eventfd");
    (root, job)
}

/// A part as its runner has it, and the end of it on its host.
pub(super) fn part(host: &str) -> (SharedPart, PartLink) {
    let (here, there) = UnixStream::pair().expect("a pair");
    let link = |stream| PartLink::new(stream).expect("set");
    let mut part = RemotePart::new(host.parse().expect("a name"), link(here));
    // Whatever comes, no other is begun beside it.
    part.hosts_known = usize::MAX;
    (Rc::new(RefCell::new(part)), link(there))
}

/// The job has this host, and its part.
pub(super) fn add(job: &mut Job, part: &SharedPart) {
    job.runner.options.hosts.push(JobHost {
        name: part.borrow().host.clone(),
        slots: 1,
    });
    job.parts.push(SharedPart::clone(part));
    // Each was told of all hosts.
    let known = job.others().count();
    for part in &job.parts {
        part.borrow_mut().hosts_known = known;
    }
}

/// Two tasks of that program, anywhere.
pub(super) fn spawn(job: &Job, program: &str) -> Spawn {
    Spawn {
        parent: job.runner.place.job.task(0).expect("in range"),
        program: program.to_owned(),
        arguments: Vec::new(),
        count: 2,
        environment: Vec::new(),
        directory: None,
        place: message::Place::Anywhere,
        on_hosts: Vec::new(),
    }
}

/// The part starts what it is asked next, with these process ids.
pub(super) fn start(there: &mut PartLink, pids: &[u32]) {
    let asked = there.next();
    assert!(matches!(asked, Some(ToPart::Start(_))), "{asked:?}");
    there.say(&FromPart::Started {
        pids: pids.to_vec(),
        program: "/bin/x".to_owned(),
    });
}

/// One look of the job's loop, where what tasks print goes nowhere.
pub(super) fn look(job: &mut Job) {
    let mut writer = Writer::start(Box::new(|_| Ok(()))).expect("a thread");
    try_look(job, &mut writer).expect("no error");
}

pub(super) fn try_look(job: &mut Job, writer: &mut Writer) -> Result<(), TaskError> {
    job.answer_clients();
    job.hear_answers();
    job.go_on_spawning()?;
    job.hear_parts(writer);
    job.take_ends()
}

/// A process that asks the runner of a job.
pub(super) struct Asking(BufReader<UnixStream>);

impl Asking {
    pub(super) fn connect(job: &mut Job) -> Self {
        let path = socket_path(&job.runner.directory, job.runner.place.job);
        let stream = UnixStream::connect(path).expect("it listens");
        // It only ends tests that have failed.
        let bound = Some(Duration::from_secs(60));
        stream.set_read_timeout(bound).expect("set");
        job.clients.accept(&job.runner.place.listener);
        Self(BufReader::new(stream))
    }

    pub(super) fn say(&mut self, request: &Request) {
        let mut line = serde_json::to_vec(request).expect("plain");
        line.push(b'\n');
        self.0.get_mut().write_all(&line).expect("written");
    }

    pub(super) fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a reply");
        serde_json::from_str(&line).expect("a reply")
    }

    /// What it is told at the next look.
    pub(super) fn ask(&mut self, job: &mut Job, request: &Request) -> Reply {
        self.say(request);
        look(job);
        self.reply()
    }
}
