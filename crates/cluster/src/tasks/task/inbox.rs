//! Receives messages, and finds the one that is wanted.
//!
//! What is wanted now and came in one piece stays in its slot. What is passed by is copied into
//! this process's memory, so that it does not occupy the pool until it is wanted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hythe_node::hop::{self, SenderHost};
use hythe_node::{Node, PortPolicy, Sample, Subscriber, SubscriberOptions, TrustPeers, WaitSet};

use super::header::{HEADER_BYTES, Header};
use super::senders::Senders;
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

    fn is(self, header: &Header) -> bool {
        self.context == header.context
            && self.source.is_none_or(|source| source == header.source)
            && self.tag.is_none_or(|tag| tag == header.tag)
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
    /// Behind the header.
    Slot(Sample),
    Memory(Vec<u8>),
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
            Payload::Slot(sample) => sample.len() - HEADER_BYTES,
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
            Payload::Slot(sample) => sample.read(HEADER_BYTES + at, into),
            Payload::Memory(bytes) => into.copy_from_slice(&bytes[at..at + into.len()]),
        }
    }

    /// A copy of its bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        match &self.payload {
            Payload::Slot(sample) => {
                let mut bytes = spare::bytes(self.len());
                sample.read(HEADER_BYTES, &mut bytes);
                bytes
            }
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
            Payload::Slot(sample) => sample.as_slice(decision).get(HEADER_BYTES..).unwrap_or(&[]),
            Payload::Memory(bytes) => bytes,
        }
    }

    fn into_memory(self) -> Self {
        let (header, host) = (self.header, self.host.clone());
        Self {
            header,
            host,
            payload: Payload::Memory(self.into_vec()),
        }
    }
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
    senders: Senders,
    /// What could not be asked about yet. It comes before all that waits in queues.
    unjudged: Option<(Sample, SenderHost)>,
    /// Whole messages that were not wanted yet.
    passed_by: VecDeque<Message>,
    /// Of each sender the message that is not whole. By hosts, so that none goes on with what came
    /// from another; not by connections, since a message may begin on one and go on by the next.
    parts: BTreeMap<Sender, Partial>,
    /// Pieces that fit nowhere, or are not from the task that they name.
    pub(super) violations: u64,
}

impl Inbox {
    pub(super) fn open(node: &Node, own: TaskId, senders: Senders) -> Result<Self, TaskError> {
        let policy = PortPolicy::Block {
            timeout_ms: HELD_MS,
        };
        let options = SubscriberOptions::default().depth(DEPTH).policy(policy);
        Ok(Self {
            subscriber: node.subscriber(&channel(own), &options)?,
            senders,
            unjudged: None,
            passed_by: VecDeque::new(),
            parts: BTreeMap::new(),
            violations: 0,
        })
    }

    /// From now on a wait set reports what comes.
    pub(super) fn attach(&mut self, ready: &mut WaitSet) -> Result<(), TaskError> {
        ready.attach(&mut self.subscriber)?;
        Ok(())
    }

    /// The first that is wanted of those that have come.
    pub(super) fn find(&mut self, wanted: Wanted) -> Result<Option<Message>, TaskError> {
        let mut passed_by = self.passed_by.iter();
        if let Some(index) = passed_by.position(|message| wanted.is(&message.header)) {
            return Ok(self.passed_by.remove(index));
        }
        while let Some((sample, from)) = self.next()? {
            match self.take_in(sample, from)? {
                Some(message) if wanted.is(&message.header) => return Ok(Some(message)),
                Some(message) => self.passed_by.push_back(message.into_memory()),
                None => {}
            }
        }
        Ok(None)
    }

    /// Puts back what was found, before all others.
    pub(super) fn put_back(&mut self, message: Message) {
        self.passed_by.push_front(message.into_memory());
    }

    /// Waits until something comes, at most so long, and keeps it.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<(), TaskError> {
        if let Some(sample) = self.subscriber.take(timeout)? {
            let from = hop::last_host(&self.subscriber);
            if let Some(message) = self.take_in(sample, from)? {
                self.passed_by.push_back(message);
            }
        }
        Ok(())
    }

    /// The next piece, and from where it is.
    fn next(&mut self) -> Result<Option<(Sample, SenderHost)>, TaskError> {
        if let Some(before) = self.unjudged.take() {
            return Ok(Some(before));
        }
        let taken = self.subscriber.try_take()?;
        Ok(taken.map(|sample| (sample, hop::last_host(&self.subscriber))))
    }

    /// The message that a piece makes whole, if it is from whom it says. An error: that cannot be
    /// found out now; the piece is kept.
    fn take_in(&mut self, sample: Sample, from: SenderHost) -> Result<Option<Message>, TaskError> {
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
                    self.unjudged = Some((sample, from));
                    return Err(error);
                }
            },
            SenderHost::Forgotten => {
                self.violations += 1;
                return Ok(None);
            }
        };
        Ok(self.assemble(sample, header, host))
    }

    /// The message that a piece makes whole.
    fn assemble(
        &mut self,
        sample: Sample,
        header: Header,
        host: Option<Arc<str>>,
    ) -> Option<Message> {
        let piece = sample.len() - HEADER_BYTES;
        if header.offset == 0 && header.total == piece as u64 {
            return Some(Message {
                header,
                host,
                payload: Payload::Slot(sample),
            });
        }
        let key = (host, header.source);
        if header.offset == 0 {
            // A sender that began another one has given up the one before.
            let before = self.parts.insert(key.clone(), Partial::begin(header));
            self.violations += u64::from(before.is_some());
        }
        let Some(part) = self.parts.get_mut(&key) else {
            self.violations += 1;
            return None;
        };
        if !part.goes_on_with(&header, piece) {
            self.parts.remove(&key);
            self.violations += 1;
            return None;
        }
        if !part.add(&sample, piece) {
            return None;
        }
        let Partial { header, bytes, .. } = self.parts.remove(&key)?;
        Some(Message {
            header,
            host: key.0,
            payload: Payload::Memory(bytes),
        })
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
