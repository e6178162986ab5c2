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
    Other(Box<dyn Source>),
}

impl StoredSource {
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Polled {
        match self {
            Self::Queue(source) => source.poll(),
            Self::Other(source) => source.poll(),
        }
    }

    pub(crate) fn disconnect(self) -> Result<(), NodeError> {
        match self {
            Self::Queue(source) => Box::new(source).disconnect(),
            Self::Other(source) => source.disconnect(),
        }
    }
}

impl Deref for StoredSource {
    type Target = dyn Source;

    fn deref(&self) -> &(dyn Source + 'static) {
        match self {
            Self::Queue(source) => source,
            Self::Other(source) => &**source,
        }
    }
}

impl DerefMut for StoredSource {
    fn deref_mut(&mut self) -> &mut (dyn Source + 'static) {
        match self {
            Self::Queue(source) => source,
            Self::Other(source) => &mut **source,
        }
    }
}
