//! This process as a task.

mod ends;
mod enrol;
mod group;
mod header;
mod in_place;
mod inbox;
mod lease;
mod mail;
mod meeting;
mod outbox;
mod reach;
mod senders;
mod spawn;

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hythe_flows::Flows;
use hythe_node::hop::{self, Transport};
use hythe_node::{Node, Pool, PoolOptions};

use super::error::TaskError;
use super::id::TaskId;
pub use ends::Ends;
pub use group::{Group, ReducedValue};
use header::Header;
use inbox::Inbox;
pub use inbox::{Message, Wanted};
pub use lease::MessageLease;
pub use mail::linger_at_exit;
use mail::{Mail, Ready};
use outbox::Outbox;
use senders::Senders;
pub use spawn::{SpawnOptions, SpawnPlace};

/// How often a wait looks whether a task has ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long messages of a task that has ended on another host may be on their way.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Unless [`TaskOptions::kept_bytes`] or [`TaskOptions::passed_by_bytes`] says otherwise.
const KEPT_BYTES_MAX: usize = 1 << 30;

/// Options of a task.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    kept_bytes: usize,
    passed_by_bytes: usize,
    linger: Duration,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            kept_bytes: KEPT_BYTES_MAX,
            passed_by_bytes: KEPT_BYTES_MAX,
            linger: Duration::MAX,
        }
    }
}

impl TaskOptions {
    /// How many bytes are kept in this process's memory for tasks that do not receive; default
    /// 1 GiB.
    #[must_use]
    pub const fn kept_bytes(mut self, kept_bytes: usize) -> Self {
        self.kept_bytes = kept_bytes;
        self
    }

    /// How many bytes of messages that have come and were not wanted yet are kept in this process's
    /// memory, and 256 for each of them; default 1 GiB.
    #[must_use]
    pub const fn passed_by_bytes(mut self, passed_by_bytes: usize) -> Self {
        self.passed_by_bytes = passed_by_bytes;
        self
    }

    /// How long dropping the task waits for those that have not received yet; default: until they
    /// have, or have ended.
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }
}

/// This process as a task of a job: started by `hythe run`, or spawned by another task.
///
/// Sending never waits for the receiver. What it has no place for stays in this process's memory,
/// up to [a limit](TaskOptions::kept_bytes), and is sent by a thread. Messages of one task to
/// another arrive in order.
///
/// Dropping it waits until all receivers have what was sent, or have ended, for at most the
/// [linger time](TaskOptions::linger). Where the program has closed its descriptors, with others
/// that it found open (`closefrom(3)`), and in a forked child, dropping it does nothing.
#[derive(Debug)]
pub struct Task {
    id: TaskId,
    rank: u32,
    size: u32,
    parent: Option<TaskId>,
    mail: Arc<Mail>,
    /// For event loops, once one is used.
    ready: Option<Ready>,
    ends: Arc<Mutex<Ends>>,
    /// Whose ends are to be told.
    notices: BTreeSet<TaskId>,
    node: Node,
}

/// What a task is in its job.
#[derive(Clone, Copy, Debug)]
struct Role {
    id: TaskId,
    rank: u32,
    size: u32,
    parent: Option<TaskId>,
}

