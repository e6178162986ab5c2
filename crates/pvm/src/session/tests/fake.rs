//! A machine in memory: tasks are threads of a test, or take turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::code::Code;
use crate::machine::{Identity, Machine, Outgoing, Process, Reply, Request, Spawn, State};
use crate::tid::{FIRST_HOST, Tid};

/// How long a test waits for what has to come.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// What a session keeps in a test.
pub(super) const KEPT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
struct Inside {
    state: State,
    messages: BTreeMap<Tid, VecDeque<Vec<u8>>>,
    replies: BTreeMap<Tid, VecDeque<Reply>>,
    parents: BTreeMap<Tid, Tid>,
    ended: BTreeSet<Tid>,
    spawned: Vec<Spawn>,
}

impl Inside {
    fn deliver(&mut self, sent: Vec<(Tid, Outgoing)>) {
        for (to, outgoing) in sent {
            match outgoing {
                Outgoing::Reply(reply) => self.replies.entry(to).or_default().push_back(reply),
                Outgoing::Message(frame) => self.messages.entry(to).or_default().push_back(frame),
            }
        }
    }
}

/// The machine of a test.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    inside: Arc<(Mutex<Inside>, Condvar)>,
}

impl Network {
    /// The task with a number; those from 2 on are children of the first.
    pub(super) fn machine(&self, local: u32) -> Box<dyn Machine> {
        let task = Tid::task(FIRST_HOST, local).expect("in range");
        let mut inside = self.lock();
        inside.state.name_first_host("here");
        assert!(inside.state.enroll(task), "twice");
        let parent = inside.parents.get(&task).copied();
        drop(inside);
        Box::new(Fake {
            identity: Identity {
                task,
                parent,
                siblings: vec![task],
            },
            network: self.clone(),
        })
    }

    pub(super) fn end(&self, task: Tid) {
        let mut inside = self.lock();
        inside.ended.insert(task);
        let sent = inside.state.leave(task);
        inside.deliver(sent);
        self.inside.1.notify_all();
    }

    /// A task prints.
    pub(super) fn print(&self, task: Tid, bytes: &[u8]) {
        let mut inside = self.lock();
        let sent = inside.state.output(task, bytes);
        inside.deliver(sent);
        self.inside.1.notify_all();
    }

    pub(super) fn spawned(&self) -> Vec<Spawn> {
        self.lock().spawned.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(&self, timeout: Duration, look: impl Fn(&mut Inside) -> Option<T>) -> Option<T> {
        let end = Instant::now() + timeout;
        let mut inside = self.lock();
        loop {
            if let Some(found) = look(&mut inside) {
                return Some(found);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.inside.1.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[derive(Debug)]
struct Fake {
    identity: Identity,
    network: Network,
}

impl Machine for Fake {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn send(&mut self, to: Tid, frame: &[u8]) -> Result<(), Code> {
        let mut inside = self.network.lock();
        let queue = inside.messages.entry(to).or_default();
        queue.push_back(frame.to_vec());
        self.network.inside.1.notify_all();
        Ok(())
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, Code> {
        let own = self.identity.task;
        let take = |inside: &mut Inside| inside.messages.get_mut(&own)?.pop_front();
        Ok(self.network.wait(timeout, take))
    }

    fn kept_bytes_max(&self) -> usize {
        KEPT_BYTES_MAX
    }

    fn ask(&mut self, request: Request) -> Result<Reply, Code> {
        self.begin(request)?;
        self.reply(TIMEOUT)?.ok_or(Code::SYSTEM)
    }

    fn begin(&mut self, request: Request) -> Result<(), Code> {
        let mut inside = self.network.lock();
        let sent = inside.state.ask(self.identity.task, request);
        inside.deliver(sent);
        self.network.inside.1.notify_all();
        Ok(())
    }

    fn reply(&mut self, timeout: Duration) -> Result<Option<Reply>, Code> {
        let own = self.identity.task;
        let take = |inside: &mut Inside| inside.replies.get_mut(&own)?.pop_front();
        Ok(self.network.wait(timeout, take))
    }

    fn spawn(&mut self, spawn: &Spawn) -> Vec<Result<Tid, Code>> {
        let mut inside = self.network.lock();
        if spawn.program == "missing" {
            return vec![Err(Code::NO_FILE); spawn.count as usize];
        }
        inside.spawned.push(spawn.clone());
        let first = inside.parents.len() as u32 + 100;
        let tids = (0..spawn.count).map(|rank| {
            let task = Tid::task(FIRST_HOST, first + rank).expect("in range");
            inside.parents.insert(task, self.identity.task);
            Ok(task)
        });
        tids.collect()
    }

    fn processes(&mut self) -> Result<Vec<Process>, Code> {
        let inside = self.network.lock();
        let row = |task: &Tid| Process {
            task: *task,
            parent: inside.parents.get(task).copied(),
            pid: task.local(),
            program: "/bin/program".to_owned(),
            is_enrolled: true,
        };
        Ok(inside.messages.keys().map(row).collect())
    }

    fn delete_hosts(&mut self, _names: Vec<String>) -> Result<Vec<i32>, Code> {
        Err(Code::NOT_IMPLEMENTED)
    }

    fn signal(&mut self, task: Tid, _signal: i32) -> Result<(), Code> {
        match self.network.lock().ended.contains(&task) {
            true => Err(Code::NO_TASK),
            false => Ok(()),
        }
    }

    fn has_ended(&mut self, task: Tid) -> Result<bool, Code> {
        Ok(self.network.lock().ended.contains(&task))
    }

    fn descriptors(&mut self) -> Result<Vec<i32>, Code> {
        Ok(Vec::new())
    }

    fn connection(&self) -> Option<i32> {
        None
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.network.end(self.identity.task);
    }
}
