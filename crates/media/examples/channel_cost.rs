//! What it costs to send a channel: from the slots that its publisher wrote, or copied as a stream
//! of bytes.
//!
//! `cargo run --release -p hythe-media --example channel_cost [DESTINATIONS] [ROUNDS]`. A thread
//! publishes a transport stream in messages of seven packets as fast as it is taken, another sends
//! it unpaced over loopback to sockets that drop it. Both ways in turns; the CPU time of all
//! threads but the publisher's, for each packet and destination, medians of the rounds.
#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::io::{self, Read};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hythe_media::pace::{Limit, Pace};
use hythe_media::send::session::{SendOptions, SendSession, Step};
use hythe_media::source::channel::{self, Messages};
use hythe_media::source::{Input, Live, OpenOptions, Source, open_input};
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::{
    Node, Pool, PoolOptions, PortPolicy, PublisherOptions, Sample, Subscriber, SubscriberOptions,
    TrustPeers,
};
use hythe_rtp::Identity;
use hythe_rtp::payload::packetizer;
use rustix::time::{ClockId, clock_gettime};

const MESSAGES: usize = 100_000;
const PACKETS: usize = 7;
const BITS_PER_SECOND: u32 = 100_000_000;
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    InPlace,
    Copied,
}

/// The stream of bytes that a channel was before it was sent in place.
struct Bytes {
    subscriber: Subscriber,
    is_wanted: Arc<AtomicBool>,
    sample: Option<Sample>,
    read: usize,
}

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let sample = self.sample.as_ref();
            if let Some(sample) = sample.filter(|sample| sample.len() > self.read) {
                let bytes = into.len().min(sample.len() - self.read);
                sample.read(self.read, &mut into[..bytes]);
                self.read += bytes;
                return Ok(bytes);
            }
            (self.sample, self.read) = (None, 0);
            let taken = self.subscriber.take(Duration::from_millis(10));
            self.sample = taken.map_err(io::Error::other)?;
            if self.sample.is_none() && !self.is_wanted.load(Ordering::Relaxed) {
                return Ok(0);
            }
        }
    }
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn source(
    way: Way,
    node: &Node,
    subscriber: Subscriber,
    wanted: &Arc<AtomicBool>,
) -> Box<dyn Source + Send> {
    let options = OpenOptions {
        bits_per_second: Some(BITS_PER_SECOND),
        ..OpenOptions::default()
    };
    let is_wanted = Arc::clone(wanted);
    match way {
        Way::InPlace => {
            let is_wanted = move || is_wanted.load(Ordering::Relaxed);
            let messages = Messages::new(node, subscriber, TRUST, is_wanted);
            channel::open("channel", messages, &options).unwrap()
        }
        Way::Copied => {
            let bytes = Bytes {
                subscriber,
                is_wanted,
                sample: None,
                read: 0,
            };
            let source = open_input(Input::new("channel", bytes), &options).unwrap();
            Box::new(Live::start(source).unwrap())
        }
    }
}

/// CPU time of the sender for each packet and destination, in nanoseconds.
fn run(way: Way, sender: &Node, camera: &Node, sockets: &[UdpSocket]) -> u64 {
    let block = SubscriberOptions::default().depth(256);
    let block = block.policy(PortPolicy::Block { timeout_ms: 60_000 });
    let subscriber = sender.subscriber("cost", &block).unwrap();
    let mut publisher = camera
        .publisher("cost", &PublisherOptions::default())
        .unwrap();
    let wanted = Arc::new(AtomicBool::new(true));
    let packet = [[0x47, 1, 0, 0x10], [7; 4]].concat();
    let message = [packet, vec![9; 180]].concat().repeat(PACKETS);
    let mut publishing_ns = 0;
    let before = cpu_ns(ClockId::ProcessCPUTime);
    let packets = std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            for _ in 0..MESSAGES {
                let mut lease = camera.lease(message.len()).unwrap();
                lease.write(0, &message);
                publisher.publish(lease, message.len()).unwrap();
            }
            wanted.store(false, Ordering::Relaxed);
            cpu_ns(ClockId::ThreadCPUTime)
        });
        let source = source(way, sender, subscriber, &wanted);
        let options = SendOptions {
            pace: Pace::Unpaced,
            limit: Limit {
                burst: 46,
                early_ns: 0,
            },
            ..SendOptions::new(Identity::seeded(1), TRUST)
        };
        let packetizer = packetizer(source.format()).unwrap();
        let mut session = SendSession::new(sender, source, packetizer, options).unwrap();
        for socket in sockets {
            let to = socket.local_addr().unwrap();
            session
                .destinations()
                .add(to, &DestinationOptions::default())
                .unwrap();
        }
        loop {
            match session.step(&mut |_| {}).unwrap() {
                Step::Ended => break,
                Step::Again => {}
                Step::Wait(until_ns) => {
                    session.wait(until_ns, None).unwrap();
                }
            }
        }
        publishing_ns = publishing.join().unwrap();
        session.statistics().packets
    });
    assert_eq!(packets, MESSAGES as u64);
    let spent = cpu_ns(ClockId::ProcessCPUTime) - before - publishing_ns;
    spent / (packets * sockets.len() as u64)
}

/// Sockets on even ports that nobody reads: their buffers are full soon, and what comes is dropped
/// at the door.
fn sockets(count: usize) -> Vec<UdpSocket> {
    let bound = std::iter::repeat_with(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let is_even = |socket: &UdpSocket| socket.local_addr().unwrap().port().is_multiple_of(2);
    bound.filter(is_even).take(count).collect()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let (destinations, rounds) = (arguments.next().unwrap_or(1), arguments.next().unwrap_or(9));
    let root = std::path::PathBuf::from(format!("/dev/shm/hythe-cost-{}", std::process::id()));
    std::fs::create_dir(&root).unwrap();
    let options = PoolOptions::new("cost").root(&root).bytes(64 << 20);
    let join = |name| Node::join(&Pool::open_or_create(&options).unwrap(), name).unwrap();
    let (sender, camera) = (join("sender"), join("camera"));
    let sockets = sockets(destinations);
    let mut spent = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (way, spent) in [Way::InPlace, Way::Copied].into_iter().zip(&mut spent) {
            spent.push(run(way, &sender, &camera, &sockets));
        }
    }
    for (way, mut spent) in [Way::InPlace, Way::Copied].into_iter().zip(spent) {
        spent.sort_unstable();
        let (least, median) = (spent[0], spent[spent.len() / 2]);
        println!(
            "{way:?}: {median} ns of CPU for each packet and destination (median of {rounds}; least {least}), {destinations} destinations"
        );
    }
    drop((sender, camera));
    std::fs::remove_dir_all(&root).unwrap();
}
