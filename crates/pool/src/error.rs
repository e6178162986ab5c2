//! What can go wrong, with the values a person needs.

use hythe_abi::{Descriptor, RegionIndex};
use hythe_terminal::escaped;

/// Errors of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The control file is not one, or damaged.
    #[error("not a usable control file: {0}")]
    NotAPool(String),
    /// The pool was made by a program whose bytes are laid out in another way.
    #[error(
        "the pool has layout version {found}, this program speaks {expected}; use the program that made it, or remove the pool (`hythe pool remove`)"
    )]
    OtherVersion {
        /// The pool's version.
        found: u32,
        /// That of this program.
        expected: u32,
    },
    /// The geometry asked for cannot be laid out.
    #[error("this geometry does not work: {0}")]
    BadGeometry(String),
    /// The control tables do not fit into the size asked for.
    #[error(
        "a pool of {bytes} {} is too small: its control tables alone take {control_bytes}; give at least {bytes_min} bytes, or make the tables smaller",
        if *bytes == 1 { "byte" } else { "bytes" }
    )]
    TooSmall {
        /// Bytes asked for.
        bytes: usize,
        /// Size of the control tables.
        control_bytes: usize,
        /// The smallest size with these tables.
        bytes_min: usize,
    },
    /// A table is full.
    #[error(
        "no free {what}: all {limit} are in use; close some, or make the pool with a larger limit"
    )]
    TableFull {
        /// Which table.
        what: &'static str,
        /// Its limit.
        limit: u32,
    },
    /// The ledger has too few entries left for the slots of another region.
    #[error(
        "region `{name}` has {slots} slots, and the pool has {left} ledger entries left for \
         those of cores, the wire and network cards; make the pool with at least {needed}, or \
         give the region fewer slots",
        name = escaped(name)
    )]
    LedgerFull {
        /// The region: that of a core of this name, `wire` or `card`.
        name: String,
        /// Its slots.
        slots: u64,
        /// Entries left.
        left: u32,
        /// How many entries suffice, together with the later regions that are there.
        needed: u64,
    },
    /// A pool has as many regions as it can have.
    #[error(
        "a pool has at most {limit} regions, and each stays: take the name of a core that has one \
         already, or use another pool"
    )]
    TooManyRegions {
        /// The limit.
        limit: u32,
    },
    /// A queue is deeper than there is memory for.
    #[error(
        "a queue for {depth} messages is too deep: {free_capacity} are possible here now; ask for fewer, close other deep queues, or make the pool with more queue segments"
    )]
    QueueTooDeep {
        /// Messages asked for.
        depth: u32,
        /// The deepest queue to this consumer that can be made now.
        free_capacity: u32,
    },
    /// No slot is free for a payload of this size.
    #[error("no free slot for {bytes} bytes in region {}: {slots} slots are large enough and all are held", region.0)]
    PoolFull {
        /// The region asked for.
        region: RegionIndex,
        /// Bytes asked for.
        bytes: usize,
        /// Slots that would be large enough.
        slots: u32,
    },
    /// The payload is larger than any slot.
    #[error("{bytes} bytes do not fit: the largest slot of region {} takes {largest}; send it in parts, or make the pool with a larger class", region.0)]
    TooLarge {
        /// The region asked for.
        region: RegionIndex,
        /// Bytes asked for.
        bytes: usize,
        /// The largest payload.
        largest: usize,
    },
    /// One slot has as many references as can be counted.
    #[error("a slot cannot have more than {limit} references at a time")]
    TooManyReferences {
        /// The limit.
        limit: u32,
    },
    /// A descriptor from outside does not fit the pool, or is stale.
    #[error("refused a descriptor ({reason}): {descriptor:?}")]
    BadDescriptor {
        /// What was wrong.
        reason: &'static str,
        /// The descriptor as claimed.
        descriptor: Descriptor,
    },
    /// Shared words contradict each other: some writer of the pool is broken.
    #[error("the pool is damaged: {0}")]
    Damaged(String),
    /// Somebody else is making the same thing; try again a little later.
    #[error("{0} is being changed by another participant")]
    Busy(&'static str),
    /// A channel exists with another type.
    #[error(
        "channel `{}` carries {}, as {} opened it; {} wants {}",
        escaped(&.0.channel),
        escaped(&.0.theirs),
        escaped(&.0.opened_by),
        escaped(&.0.opener),
        escaped(&.0.ours)
    )]
    TypeMismatch(Box<IncompatibleChannel>),
    /// A channel exists for another kind of port.
    #[error(
        "channel `{}` is for {}, as {} opened it; {} wants it for {}",
        escaped(&.0.channel),
        escaped(&.0.theirs),
        escaped(&.0.opened_by),
        escaped(&.0.opener),
        escaped(&.0.ours)
    )]
    KindMismatch(Box<IncompatibleChannel>),
    /// A name is empty or too long.
    #[error("the name `{name}` is not usable: {reason}", name = escaped(name))]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Somebody is attached to this port of the core's endpoint already.
    #[error(
        "participant {holder} is attached to this port of the core's endpoint behind channel `{channel}`",
        channel = escaped(channel)
    )]
    EndpointTaken {
        /// The channel.
        channel: String,
        /// Number of the attached participant.
        holder: u8,
    },
}

/// Two sides of a channel that do not fit each other. In words: it is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompatibleChannel {
    /// The channel.
    pub channel: String,
    /// What is wanted: a kind of channel, or a type.
    pub ours: String,
    /// Who wants it: name and process.
    pub opener: String,
    /// What the channel is for, or carries.
    pub theirs: String,
    /// Who has ports open on it: names and processes.
    pub opened_by: String,
}

/// Why a reference was not sent. It is still the sender's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue is full.
    #[error("the receiver's queue is full")]
    Full,
    /// The pool refused. Boxed: what is rare must not make every answer large.
    #[error(transparent)]
    Pool(Box<PoolError>),
}

impl From<PoolError> for SendError {
    #[cold]
    fn from(error: PoolError) -> Self {
        Self::Pool(Box::new(error))
    }
}

#[cold]
pub(crate) fn violated(own: u32, claimed: u32) -> PoolError {
    PoolError::Damaged(format!(
        "a queue's other side claims counter {claimed}, impossible beside {own}"
    ))
}
