//! Hythe as an application uses it: the public interface, default features, a pool of the default
//! size, payload in place (`TrustPeers`: both ends are ours).

use std::sync::Arc;
use std::time::Duration;

use hythe_flows::Flows;
use hythe_node::hop::{self, HopNode as _, Transport};
use hythe_node::{
    Lease, Node, Pool, PortPolicy, Publisher, PublisherOptions, Sample, Subscriber,
    SubscriberOptions, TrustPeers,
};

use super::case::{Case, Pattern, Wait};
use super::end::{End, read_for};
use super::hythe_batch::{publish_batch, take_batch};
use super::reuse::ReuseDistance;
use super::side::Side;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};

const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
/// The channels, named as the side that measures sees them.
pub(crate) const THERE: &str = "there";
pub(crate) const BACK: &str = "back";
/// Messages under way in a one-way run.
const RATE_DEPTH: u32 = 256;
/// How long a sender waits for free capacity in it.
const RATE_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// One end: a publisher on one channel, a subscriber on the other.
#[derive(Debug)]
pub(crate) struct HytheEnd {
    case: Case,
    size: usize,
    publisher: Publisher,
    subscriber: Subscriber,
    /// Of one channel with the first; none but with [`Pattern::Fan`].
    more_subscribers: Vec<Subscriber>,
    /// Whom a message of this side goes to.
    receivers: u32,
    /// What was received last, to be forwarded.
    held: Option<Sample>,
    leases: Vec<Lease>,
    samples: Vec<Sample>,
    reuse: ReuseDistance,
    node: Node,
    lookout: Lookout,
}

impl HytheEnd {
    /// Joins, and waits until the other side has.
    pub(crate) fn join(
        pool: &Pool,
        side: Side,
        case: Case,
        size: usize,
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let node = Node::join(pool, participant(side))?;
        Self::open(node, side, &subscriber_options(case), (case, size), lookout)
    }

    /// The same between hosts, as a program of feature `host` of the crate `hythe`.
    ///
    /// Of a pool in which nobody spins: there a subscriber sleeps at once, and knows how often its
    /// flows need a look.
    pub(crate) fn join_across(
        pool: &Pool,
        side: Side,
        (mut case, size): (Case, usize),
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        if case.wait == Wait::Block {
            case.wait = Wait::Adaptive;
        }
        let timeout_ms = RATE_SEND_TIMEOUT.as_millis() as u32;
        // A slot is in use until the other host has acknowledged it, and of the largest there are
        // three: a sender that is faster waits, where it would drop its message by default.
        let options = SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms });
        let transports: [Arc<dyn Transport>; 1] = [Arc::new(Flows::new())];
        let node = hop::join(pool, participant(side), &transports)?;
        Self::open(node, side, &options, (case, size), lookout)
    }

    fn open(
        node: Node,
        side: Side,
        options: &SubscriberOptions,
        (case, size): (Case, usize),
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let (outgoing, incoming) = match side {
            Side::Near => (THERE, BACK),
            Side::Far => (BACK, THERE),
        };
        let (receivers, more) = match side {
            Side::Near => (case.subscribers, 0),
            Side::Far => (1, case.subscribers - 1),
        };
        let subscribe = || node.subscriber(incoming, options);
        let subscriber = subscribe()?;
        let more_subscribers = (0..more).map(|_| subscribe()).collect::<Result<_, _>>()?;
        let waits = PublisherOptions::default().send_timeout(RATE_SEND_TIMEOUT);
        let mut publisher = node.publisher(outgoing, &waits)?;
        let mut bounded_wait = BoundedWait::new(&lookout);
        while !publisher.wait_for_subscribers(receivers as usize, NAP)? {
            bounded_wait.look_up()?;
        }
        Ok(Self {
            case,
            size,
            publisher,
            subscriber,
            more_subscribers,
            receivers,
            held: None,
            leases: Vec::new(),
            samples: Vec::new(),
            reuse: ReuseDistance::default(),
            node,
            lookout,
        })
    }

    #[inline]
    fn take(&mut self) -> Result<Sample, BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        loop {
            let taken = match self.case.wait {
                Wait::Poll => self.subscriber.try_take()?,
                Wait::Adaptive => self.subscriber.take(NAP)?,
                // Never spins, unlike `take`.
                Wait::Block => self
                    .node
                    .wait_until(NAP, NAP, || self.subscriber.try_take())?,
            };
            match taken {
                Some(sample) => return Ok(sample),
                None if self.case.spins() => bounded_wait.spin()?,
                None => bounded_wait.look_up()?,
            }
        }
    }

    /// A written buffer.
    #[inline]
    fn filled(&self, number: u64) -> Result<Lease, BenchError> {
        let mut lease = self.publisher.lease(self.size)?;
        fill(&mut lease.as_mut_slice(TRUST)[..self.size], number);
        Ok(lease)
    }

    #[inline]
    fn send_filled(&mut self, number: u64) -> Result<(), BenchError> {
        let lease = self.filled(number)?;
        if self.case.pattern.stream_depth().is_some() {
            self.reuse.wrote(lease.as_slice(TRUST).as_ptr().addr());
        }
        let published = self.publisher.publish(lease, self.size)?;
        self.delivered(published.delivered, number)
    }

    #[inline]
    const fn delivered(&self, count: u32, number: u64) -> Result<(), BenchError> {
        if count == self.receivers {
            return Ok(());
        }
        Err(BenchError::Dropped { number })
    }

    /// The same message from each of the others, too.
    #[inline]
    fn receive_more(&mut self, number: u64) -> Result<(), BenchError> {
        for subscriber in &mut self.more_subscribers {
            let mut bounded_wait = BoundedWait::new(&self.lookout);
            let sample = loop {
                if let Some(sample) = subscriber.try_take()? {
                    break sample;
                }
                bounded_wait.spin()?;
            };
            checked(&sample, number)?;
        }
        Ok(())
    }
}

