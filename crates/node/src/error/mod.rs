//! What can go wrong, with what to do about it.

mod exhausted;
mod size_bound;

use std::io;
use std::path::PathBuf;

use hythe_abi::RegionIndex;
use hythe_pool::{PoolError, SendError};
use hythe_terminal::escaped;
use rustix::process::{Resource, getrlimit};

pub use exhausted::{Exhausted, LargerPool, Share};
pub use size_bound::SizeBound;

/// What to do about a pool that is cut or full.
pub(crate) const REMAKE: &str =
    "stop the program that does that, then remove the pool by force and make it again";
/// What to do about a pool that is gone.
pub(crate) const RESTART: &str = "start this program again";

/// A loss that no mapping shows: of [`NodeError::PoolLost`].
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) path: PathBuf,
    pub(crate) what: String,
    /// The process has closed descriptors of the pool.
    pub(crate) misses_descriptors: bool,
}

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The system refused something about a file of the pool.
    #[error("cannot {action} {}: {source}", escaped(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program has ended this wait ([`Node::interrupt`](crate::Node::interrupt)).
    #[error("the wait was ended by this program, which interrupted its node")]
    Interrupted,
    /// No permission, with what would be needed.
    #[error(
        "permission denied: {} has mode {mode:04o}, owner {owner}, group {group}; you are user {user}: ask its owner, or join that group if the mode lets it",
        escaped(path)
    )]
    Permission {
        /// The path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Its owner's user id.
        owner: u32,
        /// Its group id.
        group: u32,
        /// Who asked: the effective user id.
        user: u32,
    },
    /// A pool can be given only to a group that its maker is in.
    #[error(
        "cannot give a pool to group {group}: user {user} is not in it; `id` shows your groups"
    )]
    NotInGroup {
        /// The group id.
        group: u32,
        /// The maker's user id.
        user: u32,
    },
    /// The participant is the process that this one was forked from.
    #[error(
        "this is a copy in a forked child of process {process}, which is the participant: join with a node of its own"
    )]
    ForkedCopy {
        /// The process id of the participant.
        process: u32,
    },
    /// The directory is not safe to use.
    #[error("refusing to use {}: {reason}", escaped(path), reason = escaped(reason))]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no such pool.
    #[error(
        "there is no pool `{name}` in {}",
        escaped(root),
        name = escaped(name)
    )]
    NoSuchPool {
        /// The name.
        name: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// Another user has no such pool.
    #[error(
        "user {user} has no pool `{name}` in {}: only that user can make it, and both must look in the same place (HYTHE_ROOT)",
        escaped(root),
        name = escaped(name)
    )]
    NoPoolOfUser {
        /// The user's number.
        user: u32,
        /// The name.
        name: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// A pool was named as USER/NAME, and there is no such user.
    #[error(
        "there is no user `{user}` in /etc/passwd whose pool `{name}` could be: USER/NAME is another user's pool, and a user may also be given by number (`id -u USER` prints it)",
        user = escaped(user),
        name = escaped(name)
    )]
    NoSuchUser {
        /// As it was given.
        user: String,
        /// The name of the pool.
        name: String,
    },
    /// The pool is in use.
    #[error(
        "pool `{name}` is in use by {}: stop them first, or remove the pool by force",
        escaped(&members.join(", ")),
        name = escaped(name)
    )]
    InUse {
        /// The name.
        name: String,
        /// Who takes part.
        members: Vec<String>,
    },
    /// There is a pool of that name with another layout, which this program cannot replace.
    #[error(
        "pool `{name}` has layout version {found}, this program speaks {expected}; {reason}",
        name = escaped(name),
        reason = escaped(reason)
    )]
    OtherVersion {
        /// The name.
        name: String,
        /// The pool's version.
        found: u32,
        /// That of this program.
        expected: u32,
        /// Why it was left, and what to do.
        reason: String,
    },
    /// The system has not enough memory for the pool.
    #[error(
        "no room for {bytes} bytes at {}: {source}; enlarge the file system, or make the pool smaller",
        escaped(path)
    )]
    NoRoom {
        /// Bytes needed.
        bytes: u64,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// More memory than there is.
    #[error("{wanted} {} at {} are too many: at most {possible} are possible, by {bound}; raise that, or make the pool smaller", if *wanted == 1 { "byte" } else { "bytes" }, path.display())]
    TooLarge {
        /// Where.
        path: PathBuf,
        /// Bytes needed.
        wanted: u64,
        /// Bytes that can be had there.
        possible: u64,
        /// What bounds them.
        bound: SizeBound,
    },
    /// Too few huge pages are free.
    #[error(
        "no huge pages for the pool: {needed} of {page_kib} KiB are needed at {}, {free} of {total} are free; `echo {} > /sys/kernel/mm/hugepages/hugepages-{page_kib}kB/nr_hugepages` provides them",
        escaped(mount),
        total + needed.saturating_sub(*free)
    )]
    NoHugePages {
        /// The hugetlbfs mount.
        mount: PathBuf,
        /// Pages needed.
        needed: u64,
        /// Pages free on this machine.
        free: u64,
        /// Pages of this machine.
        total: u64,
        /// Size of one, in KiB.
        page_kib: u64,
    },
    /// Memory could not be locked.
    #[error(
        "cannot lock {bytes} bytes of {} into memory, as the pool asks or mlockall(2) of this program: {source}; the limit RLIMIT_MEMLOCK is {} bytes (raise it with `ulimit -l`, or LimitMEMLOCK= of a service)",
        escaped(path),
        limit_bytes.map_or_else(|| "no".to_owned(), |limit| limit.to_string())
    )]
    NotLocked {
        /// Which memory.
        path: PathBuf,
        /// Its size.
        bytes: usize,
        /// The soft limit of this process; `None`: unlimited.
        limit_bytes: Option<u64>,
        /// What the system said.
        source: io::Error,
    },
    /// A port is attached to one wait set at a time.
    #[error(
        "the port on channel `{channel}` is attached to a wait set already; detach it there first",
        channel = escaped(channel)
    )]
    Attached {
        /// The channel.
        channel: String,
    },
    /// The port is another node's.
    #[error(
        "the port on channel `{channel}` belongs to another node than the wait set; make a wait set with the port's node",
        channel = escaped(channel)
    )]
    ForeignPort {
        /// The channel.
        channel: String,
    },
    /// The system refused something that a wait set needs.
    #[error("a wait set cannot {action}: {source}")]
    WaitSet {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The pool is gone for this process, and what is written reaches nobody. A file of it was cut
    /// away, or its file system has no page left for it: leases and samples read as zeroes. Or its
    /// files were removed, or another pool has its name, or this process is no longer taken for a
    /// participant: what is mapped stays as it is.
    #[error(
        "the pool is lost: {} was {what}",
        escaped(path),
        what = escaped(what)
    )]
    PoolLost {
        /// The file.
        path: PathBuf,
        /// What happened to it, and what to do.
        what: String,
    },
    /// The ledger or a table refused.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A limit of the pool was met; says who has what it limits.
    #[error("{0}")]
    Exhausted(Box<Exhausted>),
    /// A history of more messages than any queue holds.
    #[error(
        "a history of {messages} messages is too long: the largest is {largest}, as many as the deepest queue holds; ask for fewer"
    )]
    HistoryTooLong {
        /// Messages asked for.
        messages: u32,
        /// The most messages of a history ([`HISTORY_MAX`](crate::HISTORY_MAX)).
        largest: u32,
    },
    /// A subscriber that the publisher was waiting for is gone. The message went to the others.
    #[error(
        "the subscriber of channel `{channel}` whose queue was full {} after {waited_ms} ms: {subscriber}",
        if *died { "died" } else { "left" },
        channel = escaped(channel),
        subscriber = escaped(subscriber)
    )]
    ReceiverGone {
        /// The channel.
        channel: String,
        /// How long was waited.
        waited_ms: u64,
        /// Which subscriber.
        subscriber: String,
        /// Its process is dead; else it closed its port, or left the pool.
        died: bool,
        /// How many others have the message.
        delivered: u32,
    },
    /// The queue of a subscriber stayed full for as long as the publisher waits.
    #[error(
        "the queue of a subscriber of channel `{channel}` was full for {waited_ms} ms: {subscriber}; its policy is to block the publisher, at most for the publisher's send timeout",
        channel = escaped(channel),
        subscriber = escaped(subscriber)
    )]
    Blocked {
        /// The channel.
        channel: String,
        /// How long was waited.
        waited_ms: u64,
        /// Which subscriber.
        subscriber: String,
        /// How many others have the message.
        delivered: u32,
    },
    /// Nobody serves the channel.
    #[error(
        "nobody has opened a server of channel `{channel}` within {waited_ms} ms",
        channel = escaped(channel)
    )]
    NoServer {
        /// The channel.
        channel: String,
        /// How long was waited.
        waited_ms: u64,
    },
    /// Every server has as many requests as it takes.
    #[error(
        "the queues of all servers of channel `{channel}` were full for {waited_ms} ms: {servers}",
        channel = escaped(channel),
        servers = escaped(servers)
    )]
    ServersFull {
        /// The channel.
        channel: String,
        /// How long was waited.
        waited_ms: u64,
        /// Which servers.
        servers: String,
    },
    /// A client has as many requests open as it may.
    #[error(
        "this client of channel `{channel}` has {limit} requests open, as many as it may: take their replies, or abandon them",
        channel = escaped(channel)
    )]
    TooManyRequests {
        /// The channel.
        channel: String,
        /// As many as were asked for when it was opened.
        limit: u32,
    },
    /// The server of a request went, died or broke its queue before it replied.
    #[error(
        "{server} {reason} before it replied to a request over channel `{channel}`; whether it acted on it is not known",
        channel = escaped(channel),
        server = escaped(server)
    )]
    ServerLost {
        /// The channel.
        channel: String,
        /// Which server: name and process.
        server: String,
        /// What became of it.
        reason: ServerLoss,
    },
    /// The server gave a request back without a reply.
    #[error(
        "{server} gave a request over channel `{channel}` up without a reply",
        channel = escaped(channel),
        server = escaped(server)
    )]
    Unanswered {
        /// The channel.
        channel: String,
        /// Which server: name and process.
        server: String,
    },
    /// No reply came in time.
    #[error(
        "no reply over channel `{channel}` within {waited_ms} ms from {server}",
        channel = escaped(channel),
        server = escaped(server)
    )]
    NoReply {
        /// The channel.
        channel: String,
        /// How long was waited.
        waited_ms: u64,
        /// Which server has the request.
        server: String,
    },
    /// The request is over: its reply was taken, it was abandoned, or it is another client's.
    #[error(
        "this client of channel `{channel}` has no request {number} open",
        channel = escaped(channel)
    )]
    NotPending {
        /// The channel.
        channel: String,
        /// The request's number.
        number: u64,
    },
    /// The server has no such method.
    #[error(
        "the server of channel `{channel}` has no method {method}",
        channel = escaped(channel)
    )]
    NoSuchMethod {
        /// The channel.
        channel: String,
        /// The method that was called.
        method: u32,
    },
    /// The result of a call is larger than its caller takes.
    #[error(
        "the result of method {method} over channel `{channel}` has {bytes} bytes, and its caller \
         takes {largest}",
        channel = escaped(channel)
    )]
    ResultTooLarge {
        /// The channel.
        channel: String,
        /// The method that was called.
        method: u32,
        /// The size of the result.
        bytes: u32,
        /// The largest that the caller said it takes. The channel may carry less.
        largest: u32,
    },
    /// The method that was called failed.
    #[error(
        "method {method} over channel `{channel}` failed with its error {number}",
        channel = escaped(channel)
    )]
    MethodFailed {
        /// The channel.
        channel: String,
        /// The method that was called.
        method: u32,
        /// The method's own number of the failure, from 1 on.
        number: i32,
    },
    /// What came is no reply to a call.
    #[error(
        "what came over channel `{channel}` is no reply to a call: its server is broken, or \
         serves requests and not calls",
        channel = escaped(channel)
    )]
    MalformedReply {
        /// The channel.
        channel: String,
    },
    /// The buffer has other holders.
    #[error(
        "a buffer that others hold as well cannot carry a request or reply over channel `{channel}`: lease one for it",
        channel = escaped(channel)
    )]
    SharedBuffer {
        /// The channel.
        channel: String,
    },
    /// A payload is not what the channel carries.
    #[error(
        "{bytes} bytes at offset {offset} of a buffer are no {carries}: {reason}",
        carries = escaped(carries),
        reason = escaped(reason)
    )]
    NotThisType {
        /// What was expected, as [`hythe_pool::ChannelType`] says it.
        carries: String,
        /// Length of the payload.
        bytes: usize,
        /// Where it begins, from the slot's first byte.
        offset: u32,
        /// What does not fit.
        reason: &'static str,
    },
    /// The buffer cannot be seen by the receiver.
    #[error(
        "a buffer of region {} cannot be seen by the core behind channel `{channel}`; \
         lease it from region {} (Publisher::lease does), or have it copied there \
         (Publisher::forward_copy does)",
        region.0,
        wanted.0,
        channel = escaped(channel)
    )]
    RegionNotVisible {
        /// The channel.
        channel: String,
        /// The buffer's region.
        region: RegionIndex,
        /// The core's region.
        wanted: RegionIndex,
    },
    /// The network stack cannot be given the pages of this buffer.
    #[error(
        "a buffer of region {} cannot be sent from without a copy: its pages may be written again too early; lease it from the wire region (Node::wire_region)",
        region.0
    )]
    NotForTheWire {
        /// The buffer's region.
        region: RegionIndex,
    },
    /// More than the endpoint on the core takes.
    #[error(
        "{bytes} bytes are more than the core endpoint behind channel `{channel}` takes ({largest})",
        channel = escaped(channel)
    )]
    TooLargeForCore {
        /// The channel.
        channel: String,
        /// Bytes of the message.
        bytes: u32,
        /// What the endpoint takes.
        largest: u32,
    },
    /// All ports of the endpoint are in use.
    #[error(
        "all ports of the core's endpoint behind channel `{channel}` are in use, by {holder}; one of these must leave",
        channel = escaped(channel),
        holder = escaped(holder)
    )]
    EndpointTaken {
        /// The channel.
        channel: String,
        /// By whom: names and processes.
        holder: String,
    },
    /// The core is not there, or does not answer.
    #[error(
        "the core behind channel `{channel}` does not answer: {reason}",
        channel = escaped(channel),
        reason = escaped(reason)
    )]
    CoreSilent {
        /// The channel.
        channel: String,
        /// What was waited for.
        reason: String,
    },
    /// A core has as many messages as its queue has places, and gave none back in time.
    #[error(
        "the queue to the core behind channel `{channel}` was full for {waited_ms} ms: \
         all {places} places are in use",
        channel = escaped(channel)
    )]
    CoreFull {
        /// The channel.
        channel: String,
        /// Places of the queue.
        places: u32,
        /// How long was waited.
        waited_ms: u64,
    },
    /// A core gets no further, because a process that is to take from it is stopped.
    #[error(
        "the core behind channel `{channel}` waits for {peer}, which takes nothing from channel \
         `{peer_channel}`: it is stopped; SIGCONT lets it go on",
        channel = escaped(channel),
        peer = escaped(peer),
        peer_channel = escaped(peer_channel)
    )]
    CoreBlocked {
        /// The channel.
        channel: String,
        /// The process that is stopped: its name and process id.
        peer: String,
        /// The channel that it is to take from.
        peer_channel: String,
    },
    /// A core wrote something impossible into its link; the port attaches anew.
    #[error(
        "the core behind channel `{channel}` broke its link: {seen}; the port attaches anew",
        channel = escaped(channel),
        seen = escaped(seen)
    )]
    CoreViolation {
        /// The channel.
        channel: String,
        /// Which word, and what stands there.
        seen: String,
    },
    /// A core's link has nonsense in it.
    #[error("the link of region {} is not usable: {reason}", region.0, reason = escaped(reason))]
    BadLink {
        /// The link's region.
        region: RegionIndex,
        /// What is wrong.
        reason: String,
    },
}

