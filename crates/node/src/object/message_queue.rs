//! Message queues: a message is a buffer of the pool, which the pool keeps until somebody has
//! received it.

use std::os::fd::BorrowedFd;

use hythe_abi::objects::{MESSAGE_BYTES_MAX, MESSAGES_MAX, PRIORITIES};
use hythe_memory::Mapped;
use hythe_pool::{MemberIndex, NewObject, ObjectKind, ObjectTable, QueuedMessage, Section, Taken};

use super::messages::{settle_moving, stored};
use super::open::{OpenPlan, Opened, unlink};
use super::sleep::{ChangeWait, ChangeWord, wake};
use super::watch::{Callback, WatchPlace};
use super::{Deadline, SyncError, lock, name};
use crate::buffer::{Lease, Reference, Sample};
use crate::node::Node;
use crate::spin::is_realtime;
use crate::spinner::SharedSpinner;

/// How to open a message queue.
#[derive(Clone, Copy, Debug)]
pub struct MessageQueueOptions {
    create: Option<(u32, u32)>,
    exclusive: bool,
    mode: u32,
    receives: bool,
    sends: bool,
}

impl Default for MessageQueueOptions {
    /// Of an existing one, for both directions.
    fn default() -> Self {
        Self {
            create: None,
            exclusive: false,
            mode: 0o600,
            receives: true,
            sends: true,
        }
    }
}

impl MessageQueueOptions {
    /// Most messages where nobody says another number.
    pub const MESSAGES: u32 = 10;
    /// Most bytes of a message where nobody says another number.
    pub const MESSAGE_BYTES: u32 = 8192;

    /// Made if there is none, with places for `messages` of `message_bytes` at most.
    #[must_use]
    pub const fn create(mut self, messages: u32, message_bytes: u32) -> Self {
        self.create = Some((messages, message_bytes));
        self
    }

    /// Refused if there is one.
    #[must_use]
    pub const fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Who may use a new one, as of a file: reading is receiving, writing is sending.
    #[must_use]
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode & 0o777;
        self
    }

    /// For which directions.
    #[must_use]
    pub const fn directions(mut self, receives: bool, sends: bool) -> Self {
        self.receives = receives;
        self.sends = sends;
        self
    }

    fn check(&self) -> Result<(), SyncError> {
        let Some((messages, bytes)) = self.create else {
            return Ok(());
        };
        check_range("the most messages", messages, (1, MESSAGES_MAX as u32))?;
        check_range("the most bytes of a message", bytes, (1, MESSAGE_BYTES_MAX))
    }
}

fn check_range(what: &'static str, found: u32, (least, most): (u32, u32)) -> Result<(), SyncError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(SyncError::OutOfRange {
        what,
        found: found.into(),
        least: least.into(),
        most: most.into(),
    })
}

/// A named message queue of the pool, opened by a node. Its end closes it.
#[derive(Debug)]
pub struct MessageQueue {
    pub(super) opened: Opened,
    /// The participant that holds messages.
    pub(super) store: MemberIndex,
    receives: bool,
    sends: bool,
    /// Its opener does not outrank the other side.
    may_spin: bool,
    spinner: SharedSpinner,
    watch: WatchPlace,
}

impl Drop for MessageQueue {
    fn drop(&mut self) {
        let is_a_copy = self.opened.shared.is_a_copy();
        if !is_a_copy && self.watch.get().is_some() {
            // What is damaged now is no reason not to go.
            let _ = self.forget_notification();
        }
    }
}

/// A message that came out of a queue: its buffer, read in place, and its priority.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub sample: Sample,
    /// Its priority.
    pub priority: u32,
}

impl MessageQueue {
    /// Opens a message queue of the node's pool.
    ///
    /// # Errors
    /// As mq_open(3); [`SyncError::errno`] has the number.
    pub fn open(node: &Node, name: &str, options: &MessageQueueOptions) -> Result<Self, SyncError> {
        options.check()?;
        let new = |messages| NewObject {
            name,
            mode: options.mode,
            owner: (
                hythe_sys::identity::effective_user(),
                rustix::process::getegid().as_raw(),
            ),
            flags: 0,
            value: 0,
            messages: Some(messages),
        };
        let reads = if options.receives { name::READ } else { 0 };
        let writes = if options.sends { name::WRITE } else { 0 };
        let plan = OpenPlan {
            kind: ObjectKind::MessageQueue,
            name,
            make: options.create.map(new),
            exclusive: options.exclusive,
            rights: reads | writes,
        };
        Self::of(
            Opened::open(node.participant(), &plan)?,
            options.receives,
            options.sends,
        )
    }