impl Task {
    /// Joins the pool of the job, as the task that the environment says.
    ///
    /// # Errors
    /// [`TaskError::NotATask`]; the pool's.
    pub fn join() -> Result<Self, TaskError> {
        Self::join_with(&TaskOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Task::join`].
    pub fn join_with(options: &TaskOptions) -> Result<Self, TaskError> {
        let role = Role {
            id: number("HYTHE_TASK")?,
            rank: number("HYTHE_RANK")?,
            size: number("HYTHE_SIZE")?,
            parent: match hythe_sys::environment::variable("HYTHE_PARENT") {
                None => None,
                Some(_) => Some(number("HYTHE_PARENT")?),
            },
        };
        let pool = Pool::open(&pool_options()?)?;
        let ends = Ends::new(&pool);
        Self::start(&pool, role, ends, options)
    }

    fn start(
        pool: &Pool,
        role: Role,
        ends: Ends,
        options: &TaskOptions,
    ) -> Result<Self, TaskError> {
        // Tasks of other hosts are reached past the agents.
        let flows = Arc::new(Flows::new());
        let transports: [Arc<dyn Transport>; 1] = [Arc::<Flows>::clone(&flows)];
        let node = hop::join(pool, &format!("task {}", role.id), &transports)?;
        let ends = Arc::new(Mutex::new(ends));
        let senders = Senders::new(role.id, Arc::clone(&ends));
        let inbox = Inbox::open(&node, role.id, senders, options.passed_by_bytes)?;
        let outbox = Outbox::start(role.id, &node, &ends, options.kept_bytes)?;
        Ok(Self {
            id: role.id,
            rank: role.rank,
            size: role.size,
            parent: role.parent,
            mail: Mail::new(inbox, outbox, flows, options.linger)?,
            ready: None,
            ends,
            notices: BTreeSet::new(),
            node,
        })
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Its rank among those that were started with it: from 0 on.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// How many were started with it.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Who had it spawned. `None`: the job began with it.
    #[must_use]
    pub const fn parent(&self) -> Option<TaskId> {
        self.parent
    }

    /// All that were started with it, itself among them, by rank.
    #[must_use]
    pub fn siblings(&self) -> Vec<TaskId> {
        let first = self.id.index().saturating_sub(self.rank);
        let indices = first..first.saturating_add(self.size);
        indices
            .filter_map(|index| self.id.job_id().task(index))
            .collect()
    }

    /// The pool of the job, for channels of its own.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.node.pool()
    }

    /// Does the program still have the descriptors of this task?
    ///
    /// # Errors
    /// [`hythe_node::NodeError::PoolLost`]: it has closed them, with others that it found open.
    pub fn check_descriptors(&self) -> Result<(), TaskError> {
        match hop::is_missing_descriptors(&self.node) {
            true => Ok(self.pool().check_whole()?),
            false => Ok(()),
        }
    }

    /// Sends a message, without waiting for its receiver: one that has not joined yet gets it when
    /// it does.
    ///
    /// # Errors
    /// [`TaskError::Ended`], [`TaskError::OutOfReach`], [`TaskError::KeptTooMuch`]; the pool's.
    pub fn send(&self, to: TaskId, tag: u32, bytes: &[u8]) -> Result<(), TaskError> {
        self.send_in(0, to, tag, bytes)
    }

    fn send_in(&self, context: u32, to: TaskId, tag: u32, bytes: &[u8]) -> Result<(), TaskError> {
        let header = self.header(context, tag, bytes.len());
        self.mail.outbox.send(to, header, bytes)
    }

    const fn header(&self, context: u32, tag: u32, bytes: usize) -> Header {
        Header {
            source: self.id,
            context,
            tag,
            total: bytes as u64,
            offset: 0,
        }
    }

    /// Receives the first message that is wanted, waiting for at most `timeout`. `None`: none came.
    ///
    /// # Errors
    /// [`TaskError::Ended`]: it is wanted from a task that has ended, and has sent none;
    /// [`TaskError::InboxFull`]: none is among those that were passed by, and no more are kept;
    /// the pool's.
    pub fn receive(
        &mut self,
        wanted: Wanted,
        timeout: Duration,
    ) -> Result<Option<Message>, TaskError> {
        let received = self.find_or_wait(wanted, timeout);
        self.look_again()?;
        received
    }

    /// For event loops: readable while a message may have come, from this call on. Once
    /// [`Task::receive`] has taken all that came it is so no more, until the next comes. What that
    /// has passed by does not count: receive it first.
    ///
    /// # Errors
    /// The system has no descriptor or thread for it.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, TaskError> {
        self.check_descriptors()?;
        let mut inbox = self.mail.inbox();
        let ready = match self.ready.take() {
            Some(ready) => ready,
            None => Ready::new(&self.node, &mut inbox)?,
        };
        let ready = self.ready.insert(ready);
        ready.note(&inbox)?;
        drop(inbox);
        ready.descriptor()
    }

    /// Keeps what has come in this process's memory, as much as its limit allows, so that it does
    /// not occupy the pool while this task waits for something else. [`Task::barrier`],
    /// [`Task::take_end`], [`Task::has_ended`] and [`Task::flush`] do so by themselves.
    ///
    /// # Errors
    /// The pool's.
    pub fn keep_arrived(&self) -> Result<(), TaskError> {
        let mut inbox = self.mail.inbox();
        inbox.keep_arrived()?;
        match &self.ready {
            Some(ready) => {
                self.check_descriptors()?;
                ready.note(&inbox)
            }
            None => Ok(()),
        }
    }

    /// The descriptor is readable if there is more, and asks for the next if not.
    fn look_again(&mut self) -> Result<(), TaskError> {
        if self.ready.is_some() {
            self.check_descriptors()?;
        }
        match &mut self.ready {
            Some(ready) => {
                ready.note(&self.mail.inbox())?;
                ready.look_again()
            }
            None => Ok(()),
        }
    }

    fn find_or_wait(
        &mut self,
        wanted: Wanted,
        timeout: Duration,
    ) -> Result<Option<Message>, TaskError> {
        let start = Instant::now();
        let there = self.mail.inbox().find(wanted)?;
        if there.is_some() {
            return Ok(there);
        }
        loop {
            if let Some(source) = wanted.source
                && self.ends().has_ended(source)?
            {
                let found = self.find_last_words(wanted)?;
                return found.map(Some).ok_or(TaskError::Ended { task: source });
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let found = self.mail.inbox().wait(wanted, left.min(LOOK))?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// What a task sent before its end. On one host it is there when its end is told; from another
    /// one it comes by another way than that.
    fn find_last_words(&mut self, wanted: Wanted) -> Result<Option<Message>, TaskError> {
        let start = Instant::now();
        loop {
            let found = self.mail.inbox().find(wanted)?;
            let is_over = self.id.host() == 0 || start.elapsed() >= LAST_WORDS;
            if found.is_some() || is_over {
                return Ok(found);
            }
            let found = self.mail.inbox().wait(wanted, LOOK)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Is there a message that is wanted? It stays where it is in the order of all that came.
    ///
    /// # Errors
    /// [`TaskError::InboxFull`] as for [`Task::receive`]; the pool's.
    pub fn probe(&mut self, wanted: Wanted) -> Result<Option<(TaskId, u32, usize)>, TaskError> {
        let mut inbox = self.mail.inbox();
        let found = inbox.peek(wanted)?;
        Ok(found.map(|message| (message.source(), message.tag(), message.len())))
    }

    /// Has a task ended? One that never was has.
    ///
    /// # Errors
    /// Its runner does not answer; the pool's.
    pub fn has_ended(&self, task: TaskId) -> Result<bool, TaskError> {
        // Programs ask again and again until it has, and receive nothing meanwhile.
        self.keep_arrived()?;
        self.ends().has_ended(task)
    }

    /// From now on [`Task::take_end`] tells the end of this task, also if it has ended already.
    ///
    /// # Errors
    /// As [`Task::has_ended`].
    pub fn notify_end(&mut self, task: TaskId) -> Result<(), TaskError> {
        self.ends().has_ended(task)?;
        self.notices.insert(task);
        Ok(())
    }

    /// Takes the end of a task that was [asked for](Task::notify_end), waiting for at most
    /// `timeout`; each once. `None`: none has ended.
    ///
    /// # Errors
    /// As [`Task::has_ended`].
    pub fn take_end(&mut self, timeout: Duration) -> Result<Option<TaskId>, TaskError> {
        let start = Instant::now();
        loop {
            for task in self.notices.clone() {
                if self.ends().was_seen_to_end(task)? {
                    self.notices.remove(&task);
                    return Ok(Some(task));
                }
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() || self.notices.is_empty() {
                return Ok(None);
            }
            // That task may wait until what it sent is taken.
            self.keep_arrived()?;
            hythe_sys::wait::sleep(left.min(LOOK));
        }
    }

    /// How many bytes are kept for tasks that do not receive, and 128 for each message.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.mail.outbox.kept_bytes()
    }

    /// From now on so many bytes are kept at most, instead of [those](TaskOptions::kept_bytes) it
    /// began with. What is kept already is sent all the same.
    pub fn set_kept_bytes_max(&self, kept_bytes: usize) {
        self.mail.outbox.set_kept_bytes_max(kept_bytes);
    }

    /// From now on so many bytes of messages that were not wanted yet are kept at most, instead of
    /// [those](TaskOptions::passed_by_bytes) it began with. What is kept already stays.
    pub fn set_passed_by_bytes_max(&self, passed_by_bytes: usize) {
        self.mail.inbox().set_kept_bytes_max(passed_by_bytes);
    }

    /// How many messages were lost, because their receivers ended before they received them, or
    /// could not be reached.
    #[must_use]
    pub fn lost_messages(&self) -> u64 {
        self.mail.outbox.lost()
    }

    /// How many pieces of messages made no sense, or were not from the task that they named.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.mail.inbox().violations
    }

    /// Waits until nothing is kept any more. False: the time was over first.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            if self.mail.outbox.flush(left.min(LOOK)) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            // Those that receive may wait until theirs is taken. What fails here fails again, and
            // is an error then, when something is received.
            let _ = self.keep_arrived();
        }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.mail.is_to_be_forgotten() {
            // The node is in the mail, and stays with it.
            std::mem::forget((
                self.ready.take(),
                Arc::clone(&self.mail),
                Arc::clone(&self.ends),
            ));
            return;
        }
        self.mail.linger();
    }
}

/// `USER/NAME` is another user's pool, as for commands.
fn pool_options() -> Result<PoolOptions, TaskError> {
    Ok(PoolOptions::new(&variable("HYTHE_POOL")?))
}

fn number<T: std::str::FromStr>(name: &str) -> Result<T, TaskError> {
    let text = variable(name)?;
    text.parse().map_err(|_| TaskError::NotATask {
        what: format!(
            "the variable {name} of its environment is `{}`",
            hythe_terminal::escaped(&text)
        ),
    })
}

fn variable(name: &str) -> Result<String, TaskError> {
    hythe_sys::environment::text(name).ok_or_else(|| TaskError::NotATask {
        what: format!("its environment has no {name}"),
    })
}
