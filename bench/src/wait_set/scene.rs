//! A wait set with its channels, all idle but one, and an echo that answers on that one.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe_node::{
    ClassPlan, Geometry, Interest, Limits, Node, NodeError, Pool, PoolOptions, PortPolicy,
    Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions, Token, WaitSet,
};

use super::{SIZE, Way};
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::{cpus, statistics};

/// A few small messages, and more channels than a pool has by default: one leads to the echo.
const SLOTS: ClassPlan = ClassPlan {
    payload_bytes: 768,
    count: 256,
};
const CHANNELS: u32 = 2048;
/// What the other side says when it shall go.
const GO: usize = 1;

/// One number of channels.
#[derive(Debug)]
pub(super) struct Scene {
    /// The active one last.
    subscribers: Vec<Subscriber>,
    wait_set: Option<(WaitSet, Token)>,
    /// To the echo.
    to_echo: Publisher,
    /// Straight to the active channel.
    direct: Publisher,
    echo: Option<JoinHandle<Result<(), BenchError>>>,
    /// Never written: what it is attached for is the way of waiting.
    idle_pipe: (OwnedFd, File),
    _nodes: [Node; 2],
    _pool: BenchPool,
}

/// Removed at the end.
#[derive(Debug)]
struct BenchPool(Pool);

impl Drop for BenchPool {
    fn drop(&mut self) {
        if let Err(error) = Pool::remove_by_force(self.0.options()) {
            eprintln!("hythe-bench: the pool stays behind: {error}");
        }
    }
}

impl Scene {
    pub(super) fn make(
        channels: Option<usize>,
        far_cpu: Option<usize>,
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let count = channels.unwrap_or(1);
        let name = format!(
            "bench-wait-set-{}-{}",
            std::process::id(),
            channels.unwrap_or(0)
        );
        // Never spins: what is measured is the way to bed and back.
        let options = PoolOptions::new(&name)
            .geometry(geometry()?)
            .prefault(true)
            .spin(Duration::ZERO);
        let pool = BenchPool(Pool::open_or_create(&options)?);
        let nodes = [
            Node::join(&pool.0, "bench")?,
            Node::join(&pool.0, "direct")?,
        ];
        let subscribers =
            (0..count).map(|channel| nodes[0].subscriber(&format!("c{channel}"), &deep()));
        let mut subscribers = subscribers.collect::<Result<Vec<_>, _>>()?;
        let mut wait_set = None;
        if channels.is_some() {
            let mut made = nodes[0].wait_set()?;
            let mut last = None;
            for subscriber in &mut subscribers {
                last = Some(made.attach(subscriber)?);
            }
            wait_set = last.map(|token| (made, token));
        }
        let active = format!("c{}", count - 1);
        let mut direct = nodes[1].publisher(&active, &waiting())?;
        let mut to_echo = nodes[0].publisher("ping", &waiting())?;
        let (other, told) = (pool.0.clone(), lookout.clone());
        let echo = std::thread::spawn(move || echo(&other, &active, far_cpu, &told));
        let mut bounded_wait = BoundedWait::new(lookout);
        while !to_echo.wait_for_subscribers(1, NAP)? || !direct.wait_for_subscribers(1, NAP)? {
            bounded_wait.look_up()?;
        }
        let (reader, writer) = rustix::pipe::pipe()?;
        Ok(Self {
            subscribers,
            wait_set,
            to_echo,
            direct,
            echo: Some(echo),
            idle_pipe: (reader, writer.into()),
            _nodes: nodes,
            _pool: pool,
        })
    }

    /// So many messages, each timed.
    pub(super) fn round(
        &mut self,
        way: Way,
        count: u64,
        lookout: &Lookout,
    ) -> Result<Histogram<u64>, BenchError> {
        let bridge = match &mut self.wait_set {
            Some((wait_set, _)) if way == Way::Bridge => {
                Some(wait_set.attach_fd(&self.idle_pipe.0, Interest::Readable)?)
            }
            _ => None,
        };
        let mut times = statistics::histogram();
        for number in 0..count {
            if number % 1024 == 0 {
                lookout.check_stop()?;
            }
            let sender = match way {
                Way::Ready => &mut self.direct,
                Way::Block | Way::Bridge => &mut self.to_echo,
            };
            let lease = sender.lease(SIZE)?;
            let mut start = Instant::now();
            sender.publish(lease, SIZE)?;
            if way == Way::Ready {
                start = Instant::now();
            }
            let sample = self.receive(lookout)?;
            statistics::record(&mut times, start.elapsed());
            drop(sample);
        }
        if let (Some(token), Some((wait_set, _))) = (bridge, &mut self.wait_set) {
            wait_set.detach(token);
        }
        Ok(times)
    }

    /// Waits as the case does, and takes.
    fn receive(&mut self, lookout: &Lookout) -> Result<Sample, BenchError> {
        let mut bounded_wait = BoundedWait::new(lookout);
        let Some(active) = self.subscribers.last_mut() else {
            return Err(BenchError::WrongUse("no channel".to_owned()));
        };
        loop {
            let taken = match &mut self.wait_set {
                None => active.take(NAP)?,
                Some((wait_set, token)) => {
                    let events = wait_set.wait(NAP)?;
                    let ready = events.iter().any(|event| event.token() == *token);
                    if ready { active.try_take()? } else { None }
                }
            };
            match taken {
                Some(sample) => return Ok(sample),
                None => bounded_wait.look_up()?,
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // One byte is no message of a round: it asks the echo to end.
        let asked = self
            .to_echo
            .lease(GO)
            .and_then(|lease| self.to_echo.publish(lease, GO));
        if let (Ok(_), Some(echo)) = (asked, self.echo.take()) {
            let _ = echo.join();
        }
    }
}

fn geometry() -> Result<Geometry, NodeError> {
    let limits = Limits {
        channels: CHANNELS,
        ..Geometry::default_limits()
    };
    Ok(Geometry::with_classes(limits, &[SLOTS])?)
}

/// As long as [`deep`] subscribers ask to be waited for.
fn waiting() -> PublisherOptions {
    PublisherOptions::default().send_timeout(Duration::from_secs(10))
}

fn deep() -> SubscriberOptions {
    SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms: 10_000 })
}

/// Forwards what comes, until it is told to go or nothing comes for too long.
fn echo(pool: &Pool, to: &str, cpu: Option<usize>, lookout: &Lookout) -> Result<(), BenchError> {
    if let Some(cpu) = cpu {
        cpus::pin(cpu)?;
    }
    let node = Node::join(pool, "echo")?;
    let mut back = node.publisher(to, &waiting())?;
    let mut from = node.subscriber("ping", &deep())?;
    while lookout.check_stop().is_ok() {
        if let Some(sample) = from.take(NAP)? {
            if sample.len() == GO {
                break;
            }
            back.forward(sample)?;
        }
    }
    Ok(())
}
