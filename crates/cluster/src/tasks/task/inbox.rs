//! Receives messages, and finds the one that is wanted.
//!
//! What is wanted now and came in one piece stays in its slot, while few of its size are
//! [occupied](super::in_place). What is passed by is copied into this process's memory at once:
//! what is kept for later never occupies what is needed now. That memory has a limit. At it
//! nothing is taken that is not wanted, so that senders keep what they send, and a call that looks
//! behind it fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hythe_node::hop::{self, SenderHost};
use hythe_node::{
    Node, Pool, PortPolicy, Sample, Subscriber, SubscriberOptions, TrustPeers, WaitSet,
};

use super::header::{HEADER_BYTES, Header};
use super::in_place::{InPlace, Occupied};
use super::senders::Senders;
use crate::tasks::arrivals::{Arrivals, Label, Pattern};
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::spare;

/// Messages that wait in the queue of each sender.
const DEPTH: u32 = 32;
/// How long the agent of this host keeps messages of others for a task that does not receive: a
/// day. On this host nobody waits for it, whatever it asks for.
const HELD_MS: u32 = 24 * 3600 * 1000;
/// The longest message: longer ones are a lie.
const MESSAGE_BYTES_MAX: u64 = 1 << 40;
/// What a message that is kept costs beside its bytes: its place among the others and in an index,
/// and the allocator's share.
const KEPT_COST: usize = 256;
/// Pieces that are taken at a time while something else is waited for: those who go on sending do
/// not hold that up.
const TAKEN_MAX: u32 = 4096;

/// The channel of a task.
pub(super) fn channel(task: TaskId) -> String {
    format!("task/{task}")
}

/// Which messages are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub(super) context: u32,
    pub(super) source: Option<TaskId>,
    pub(super) tag: Option<u32>,
}

impl Wanted {
    /// Any message.
    #[must_use]
    pub const fn any() -> Self {
        Self {
            context: 0,
            source: None,
            tag: None,
        }
    }

    /// Only from this task.
    #[must_use]
    pub const fn from(mut self, source: TaskId) -> Self {
        self.source = Some(source);
        self
    }

    /// Only with this tag.
    #[must_use]
    pub const fn tag(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    fn pattern(self) -> Pattern {
        Pattern {
            context: self.context,
            source: self.source.map(TaskId::number),
            tag: self.tag,
        }
    }

    fn is(self, header: &Header) -> bool {
        self.pattern().matches(label(header))
    }
}

const fn label(header: &Header) -> Label {
    Label {
        context: header.context,
        source: header.source.number(),
        tag: header.tag,
    }
}

/// A message that was received.
#[derive(Debug)]
pub struct Message {
    header: Header,
    host: Option<Arc<str>>,
    payload: Payload,
}

#[derive(Debug)]
enum Payload {
    Slot(InSlot),
    Memory(Vec<u8>),
}

#[derive(Debug)]
struct InSlot {
    /// The message, behind its header.
    sample: Sample,
    _occupied: Occupied,
}

impl Message {
    /// Who sent it. That a message from another host is from a task which runs there, was asked.
    #[must_use]
    pub const fn source(&self) -> TaskId {
        self.header.source
    }

    /// The other host from which it came. `None`: it is from this one.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Its tag.
    #[must_use]
    pub const fn tag(&self) -> u32 {
        self.header.tag
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.payload {
            Payload::Slot(slot) => slot.sample.len() - HEADER_BYTES,
            Payload::Memory(bytes) => bytes.len(),
        }
    }

    /// Has it none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, from `at` on.
    ///
    /// # Panics
    /// If it has not so many.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        match &self.payload {
            Payload::Slot(slot) => slot.sample.read(HEADER_BYTES + at, into),
            Payload::Memory(bytes) => into.copy_from_slice(&bytes[at..at + into.len()]),
        }
    }

    /// A copy of its bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        match &self.payload {
            Payload::Slot(slot) => payload_of(&slot.sample),
            Payload::Memory(bytes) => bytes.clone(),
        }
    }

    /// Its bytes, without a copy if it came at once.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        match &mut self.payload {
            Payload::Memory(bytes) => std::mem::take(bytes),
            Payload::Slot(_) => self.to_vec(),
        }
    }

    /// Its bytes where they are, for who trusts every program of the pool.
    #[must_use]
    pub fn as_slice(&self, decision: TrustPeers) -> &[u8] {
        match &self.payload {
            Payload::Slot(slot) => {
                let bytes = slot.sample.as_slice(decision);
                bytes.get(HEADER_BYTES..).unwrap_or(&[])
            }
            Payload::Memory(bytes) => bytes,
        }
    }
}

