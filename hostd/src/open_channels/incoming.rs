//! What programs outside the realm send on an open channel, to those who receive here.
//!
//! Zenoh's callback puts a message in a short queue, or counts it as not taken; a thread copies it
//! into a slot and publishes it. A message is taken if it can be one of the channel's: as long as
//! its type says, and no longer than a slot. Never waits in the callback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_node::{Publisher, PublisherOptions};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Locality, Sample, SampleKind};

use super::channel::Channel;

/// Messages that wait for the thread, and their payload.
const QUEUE_MAX: usize = 32;
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// How often the thread looks whether it is to stop.
const NAP: Duration = Duration::from_millis(100);

/// Ends when dropped.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Before the thread: nothing new comes then.
    subscriber: Option<Subscriber<()>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Between the callback and the thread.
struct Queue {
    channel: Arc<Channel>,
    messages: SyncSender<ZBytes>,
    bytes: Arc<AtomicUsize>,
}

impl Incoming {
    pub(super) fn start(channel: &Arc<Channel>) -> Result<Self, String> {
        let options = PublisherOptions::default();
        let port = channel.node.publisher(&channel.name, &options);
        let port = port.map_err(|error| error.to_string())?;
        let (messages, received) = sync_channel(QUEUE_MAX);
        let queue = Queue {
            channel: Arc::clone(channel),
            messages,
            bytes: Arc::default(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (channel, stops, bytes) = (
            Arc::clone(channel),
            Arc::clone(&stop),
            Arc::clone(&queue.bytes),
        );
        let subscriber = channel
            .session
            .declare_subscriber(channel.key.clone())
            .allowed_origin(Locality::Remote)
            .callback(move |sample| queue.take(&sample))
            .wait()
            .map_err(|error| error.to_string())?;
        let thread = std::thread::Builder::new().name("hostd-open-in".to_owned());
        let thread = thread.spawn(move || publish_all(&channel, port, &received, &bytes, &stops));
        Ok(Self {
            subscriber: Some(subscriber),
            stop,
            thread: Some(thread.map_err(|error| error.to_string())?),
        })
    }

    /// It ended before it was to.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        drop(self.subscriber.take());
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Called on a thread of Zenoh's.
    fn take(&self, sample: &Sample) {
        let is_own = sample.attachment().is_some_and(|attachment| {
            // Another agent of the realm: its messages come over the host hop, and once.
            *attachment.to_bytes() == *self.channel.marker.as_bytes()
        });
        if is_own || sample.kind() != SampleKind::Put {
            return;
        }
        let length = sample.payload().len();
        let is_taken = self.channel.takes(length) && {
            let waiting = self.bytes.fetch_add(length, Ordering::Relaxed);
            let is_queued = waiting + length <= QUEUE_BYTES_MAX
                && self.messages.try_send(sample.payload().clone()).is_ok();
            if !is_queued {
                self.bytes.fetch_sub(length, Ordering::Relaxed);
            }
            is_queued
        };
        if !is_taken {
            self.channel.counts.not_taken.add(1);
        }
    }
}

fn publish_all(
    channel: &Channel,
    mut port: Publisher,
    received: &Receiver<ZBytes>,
    bytes: &AtomicUsize,
    stop: &AtomicBool,
) {
    loop {
        match received.recv_timeout(NAP) {
            Ok(payload) => {
                bytes.fetch_sub(payload.len(), Ordering::Relaxed);
                match publish(&mut port, &payload) {
                    Ok(()) => channel.counts.taken.add(1),
                    Err(error) => {
                        channel.counts.not_taken.add(1);
                        channel.say(&error.to_string());
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return,
            Err(RecvTimeoutError::Timeout) => {
                // Connects to subscribers that came meanwhile.
                if let Err(error) = port.subscribers() {
                    channel.say(&error.to_string());
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn publish(port: &mut Publisher, payload: &ZBytes) -> Result<(), hythe_node::NodeError> {
    let mut lease = port.lease(payload.len())?;
    let mut at = 0;
    for part in payload.slices() {
        lease.write(at, part);
        at += part.len();
    }
    port.publish(lease, at).map(drop)
}
