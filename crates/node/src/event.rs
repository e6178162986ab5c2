//! Events: a notifier tells every listener of a channel that something happened, without payload.
//!
//! Each listener has one cell with a bit for each event. Setting a bit that is set already changes
//! nothing, so a late listener takes an event once however often it was raised: events *coalesce*.
//! What must be counted is a message, and goes over publish/subscribe. A listener that takes an
//! event sees all that was written before each of the notifications that it stands for. There is no
//! queue and no slot, and so nothing to recover: raising is one atomic swap. A notifier may die
//! after the swap and before it rings the bell; its recovery then rings every bell.
//!
//! Applications use it through [`crate::Node`]. Never waits for a listener. Drops an event only if
//! a faulty peer writes into the cell without end; that is counted as a violation.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::pool::EVENTS_MAX;
use hythe_pool::{EventCell, PortKind, PortPolicy, PortStatistics};

use crate::NodeError;
use crate::port::{Opener, Port, PortPlan};
use crate::transport::{EventSource, EventTarget, Raised};
use crate::wait::{Awaited, WaitPlan};
use crate::wait_set::Waitable;
use crate::wait_set::sealed::{Parts, PortParts};

/// Which event of a channel: 0 to 39.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u8);

impl EventId {
    /// How many events a channel has.
    pub const COUNT: u8 = EVENTS_MAX as u8;

    /// `None` if there is no such event: they are numbered from 0 to 39.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// Some events of a channel, each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventSet(u64);

impl EventSet {
    /// Event n is bit n; bits that are no events are left out.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << EVENTS_MAX) - 1))
    }

    /// Event n is bit n.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Is the set empty?
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Does the set have this event?
    #[must_use]
    pub const fn contains(self, event: EventId) -> bool {
        self.0 & (1 << event.0) != 0
    }

    /// All of them, the lowest number first.
    pub fn iter(self) -> impl Iterator<Item = EventId> {
        (0..EventId::COUNT)
            .map(EventId)
            .filter(move |&event| self.contains(event))
    }
}

impl From<EventId> for EventSet {
    fn from(event: EventId) -> Self {
        Self(1 << event.0)
    }
}

impl FromIterator<EventId> for EventSet {
    fn from_iter<I: IntoIterator<Item = EventId>>(events: I) -> Self {
        Self(
            events
                .into_iter()
                .fold(0, |bits, event| bits | 1 << event.0),
        )
    }
}

const fn plan(kind: PortKind) -> PortPlan {
    PortPlan {
        kind,
        depth: 0,
        policy: PortPolicy::DropNewest,
        history: 0,
        request_bytes: None,
    }
}

/// The sending end of an event channel.
#[derive(Debug)]
pub struct Notifier {
    port: Port,
    statistics: PortStatistics,
    epoch: Option<u32>,
    listeners: Vec<Box<dyn EventTarget>>,
}

impl Notifier {
    pub(crate) fn open(opener: &Opener, name: &str) -> Result<Self, NodeError> {
        let mut notifier = Self {
            port: Port::open(opener, name, None, plan(PortKind::Notifier))?,
            statistics: PortStatistics::default(),
            epoch: None,
            listeners: Vec::new(),
        };
        notifier.find_listeners(true);
        Ok(notifier)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.port.name()
    }

    /// Raises one or several events at every listener. Returns the number of listeners.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`], [`NodeError::ForkedCopy`].
    pub fn notify(&mut self, events: impl Into<EventSet>) -> Result<usize, NodeError> {
        self.refresh()?;
        let control = self.port.shared.pool().control();
        let (events, mut notified) = (events.into().0, 0);
        for listener in &mut self.listeners {
            match listener.raise(events) {
                Raised::Accepted => notified += 1,
                Raised::Closed => self.epoch = None,
                Raised::Absent => {}
                Raised::Contended => self.statistics.violations += 1,
            }
        }
        self.statistics.messages += 1;
        control
            .tables()
            .set_statistics(self.port.index, self.statistics);
        self.port.shared.pool().check_whole()?;
        Ok(notified)
    }

    /// How many listeners there are.
    ///
    /// # Errors
    /// As [`Notifier::notify`].
    pub fn listeners(&mut self) -> Result<usize, NodeError> {
        self.refresh()?;
        self.port.shared.pool().check_whole()?;
        Ok(self.listeners.len())
    }

    /// Waits until there are at least `count` listeners. False: the time was over first. A signal
    /// does not end the wait, [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// As [`Notifier::notify`]; [`NodeError::Interrupted`].
    pub fn wait_for_listeners(
        &mut self,
        count: usize,
        timeout: Duration,
    ) -> Result<bool, NodeError> {
        let shared = Arc::clone(&self.port.shared);
        shared.check_original()?;
        let enough = shared.wait_interruptibly(self.port.wait, timeout, || {
            Ok((self.listeners()? >= count).then_some(()))
        })?;
        Ok(enough.is_some())
    }

