//! A pool, a receiver that publishes, a reader, and a sink that keeps what a file would get.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hythe_media::MediaError;
use hythe_media::receive::stream::{Settings, Stream};
use hythe_media::sink::Sink;
use hythe_media::sink::channel::ChannelSink;
use hythe_media::slots::{Slots, depacketizer_for_channel};
use hythe_node::{
    Node, Pool, PoolOptions, PublisherOptions, Sample, Subscriber, SubscriberOptions, TrustPeers,
};
use hythe_rtp::Identity;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{Depacketize, depacketizer, is_whole_in_packets};
use hythe_rtp::unit::Unit;

pub(crate) const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
const CHANNEL: &str = "heard";

pub(crate) type Onto = Stream<Box<dyn Depacketize + Send>, ChannelSink>;

/// A pool in a directory of its own; it goes with the value.
pub(crate) struct Stage {
    root: PathBuf,
    pool: Pool,
    pub(crate) receiving: Node,
    pub(crate) reading: Node,
}

impl Stage {
    /// Says what is left out where there is no shared memory.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let root = PathBuf::from(format!("/dev/shm/hythe-onto-{}-{name}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&root) {
            eprintln!(
                "SKIPPED (no directory in /dev/shm: {error}): received onto a channel, {name}"
            );
            return None;
        }
        let options = PoolOptions::new("test").root(&root).bytes(64 << 20);
        let pool = Pool::open_or_create(&options).unwrap();
        let receiving = Node::join(&pool, "receiver").unwrap();
        let reading = Node::join(&Pool::open_or_create(&options).unwrap(), "reader").unwrap();
        Some(Self {
            root,
            pool,
            receiving,
            reading,
        })
    }

    /// The file of the pool's region.
    pub(crate) fn region(&self) -> PathBuf {
        let index = hythe_node::RegionIndex(0);
        self.pool.region_path(index)
    }

    /// Slots that are not free. Whatever they are, the ledger adds up.
    pub(crate) fn slots_held(&self) -> u32 {
        let audit = self.pool.snapshot().audit;
        assert!(audit.mismatches.is_empty(), "{:?}", audit.mismatches);
        audit.slots - audit.free
    }

    /// Joined before anything is published.
    pub(crate) fn reader(&self) -> Reader {
        let options = SubscriberOptions::default().depth(4096);
        Reader(self.reading.subscriber(CHANNEL, &options).unwrap())
    }

    /// The sink, the depacketizer and the slots for a stream onto the channel.
    pub(crate) fn way(
        &self,
        format: &StreamFormat,
        slots_max: usize,
    ) -> (Box<dyn Depacketize + Send>, ChannelSink, Slots) {
        let options = PublisherOptions::default();
        let publisher = self.receiving.publisher(CHANNEL, &options).unwrap();
        let slots = Slots::new(&self.receiving, &publisher, TRUST).at_most(slots_max);
        let depacketizer = depacketizer_for_channel(format, &slots).unwrap();
        let sink = ChannelSink::new(publisher, &slots, format);
        (depacketizer, sink, slots)
    }

    /// A stream that is fed by hand.
    pub(crate) fn stream(&self, format: &StreamFormat, slots_max: usize) -> (Onto, Slots) {
        let (depacketizer, sink, slots) = self.way(format, slots_max);
        let (settings, identity) = (Settings::default(), Identity::seeded(42));
        let stream = Stream::new(settings, format, &identity, depacketizer, sink, 0);
        let stream = if is_whole_in_packets(format.encoding) {
            stream.with_slots(&slots)
        } else {
            stream
        };
        (stream, slots)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Takes messages.
pub(crate) struct Reader(Subscriber);

impl Reader {
    pub(crate) fn take(&mut self) -> Option<Sample> {
        self.0.take(Duration::ZERO).unwrap()
    }

    /// What waits, copied.
    pub(crate) fn messages(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.take().map(|sample| sample.to_vec())).collect()
    }
}

/// What a file would get, unit by unit, as messages.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) messages: Vec<Vec<u8>>,
    code: &'static [u8],
}

impl Sink for Kept {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        let parts = unit.pieces.iter().flat_map(|piece| [self.code, piece]);
        self.messages.push(parts.collect::<Vec<_>>().concat());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}

/// The same stream into memory.
pub(crate) fn into_memory(format: &StreamFormat) -> Stream<Box<dyn Depacketize + Send>, Kept> {
    let kept = Kept {
        code: match format.encoding {
            Encoding::H264 | Encoding::H265 => &[0, 0, 0, 1],
            _ => &[],
        },
        ..Kept::default()
    };
    let (settings, identity) = (Settings::default(), Identity::seeded(42));
    let depacketizer = depacketizer(format).unwrap();
    Stream::new(settings, format, &identity, depacketizer, kept, 0)
}

pub(crate) fn host() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5004))
}
