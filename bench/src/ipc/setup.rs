//! What comes before the first message: making a pool, joining it, connecting. On one CPU, since
//! nothing is exchanged between two.

use std::fmt;
use std::time::Instant;

use hdrhistogram::Histogram;
use hythe_node::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions};
use rustix::fs::{FallocateFlags, fallocate};

use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::pool::{self, BenchPool};
use crate::statistics;

/// Of the pool that is made.
const POOL_BYTES: usize = 64 << 20;
/// In each round.
const SAMPLES: u64 = 20;
const CHANNEL: &str = "connect";

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing but that space, in a file beside the pool: what the kernel takes to reserve it.
    Reserve,
    /// A pool of 64 MiB, its space reserved, until others can open it.
    Create,
    /// A process opens a pool with the default options and becomes a participant.
    Join,
    /// The same where the pool's maker asks for prefault: every page of the pool is touched before
    /// the first message.
    JoinPrefaulted,
    /// A participant opens a publisher to another's subscriber, which then has the first message.
    Connect,
}

/// In the order of a process's life.
pub(super) const STEPS: [Step; 5] = [
    Step::Reserve,
    Step::Create,
    Step::Join,
    Step::JoinPrefaulted,
    Step::Connect,
];

impl Step {
    pub(super) const fn size_bytes(self) -> usize {
        match self {
            Self::Reserve | Self::Create => POOL_BYTES,
            Self::Join | Self::JoinPrefaulted | Self::Connect => 0,
        }
    }

    /// Some samples of it; each is undone before the next.
    pub(super) fn measure(
        self,
        pool: &BenchPool,
        lookout: &Lookout,
    ) -> Result<Histogram<u64>, BenchError> {
        let mut histogram = statistics::histogram();
        let plain = BenchPool::make_plain(&format!("{}-plain", pool::pool_name()))?;
        for _ in 0..SAMPLES {
            lookout.check_stop()?;
            match self {
                Self::Reserve => reserve(pool.pool(), &mut histogram)?,
                Self::Create => create(&mut histogram)?,
                Self::Join => join(plain.name(), &mut histogram)?,
                Self::JoinPrefaulted => join(pool.name(), &mut histogram)?,
                Self::Connect => connect(pool.pool(), &mut histogram)?,
            }
        }
        for pool in [pool, &plain] {
            pool.audit(&self.to_string(), self.size_bytes())?;
        }
        Ok(histogram)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Reserve => "floor/create",
            Self::Create => "hythe/create",
            Self::Join => "hythe/join",
            Self::JoinPrefaulted => "hythe/join-prefaulted",
            Self::Connect => "hythe/connect",
        })
    }
}

fn reserve(pool: &Pool, histogram: &mut Histogram<u64>) -> Result<(), BenchError> {
    let beside = pool.path();
    let start = Instant::now();
    let file = tempfile::tempfile_in(&beside)?;
    fallocate(&file, FallocateFlags::empty(), 0, POOL_BYTES as u64)?;
    statistics::record(histogram, start.elapsed());
    Ok(())
}

fn create(histogram: &mut Histogram<u64>) -> Result<(), BenchError> {
    let name = format!("{}-create", pool::pool_name());
    let options = PoolOptions::new(&name).bytes(POOL_BYTES);
    let start = Instant::now();
    Pool::create(&options)?;
    statistics::record(histogram, start.elapsed());
    Ok(Pool::remove(&options)?)
}

fn join(name: &str, histogram: &mut Histogram<u64>) -> Result<(), BenchError> {
    let start = Instant::now();
    let pool = Pool::open(&PoolOptions::new(name))?;
    let node = Node::join(&pool, "joiner")?;
    statistics::record(histogram, start.elapsed());
    drop(node);
    Ok(())
}

fn connect(pool: &Pool, histogram: &mut Histogram<u64>) -> Result<(), BenchError> {
    let (from, to) = (Node::join(pool, "from")?, Node::join(pool, "to")?);
    let mut subscriber = to.subscriber(CHANNEL, &SubscriberOptions::default())?;
    let start = Instant::now();
    let mut publisher = from.publisher(CHANNEL, &PublisherOptions::default())?;
    let published = publisher.publish(publisher.lease(1)?, 1)?;
    let taken = subscriber.try_take()?;
    statistics::record(histogram, start.elapsed());
    if published.delivered != 1 || taken.is_none() {
        return Err(BenchError::Dropped { number: 0 });
    }
    Ok(())
}