    fn of(opened: Opened, receives: bool, sends: bool) -> Result<Self, SyncError> {
        let store = {
            let _locked = lock::lock_table(&opened.shared, opened.table()?)?;
            crate::joining::message_store(opened.shared.pool())?
        };
        Ok(Self {
            opened,
            store,
            receives,
            sends,
            may_spin: !is_realtime(),
            spinner: SharedSpinner::default(),
            watch: WatchPlace::default(),
        })
    }

    /// The same queue, opened by another node: by a forked child's, say.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`hythe_pool::ObjectError::Gone`] if nobody has it any more.
    pub fn reopen(&self, node: &Node) -> Result<Self, SyncError> {
        let opened = self.opened.reopen(node.participant())?;
        Self::of(opened, self.receives, self.sends)
    }

    /// Takes a queue's name away; it goes, with its messages, when nobody has it open.
    ///
    /// # Errors
    /// As mq_unlink(3).
    pub fn unlink(node: &Node, name: &str) -> Result<(), SyncError> {
        unlink(node.participant(), ObjectKind::MessageQueue, name)
    }

    /// Most messages.
    #[must_use]
    pub const fn messages_limit(&self) -> u32 {
        self.opened.info.messages_limit
    }

    /// Most bytes of a message.
    #[must_use]
    pub const fn message_bytes(&self) -> u32 {
        self.opened.info.message_bytes
    }

    /// How many messages wait.
    ///
    /// # Errors
    /// A damaged object.
    pub fn queued(&self) -> Result<u32, SyncError> {
        let queued = self.enter()?.section.queued();
        self.opened.unless_lost(queued.map_err(SyncError::from))
    }

    /// Sends a message that was written into a lease of the node, without copying it.
    ///
    /// # Errors
    /// As mq_timedsend(3). The buffer goes back then.
    pub fn send(
        &self,
        mut lease: Lease,
        bytes: usize,
        priority: u32,
        deadline: Deadline,
    ) -> Result<(), SyncError> {
        self.check_sending(bytes, priority)?;
        let limit = lease.capacity();
        if bytes > limit {
            return Err(SyncError::MessageSize { bytes, limit });
        }
        self.send_reference(lease.as_payload(bytes), priority, deadline)
    }

    pub(super) fn send_reference(
        &self,
        reference: &mut Reference,
        priority: u32,
        deadline: Deadline,
    ) -> Result<(), SyncError> {
        if !reference.is_of(&self.opened.shared) {
            return Err(SyncError::OtherNode);
        }
        let sent = self.wait_until(deadline, false, |queue, section| {
            if !section.has_room()? {
                return Ok(None);
            }
            queue.insert(section, reference, priority).map(Some)
        });
        self.opened.unless_lost(sent)?;
        if let Some(watch) = self.watch.get() {
            watch.call_if_due();
        }
        Ok(())
    }

    /// Sends a copy of these bytes.
    ///
    /// # Errors
    /// As mq_timedsend(3).
    pub fn send_copy(
        &self,
        bytes: &[u8],
        priority: u32,
        deadline: Deadline,
    ) -> Result<(), SyncError> {
        self.check_sending(bytes.len(), priority)?;
        let region = hythe_abi::RegionIndex(0);
        let wait = crate::leasing::LeaseWait::default();
        let shared = &self.opened.shared;
        let mut lease = crate::leasing::named_lease_in(shared, region, bytes.len(), wait)?;
        lease.write(0, bytes);
        self.send(lease, bytes.len(), priority, deadline)
    }

