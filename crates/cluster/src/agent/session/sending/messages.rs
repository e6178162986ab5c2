//! Messages of publishers, taken from the queues of a subscriber.
//!
//! Where the other side wants a stronger port, that is opened beside the first. A publisher goes
//! over to it between two messages, so each message is in one of them; what waits in an earlier one
//! comes first. A port is closed when no publisher sends to it any more.

use std::sync::atomic::Ordering;

use hythe_node::hop::{self, Origin};
use hythe_node::{Node, NodeError, Sample, Subscriber, SubscriberOptions};

use super::source::{Source, Step};
use super::{SendingStream, Session, Stop, lock, share};
use crate::error::ClusterError;
use crate::frame::Want;
use crate::status::ChannelState;

/// Ports of one stream at a time. A publisher that makes no call stays at an earlier one; beyond
/// these a stronger one waits until it does.
const PORTS_MAX: usize = 4;

/// Messages of publishers.
pub(super) struct Messages {
    node: Node,
    /// Oldest first, at least one.
    ports: Vec<MessagePort>,
    /// Dropped at ports that are closed, and not counted yet.
    dropped: u64,
    /// Nobody sends any more: what a publisher sends that comes now finds no port, and goes to that
    /// of the next stream. In one that is open until the other side has taken all it would be lost.
    is_closing: bool,
}

/// A subscriber's port.
struct MessagePort {
    subscriber: Subscriber,
    /// What it had missed when that was last looked at.
    dropped: u64,
    /// Taken, and not sent: something comes before it, or there was no credit for it.
    waiting: Option<(Sample, Origin)>,
}

impl Messages {
    pub(super) fn new(session: &Session, stream: &SendingStream) -> Result<Self, ClusterError> {
        let node = session.node()?;
        let port = MessagePort::open(&node, stream, &stream.want())?;
        Ok(Self {
            node,
            ports: vec![port],
            dropped: 0,
            is_closing: false,
        })
    }

    /// Opens a stronger port, if one is wanted, and closes those that nobody sends to.
    fn renew(&mut self, stream: &SendingStream) -> Result<(), NodeError> {
        // Nobody is to find a port of a stream that ends.
        if !self.is_closing
            && self.ports.len() < PORTS_MAX
            && let Some(want) = stream.take_stronger()
        {
            if self.ports.iter().any(MessagePort::has_cores) {
                // A core sends to all ports that there are.
                stream.stop(Stop::Reopen);
                return Ok(());
            }
            match MessagePort::open(&self.node, stream, &want) {
                Ok(port) => self.ports.push(port),
                Err(error) => stream.say(ChannelState::Open, &error.to_string()),
            }
        }
        let mut earlier = self.ports.len() - 1;
        while let Some(index) = earlier.checked_sub(1) {
            earlier = index;
            if self.ports[index].is_over()? {
                self.follow(stream, index + 1)?;
                let closed = self.ports.remove(index);
                self.dropped += closed.subscriber.statistics().dropped - closed.dropped;
            }
        }
        Ok(())
    }

    /// The port that has the next message. A newer one is looked at first: what a publisher sent
    /// before is in an earlier one by then, and comes first.
    fn take(&mut self) -> Result<Option<usize>, NodeError> {
        let mut found = None;
        for (index, port) in self.ports.iter_mut().enumerate().rev() {
            if port.waiting.is_none() {
                port.waiting = hop::try_take_from(&mut port.subscriber)?;
            }
            found = port.waiting.is_some().then_some(index).or(found);
        }
        Ok(found)
    }

    /// Publishers that have gone over to this port, or to a later one, keep their numbers: of
    /// several the first has what comes next.
    fn follow(&mut self, stream: &SendingStream, first: usize) -> Result<(), NodeError> {
        let mut numbers = lock(&stream.publishers);
        let mut seen = Vec::new();
        for port in &mut self.ports[first..] {
            port.subscriber.connected_publishers()?;
            for origin in hop::origins(&port.subscriber) {
                let publisher = (origin.member, origin.port);
                if !seen.contains(&publisher) {
                    seen.push(publisher);
                    numbers.follow(origin);
                }
            }
        }
        Ok(())
    }