const fn participant(side: Side) -> &'static str {
    match side {
        Side::Near => "bench",
        Side::Far => "echo",
    }
}

/// A round trip needs no queue, and a burst fits the default one; a rate must lose nothing.
fn subscriber_options(case: Case) -> SubscriberOptions {
    let options = SubscriberOptions::default();
    let depth = match case.pattern {
        Pattern::Untouched | Pattern::Filled | Pattern::Request | Pattern::Fan => return options,
        Pattern::Single | Pattern::Batched => RATE_DEPTH,
        Pattern::Stream4 | Pattern::Stream32 => case.pattern.stream_depth().unwrap_or(1),
    };
    let timeout_ms = RATE_SEND_TIMEOUT.as_millis() as u32;
    let options = options.depth(depth);
    options.policy(PortPolicy::Block { timeout_ms })
}

impl End for HytheEnd {
    #[inline]
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        match (self.case.pattern, self.held.take()) {
            (Pattern::Untouched, Some(sample)) => {
                let published = self.publisher.forward(sample)?;
                self.delivered(published.delivered, number)
            }
            _ => self.send_filled(number),
        }
    }

    #[inline]
    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        let sample = self.take()?;
        if sample.is_empty() {
            return Ok(false);
        }
        if self.case.pattern == Pattern::Untouched {
            self.held = Some(sample);
            return Ok(true);
        }
        read_for(self.case, || checked(&sample, number))?;
        drop(sample);
        self.receive_more(number)?;
        Ok(true)
    }

    fn reuse_slots(&self) -> Option<f64> {
        self.reuse.slots()
    }

    fn send_batch(&mut self, first: u64, count: u64) -> Result<(), BenchError> {
        for number in first..first + count {
            let lease = self.filled(number)?;
            self.leases.push(lease);
        }
        let delivered = publish_batch(&mut self.publisher, &mut self.leases, self.size)?;
        if delivered == count {
            return Ok(());
        }
        Err(BenchError::Dropped { number: first })
    }

    fn receive_batch(&mut self, first: u64, count: u64) -> Result<u64, BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        loop {
            // Fits: it is a batch.
            take_batch(&mut self.subscriber, &mut self.samples, count as usize)?;
            if !self.samples.is_empty() {
                break;
            }
            bounded_wait.spin()?;
        }
        let mut received = 0;
        for sample in self.samples.drain(..) {
            checked(&sample, first + received)?;
            received += 1;
        }
        Ok(received)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        if let Some(sample) = self.held.take()
            && !is_message(sample.as_slice(TRUST), 0)
        {
            return Err(BenchError::Damaged { number: 0 });
        }
        let lease = self.publisher.lease(0)?;
        let published = self.publisher.publish(lease, 0)?;
        self.delivered(published.delivered, u64::MAX)
    }
}

#[inline]
fn checked(sample: &Sample, number: u64) -> Result<(), BenchError> {
    if is_message(sample.as_slice(TRUST), number) {
        return Ok(());
    }
    Err(BenchError::Damaged { number })
}