    /// The counters of this port: `messages` is the number of notifications.
    #[must_use]
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    fn refresh(&mut self) -> Result<(), NodeError> {
        self.port.shared.check_original()?;
        if self.epoch != Some(self.port.epoch()) {
            self.find_listeners(false);
        }
        Ok(())
    }

    fn find_listeners(&mut self, is_opening: bool) {
        let epoch = self.port.epoch();
        self.port.find_listeners(&mut self.listeners, is_opening);
        self.epoch = Some(epoch);
    }
}

/// The receiving end of an event channel.
///
/// ```
/// # fn main() -> Result<(), hythe_node::NodeError> {
/// # let root = std::env::temp_dir().join(format!("hythe-hear-{}", std::process::id()));
/// use std::time::Duration;
/// use hythe_node::{EventId, Node, Pool, PoolOptions};
///
/// const DOOR: EventId = EventId::new(3).expect("one of 40");
/// let options = PoolOptions::new("example").root(&root).bytes(16 << 20);
/// let node = Node::join(&Pool::open_or_create(&options)?, "doc-test")?;
/// let mut listener = node.listener("house")?;
/// let mut notifier = node.notifier("house")?;
/// assert_eq!(notifier.notify(DOOR)?, 1);
/// notifier.notify(DOOR)?;
///
/// let taken = listener.wait(Duration::from_secs(1))?;
/// assert!(taken.contains(DOOR));
/// assert!(listener.try_take()?.is_empty(), "both in one");
/// # drop((listener, notifier, node));
/// # Pool::remove(&options)?;
/// # std::fs::remove_dir_all(&root).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listener {
    port: Port,
    statistics: PortStatistics,
    /// What notifiers of processes raise.
    cell: EventCell,
    epoch: Option<u32>,
    sources: Vec<Box<dyn EventSource>>,
}

impl Listener {
    pub(crate) fn open(opener: &Opener, name: &str) -> Result<Self, NodeError> {
        let port = Port::open(opener, name, None, plan(PortKind::Listener))?;
        port.ring_others();
        let mut listener = Self {
            cell: opener.shared.pool().control().tables().events(port.index),
            port,
            statistics: PortStatistics::default(),
            epoch: None,
            sources: Vec::new(),
        };
        listener.find_sources(true);
        Ok(listener)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.port.name()
    }

    /// Takes the events that were raised since the last take, waiting for at most `timeout` for the
    /// first. Empty: none came. A signal does not end the wait,
    /// [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// As [`Listener::try_take`]; [`NodeError::Interrupted`].
    pub fn wait(&mut self, timeout: Duration) -> Result<EventSet, NodeError> {
        let shared = Arc::clone(&self.port.shared);
        let taken = shared.wait_on(self.port.wait, timeout, self)?;
        Ok(taken.unwrap_or_default())
    }

    /// Takes the events that were raised since the last take. Empty: none were.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`], [`NodeError::ForkedCopy`].
    pub fn try_take(&mut self) -> Result<EventSet, NodeError> {
        self.port.shared.check_original()?;
        if self.epoch != Some(self.port.epoch()) {
            self.find_sources(false);
        }
        let control = self.port.shared.pool().control();
        let mut bits = self.cell.take(control.memory());
        for source in &mut self.sources {
            bits |= source.take()?;
        }
        let taken = EventSet::from_bits(bits);
        if !taken.is_empty() {
            self.statistics.messages += 1;
            control
                .tables()
                .set_statistics(self.port.index, self.statistics);
        }
        self.port.shared.pool().check_whole()?;
        Ok(taken)
    }

    fn find_sources(&mut self, is_opening: bool) {
        let epoch = self.port.epoch();
        self.port.find_event_sources(&mut self.sources, is_opening);
        self.epoch = Some(epoch);
    }

    /// The counters of this port: `messages` is the number of takes that returned events.
    #[must_use]
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }
}

impl Awaited for Listener {
    type Found = EventSet;

    fn look(&mut self) -> Result<Option<EventSet>, NodeError> {
        let taken = self.try_take()?;
        Ok((!taken.is_empty()).then_some(taken))
    }

    fn nap(&self) -> Duration {
        let naps = self.sources.iter().map(|source| source.nap());
        naps.min().unwrap_or(WaitPlan::LONGEST_NAP)
    }
}

impl Waitable for Listener {}

impl Parts for Listener {
    fn parts(&mut self) -> PortParts<'_> {
        PortParts {
            events: Some(self.cell),
            port: &mut self.port,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_events_and_nothing_else() {
        let event = |number| EventId::new(number).expect("an event");
        let set: EventSet = [event(0), event(39), event(0)].into_iter().collect();
        assert_eq!(set.bits(), 1 | 1 << 39);
        assert!(set.contains(event(39)) && !set.contains(event(38)));
        assert_eq!(set.iter().map(EventId::number).collect::<Vec<_>>(), [0, 39]);
        assert_eq!(EventSet::from_bits(1 << 40), EventSet::default());
        assert_eq!(EventId::new(40), None);
    }
}