    /// Of publishers that send by flows now, is anything left here?
    fn note_left(&mut self, stream: &SendingStream) -> Result<(), NodeError> {
        for port in &mut self.ports {
            port.subscriber.connected_publishers()?;
        }
        let remains = |publisher| {
            let is_its = |origin: Origin| origin.port == Some(publisher);
            self.ports.iter().any(|port| {
                let waiting = port.waiting.iter().map(|(_, origin)| *origin);
                waiting.chain(hop::origins(&port.subscriber)).any(is_its)
            })
        };
        let last = lock(&stream.outgoing).last();
        stream.leaving.note_taken(last, remains);
        stream.tell_arrived();
        Ok(())
    }

    /// Publishers that are gone, and of which all was taken here, tell nothing more.
    fn note_gone(&self, stream: &SendingStream) {
        let remains = |publisher| {
            let mut ports = self.ports.iter();
            ports.any(|port| {
                let waiting = port.waiting.iter().map(|(_, origin)| *origin);
                let mut origins = waiting.chain(hop::origins(&port.subscriber));
                origins.any(|origin| origin.port == Some(publisher))
            })
        };
        stream
            .counted
            .note_gone(&stream.context.options.pool, remains);
    }

    /// Closes the ports, from the earliest on, up to one to which a publisher has connected
    /// meanwhile: true if there is none.
    fn close_unused(&mut self) -> Result<bool, NodeError> {
        for port in &mut self.ports {
            if !hop::close_if_unused(&mut port.subscriber)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_publishers(&mut self) -> Result<bool, NodeError> {
        for port in &mut self.ports {
            if port.subscriber.connected_publishers()? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl MessagePort {
    fn open(node: &Node, stream: &SendingStream, want: &Want) -> Result<Self, ClusterError> {
        share::check(node, want.depth)?;
        let options = SubscriberOptions::default()
            .carries(stream.opening.carries.clone().into())
            .depth(want.depth)
            .policy(want.policy.into())
            .history(want.history.min(want.depth));
        Ok(Self {
            subscriber: node.subscriber(&want.channel, &options)?,
            dropped: 0,
            waiting: None,
        })
    }

    /// No process sends to it, and all of it is taken.
    fn is_over(&mut self) -> Result<bool, NodeError> {
        self.subscriber.connected_publishers()?;
        let mut origins = hop::origins(&self.subscriber);
        Ok(self.waiting.is_none() && origins.all(|origin| origin.port.is_none()))
    }

    fn has_cores(&self) -> bool {
        hop::origins(&self.subscriber).any(|origin| origin.port.is_none())
    }
}

impl Source for Messages {
    fn look(&mut self, stream: &SendingStream) -> Result<Option<Step>, NodeError> {
        self.renew(stream)?;
        if stream.leaving.is_some() {
            self.note_left(stream)?;
        }
        self.note_gone(stream);
        let stop = stream.stopping();
        if stop >= Stop::Reopen {
            return Ok(Some(Step::End));
        }
        stream.waits_for_credit.store(true, Ordering::Relaxed);
        if !lock(&stream.outgoing).is_open() {
            return Ok(None);
        }
        if !self.is_closing && stop == Stop::WhenEmpty && !self.has_publishers()? {
            self.is_closing = self.close_unused()?;
        }
        let Some(index) = self.take()? else {
            let open = || {
                let ports = self.ports.iter();
                ports.flat_map(|port| hop::origins(&port.subscriber))
            };
            let closed = lock(&stream.publishers).take_closed(open);
            let end = self.is_closing.then_some(Step::End);
            return Ok(closed.map(Step::Closed).or(end));
        };
        let waiting = &mut self.ports[index].waiting;
        let fits = |(sample, _): &mut (Sample, Origin)| {
            lock(&stream.outgoing).is_open_for(sample.len() as u32)
        };
        let Some((sample, origin)) = waiting.take_if(fits) else {
            return Ok(None);
        };
        if index > 0 {
            lock(&stream.publishers).follow(origin);
        }
        Ok(Some(Step::Send(sample, origin)))
    }

    fn discard(&mut self) -> u64 {
        let mut discarded = 0;
        for port in &mut self.ports {
            discarded += u64::from(port.waiting.take().is_some());
            // Of a pool that is lost nobody knows it.
            discarded += hop::close(&mut port.subscriber).unwrap_or(0);
        }
        discarded + self.take_dropped()
    }

    fn take_dropped(&mut self) -> u64 {
        let mut more = std::mem::take(&mut self.dropped);
        for port in &mut self.ports {
            let dropped = port.subscriber.statistics().dropped;
            more += dropped - std::mem::replace(&mut port.dropped, dropped);
        }
        more
    }
}
