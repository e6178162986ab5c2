//! Targets and sources as ports keep them: queues between processes in place, all others boxed.
//!
//! A message between processes meets two calls of its target and one of its source. Through a
//! pointer each costs what the rest of its work does (a tenth of a message of 64 bytes was
//! measured), because the compiler cannot see through it.

use std::ops::{Deref, DerefMut};

use hythe_abi::RegionIndex;

use super::queue_source::QueueSource;
use super::queue_target::QueueTarget;
use super::{Message, Polled, Sent, Source, Target, TargetState};
use crate::NodeError;

/// A target of any kind.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is nearly always the one that is there"
)]
pub(crate) enum StoredTarget {
    Queue(QueueTarget),
    Other(Box<dyn Target>),
}

impl StoredTarget {
    #[inline(always)]
    pub(crate) fn send(&mut self, message: &mut Message<'_>) -> Sent {
        match self {
            Self::Queue(target) => target.send(message),
            Self::Other(target) => target.send(message),
        }
    }

    #[inline(always)]
    pub(crate) fn wake(&mut self) -> TargetState {
        match self {
            Self::Queue(target) => target.wake(),
            Self::Other(target) => target.wake(),
        }
    }

    /// As [`Target::region`]: a queue between processes takes any.
    #[inline(always)]
    pub(crate) fn region(&self) -> Option<RegionIndex> {
        match self {
            Self::Queue(_) => None,
            Self::Other(target) => target.region(),
        }
    }

    /// As [`Target::preferred_region`].
    #[inline(always)]
    pub(crate) fn preferred_region(&self) -> Option<RegionIndex> {
        match self {
            Self::Queue(_) => None,
            Self::Other(target) => target.preferred_region(),
        }
    }

    pub(crate) fn disconnect(self) -> Result<(), NodeError> {
        match self {
            Self::Queue(target) => Box::new(target).disconnect(),
            Self::Other(target) => target.disconnect(),
        }
    }
}

impl Deref for StoredTarget {
    type Target = dyn Target;

    fn deref(&self) -> &(dyn Target + 'static) {
        match self {
            Self::Queue(target) => target,
            Self::Other(target) => &**target,
        }
    }
}

impl DerefMut for StoredTarget {
    fn deref_mut(&mut self) -> &mut (dyn Target + 'static) {
        match self {
            Self::Queue(target) => target,
            Self::Other(target) => &mut **target,
        }
    }
}

/// A source of any kind.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is nearly always the one that is there"
)]
pub(crate) enum StoredSource {
    Queue(QueueSource),
    Other(OtherSource),
}

/// A source of another kind, and what it told since the last message.
#[derive(Debug)]
pub(crate) struct OtherSource {
    source: Box<dyn Source>,
    /// Messages that are missing in front of the next one.
    missed: u32,
    /// In front of the one that was taken last.
    missed_before: u32,
}

impl OtherSource {
    fn poll(&mut self) -> Polled {
        let polled = self.source.poll();
        match polled {
            Polled::Missed(messages) => self.missed = self.missed.saturating_add(messages),
            Polled::Taken(_) => self.missed_before = std::mem::take(&mut self.missed),
            _ => {}
        }
        polled
    }
}

impl StoredSource {
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Polled {
        match self {
            Self::Queue(source) => source.poll(),
            Self::Other(other) => other.poll(),
        }
    }

    /// A source of a kind that this crate does not know.
    pub(crate) const fn other(source: Box<dyn Source>) -> Self {
        Self::Other(OtherSource {
            source,
            missed: 0,
            missed_before: 0,
        })
    }

    /// How many messages are missing in front of the one that was taken last.
    #[inline(always)]
    pub(crate) const fn missed_before(&self) -> u32 {
        match self {
            Self::Queue(source) => source.missed_before(),
            Self::Other(other) => other.missed_before,
        }
    }

    /// Messages that are missing, and that [`poll`](Self::poll) did not tell by itself.
    #[inline(always)]
    pub(crate) fn take_newly_missed(&mut self) -> u32 {
        match self {
            Self::Queue(source) => source.take_newly_missed(),
            Self::Other(_) => 0,
        }
    }

    pub(crate) fn disconnect(self) -> Result<(), NodeError> {
        match self {
            Self::Queue(source) => Box::new(source).disconnect(),
            Self::Other(other) => other.source.disconnect(),
        }
    }
}

impl Deref for StoredSource {
    type Target = dyn Source;

    fn deref(&self) -> &(dyn Source + 'static) {
        match self {
            Self::Queue(source) => source,
            Self::Other(other) => &*other.source,
        }
    }
}

impl DerefMut for StoredSource {
    fn deref_mut(&mut self) -> &mut (dyn Source + 'static) {
        match self {
            Self::Queue(source) => source,
            Self::Other(other) => &mut *other.source,
        }
    }
}