/// A copy of the payload behind the header.
fn payload_of(sample: &Sample) -> Vec<u8> {
    let mut bytes = spare::bytes(sample.len() - HEADER_BYTES);
    sample.read(HEADER_BYTES, &mut bytes);
    bytes
}

impl Drop for Payload {
    fn drop(&mut self) {
        if let Self::Memory(bytes) = self {
            spare::keep(std::mem::take(bytes));
        }
    }
}

/// A message that is not whole.
#[derive(Debug)]
struct Partial {
    header: Header,
    /// At least what has come; as long as the message in the end.
    bytes: Vec<u8>,
    came: usize,
}

impl Partial {
    /// What its header says may never come: it is given a spare, but no new memory.
    fn begin(header: Header) -> Self {
        let total = length(header.total);
        let mut bytes = spare::with_room(total.min(spare::BYTES_MAX)).unwrap_or_default();
        bytes.truncate(total);
        let came = 0;
        Self {
            header,
            bytes,
            came,
        }
    }

    /// Is a piece the next one?
    fn goes_on_with(&self, header: &Header, piece: usize) -> bool {
        let all = &self.header;
        header.offset == self.came as u64
            && (header.total, header.tag, header.context) == (all.total, all.tag, all.context)
            && header.offset + piece as u64 <= header.total
    }

    /// Adds the next piece. True: the message is whole.
    fn add(&mut self, sample: &Sample, piece: usize) -> bool {
        let (at, total) = (self.came, length(self.header.total));
        self.came += piece;
        if self.came > self.bytes.len() {
            let more = self.bytes.capacity().max(2 * self.bytes.len());
            self.bytes.resize(self.came.max(more.min(total)), 0);
        }
        sample.read(HEADER_BYTES, &mut self.bytes[at..self.came]);
        self.came == total
    }
}

/// Longer ones than there is memory cannot come.
fn length(total: u64) -> usize {
    usize::try_from(total).unwrap_or(usize::MAX)
}

/// A task, and the other host from which its messages come.
type Sender = (Option<Arc<str>>, TaskId);

#[derive(Debug)]
pub(super) struct Inbox {
    subscriber: Subscriber,
    pool: Pool,
    senders: Senders,
    /// What was taken from a queue and could not be asked about, or not be kept yet. It comes
    /// before all that waits in queues.
    pending: Option<(Sample, SenderHost)>,
    /// Whole messages that were not wanted yet.
    passed_by: Arrivals<Message>,
    /// Of each sender the message that is not whole. By hosts, so that none goes on with what came
    /// from another; not by connections, since a message may begin on one and go on by the next.
    parts: BTreeMap<Sender, Partial>,
    /// What `passed_by` and `parts` have.
    kept_bytes: usize,
    kept_bytes_max: usize,
    in_place: InPlace,
    /// Messages were kept for which no call has looked yet.
    has_unseen: bool,
    /// Pieces that fit nowhere, or are not from the task that they name.
    pub(super) violations: u64,
}

impl Inbox {
    pub(super) fn open(
        node: &Node,
        own: TaskId,
        senders: Senders,
        kept_bytes_max: usize,
    ) -> Result<Self, TaskError> {
        let policy = PortPolicy::Block {
            timeout_ms: HELD_MS,
        };
        let options = SubscriberOptions::default().depth(DEPTH).policy(policy);
        Ok(Self {
            subscriber: node.subscriber(&channel(own), &options)?,
            pool: node.pool().clone(),
            senders,
            pending: None,
            passed_by: Arrivals::default(),
            parts: BTreeMap::new(),
            kept_bytes: 0,
            kept_bytes_max,
            in_place: InPlace::default(),
            has_unseen: false,
            violations: 0,
        })
    }