    pub(super) fn check_sending(&self, bytes: usize, priority: u32) -> Result<(), SyncError> {
        if !self.sends {
            return Err(SyncError::NotOpenFor("sending"));
        }
        check_range("the priority", priority, (0, PRIORITIES - 1))?;
        let limit = self.message_bytes() as usize;
        if bytes > limit {
            return Err(SyncError::MessageSize { bytes, limit });
        }
        Ok(())
    }

    /// Takes the message of the highest priority, of those the oldest.
    ///
    /// # Errors
    /// As mq_timedreceive(3).
    pub fn receive(&self, deadline: Deadline) -> Result<Received, SyncError> {
        self.check_receiving()?;
        let received = self.wait_until(deadline, true, Self::take_next);
        let received = self.opened.unless_lost(received)?;
        self.watch.refresh();
        Ok(received)
    }

    pub(super) const fn check_receiving(&self) -> Result<(), SyncError> {
        if self.receives {
            return Ok(());
        }
        Err(SyncError::NotOpenFor("receiving"))
    }

    /// A file descriptor that is readable while a message waits, for `poll`, `epoll` and
    /// [`crate::WaitSet`]. It goes with this value: never close or read it.
    ///
    /// # Errors
    /// No more descriptors or threads.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, SyncError> {
        Ok(self.watch.get_or_start(&self.opened)?.descriptor())
    }

    /// Calls `callback` once, on a thread of the node's, when a message comes into the empty queue
    /// and no receiver waits.
    ///
    /// # Errors
    /// [`SyncError::AlreadyNotified`] if somebody is to be notified already, as mq_notify(3).
    pub fn notify(&self, callback: Callback) -> Result<(), SyncError> {
        let watch = self.watch.get_or_start(&self.opened)?;
        // An earlier one that has just come to its end.
        watch.call_if_due();
        watch.notify(Some((self.register()?, callback)));
        Ok(())
    }

    /// Registers this node to be notified; returns the number of the registration.
    pub(super) fn register(&self) -> Result<u32, SyncError> {
        let shared = &self.opened.shared;
        let mut entered = self.enter()?;
        let registrant = entered.section.registrant();
        let living = registrant.filter(|one| !lock::is_over(shared.pool(), one.party));
        let registered = match living {
            Some(registrant) => Err(SyncError::AlreadyNotified {
                member: registrant.party.member.0,
            }),
            None => Ok(entered.section.register(Some(lock::party(shared)))),
        };
        self.opened.unless_lost(registered)
    }

    /// Nobody of this process is to be notified any more.
    ///
    /// # Errors
    /// A damaged object.
    pub fn forget_notification(&self) -> Result<(), SyncError> {
        let mut entered = self.enter()?;
        let own = lock::party(&self.opened.shared);
        if entered
            .section
            .registrant()
            .is_some_and(|one| one.party == own)
        {
            entered.section.register(None);
        }
        drop(entered);
        if let Some(watch) = self.watch.get() {
            watch.notify(None);
        }
        Ok(())
    }

    /// Looks, and waits between the looks.
    fn wait_until<T>(
        &self,
        deadline: Deadline,
        receives: bool,
        mut look: impl FnMut(&Self, &mut Section<'_, Mapped>) -> Result<Option<T>, SyncError>,
    ) -> Result<T, SyncError> {
        let (table, index) = (self.opened.table()?, self.opened.info.index);
        let mut look = || -> Result<Option<T>, SyncError> {
            let found = look(self, &mut self.enter()?.section)?;
            if found.is_some() {
                wake(table, index, u32::MAX >> 1);
            }
            Ok(found)
        };
        let wait = ChangeWait {
            word: ChangeWord::of(table, index),
            gate: self.opened.shared.spin_gate(),
            crowd: self.opened.shared.crowd(),
            spinner: &self.spinner,
            may_spin: self.may_spin,
        };
        let mut waiting = None;
        loop {
            let seen = wait.word.now();
            // A look takes the lock, so that one that finds nothing keeps the sender waiting, too.
            // Before a sleep there is one for certain: whoever sends may have died meanwhile.
            let is_certain = deadline == Deadline::Now;
            let seems_worth_it = !receives || !table.seems_without_message(index);
            if (is_certain || seems_worth_it)
                && let Some(found) = look()?
            {
                return Ok(found);
            }
            if deadline == Deadline::Now {
                return Err(SyncError::WouldBlock(if receives {
                    "the queue is empty"
                } else {
                    "the queue is full"
                }));
            }
            if receives && waiting.is_none() {
                waiting = Some(Waiting::new(&self.opened, table));
            }
            if let Some(found) = wait.until_change(seen, deadline, &mut look)? {
                return Ok(found);
            }
        }
    }

    /// The object, with what a dead mover left on its way put where it belongs.
    pub(super) fn enter(&self) -> Result<lock::Entered<'_>, SyncError> {
        let mut entered = self.opened.enter()?;
        let settled = settle_moving(self.opened.shared.pool(), &mut entered.section, self.store);
        self.opened.unless_lost(settled)?;
        Ok(entered)
    }

    /// Moves the reference into the queue.
    fn insert(
        &self,
        section: &mut Section<'_, Mapped>,
        reference: &mut Reference,
        priority: u32,
    ) -> Result<(), SyncError> {
        let (shared, table) = (&self.opened.shared, self.opened.table()?);
        let pool = shared.pool();
        // Nobody is asked where nobody is to be notified.
        let is_awaited = || {
            let mut openers = table.openers(self.opened.info.index);
            openers.any(|(party, receivers)| receivers > 0 && !lock::is_over(pool, party))
        };
        let mut is_over = |party| lock::is_over(pool, party);
        let notifies = section.registrant().is_some()
            && section.next_message(&mut is_over)?.is_none()
            && !is_awaited();
        let message = section.begin_insert(priority, reference.descriptor());
        let (control, slot) = (pool.control(), reference.slot());
        if let Err(error) = shared.act(|member| member.give(control, self.store, slot, 1)) {
            section.end_move();
            return Err(crate::NodeError::from(error).into());
        }
        reference.moved();
        section.insert(message, notifies)?;
        Ok(())
    }

    /// Moves the next message out of the queue.
    fn take_next(&self, section: &mut Section<'_, Mapped>) -> Result<Option<Received>, SyncError> {
        while let Some((message, taken)) = self.next_stored(section)? {
            if let Some(received) = self.take(section, message, taken)? {
                return Ok(Some(received));
            }
        }
        Ok(None)
    }

    /// The message that goes next. An entry that names no slot of the store is none, and goes.
    pub(super) fn next_stored(
        &self,
        section: &mut Section<'_, Mapped>,
    ) -> Result<Option<(QueuedMessage, Taken)>, SyncError> {
        let pool = self.opened.shared.pool();
        let mut is_over = |party| lock::is_over(pool, party);
        while let Some(message) = section.next_message(&mut is_over)? {
            match stored(pool, self.store, message) {
                Some(taken) => return Ok(Some((message, taken))),
                None => section.drop_message(message),
            }
        }
        Ok(None)
    }

    /// Moves a message out of the queue; `None`: the store did not have it.
    pub(super) fn take(
        &self,
        section: &mut Section<'_, Mapped>,
        message: QueuedMessage,
        taken: Taken,
    ) -> Result<Option<Received>, SyncError> {
        let shared = &self.opened.shared;
        shared.pool().map(taken.descriptor.place.region)?;
        section.begin_remove(message);
        let control = shared.pool().control();
        let moved = shared.act(|member| member.reclaim(control, self.store, taken.slot, 1));
        section.end_move();
        let is_ours = moved.map_err(crate::NodeError::from)?;
        Ok(is_ours.then(|| Received {
            sample: Sample::new(Reference::own(shared, taken)),
            priority: message.priority,
        }))
    }
}

/// A receiver that waits: nobody is notified of the message that it takes.
#[derive(Debug)]
struct Waiting<'q> {
    opened: &'q Opened,
    table: &'q ObjectTable<Mapped>,
}

impl<'q> Waiting<'q> {
    fn new(opened: &'q Opened, table: &'q ObjectTable<Mapped>) -> Self {
        table.note_receiver(opened.info.index, lock::party(&opened.shared), true);
        Self { opened, table }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let party = lock::party(&self.opened.shared);
        self.table
            .note_receiver(self.opened.info.index, party, false);
    }
}
