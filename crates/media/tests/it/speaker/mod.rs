//! Samples sent at the pace at which they are heard.

use std::io::Cursor;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hythe_media::pace::Limit;
use hythe_media::send::session::{SendOptions, SendSession, Step};
use hythe_media::source::raw::{PcmFormat, PcmSource};
use hythe_media::source::{Input, Source};
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::{Node, Pool, PoolOptions, TrustPeers};
use hythe_rtp::format::Encoding;
use hythe_rtp::payload::packetizer;
use hythe_rtp::{Identity, L16};

/// How much is in a block.
pub(crate) const BLOCK_MS: u32 = 20;
/// Ends tests that have failed.
const BOUND: Duration = Duration::from_secs(120);

/// A session that sent its samples, and the pool that they lay in, which goes with it.
pub(crate) struct Speaker {
    pub(crate) session: SendSession,
    root: PathBuf,
}

impl Speaker {
    /// Sends `samples`, in network byte order; returns when the last packet has left. Says what is
    /// left out without shared memory.
    pub(crate) fn speak(
        destination: SocketAddr,
        format: L16,
        identity: Identity,
        samples: Vec<u8>,
    ) -> Option<Self> {
        let port = destination.port();
        let root = PathBuf::from(format!(
            "/dev/shm/hythe-speaker-{}-{port}",
            std::process::id()
        ));
        if let Err(error) = std::fs::create_dir_all(&root) {
            eprintln!("SKIPPED (no directory in /dev/shm: {error}): samples sent");
            return None;
        }
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let node = Node::join(&Pool::open_or_create(&options).unwrap(), "speaker").unwrap();
        let pcm = PcmFormat {
            encoding: Encoding::L16,
            samples_per_second: format.samples_per_second(),
            channels: format.channels(),
        };
        let input = Input::new("samples", Cursor::new(samples));
        let source = PcmSource::new(input, pcm, BLOCK_MS).unwrap();
        let packetizer = packetizer(source.format()).unwrap();
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        // One by one: packets that leave together count as one where they are counted on their way
        // over loopback.
        let limit = Limit {
            burst: 1,
            early_ns: 0,
        };
        let options = SendOptions {
            limit,
            ..SendOptions::new(identity, trust)
        };
        let session = SendSession::new(&node, Box::new(source), packetizer, options).unwrap();
        let mut speaker = Self { session, root };
        let session = &mut speaker.session;
        let way = DestinationOptions::default();
        session.destinations().add(destination, &way).unwrap();
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < BOUND, "{:?}", session.statistics());
            match session.step(&mut |event| eprintln!("{event}")).unwrap() {
                Step::Ended => return Some(speaker),
                Step::Again => {}
                Step::Wait(until_ns) => {
                    session.wait(until_ns, None).unwrap();
                }
            }
        }
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
