//! Named counting semaphores.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hythe_abi::objects::VALUE_MAX;
use hythe_pool::{NewObject, ObjectKind, Wait, Who};

use super::open::{OpenPlan, Opened, unlink};
use super::sleep::{ChangeWait, ChangeWord, wake};
use super::watch::WatchPlace;
use super::{Deadline, SyncError, lock, name};
use crate::node::Node;
use crate::participant::Participant;
use crate::spin::is_realtime;
use crate::spinner::SharedSpinner;

/// How to open a semaphore.
#[derive(Clone, Copy, Debug)]
pub struct SemaphoreOptions {
    create: bool,
    exclusive: bool,
    mode: u32,
    value: u32,
    recover: bool,
}

impl Default for SemaphoreOptions {
    /// Of an existing one.
    fn default() -> Self {
        Self {
            create: false,
            exclusive: false,
            mode: 0o600,
            value: 0,
            recover: false,
        }
    }
}

impl SemaphoreOptions {
    /// Made with this value if there is none.
    #[must_use]
    pub const fn create(mut self, value: u32) -> Self {
        self.create = true;
        self.value = value;
        self
    }

    /// Refused if there is one.
    #[must_use]
    pub const fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Who may use a new one, as of a file; both bits, read and write, are needed.
    #[must_use]
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode & 0o777;
        self
    }

    /// Counts that a dead holder of a new one had come back at once, and its death is not
    /// reported.
    #[must_use]
    pub const fn recover(mut self, recover: bool) -> Self {
        self.recover = recover;
        self
    }
}

/// What a semaphore has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SemaphoreInfo {
    /// Its value.
    pub value: u32,
    /// Counts held, by participant and task.
    pub holders: Vec<(u8, u32, u32)>,
    /// Counts that dead holders had and nobody gave back.
    pub abandoned: u32,
}

/// A named semaphore of the pool, opened by a node. Its end closes it: what the node has taken from
/// it is nobody's hold any more, as by `sem_close`.
#[derive(Debug)]
pub struct Semaphore {
    opened: Opened,
    /// Its opener does not outrank who should post.
    may_spin: bool,
    spinner: SharedSpinner,
    watch: WatchPlace,
}

impl Semaphore {
    /// Opens a semaphore of the node's pool.
    ///
    /// # Errors
    /// As sem_open(3); [`SyncError::errno`] has the number.
    pub fn open(node: &Node, name: &str, options: &SemaphoreOptions) -> Result<Self, SyncError> {
        Self::open_for(node.participant(), name, options)
    }

    fn open_for(
        shared: &Arc<Participant>,
        name: &str,
        options: &SemaphoreOptions,
    ) -> Result<Self, SyncError> {
        if options.create && options.value > VALUE_MAX {
            return Err(SyncError::OutOfRange {
                what: "the value",
                found: options.value.into(),
                least: 0,
                most: VALUE_MAX.into(),
            });
        }
        let new = NewObject {
            name,
            mode: options.mode,
            owner: (
                hythe_sys::identity::effective_user(),
                rustix::process::getegid().as_raw(),
            ),
            flags: u32::from(options.recover),
            value: options.value,
            messages: None,
        };
        let plan = OpenPlan {
            kind: ObjectKind::Semaphore,
            name,
            make: options.create.then_some(new),
            exclusive: options.exclusive,
            rights: name::READ | name::WRITE,
        };
        Ok(Self {
            opened: Opened::open(shared, &plan)?,
            may_spin: !is_realtime(),
            spinner: SharedSpinner::default(),
            watch: WatchPlace::default(),
        })
    }

    /// The same semaphore, opened by another node: by a forked child's, say, for which the parent's
    /// value is of no use.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`hythe_pool::ObjectError::Gone`] if nobody has it any more.
    pub fn reopen(&self, node: &Node) -> Result<Self, SyncError> {
        Ok(Self {
            opened: self.opened.reopen(node.participant())?,
            may_spin: !is_realtime(),
            spinner: SharedSpinner::default(),
            watch: WatchPlace::default(),
        })
    }