impl NodeError {
    /// The refusal of the ledger or of a table that this is about, with or without its holders.
    #[must_use]
    pub const fn refusal(&self) -> Option<&PoolError> {
        match self {
            Self::Pool(error) => Some(error),
            Self::Exhausted(exhausted) => Some(&exhausted.cause),
            _ => None,
        }
    }

    /// Was there no empty slot?
    #[must_use]
    pub const fn is_pool_full(&self) -> bool {
        matches!(self.refusal(), Some(PoolError::PoolFull { .. }))
    }
}

/// What became of a server that did not reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerLoss {
    /// It closed, left the pool or died.
    Went,
    /// A counter of its queue is impossible.
    BrokeItsQueue,
}

impl std::fmt::Display for ServerLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Went => "went",
            Self::BrokeItsQueue => "broke its queue",
        })
    }
}

impl From<SendError> for NodeError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Pool(error) => Self::Pool(*error),
            SendError::Full => Self::Pool(PoolError::Busy("a queue")),
        }
    }
}

/// Names path and action of an I/O error.
/// Memory that could not be mapped: where the program locks all of its memory (mlockall(2)), that
/// is a matter of its limit, which `mmap` calls EAGAIN.
pub(crate) fn map(path: impl Into<PathBuf>, bytes: usize) -> impl FnOnce(io::Error) -> NodeError {
    move |source| match source.kind() {
        io::ErrorKind::WouldBlock => not_locked(path, bytes, source),
        _ => file("map", path)(source),
    }
}

/// Memory that could not be locked.
pub(crate) fn not_locked(path: impl Into<PathBuf>, bytes: usize, source: io::Error) -> NodeError {
    NodeError::NotLocked {
        path: path.into(),
        bytes,
        limit_bytes: getrlimit(Resource::Memlock).current,
        source,
    }
}

pub(crate) fn file(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> NodeError {
    move |source| NodeError::File {
        action,
        path: path.into(),
        source,
    }
}
