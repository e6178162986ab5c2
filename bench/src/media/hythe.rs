//! The product: packets in the pool's wire region, sent with the send-method fallback of each
//! destination.
//!
//! What is prepared lies in fresh pages and goes by reference; what is sent once is built in one
//! lease that is kept, and copied by the kernel: as the product's sender does it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hythe_media::wire::destinations::Destinations;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_media::wire::header::Headers;
use hythe_media::wire::layout::{FilePayloads, Head, Layout};
use hythe_media::wire::packets::Packets;
use hythe_node::{Node, Pool, PoolOptions, RegionIndex, TrustPeers, WireOptions};
use hythe_rtp::Identity;

use super::case::Mode;
use super::job::{Job, Method};
use crate::error::BenchError;

/// In this process's own tmpfs, which goes with it.
const ROOT: &str = "/dev/shm/hythe-bench-media";
/// No other process takes part.
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
/// MPEG-TS (RFC 3551, table 5).
const PAYLOAD_TYPE: u8 = 33;
/// A veth link always has free capacity.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// A pool of its own, with all packets built in it.
#[derive(Debug)]
pub(super) struct Hythe<'j> {
    job: &'j Job<'j>,
    destinations: Destinations,
    layouts: Vec<Layout>,
    node: Node,
    region: RegionIndex,
    _root: Root,
}

/// Removed with the pool in it.
#[derive(Debug)]
pub(super) struct Root(PathBuf);

impl Root {
    /// With a pool, and a participant.
    pub(super) fn make() -> Result<(Self, Node), BenchError> {
        let root = Self(PathBuf::from(ROOT));
        std::fs::create_dir_all(&root.0)?;
        let pool = Pool::open_or_create(&PoolOptions::new("bench").root(&root.0))?;
        Ok((root, Node::join(&pool, "sender")?))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // If it stays, it goes with the process.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl<'j> Hythe<'j> {
    pub(super) fn new(job: &'j Job<'j>) -> Result<Self, BenchError> {
        let (root, node) = Root::make()?;
        let wire = WireOptions::default();
        // As many slots as all packets need, one more for the rest of each slot that no packet fits
        // in.
        let in_slot = wire.slot_bytes as usize / job.packet_bytes() - 1;
        let slots = (job.case.packets as usize).div_ceil(in_slot) as u32 + 1;
        let region = node.wire_region(&WireOptions { slots, ..wire })?;
        let mut destinations = Destinations::new();
        for destination in job.destinations() {
            destinations.add(destination, &DestinationOptions::default())?;
        }
        let mut made = Self {
            job,
            destinations,
            layouts: Vec::new(),
            node,
            region,
            _root: root,
        };
        if job.case.mode == Mode::FirstSend {
            made.layouts.push(made.layout()?);
        }
        Ok(made)
    }

    fn layout(&self) -> Result<Layout, BenchError> {
        let lease = self.node.lease_in(self.region, 1)?;
        let packets_max = lease.capacity() / self.job.packet_bytes();
        Ok(Layout::new(lease, packets_max, TRUST)?)
    }

    /// Fills a layout from packet `first` on, with at most `count`; how many there are in it then.
    fn fill(
        &self,
        layout: &mut Layout,
        headers: &mut Headers,
        first: usize,
        count: usize,
    ) -> Result<usize, BenchError> {
        let payload_bytes = self.job.payload_bytes();
        let mut next = first;
        let mut head = |_: &[u8]| {
            next += 1;
            Head {
                header: headers.next(false, next as u64),
                due_ns: 0,
            }
        };
        while layout.packets().len() < count {
            let begin = first + layout.packets().len();
            let part = FilePayloads {
                position: (begin * payload_bytes) as u64,
                payload_bytes,
                count: count - layout.packets().len(),
            };
            if layout.extend_from_file(self.job.file, part, &mut head)? == 0 {
                break;
            }
        }
        Ok(layout.packets().len())
    }

    /// The same media to each, with headers of its own.
    fn send_with_headers(&mut self) -> Result<(), BenchError> {
        let ids: Vec<_> = self.destinations.iter().map(|(id, _)| id).collect();
        let mut streams: Vec<_> = (0..)
            .zip(ids)
            .map(|(ssrc, id)| (id, headers(ssrc)))
            .collect();
        let (mut made, mut events, now) = (Vec::new(), Vec::new(), Instant::now());
        for layout in &self.layouts {
            let packets = Packets::lasting(layout.memory()?, layout.packets())?;
            for (id, headers) in &mut streams {
                made.clear();
                made.extend(layout.packets().iter().map(|_| headers.next(false, 0)));
                if let Some(destination) = self.destinations.by_id(*id) {
                    destination.send(&packets.with_headers(&made)?, now, &mut events);
                }
            }
        }
        Ok(())
    }
}

/// How the first destination was last sent to.
pub(super) fn chosen(destinations: &Destinations) -> Option<String> {
    let (_, first) = destinations.iter().next()?;
    Some(first.statistics().method.to_string())
}

/// Numbered from 0, as the receiver expects.
fn headers(ssrc: u32) -> Headers {
    let identity = Identity {
        ssrc,
        sequence: 0,
        timestamp: 0,
        ..Identity::seeded(0)
    };
    Headers::new(PAYLOAD_TYPE, &identity)
}

impl Method for Hythe<'_> {
    fn prepare(&mut self) -> Result<(), BenchError> {
        let mut headers = headers(0);
        let (mut first, all) = (0, self.job.case.packets as usize);
        while first < all {
            let mut layout = self.layout()?;
            let filled = self.fill(&mut layout, &mut headers, first, all - first)?;
            if filled == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
            first += filled;
            self.layouts.push(layout);
        }
        Ok(())
    }

    fn send_prepared(&mut self) -> Result<(), BenchError> {
        if self.job.case.mode == Mode::Headers {
            return self.send_with_headers();
        }
        for layout in &self.layouts {
            let packets = Packets::lasting(layout.memory()?, layout.packets())?;
            self.destinations.send(&packets, SEND_TIMEOUT);
        }
        Ok(())
    }

    fn send_first(&mut self) -> Result<(), BenchError> {
        let Some(mut layout) = self.layouts.pop() else {
            return Ok(());
        };
        let mut headers = headers(0);
        let (all, run) = (self.job.case.packets as usize, self.job.run_packets());
        for first in (0..all).step_by(run) {
            layout.clear();
            self.fill(&mut layout, &mut headers, first, run.min(all - first))?;
            let packets = Packets::passing(layout.memory()?, layout.packets())?;
            self.destinations.send(&packets, SEND_TIMEOUT);
        }
        Ok(())
    }

    fn chosen(&mut self) -> Option<String> {
        chosen(&self.destinations)
    }
}