    /// From now on a wait set reports what comes.
    pub(super) fn attach(&mut self, ready: &mut WaitSet) -> Result<(), TaskError> {
        ready.attach(&mut self.subscriber)?;
        Ok(())
    }

    /// How many bytes may be kept from now on.
    pub(super) const fn set_kept_bytes_max(&mut self, kept_bytes: usize) {
        self.kept_bytes_max = kept_bytes;
    }

    /// Are there messages that were kept, and for which no call has looked yet?
    pub(super) const fn has_unseen(&self) -> bool {
        self.has_unseen
    }

    /// The first that is wanted of those that have come.
    pub(super) fn find(&mut self, wanted: Wanted) -> Result<Option<Message>, TaskError> {
        if let Some(number) = self.passed_by.find(wanted.pattern()) {
            return Ok(self.take_kept(number));
        }
        self.find_new(wanted)
    }

    /// The same, which stays.
    pub(super) fn peek(&mut self, wanted: Wanted) -> Result<Option<&Message>, TaskError> {
        let found = match self.passed_by.find(wanted.pattern()) {
            Some(number) => Some(number),
            None => self.find_new(wanted)?.map(|found| self.keep(found)),
        };
        Ok(found.and_then(|number| self.passed_by.get(number)))
    }

    /// Waits until something comes, at most so long: what is wanted is returned, all else kept.
    /// Called when [`Self::find`] has found nothing.
    pub(super) fn wait(
        &mut self,
        wanted: Wanted,
        timeout: Duration,
    ) -> Result<Option<Message>, TaskError> {
        match self.subscriber.take(timeout)? {
            Some(sample) => {
                let from = hop::last_host(&self.subscriber);
                self.take_in(sample, from, Some(wanted))
            }
            None => Ok(None),
        }
    }

