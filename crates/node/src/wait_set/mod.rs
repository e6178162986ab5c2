//! The wait set: one bounded wait for many ports and file descriptors.
//!
//! ```
//! # fn main() -> Result<(), hythe_node::NodeError> {
//! # let root = std::env::temp_dir().join(format!("hythe-doc-wait_set-{}", std::process::id()));
//! use std::time::Duration;
//! use hythe_node::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions};
//!
//! # let options = PoolOptions::new("example").root(&root).bytes(16 << 20);
//! # let node = Node::join(&Pool::open_or_create(&options)?, "doc-test")?;
//! let mut left = node.subscriber("left", &SubscriberOptions::default())?;
//! let mut right = node.subscriber("right", &SubscriberOptions::default())?;
//! let mut wait_set = node.wait_set()?;
//! let left_token = wait_set.attach(&mut left)?;
//! let right_token = wait_set.attach(&mut right)?;
//!
//! let mut publisher = node.publisher("right", &PublisherOptions::default())?;
//! publisher.publish(node.lease(8)?, 8)?;
//!
//! for event in wait_set.wait(Duration::from_secs(1))? {
//!     assert_eq!(event.token(), right_token);
//!     while let Some(sample) = right.try_take()? {
//!         assert_eq!(sample.len(), 8);
//!     }
//! }
//! # assert_ne!(left_token, right_token);
//! # drop((left, right, wait_set, publisher, node));
//! # Pool::remove(&options)?;
//! # std::fs::remove_dir_all(&root).ok();
//! # Ok(())
//! # }
//! ```
//!
//! Cost: a wait examines the ports that were marked since the last wait, and those that still had a
//! message then. Idle ports cost nothing, except once a second, when all are examined. A wait set
//! with ports only sleeps on a futex, as a single port does. If file descriptors are attached, or
//! the wait set's own descriptor is used, a thread forwards wake-ups from the futex to an eventfd:
//! one more wake-up for each sleep.
//!
//! Never takes a message itself: any thread may take what it reports, at any time.

mod files;
mod ports;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_pool::EventCell;

use crate::NodeError;
use crate::participant::Participant;
use crate::port::Opener;
use crate::spinner::Spinner;
use crate::wait::{Awaited, WaitPlan, WaitReport, look_for, wait_reporting};
use files::Files;
use ports::Ports;
use sealed::PortParts;

/// Identifies what was attached to a wait set. After detaching, the same token may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(Attached);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Attached {
    Port(usize),
    File(usize),
}

impl Token {
    const fn port(place: usize) -> Self {
        Self(Attached::Port(place))
    }

    const fn file(place: usize) -> Self {
        Self(Attached::File(place))
    }
}

/// What to wait for on a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Until it can be read.
    Readable,
    /// Until it can be written.
    Writable,
    /// Both.
    Both,
}

/// Something is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    token: Token,
    readable: bool,
    writable: bool,
    closed: bool,
}

impl Event {
    const fn readable(token: Token) -> Self {
        Self {
            token,
            readable: true,
            writable: false,
            closed: false,
        }
    }

    /// What it is.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// A port may have a message: try to take it. A file descriptor can be read.
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// The file descriptor can be written.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// The other end of the file descriptor was closed, or it has an error.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }
}

/// What can be attached to a [`WaitSet`]: the taking ends of channels ([`crate::Subscriber`],
/// [`crate::Server`], [`crate::Client`], [`crate::Listener`]). A client is reported for replies,
/// and when a server goes that owes it some. Implemented in this crate only.
pub trait Waitable: sealed::Parts {}

/// What a wait set needs of a port.
pub(crate) mod sealed {
    use super::EventCell;
    use crate::port::Port;

    /// Out of reach for other crates.
    pub trait Parts {
        /// The parts.
        fn parts(&mut self) -> PortParts<'_>;
    }

    /// A port, for its wait set.
    #[allow(missing_debug_implementations, reason = "lives for one call")]
    pub struct PortParts<'a> {
        pub(crate) port: &'a mut Port,
        /// What a listener waits for.
        pub(crate) events: Option<EventCell>,
    }
}

