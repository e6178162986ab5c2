//! A pool, a publisher, a session that sends what it publishes, and a receiver.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hythe_media::MediaError;
use hythe_media::pace::{Limit, Pace};
use hythe_media::send::session::{SendOptions, SendSession, Step};
use hythe_media::source::channel::{self, Messages};
use hythe_media::source::{OpenOptions, Source};
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::{
    Node, Pool, PoolOptions, PortPolicy, Publisher, PublisherOptions, SubscriberOptions, TrustPeers,
};
use hythe_rtp::Identity;
use hythe_rtp::payload::packetizer;

use crate::scene::{self, Receiver};

pub(crate) const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
const CHANNEL: &str = "camera";
/// Ends tests that have failed.
const BOUND: Duration = Duration::from_secs(120);
/// A publisher that is blocked for as long gives up; the sender that it waits for runs in the same
/// thread or has failed.
const TIME_LIMIT_MS: u32 = 20_000;

/// A pool in a directory of its own; it goes with the value.
pub(crate) struct Stage {
    root: PathBuf,
    pool: Pool,
    /// Who sends, and who publishes.
    pub(crate) node: Node,
    other: Node,
}

impl Stage {
    /// Says what is left out where there is no shared memory.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let root = PathBuf::from(format!(
            "/dev/shm/hythe-channel-{}-{name}",
            std::process::id()
        ));
        if let Err(error) = std::fs::create_dir(&root) {
            eprintln!("SKIPPED (no directory in /dev/shm: {error}): a channel sent, {name}");
            return None;
        }
        let options = PoolOptions::new("test").root(&root).bytes(48 << 20);
        let pool = Pool::open_or_create(&options).unwrap();
        let node = Node::join(&pool, "sender").unwrap();
        let other = Node::join(&Pool::open_or_create(&options).unwrap(), "camera").unwrap();
        Some(Self {
            root,
            pool,
            node,
            other,
        })
    }

    /// The files of regions in the pool's directory.
    pub(crate) fn regions(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        find_regions(&self.root, &mut found);
        found
    }

    /// Slots that are not free. Whatever they are, the ledger adds up.
    pub(crate) fn slots_held(&self) -> u32 {
        let audit = self.pool.snapshot().audit;
        assert!(audit.mismatches.is_empty(), "{:?}", audit.mismatches);
        audit.slots - audit.free
    }

    /// A publisher, and what is to be sent of it from its first message on: `open` waits for that.
    pub(crate) fn channel(&self) -> (Camera, Channel) {
        let block = SubscriberOptions::default()
            .depth(32)
            .policy(PortPolicy::Block {
                timeout_ms: TIME_LIMIT_MS,
            });
        let subscriber = self.node.subscriber(CHANNEL, &block).unwrap();
        let publisher = self
            .other
            .publisher(
                CHANNEL,
                &PublisherOptions::default()
                    .send_timeout(Duration::from_millis(TIME_LIMIT_MS.into())),
            )
            .unwrap();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let wanted = Arc::clone(&is_wanted);
        let messages = Messages::new(&self.node, subscriber, TRUST, move || {
            wanted.load(Ordering::Relaxed)
        });
        let camera = Camera {
            node: self.other.clone(),
            publisher,
            is_wanted,
        };
        (camera, Channel(messages))
    }

    pub(crate) fn session(
        &self,
        source: Box<dyn Source + Send>,
        options: SendOptions,
    ) -> SendSession {
        let packetizer = packetizer(source.format()).unwrap();
        SendSession::new(&self.node, source, packetizer, options).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn find_regions(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_regions(&path, found);
        } else if path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("region")
        {
            found.push(path);
        }
    }
}

/// Publishes.
pub(crate) struct Camera {
    node: Node,
    publisher: Publisher,
    is_wanted: Arc<AtomicBool>,
}

/// What is to be sent.
pub(crate) struct Channel(Messages);

impl Channel {
    /// Opens it, once its first messages come.
    pub(crate) fn open(self, options: &OpenOptions) -> Result<Box<dyn Source + Send>, MediaError> {
        channel::open(CHANNEL, self.0, options)
    }
}

impl Camera {
    pub(crate) fn publish(&mut self, message: &[u8]) {
        let mut lease = self.node.lease(message.len()).unwrap();
        lease.write(0, message);
        self.publisher.publish(lease, message.len()).unwrap();
    }

    /// Nothing more will be published.
    pub(crate) fn end(&self) {
        self.is_wanted.store(false, Ordering::Relaxed);
    }
}

/// All at once, so that tests take no time; at most eight packets in a group.
pub(crate) fn unpaced() -> SendOptions {
    SendOptions {
        pace: Pace::Unpaced,
        limit: Limit {
            burst: 8,
            early_ns: 0,
        },
        ..SendOptions::new(Identity::seeded(7), TRUST)
    }
}

pub(crate) fn add(session: &mut SendSession, receiver: &Receiver) {
    let options = DestinationOptions::default();
    session
        .destinations()
        .add(receiver.address(), &options)
        .unwrap();
}

/// Steps until there is nothing to do before `idle` says that it may end, or the stream has.
pub(crate) fn run(session: &mut SendSession, mut idle: impl FnMut(&mut SendSession) -> bool) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < BOUND, "{:?}", session.statistics());
        match session.step(&mut |event| panic!("{event}")).unwrap() {
            Step::Ended => return,
            Step::Again => {}
            Step::Wait(until_ns) => {
                if idle(session) {
                    return;
                }
                scene::wait_until(until_ns);
            }
        }
    }
}
