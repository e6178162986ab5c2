//! Receives messages, and finds the one that is wanted.
//!
//! What is wanted now and came in one piece stays in its slot. What is passed by is copied into
//! this process's memory, so that it does not occupy the pool until it is wanted.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hythe_node::{Node, PortPolicy, Sample, Subscriber, SubscriberOptions, TrustPeers, WaitSet};

use super::header::{HEADER_BYTES, Header};
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;

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
    payload: Payload,
}

#[derive(Debug)]
enum Payload {
    /// Behind the header.
    Slot(Sample),
    Memory(Vec<u8>),
}

impl Message {
    /// Who sent it, as it says.
    #[must_use]
    pub const fn source(&self) -> TaskId {
        self.header.source
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
                let mut bytes = vec![0; self.len()];
                sample.read(HEADER_BYTES, &mut bytes);
                bytes
            }
            Payload::Memory(bytes) => bytes.clone(),
        }
    }

    /// Its bytes, without a copy if it came at once.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.payload {
            Payload::Memory(bytes) => bytes,
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
        let header = self.header;
        Self {
            header,
            payload: Payload::Memory(self.into_vec()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Inbox {
    subscriber: Subscriber,
    /// Whole messages that were not wanted yet.
    passed_by: VecDeque<Message>,
    /// Of each sender the message that is not whole.
    parts: BTreeMap<TaskId, (Header, Vec<u8>)>,
    /// Pieces that fit nowhere.
    pub(super) violations: u64,
}

impl Inbox {
    pub(super) fn open(node: &Node, own: TaskId) -> Result<Self, TaskError> {
        let policy = PortPolicy::Block {
            timeout_ms: HELD_MS,
        };
        let options = SubscriberOptions::default().depth(DEPTH).policy(policy);
        Ok(Self {
            subscriber: node.subscriber(&channel(own), &options)?,
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
        while let Some(sample) = self.subscriber.try_take()? {
            match self.assemble(sample) {
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
        if let Some(sample) = self.subscriber.take(timeout)?
            && let Some(message) = self.assemble(sample)
        {
            self.passed_by.push_back(message);
        }
        Ok(())
    }

    /// The message that a piece makes whole.
    fn assemble(&mut self, sample: Sample) -> Option<Message> {
        let mut bytes = [0; HEADER_BYTES];
        if sample.len() < HEADER_BYTES {
            self.violations += 1;
            return None;
        }
        sample.read(0, &mut bytes);
        let piece = sample.len() - HEADER_BYTES;
        let found = Header::from_bytes(bytes).filter(|header| header.total <= MESSAGE_BYTES_MAX);
        let Some(header) = found else {
            self.violations += 1;
            return None;
        };
        if header.offset == 0 && header.total == piece as u64 {
            return Some(Message {
                header,
                payload: Payload::Slot(sample),
            });
        }
        if header.offset == 0 {
            // A sender that began another one has given up the one before.
            let part = (header, Vec::new());
            self.violations += u64::from(self.parts.insert(header.source, part).is_some());
        }
        let Some((first, got)) = self.parts.get_mut(&header.source) else {
            self.violations += 1;
            return None;
        };
        let is_next = header.offset == got.len() as u64
            && (header.total, header.tag, header.context)
                == (first.total, first.tag, first.context)
            && header.offset + piece as u64 <= header.total;
        if !is_next {
            self.parts.remove(&header.source);
            self.violations += 1;
            return None;
        }
        let at = got.len();
        got.resize(at + piece, 0);
        sample.read(HEADER_BYTES, &mut got[at..]);
        if (got.len() as u64) < header.total {
            return None;
        }
        let (header, bytes) = self.parts.remove(&header.source)?;
        Some(Message {
            header,
            payload: Payload::Memory(bytes),
        })
    }
}