/// One bounded wait for any number of ports and file descriptors of a node.
///
/// Level-triggered: each [`WaitSet::wait`] reports a port while it has messages. A reported port
/// may have none when you take: another thread may have taken it, or the report was about a
/// publisher that left, which the port handles when it tries to take. A dropped port detaches
/// itself.
///
/// A node may have several wait sets, for different ports.
#[derive(Debug)]
pub struct WaitSet {
    shared: Arc<Participant>,
    ports: Ports,
    files: Files,
    plan: WaitPlan,
    spinner: Spinner,
    sleeps: u64,
    events: Vec<Event>,
}

impl WaitSet {
    pub(crate) fn new(opener: &Opener) -> Result<Self, NodeError> {
        let shared = &opener.shared;
        shared.check_original()?;
        let files = Files::new()?;
        shared
            .spin_gate()
            .note_thread(shared.pool().control(), shared.index());
        Ok(Self {
            shared: Arc::clone(shared),
            ports: Ports::new(opener),
            files,
            plan: WaitPlan::for_processes(),
            spinner: Spinner::default(),
            sleeps: 0,
            events: Vec::new(),
        })
    }

    /// Attaches a port. The caller keeps it: when it is reported, try to take from it.
    ///
    /// # Errors
    /// [`NodeError::Attached`] if a wait set has it already; [`NodeError::ForeignPort`],
    /// [`NodeError::ForkedCopy`].
    pub fn attach(&mut self, port: &mut impl Waitable) -> Result<Token, NodeError> {
        let PortParts { port, events } = port.parts();
        let channel = || port.name().to_owned();
        self.shared.check_original()?;
        if !Arc::ptr_eq(&port.shared, &self.shared) {
            return Err(NodeError::ForeignPort { channel: channel() });
        }
        let attached = self.ports.attach(&self.shared, port, events);
        let Some((token, route)) = attached else {
            return Err(NodeError::Attached { channel: channel() });
        };
        port.route = Some(route);
        self.reserve();
        Ok(token)
    }

    /// Attaches a file descriptor. The wait set keeps a duplicate, so the file stays open until
    /// [`WaitSet::detach`].
    ///
    /// # Errors
    /// [`NodeError::WaitSet`]: a kind of file that is always ready, or too many open files;
    /// [`NodeError::ForkedCopy`].
    pub fn attach_fd(&mut self, file: impl AsFd, interest: Interest) -> Result<Token, NodeError> {
        // The epoll instance is the parent's as well.
        self.shared.check_original()?;
        let token = self.files.attach(file.as_fd(), interest)?;
        self.reserve();
        Ok(token)
    }

    /// Detaches a port or file descriptor. False: it was not attached, or was dropped meanwhile, or
    /// this is a forked copy.
    pub fn detach(&mut self, token: Token) -> bool {
        if self.shared.is_a_copy() {
            return false;
        }
        match token.0 {
            Attached::Port(place) => self.ports.detach(&self.shared, place),
            Attached::File(place) => self.files.detach(place),
        }
    }

    /// Waits until something is ready, for at most `timeout`; with zero it does not wait. Returns
    /// all ready ports and up to 64 ready file descriptors, in turn if there are more. Empty:
    /// `timeout` has passed. A signal does not end the wait,
    /// [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// [`NodeError::Interrupted`]; [`NodeError::WaitSet`] if the system refuses to wait
    /// for file descriptors.
    pub fn wait(&mut self, timeout: Duration) -> Result<&[Event], NodeError> {
        self.shared.check_original()?;
        self.events.clear();
        if self.files.are_used() {
            self.wait_with_files(timeout)?;
        } else {
            self.wait_for_ports(timeout)?;
        }
        self.shared.pool().check_whole()?;
        Ok(&self.events)
    }

    /// How many sleeps a bell ended: each cost a wake-up.
    #[must_use]
    pub const fn sleeps(&self) -> u64 {
        self.sleeps
    }

    /// How often the examination of all ports, once a second, found a message without a mark. That
    /// happens now and then, between a message and its mark. If the number keeps growing, a peer
    /// erases marks.
    #[must_use]
    pub const fn unmarked(&self) -> u64 {
        self.ports.unmarked
    }

