//! Asks runners which tasks have ended, in a thread of its own: one that was stopped by a signal
//! answers late, and the server does not wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hythe_cluster::tasks;
use hythe_node::Pool;
use rustix::event::{PollFd, PollFlags};

use crate::numbers::task_of;
use crate::tid::Tid;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long the runner of a job that did not answer is left alone, so that others are asked.
const SILENCE: Duration = Duration::from_secs(10);

/// Tasks whose end is waited for, until this is dropped.
#[derive(Debug)]
pub(super) struct Ends {
    shared: Arc<Shared>,
    found: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    watched: BTreeSet<Tid>,
    ended: Vec<Tid>,
    is_over: bool,
}

impl Ends {
    /// Watches none yet. The host of the pool has that number in its realm.
    pub(super) fn start(pool: &Pool, realm_number: u32) -> io::Result<Self> {
        let (found, finds) = UnixStream::pair()?;
        found.set_nonblocking(true)?;
        finds.set_nonblocking(true)?;
        let shared = Arc::new(Shared::default());
        let asking = Asking {
            shared: Arc::clone(&shared),
            ends: tasks::Ends::new(pool),
            realm_number,
            silent: BTreeMap::new(),
            finds,
        };
        let thread = hythe_sys::wait::spawn("hythe-pvm-ends", move || asking.run())?;
        Ok(Self {
            shared,
            found,
            thread: Some(thread),
        })
    }

    /// Watches these, and no others any more.
    pub(super) fn watch(&self, tasks: BTreeSet<Tid>) {
        let mut inside = self.shared.lock();
        if inside.watched != tasks {
            inside.watched = tasks;
            self.shared.changed.notify_one();
        }
    }

    /// Readable once there are some to take.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.found, PollFlags::IN)
    }

    /// Those that have ended since this was called last; they are not watched any more.
    pub(super) fn take(&self) -> Vec<Tid> {
        let mut rung = [0; 64];
        while (&self.found).read(&mut rung).is_ok_and(|read| read > 0) {}
        mem::take(&mut self.shared.lock().ended)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            hythe_sys::wait::for_end_of(thread);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are watched, once there are some. `None`: it is over.
    fn watched(&self) -> Option<BTreeSet<Tid>> {
        let inside = self.lock();
        let is_idle = |inside: &mut Inside| inside.watched.is_empty() && !inside.is_over;
        let waited = self.changed.wait_while(inside, is_idle);
        let inside = waited.unwrap_or_else(PoisonError::into_inner);
        (!inside.is_over).then(|| inside.watched.clone())
    }

    /// Until it is time to look again.
    fn pause(&self) {
        let inside = self.lock();
        if !inside.is_over {
            drop(self.changed.wait_timeout(inside, LOOK));
        }
    }
}

struct Asking {
    shared: Arc<Shared>,
    ends: tasks::Ends,
    realm_number: u32,
    /// Jobs whose runner did not answer, and when it is asked again.
    silent: BTreeMap<(u32, u32), Instant>,
    finds: UnixStream,
}

impl Asking {
    fn run(mut self) {
        while let Some(watched) = self.shared.watched() {
            for task in watched {
                if self.has_ended(task) {
                    self.report(task);
                }
            }
            self.shared.pause();
        }
    }

    /// A runner that does not answer may run it still.
    fn has_ended(&mut self, tid: Tid) -> bool {
        // There is none such.
        let Some(task) = task_of(self.realm_number, tid) else {
            return true;
        };
        if self.shared.lock().is_over {
            return false;
        }
        let job = (task.host(), task.job());
        match self.silent.get(&job) {
            Some(until) if Instant::now() < *until => return false,
            _ => self.silent.remove(&job),
        };
        self.ends.has_ended(task).unwrap_or_else(|error| {
            tracing::debug!(%error, "it is not known whether a task has ended");
            self.silent.insert(job, Instant::now() + SILENCE);
            false
        })
    }

    fn report(&self, task: Tid) {
        let mut inside = self.shared.lock();
        if inside.watched.remove(&task) {
            inside.ended.push(task);
        }
        drop(inside);
        // A full one rings already.
        let _ = (&self.finds).write(&[1]);
    }
}
