//! Publishers that send by flows from now on: what they sent by this stream comes first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hythe_node::hop::HopPool as _;
use hythe_node::{MemberIndex, Pool, PortIndex};
use hythe_pool::PortInfo;

use super::lock;

/// A publisher that has left the stream's port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    port: PortIndex,
    flow: u32,
    /// The last frame in front of its flow, once all that it sent is taken.
    through: Option<u64>,
}

impl Leaving {
    pub(crate) const fn new(port: PortIndex, flow: u32) -> Self {
        Self {
            port,
            flow,
            through: None,
        }
    }
}

/// All of a stream.
#[derive(Debug, Default)]
pub(super) struct LeavingPublishers {
    all: Mutex<Vec<Leaving>>,
    is_some: AtomicBool,
}

impl LeavingPublishers {
    pub(super) fn add(&self, leaving: Leaving) {
        lock(&self.all).push(leaving);
        self.is_some.store(true, Ordering::Release);
    }

    /// Is there any? The thread of the stream asks in front of each message.
    pub(super) fn is_some(&self) -> bool {
        self.is_some.load(Ordering::Acquire)
    }

    /// Those that have nothing in the queues any more are in front of this frame.
    pub(super) fn note_taken(&self, last: u64, remains: impl Fn(PortIndex) -> bool) {
        for leaving in &mut *lock(&self.all) {
            if leaving.through.is_none() && !remains(leaving.port) {
                leaving.through = Some(last);
            }
        }
    }

    /// The flows of those for which all up to this frame was waited for.
    pub(super) fn take_arrived(&self, acknowledged: u64) -> Vec<u32> {
        let mut all = lock(&self.all);
        let is_over = |it: &mut Leaving| it.through.is_some_and(|last| last <= acknowledged);
        let flows = all.extract_if(.., is_over).map(|leaving| leaving.flow);
        let flows = flows.collect();
        self.is_some.store(!all.is_empty(), Ordering::Release);
        flows
    }
}

/// Messages that flows left unconfirmed. They were counted when the flows ended, and their
/// publishers tell as many as missing by the port that they go back to: none is counted twice. What
/// a publisher has not told when it ends it never tells.
#[derive(Debug, Default)]
pub(super) struct CountedByFlows {
    all: Mutex<Vec<Counted>>,
    is_some: AtomicBool,
}

/// Those of one publisher.
#[derive(Debug)]
struct Counted {
    publisher: FlowPublisher,
    messages: u64,
    /// All that it told has been read.
    is_gone: bool,
}

/// A publisher of this host whose flow has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowPublisher {
    port: PortIndex,
    member: MemberIndex,
    session: u32,
}

impl FlowPublisher {
    pub(crate) const fn of(info: &PortInfo) -> Self {
        Self {
            port: info.index,
            member: info.member,
            session: info.session,
        }
    }

    /// Is it there?
    fn is_open(self, pool: &Pool) -> bool {
        let info = pool.control().tables().port(self.port);
        info.is_some_and(|info| Self::of(&info) == self)
    }
}

impl CountedByFlows {
    pub(super) fn add(&self, publisher: FlowPublisher, messages: u32) {
        let mut all = lock(&self.all);
        let mut known = all.iter_mut();
        match known.find(|counted| counted.publisher == publisher) {
            Some(counted) => counted.messages += u64::from(messages),
            None => all.push(Counted {
                publisher,
                messages: messages.into(),
                is_gone: false,
            }),
        }
        self.is_some.store(true, Ordering::Release);
    }

    /// Publishers that are not in the pool any more, and from which nothing `remains` to be taken,
    /// tell nothing more.
    pub(super) fn note_gone(&self, pool: &Pool, remains: impl Fn(PortIndex) -> bool) {
        self.note_gone_if(|publisher| !publisher.is_open(pool) && !remains(publisher.port));
    }

    fn note_gone_if(&self, is_gone: impl Fn(FlowPublisher) -> bool) {
        if self.is_some.load(Ordering::Acquire) {
            for counted in &mut *lock(&self.all) {
                counted.is_gone |= is_gone(counted.publisher);
            }
        }
    }

    /// So many messages are missing: how many of them are counted already?
    pub(super) fn take(&self, missing: u64) -> u64 {
        if !self.is_some.load(Ordering::Acquire) {
            return 0;
        }
        let mut all = lock(&self.all);
        // Those that tell nothing later first.
        all.sort_by_key(|counted| !counted.is_gone);
        let mut left = missing;
        for counted in &mut *all {
            let taken = counted.messages.min(left);
            counted.messages -= taken;
            left -= taken;
        }
        all.retain(|counted| counted.messages > 0 && !counted.is_gone);
        self.is_some.store(!all.is_empty(), Ordering::Release);
        missing - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unconfirmed_messages_of_flow_are_counted_once() {
        let counted = CountedByFlows::default();
        assert_eq!(counted.take(3), 0);
        counted.add(publisher(1), 5);
        assert_eq!([counted.take(0), counted.take(2)], [0, 2]);
        // Others were dropped besides.
        assert_eq!(counted.take(7), 3);
        assert_eq!(counted.take(1), 0);
    }

    fn publisher(port: u32) -> FlowPublisher {
        FlowPublisher {
            port: PortIndex(port),
            member: MemberIndex(0),
            session: 1,
        }
    }

    #[test]
    fn what_a_publisher_never_tells_hides_no_later_losses() {
        let counted = CountedByFlows::default();
        counted.add(publisher(1), 5);
        counted.add(publisher(2), 4);
        counted.note_gone_if(|gone| gone == publisher(1));
        // It had told some of them before.
        assert_eq!(counted.take(2), 2);
        // The other has not told yet, and does.
        assert_eq!(counted.take(10), 4);
        counted.add(publisher(1), 5);
        counted.note_gone_if(|_| true);
        assert_eq!([counted.take(0), counted.take(3)], [0, 0]);
    }

    #[test]
    fn flow_comes_behind_all_that_its_publisher_sent_before() {
        let leaving = LeavingPublishers::default();
        assert!(!leaving.is_some());
        for (port, flow) in [(3, 30), (4, 40)] {
            leaving.add(Leaving::new(PortIndex(port), flow));
        }
        assert!(leaving.is_some());
        // The first has something in a queue.
        leaving.note_taken(7, |port| port == PortIndex(3));
        assert!(leaving.take_arrived(6).is_empty());
        assert_eq!(leaving.take_arrived(7), [40]);
        leaving.note_taken(9, |_| false);
        assert!(leaving.take_arrived(8).is_empty());
        assert_eq!(leaving.take_arrived(9), [30]);
        assert!(!leaving.is_some());
    }
}
