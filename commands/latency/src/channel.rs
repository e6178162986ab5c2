//! A channel of the pool as a way to wake: from one participant of this process to another.
//!
//! Each pair has participants of its own, because a participant has one bell. Nothing of it stays
//! in the pool.

use std::time::Duration;

use hythe::{Node, PoolOptions, Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use hythe_command::args::Globals;
use hythe_latency::host::{Ends, Sleeper, Waker};

/// The instant that a message carries.
const BYTES: usize = 8;
/// How long the two participants may take to meet.
const MEETING: Duration = Duration::from_secs(5);

/// The pool of the command, entered when the first channel is asked for.
#[derive(Debug)]
pub(super) struct Channels {
    globals: Globals,
    options: PoolOptions,
}

impl Channels {
    pub(super) fn new(globals: &Globals) -> Self {
        Self {
            globals: globals.clone(),
            // A receiver that looks for a message before it sleeps is not woken.
            options: globals.options().spin(Duration::ZERO),
        }
    }

    /// A channel for the sleeper on this CPU.
    pub(super) fn ends(&self, cpu: usize) -> Result<Ends, String> {
        self.connect(cpu).map_err(|error| error.to_string())
    }

    fn connect(&self, cpu: usize) -> Result<Ends, hythe::NodeError> {
        let pool = self.globals.open_to_use_as(&self.options)?;
        let channel = format!("latency-{}-cpu{cpu}", std::process::id());
        let receiving = Node::join(&pool, &format!("latency-sleeper-cpu{cpu}"))?;
        let subscriber = receiving.subscriber(&channel, &SubscriberOptions::default())?;
        let sending = Node::join(&pool, &format!("latency-waker-cpu{cpu}"))?;
        let mut publisher = sending.publisher(&channel, &PublisherOptions::default())?;
        if !publisher.wait_for_subscribers(1, MEETING)? {
            publisher.reaches_all()?;
        }
        let sleeper = ChannelSleeper {
            subscriber,
            _node: receiving,
        };
        let waker = ChannelWaker {
            publisher,
            _node: sending,
        };
        Ok((Box::new(sleeper), Box::new(waker)))
    }
}

// Ports before the node: they leave first.
#[derive(Debug)]
struct ChannelSleeper {
    subscriber: Subscriber,
    _node: Node,
}

#[derive(Debug)]
struct ChannelWaker {
    publisher: Publisher,
    _node: Node,
}

impl Sleeper for ChannelSleeper {
    fn sleep(&mut self, nap: Duration) -> Result<Option<u64>, String> {
        let taken = self
            .subscriber
            .take(nap)
            .map_err(|error| error.to_string())?;
        Ok(taken.map(|sample| {
            let mut instant = [0; BYTES];
            sample.read(0, &mut instant);
            u64::from_ne_bytes(instant)
        }))
    }
}

impl Waker for ChannelWaker {
    fn wake(&mut self, now_ns: fn() -> u64) -> Result<(), String> {
        let mut send = || {
            let mut lease = self.publisher.lease(BYTES)?;
            lease.write(0, &now_ns().to_ne_bytes());
            self.publisher.publish(lease, BYTES)
        };
        let sent = send().map_err(|error| error.to_string())?;
        match sent.delivered {
            0 => Err("the message reached nobody".to_owned()),
            _ => Ok(()),
        }
    }
}