    /// Are both the same semaphore?
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.opened.is_same(&other.opened)
    }

    /// Takes a semaphore's name away; it goes when nobody has it open.
    ///
    /// # Errors
    /// As sem_unlink(3).
    pub fn unlink(node: &Node, name: &str) -> Result<(), SyncError> {
        unlink(node.participant(), ObjectKind::Semaphore, name)
    }

    /// Takes one count, which this process holds until somebody posts.
    ///
    /// # Errors
    /// As sem_timedwait(3); [`SyncError::OwnerDead`] once for holders that died.
    pub fn wait(&self, deadline: Deadline) -> Result<(), SyncError> {
        self.wait_as(0, deadline)
    }

    fn who(&self, task: u32) -> Who {
        let party = lock::party(&self.opened.shared);
        Who { party, task }
    }

    /// Takes one count if there is one.
    ///
    /// # Errors
    /// [`SyncError::WouldBlock`], as sem_trywait(3); [`SyncError::OwnerDead`].
    pub fn try_wait(&self) -> Result<(), SyncError> {
        match self.wait(Deadline::Now) {
            Err(SyncError::TimedOut) => Err(SyncError::WouldBlock("the semaphore's value is 0")),
            done => done,
        }
    }

    /// The same for a task of a core, by its agent: this node and the task become the holder.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[doc(hidden)]
    pub fn wait_as(&self, task: u32, deadline: Deadline) -> Result<(), SyncError> {
        self.opened.unless_lost(self.wait_within(task, deadline))
    }

    fn wait_within(&self, task: u32, deadline: Deadline) -> Result<(), SyncError> {
        let who = self.who(task);
        let table = self.opened.table()?;
        let index = self.opened.info.index;
        let wait = ChangeWait {
            word: ChangeWord::of(table, index),
            gate: self.opened.shared.spin_gate(),
            crowd: self.opened.shared.crowd(),
            spinner: &self.spinner,
            may_spin: self.may_spin,
        };
        loop {
            let seen = wait.word.now();
            // A look takes the lock, so that one that finds nothing keeps the next post waiting.
            // What the words alone do not say (a holder died, or its owner within a change) is
            // seen before a sleep at the latest.
            if (deadline == Deadline::Now || !table.seems_empty(index))
                && let Some(done) = self.look(who)?
            {
                return done;
            }
            if let Some(done) = wait.until_change(seen, deadline, || self.look(who))? {
                return done;
            }
        }
    }

    /// Looks once; `None`: wait.
    fn look(&self, who: Who) -> Result<Option<Result<(), SyncError>>, SyncError> {
        let mut entered = self.opened.enter()?;
        let pool = self.opened.shared.pool();
        let section = &mut entered.section;
        section.settle_holders(&mut |who| lock::is_over(pool, who.party))?;
        Ok(match section.wait(who)? {
            Wait::Taken => {
                drop(entered);
                self.watch.refresh();
                Some(Ok(()))
            }
            Wait::OwnerDead => Some(Err(SyncError::OwnerDead)),
            Wait::Empty => None,
        })
    }

    /// Adds one count, and ends a hold: this process's, else the oldest. From a signal handler,
    /// too.
    ///
    /// # Errors
    /// As sem_post(3).
    pub fn post(&self) -> Result<(), SyncError> {
        self.post_as(0)
    }

    /// The same for a task of a core.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    #[doc(hidden)]
    pub fn post_as(&self, task: u32) -> Result<(), SyncError> {
        let table = self.opened.table()?;
        let posted = self.opened.enter()?.section.post(self.who(task));
        self.opened.unless_lost(posted.map_err(SyncError::from))?;
        wake(table, self.opened.info.index, 1);
        Ok(())
    }

    /// Its value.
    ///
    /// # Errors
    /// A damaged object.
    pub fn value(&self) -> Result<u32, SyncError> {
        let value = self.opened.enter()?.section.value();
        self.opened.unless_lost(value.map_err(SyncError::from))
    }

    /// Gives the counts back that dead holders had. Returns how many.
    ///
    /// # Errors
    /// A damaged object.
    pub fn recover(&self) -> Result<u32, SyncError> {
        let recovered = self.opened.unless_lost(self.recover_within())?;
        wake(self.opened.table()?, self.opened.info.index, recovered);
        Ok(recovered)
    }

    fn recover_within(&self) -> Result<u32, SyncError> {
        let mut entered = self.opened.enter()?;
        let pool = self.opened.shared.pool();
        let section = &mut entered.section;
        section.settle_holders(&mut |who| lock::is_over(pool, who.party))?;
        Ok(section.recover()?)
    }

    /// What this node has taken and not posted is nobody's hold any more, as by closing: for a
    /// process that ends in order, and that nobody should miss.
    ///
    /// # Errors
    /// A damaged object.
    pub fn forget_holds(&self) -> Result<(), SyncError> {
        let party = lock::party(&self.opened.shared);
        let forgotten = self.opened.enter()?.section.forget_holds(party);
        self.opened.unless_lost(forgotten.map_err(SyncError::from))
    }

    /// The same for one task of a core.
    ///
    /// # Errors
    /// A damaged object.
    #[doc(hidden)]
    pub fn forget_holds_of(&self, task: u32) -> Result<(), SyncError> {
        let own = self.who(task);
        let mut entered = self.opened.enter()?;
        let forgotten = entered.section.forget_holds_of(&mut |who| who == own);
        self.opened.unless_lost(forgotten.map_err(SyncError::from))
    }

    /// A task of a core has ended, or with `None` all of them: its holds are those of a dead
    /// holder. Returns the counts that it held.
    ///
    /// # Errors
    /// A damaged object.
    #[doc(hidden)]
    pub fn abandon_holds_of(&self, task: Option<u32>) -> Result<u32, SyncError> {
        let counts = self.opened.unless_lost(self.abandon_within(task))?;
        wake(self.opened.table()?, self.opened.info.index, counts);
        Ok(counts)
    }

    fn abandon_within(&self, task: Option<u32>) -> Result<u32, SyncError> {
        let party = lock::party(&self.opened.shared);
        let is_dead = |who: Who| who.party == party && task.is_none_or(|task| task == who.task);
        let mut entered = self.opened.enter()?;
        let held = entered.section.holders()?.into_iter();
        let counts = held
            .filter(|(who, _)| is_dead(*who))
            .map(|(_, count)| count);
        let counts = counts.sum();
        entered.section.settle_holders(&mut |who| is_dead(who))?;
        Ok(counts)
    }

    /// A file descriptor that is readable while the value is not 0, for `poll`, `epoll` and
    /// [`crate::WaitSet`]. It goes with this value: never close or read it.
    ///
    /// # Errors
    /// No more descriptors or threads.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, SyncError> {
        Ok(self.watch.get_or_start(&self.opened)?.descriptor())
    }

    /// What it counts.
    ///
    /// # Errors
    /// A damaged object.
    pub fn info(&self) -> Result<SemaphoreInfo, SyncError> {
        self.opened.unless_lost(self.read_info())
    }

    fn read_info(&self) -> Result<SemaphoreInfo, SyncError> {
        let entered = self.opened.enter()?;
        let holders = entered.section.holders()?.into_iter();
        Ok(SemaphoreInfo {
            value: entered.section.value()?,
            abandoned: entered.section.abandoned(),
            holders: holders
                .map(|(who, count)| (who.party.member.0, who.task, count))
                .collect(),
        })
    }
}
