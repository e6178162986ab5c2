//! What the unit tests of the runner begin with: a job, and a part whose other end the test has.
//! Never starts a process.

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use hythe_node::{Node, Pool, PoolOptions};
use tempfile::TempDir;

use super::clients::Clients;
use super::groups::Groups;
use super::part_protocol::link::PartLink;
use super::remote::{RemotePart, SharedPart};
use super::{Job, JobOptions, Place, Runner};

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
        stays: false,
        host: "a".to_owned(),
        is_local: false,
        hosts: Vec::new(),
    };
    let runner = Runner {
        options,
        place: Place::take(&pool, 1).expect("a number"),
        directory: pool.path(),
        _node: Node::join(&pool, "job").expect("joined"),
        front: None,
    };
    let job = Job {
        runner,
        tasks: Vec::new(),
        ends: Vec::new(),
        clients: Clients::default(),
        groups: Groups::default(),
        signals: UnixStream::pair().expect("a pair").0,
        asked_to_end: None,
        is_front_gone: false,
        next_index: 0,
        next_slot: 0,
        parts: Vec::new(),
        input: None,
    };
    (root, job)
}

/// A part as its runner has it, and the end of it on its host.
pub(super) fn part(host: &str) -> (SharedPart, PartLink) {
    let (here, there) = UnixStream::pair().expect("a pair");
    let link = |stream| PartLink::new(stream).expect("set");
    let part = RemotePart::new(host.parse().expect("a name"), link(here));
    (Rc::new(RefCell::new(part)), link(there))
}
