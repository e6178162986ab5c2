//! What is published here on an open channel, to programs outside the realm.
//!
//! A thread takes each message from a subscriber's queue and gives it to Zenoh where it lies in its
//! slot. While a program outside takes nothing, the queue loses its oldest messages, and counts
//! them. Never publishes what came from outside: this port and that of `incoming` are of one
//! participant, whose kind makes no connections with itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hythe_node::{PortPolicy, Sample, Subscriber, SubscriberOptions, TrustPeers};
use zenoh::Wait;
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;
use zenoh::sample::Locality;

use super::channel::Channel;

/// Messages that wait for Zenoh.
const DEPTH: u32 = 32;
/// How often the thread looks whether it is to stop.
const NAP: Duration = Duration::from_millis(100);
/// What waits when nobody publishes any more is sent within this time.
const DRAIN: Duration = Duration::from_secs(1);

/// Ends when dropped.
#[derive(Debug)]
pub(super) struct Outgoing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A slot as Zenoh holds it.
struct Lent(Sample);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0
            .as_slice(TrustPeers::i_trust_every_writer_of_this_pool())
    }
}

impl Outgoing {
    pub(super) fn start(channel: &Arc<Channel>) -> Result<Self, String> {
        let options = SubscriberOptions::default()
            .depth(DEPTH)
            .policy(PortPolicy::EvictOldest);
        let port = channel.node.subscriber(&channel.name, &options);
        let port = port.map_err(|error| error.to_string())?;
        let publisher = channel
            .session
            .declare_publisher(channel.key.clone())
            .congestion_control(CongestionControl::Block)
            .allowed_destination(Locality::Remote)
            .wait()
            .map_err(|error| error.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let (channel, stops) = (Arc::clone(channel), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("hostd-open-out".to_owned());
        let thread = thread.spawn(move || send_all(&channel, port, &publisher, &stops));
        Ok(Self {
            stop,
            thread: Some(thread.map_err(|error| error.to_string())?),
        })
    }

    /// It ended before it was to.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

fn send_all(channel: &Channel, mut port: Subscriber, publisher: &Publisher<'_>, stop: &AtomicBool) {
    let mut drained_at = None;
    let mut dropped = 0;
    loop {
        let taken = port.take(NAP);
        let lost = port.statistics().dropped;
        channel.counts.not_sent.add(lost - dropped);
        dropped = lost;
        match taken {
            Ok(Some(sample)) => send(channel, publisher, sample),
            Ok(None) if stop.load(Ordering::Relaxed) => return,
            Ok(None) => {}
            Err(error) => {
                channel.say(&error.to_string());
                return;
            }
        }
        if stop.load(Ordering::Relaxed) {
            let end = *drained_at.get_or_insert_with(|| Instant::now() + DRAIN);
            if Instant::now() >= end {
                return;
            }
        }
    }
}

fn send(channel: &Channel, publisher: &Publisher<'_>, sample: Sample) {
    // A sample of a pool that is cut away reads as zeroes.
    if let Err(error) = sample.check_whole() {
        channel.counts.not_sent.add(1);
        channel.say(&error.to_string());
        return;
    }
    let put = publisher.put(Bytes::from_owner(Lent(sample)));
    match put.attachment(channel.marker.as_str()).wait() {
        Ok(()) => channel.counts.sent.add(1),
        Err(error) => {
            channel.counts.not_sent.add(1);
            channel.say(&error.to_string());
        }
    }
}