    fn wait_for_ports(&mut self, timeout: Duration) -> Result<(), NodeError> {
        let Self {
            shared,
            ports,
            events,
            ..
        } = self;
        let gate = shared.spin_gate();
        let plan = self.spinner.plan(self.plan, gate);
        let mut report = WaitReport::default();
        let mut awaited = AnyPort {
            shared,
            ports,
            events,
        };
        let place = shared.interruptible_place();
        wait_reporting(place, plan, timeout, &mut report, &mut awaited)?;
        self.sleeps += report.sleeps;
        self.spinner.learn(gate.limit(), plan, report.ending);
        Ok(())
    }

    /// Never spins: testing a file descriptor takes a system call.
    fn wait_with_files(&mut self, timeout: Duration) -> Result<(), NodeError> {
        let (start, shared) = (Instant::now(), Arc::clone(&self.shared));
        if shared.is_missing_descriptors() {
            return shared.pool().check_whole();
        }
        let interruptible = shared.interruptible_place().begin();
        loop {
            let look_on = self.files.lie_down(&self.shared)?;
            // The look in front of a sleep finds what has come whichever way.
            let _ = self.ports.nap();
            look_for(look_on, &mut || {
                self.ports.look(&self.shared, &mut self.events);
                Ok((!self.events.is_empty()).then_some(()))
            })?;
            let left = timeout.saturating_sub(start.elapsed());
            let is_interrupted = !timeout.is_zero() && interruptible.is_interrupted();
            let nap = match self.events.is_empty() && !is_interrupted {
                true => left.min(self.ports.nap()),
                false => Duration::ZERO,
            };
            let slept = self.files.sleep(nap, &mut self.events);
            if is_interrupted && self.events.is_empty() && slept.is_ok() {
                self.files.rise(false);
                return Err(interruptible.report());
            }
            let is_lost = self.shared.pool().check_whole().is_err();
            if slept.is_err() || left.is_zero() || !self.events.is_empty() || is_lost {
                self.files.rise(!self.events.is_empty());
                return slept.map(drop);
            }
            self.sleeps += u64::from(slept?);
        }
    }

    /// Reserved beforehand, so that waiting does not allocate.
    fn reserve(&mut self) {
        self.events.clear();
        self.events.reserve(self.ports.len() + self.files.len());
    }
}

/// What a wait set without files waits for.
struct AnyPort<'a> {
    shared: &'a Arc<Participant>,
    ports: &'a mut Ports,
    events: &'a mut Vec<Event>,
}

impl Awaited for AnyPort<'_> {
    type Found = ();

    fn look(&mut self) -> Result<Option<()>, NodeError> {
        self.ports.look(self.shared, self.events);
        Ok((!self.events.is_empty()).then_some(()))
    }

    fn nap(&self) -> Duration {
        self.ports.nap()
    }
}

/// The wait set as a file descriptor, for event loops: it is readable while something may be ready.
/// Only a [`WaitSet::wait`] that returns nothing makes it unreadable: call `wait` with a time-out
/// of zero until then. Asked for once, each such wait asks the senders for a ring.
impl AsFd for WaitSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.files.descriptor()
    }
}

/// As [`AsFd`], for tokio's `AsyncFd`.
impl AsRawFd for WaitSet {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            self.files.forget();
            return;
        }
        if self.shared.is_missing_descriptors() {
            self.files.abandon();
        }
        self.ports.detach_all(&self.shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, Pool, PoolOptions, SubscriberOptions};

    /// The lock may be held by a thread that is not there: whoever dropped a copy would wait for
    /// ever.
    #[test]
    fn copy_of_a_way_ends_without_the_lock() {
        let root = std::env::temp_dir().join(format!("hythe-routes-{}", std::process::id()));
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let node = Node::join(&pool, "original").expect("joins");
        let subscriber = node.subscriber("data", &SubscriberOptions::default());
        let mut subscriber = subscriber.expect("opens");
        let mut wait_set = node.wait_set().expect("made");
        wait_set.attach(&mut subscriber).expect("free");

        let shared = Arc::clone(node.participant());
        let ways = || shared.routes().count() as i32;
        let mut subscriber = Some(subscriber);
        let in_child = hythe_sys::fork::run_in_child(|| {
            drop(subscriber.take());
            ways()
        });
        assert_eq!(in_child.expect("forked"), 1, "the copy took the lock");
        drop(subscriber);
        assert_eq!(ways(), 0, "the original did not");
        drop((wait_set, shared, node));
        std::fs::remove_dir_all(root).expect("own");
    }
}
