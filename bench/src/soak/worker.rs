//! One process of a soak: a participant that opens and closes ports, publishes, takes, keeps,
//! forwards, until its input ends.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hythe_node::{
    Node, NodeError, Pool, PoolError, PoolOptions, PortPolicy, Publisher, PublisherOptions, Sample,
    Subscriber, SubscriberOptions,
};

use super::Choices;
use super::crew::WorkerCounts;
use crate::error::BenchError;

const CHANNELS: u64 = 6;
/// Samples that a worker keeps at a time at most.
const KEPT_MAX: usize = 6;
const LARGEST: u64 = 20_000;
/// Between two reports to the parent.
const SAY_EVERY: Duration = Duration::from_millis(100);
const TIME_LIMIT: Duration = Duration::from_millis(20);

pub(super) fn work(options: &PoolOptions, seed: u64) -> Result<(), BenchError> {
    let home = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&home);
    std::thread::spawn(move || {
        // Whatever ends the input ends the work.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    let pool = Pool::open(options)?;
    let mut worker = Worker {
        node: Node::join(&pool, "worker")?,
        choices: Choices(seed),
        publishers: Vec::new(),
        subscribers: Vec::new(),
        kept: VecDeque::new(),
        counts: [0; 4],
    };
    let mut since = Instant::now();
    while !home.load(Ordering::Relaxed) {
        worker.turn()?;
        if since.elapsed() > SAY_EVERY {
            worker.say();
            since = Instant::now();
        }
        std::thread::sleep(Duration::from_micros(worker.choices.below(2000)));
    }
    worker.say();
    Ok(())
}

struct Worker {
    node: Node,
    choices: Choices,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    kept: VecDeque<Sample>,
    counts: WorkerCounts,
}

impl Worker {
    fn say(&mut self) {
        let [published, taken, refused, damaged] = std::mem::take(&mut self.counts);
        println!("{published} {taken} {refused} {damaged}");
    }

    /// What also happens among the honest is counted; anything else ends the worker, and the soak.
    fn unless_busy<T>(&mut self, outcome: Result<T, NodeError>) -> Result<Option<T>, BenchError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(NodeError::Blocked { .. } | NodeError::ReceiverGone { .. }) => {
                self.counts[2] += 1;
                Ok(None)
            }
            Err(error) if error.refusal().is_some_and(is_of_the_honest) => {
                self.counts[2] += 1;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn turn(&mut self) -> Result<(), BenchError> {
        match self.choices.below(40) {
            0 => self.open_publisher(),
            1 => self.open_subscriber(),
            2 => {
                let index = self.choices.below(self.publishers.len() as u64) as usize;
                drop((index < self.publishers.len()).then(|| self.publishers.swap_remove(index)));
                Ok(())
            }
            3 => {
                let index = self.choices.below(self.subscribers.len() as u64) as usize;
                drop((index < self.subscribers.len()).then(|| self.subscribers.swap_remove(index)));
                Ok(())
            }
            4..16 => self.publish(),
            16..32 => self.take(),
            32..36 => self.forward(),
            _ => {
                self.kept.pop_front();
                Ok(())
            }
        }
    }

    fn channel(&mut self) -> String {
        format!("soak-{}", self.choices.below(CHANNELS))
    }

    fn open_publisher(&mut self) -> Result<(), BenchError> {
        if self.publishers.len() < 3 {
            let channel = self.channel();
            let options = PublisherOptions::default().send_timeout(TIME_LIMIT);
            let opened = self.node.publisher(&channel, &options);
            let opened = self.unless_busy(opened)?;
            self.publishers.extend(opened);
        }
        Ok(())
    }

    fn open_subscriber(&mut self) -> Result<(), BenchError> {
        if self.subscribers.len() < 3 {
            let channel = self.channel();
            let policies = [PortPolicy::DropNewest, PortPolicy::Block { timeout_ms: 5 }];
            let options = SubscriberOptions::default()
                .depth(1 << self.choices.below(6))
                .policy(policies[self.choices.below(2) as usize]);
            let opened = self.node.subscriber(&channel, &options);
            let opened = self.unless_busy(opened)?;
            self.subscribers.extend(opened);
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<(), BenchError> {
        let bytes = 8 + self.choices.below(LARGEST) as usize;
        let leased = self.node.lease(bytes);
        let Some(mut lease) = self.unless_busy(leased)? else {
            return Ok(());
        };
        lease.write(0, &content(self.choices.below(u64::MAX), bytes));
        let index = self.choices.below(self.publishers.len() as u64) as usize;
        let Some(publisher) = self.publishers.get_mut(index) else {
            return Ok(());
        };
        let published = publisher.publish(lease, bytes);
        if let Some(published) = self.unless_busy(published)? {
            self.counts[0] += u64::from(published.delivered);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), BenchError> {
        let index = self.choices.below(self.subscribers.len() as u64) as usize;
        let waits = self.choices.below(2) == 0;
        let Some(subscriber) = self.subscribers.get_mut(index) else {
            return Ok(());
        };
        let timeout = if waits {
            TIME_LIMIT / 10
        } else {
            Duration::ZERO
        };
        let taken = subscriber.take(timeout);
        let Some(Some(sample)) = self.unless_busy(taken)? else {
            return Ok(());
        };
        self.counts[1] += 1;
        self.counts[3] += u64::from(!is_whole(&sample.to_vec()));
        if self.choices.below(4) == 0 {
            self.kept.push_back(sample);
            self.kept.truncate(KEPT_MAX);
        }
        Ok(())
    }

    fn forward(&mut self) -> Result<(), BenchError> {
        let index = self.choices.below(self.publishers.len() as u64) as usize;
        let (Some(publisher), Some(sample)) =
            (self.publishers.get_mut(index), self.kept.pop_front())
        else {
            return Ok(());
        };
        let sent = publisher.forward(sample);
        if let Some(published) = self.unless_busy(sent)? {
            self.counts[0] += u64::from(published.delivered);
        }
        Ok(())
    }
}

/// Bytes that say of themselves whether they are whole: a seed, and what follows from it.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = seed.to_le_bytes().to_vec();
    let mut choices = Choices(seed);
    while content.len() < bytes {
        content.extend(choices.below(u64::MAX).to_le_bytes());
    }
    content.truncate(bytes);
    content
}

fn is_whole(found: &[u8]) -> bool {
    let seed = found.first_chunk().map(|first| u64::from_le_bytes(*first));
    seed.is_some_and(|seed| content(seed, found.len()) == found)
}

/// What the pool refuses now and then although nobody does anything wrong.
const fn is_of_the_honest(refusal: &PoolError) -> bool {
    matches!(
        refusal,
        PoolError::TableFull { .. }
            | PoolError::PoolFull { .. }
            | PoolError::Busy(_)
            | PoolError::TooManyReferences { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_says_whether_it_is_whole() {
        let mut bytes = content(7, 1001);
        assert!(is_whole(&bytes));
        bytes[1000] ^= 1;
        assert!(!is_whole(&bytes));
        assert!(!is_whole(&[1, 2]));
    }
}