    /// Keeps what has come, up to the limit, while something else is waited for.
    pub(super) fn keep_arrived(&mut self) -> Result<(), TaskError> {
        for _ in 0..TAKEN_MAX {
            let Some((sample, from)) = self.next()? else {
                break;
            };
            match self.take_in(sample, from, None) {
                Ok(_) => self.has_unseen |= !self.passed_by.is_empty(),
                // Senders keep the rest.
                Err(TaskError::InboxFull { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Drops what has come: nothing is received any more.
    pub(super) fn discard_arrived(&mut self) -> Result<(), TaskError> {
        self.passed_by = Arrivals::default();
        self.parts.clear();
        self.kept_bytes = 0;
        self.has_unseen = false;
        for _ in 0..TAKEN_MAX {
            if self.next()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The first that is wanted of those that wait in queues; those before it are kept.
    fn find_new(&mut self, wanted: Wanted) -> Result<Option<Message>, TaskError> {
        while let Some((sample, from)) = self.next()? {
            if let Some(message) = self.take_in(sample, from, Some(wanted))? {
                return Ok(Some(message));
            }
        }
        self.has_unseen = false;
        Ok(None)
    }

    fn keep(&mut self, message: Message) -> u64 {
        let message = match message.payload {
            Payload::Slot(_) => Message {
                header: message.header,
                host: message.host.clone(),
                payload: Payload::Memory(message.into_vec()),
            },
            Payload::Memory(_) => message,
        };
        self.kept_bytes += message.len() + KEPT_COST;
        self.passed_by.push(label(&message.header), message)
    }

    fn take_kept(&mut self, number: u64) -> Option<Message> {
        let message = self.passed_by.take(number)?;
        self.kept_bytes -= message.len() + KEPT_COST;
        self.has_unseen &= !self.passed_by.is_empty();
        Some(message)
    }

    /// The next piece, and from where it is.
    fn next(&mut self) -> Result<Option<(Sample, SenderHost)>, TaskError> {
        if let Some(before) = self.pending.take() {
            return Ok(Some(before));
        }
        let taken = self.subscriber.try_take()?;
        Ok(taken.map(|sample| (sample, hop::last_host(&self.subscriber))))
    }

    /// The message that a piece makes whole, if that is wanted; one that is not is kept. `None` is
    /// also the result for a piece that is not from the task that it names.
    ///
    /// An error: the piece cannot be judged, or not be kept, now; it stays, and comes first.
    fn take_in(
        &mut self,
        sample: Sample,
        from: SenderHost,
        wanted: Option<Wanted>,
    ) -> Result<Option<Message>, TaskError> {
        let Some(header) = header_of(&sample) else {
            self.violations += 1;
            return Ok(None);
        };
        let host = match &from {
            SenderHost::Here => None,
            SenderHost::Other(host) => match self.senders.is_on(header.source, host) {
                Ok(true) => Some(Arc::clone(host)),
                Ok(false) => {
                    self.violations += 1;
                    return Ok(None);
                }
                Err(error) => {
                    self.pending = Some((sample, from));
                    return Err(error);
                }
            },
            SenderHost::Forgotten => {
                self.violations += 1;
                return Ok(None);
            }
        };
        let is_wanted = wanted.is_some_and(|wanted| wanted.is(&header));
        let more = sample.len() - HEADER_BYTES + KEPT_COST;
        if !is_wanted && !self.has_capacity(more, wanted) {
            self.pending = Some((sample, from));
            return Err(TaskError::InboxFull {
                kept: self.kept_bytes,
                most: self.kept_bytes_max,
            });
        }
        let whole = self.assemble(sample, header, host, is_wanted);
        match whole {
            Some(message) if !is_wanted => {
                self.keep(message);
                Ok(None)
            }
            whole => Ok(whole),
        }
    }

    /// May so much more be kept? What has come of a message that is wanted does not count.
    fn has_capacity(&self, more: usize, wanted: Option<Wanted>) -> bool {
        let fits = |kept: usize| kept.saturating_add(more) <= self.kept_bytes_max;
        fits(self.kept_bytes)
            || wanted.is_some_and(|wanted| {
                let parts = self.parts.values();
                let wanted = parts.filter(|part| wanted.is(&part.header));
                fits(self.kept_bytes - wanted.map(|part| part.came).sum::<usize>())
            })
    }

    /// The message that a piece makes whole: in its slot only if it is wanted.
    fn assemble(
        &mut self,
        sample: Sample,
        header: Header,
        host: Option<Arc<str>>,
        is_wanted: bool,
    ) -> Option<Message> {
        let piece = sample.len() - HEADER_BYTES;
        if header.offset == 0 && header.total == piece as u64 {
            let payload = match is_wanted {
                true => self.payload_in_place(sample),
                false => Payload::Memory(payload_of(&sample)),
            };
            return Some(Message {
                header,
                host,
                payload,
            });
        }
        let key = (host, header.source);
        if header.offset == 0 {
            // A sender that began another one has given up the one before.
            self.give_up(&key);
            self.parts.insert(key.clone(), Partial::begin(header));
        }
        let Some(part) = self.parts.get_mut(&key) else {
            self.violations += 1;
            return None;
        };
        if !part.goes_on_with(&header, piece) {
            self.give_up(&key);
            return None;
        }
        self.kept_bytes += piece;
        if !part.add(&sample, piece) {
            return None;
        }
        let Partial { header, bytes, .. } = self.parts.remove(&key)?;
        self.kept_bytes -= bytes.len();
        Some(Message {
            header,
            host: key.0,
            payload: Payload::Memory(bytes),
        })
    }

    /// A message that is never whole, if there is one of this sender.
    fn give_up(&mut self, sender: &Sender) {
        if let Some(before) = self.parts.remove(sender) {
            self.kept_bytes -= before.came;
            self.violations += 1;
        }
    }

    fn payload_in_place(&mut self, sample: Sample) -> Payload {
        let class = hop::class_of(&sample);
        match class.and_then(|class| self.in_place.occupy(&self.pool, class)) {
            Some(_occupied) => Payload::Slot(InSlot { sample, _occupied }),
            None => Payload::Memory(payload_of(&sample)),
        }
    }
}

/// `None`: it has no sound one.
fn header_of(sample: &Sample) -> Option<Header> {
    let mut bytes = [0; HEADER_BYTES];
    if sample.len() < HEADER_BYTES {
        return None;
    }
    sample.read(0, &mut bytes);
    Header::from_bytes(bytes).filter(|header| header.total <= MESSAGE_BYTES_MAX)
}
