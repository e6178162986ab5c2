//! `hythe_subscriber`: the taking end of a channel. Never holds a sample that was not taken.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;
use std::vec::Drain;

use hythe::{ChannelType, PortPolicy, Sample, Subscriber, SubscriberOptions};

use crate::channel::hythe_channel_type;
use crate::ffi_guard::{Handle, Process, Refusal, count, cross, empty_place, end, open, open_mut};
use crate::node::hythe_node;
use crate::origin::Origin;
use crate::port::{self, PortOptions};
use crate::sample::{self, hythe_sample};
use crate::sized::{self, Extensible};
use crate::statistics::{hythe_statistics, tell_counted};

/// When a subscriber's queue is full, the newest message is dropped for it, and counted. The
/// default.
pub const HYTHE_DROP_NEWEST: u32 = 0;
/// When a subscriber's queue is full, the publisher waits, for at most `block_ms`.
pub const HYTHE_BLOCK: u32 = 1;
/// When a subscriber's queue is full, the oldest message in it is evicted, and counted.
pub const HYTHE_EVICT_OLDEST: u32 = 2;

/// Options of a subscriber. Initialise them with hythe_subscriber_options_init(); what is zero has
/// its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_subscriber_options {
    /// sizeof(struct hythe_subscriber_options).
    pub size: usize,
    /// The type that the channel must carry. NULL: any type; a new channel carries raw bytes.
    pub carries: *const hythe_channel_type,
    /// Messages that may wait, per publisher; rounded up to a power of two. 0: 32.
    pub depth: u32,
    /// What happens when the queue is full: HYTHE_DROP_NEWEST, HYTHE_BLOCK, HYTHE_EVICT_OLDEST.
    pub when_full: u32,
    /// For HYTHE_BLOCK, how long a publisher may wait, in milliseconds; at least 1. It waits no
    /// longer than its own `send_timeout_ns` either.
    pub block_ms: u32,
    /// Earlier messages to get from each publisher first, as many as it keeps and the depth
    /// allows, at most 32,768. 0: none. A publisher sends them at its next call that looks for
    /// subscribers.
    pub history: u32,
}

// SAFETY: as the trait says; four `u32` end it.
unsafe impl Extensible for hythe_subscriber_options {
    const NOUN: &'static str = "subscriber options";
}

/// The receiving end of a channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_subscriber {
    pub(crate) origin: Origin,
    pub(crate) subscriber: Subscriber,
    /// Of a batch, on the way to the caller; empty between calls.
    taken: Vec<Sample>,
    /// What was met behind samples that a call returned.
    owed: Option<Refusal>,
}

impl hythe_subscriber {
    /// To take from, unless something is still to be told.
    fn ready(&mut self) -> Result<&mut Subscriber, Refusal> {
        let owed = self.owed.take();
        owed.map_or(Ok(&mut self.subscriber), Err)
    }

    pub(crate) fn take_batch(&mut self, max: usize) -> Result<Drain<'_, Sample>, Refusal> {
        self.ready()?;
        self.taken.clear();
        if let Err(error) = self.subscriber.try_take_batch(max, &mut self.taken) {
            if self.taken.is_empty() {
                return Err(error.into());
            }
            self.owed = Some(error.into());
        }
        Ok(self.taken.drain(..))
    }
}

impl Handle for hythe_subscriber {
    const NOUN: &'static str = "subscriber";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Initialises options: `hythe_subscriber_options_init(&options, sizeof options)`. Any thread.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_subscriber_options_init(
    options: *mut hythe_subscriber_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's word.
    cross(|| unsafe { sized::begin(options, size) }.map(|()| 0))
}

impl PortOptions for hythe_subscriber_options {
    type Wanted = SubscriberOptions;

    fn carries(&self) -> *const hythe_channel_type {
        self.carries
    }

    fn carrying(wanted: SubscriberOptions, carries: ChannelType) -> SubscriberOptions {
        wanted.carries(carries)
    }

    fn choose(&self, mut wanted: SubscriberOptions) -> Result<SubscriberOptions, Refusal> {
        if self.depth > 0 {
            wanted = wanted.depth(self.depth);
        }
        let policy = policy(self.when_full, self.block_ms)?;
        Ok(wanted.history(self.history).policy(policy))
    }
}

fn policy(when_full: u32, timeout_ms: u32) -> Result<PortPolicy, Refusal> {
    match (when_full, timeout_ms) {
        (HYTHE_DROP_NEWEST, _) => Ok(PortPolicy::DropNewest),
        (HYTHE_EVICT_OLDEST, _) => Ok(PortPolicy::EvictOldest),
        (HYTHE_BLOCK, 1..) => Ok(PortPolicy::Block { timeout_ms }),
        (HYTHE_BLOCK, 0) => Err(Refusal::argument(
            "subscriber options: HYTHE_BLOCK wants block_ms of at least 1",
        )),
        (other, _) => Err(Refusal::argument(format!(
            "subscriber options: when_full has no value {other}"
        ))),
    }
}

/// Opens a subscriber on a channel, which is made if there is none. `options` may be NULL. The
/// result is the caller's, until hythe_subscriber_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL,
/// HYTHE_ECORE, HYTHE_ECORELOST. Does not block, except for a core behind the channel: until it has
/// answered, for at most 5 s.
///
/// # Safety
/// `channel` is text, `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_subscriber_open(
    node: Option<&hythe_node>,
    channel: *const c_char,
    options: *const hythe_subscriber_options,
    subscriber: Option<&mut MaybeUninit<*mut hythe_subscriber>>,
) -> c_int {
    let make = |node: &hythe_node, channel: &str| {
        // SAFETY: the caller's word.
        let options = unsafe { port::read(options) }?;
        Ok(hythe_subscriber {
            origin: node.origin,
            subscriber: node.node.subscriber(channel, &options)?,
            taken: Vec::new(),
            owed: None,
        })
    };
    // SAFETY: the caller's word.
    unsafe { port::open_on(node, channel, subscriber, make) }
}

/// Closes a subscriber, or does nothing for NULL. Messages in its queues are released; samples
/// that were taken stay valid. Consumes `subscriber`. Waits for a core behind the channel until it
/// has let go of its empty buffers, for at most 0.5 s.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_close(subscriber: Option<Box<hythe_subscriber>>) {
    end(subscriber);
}

/// Takes the next sample. Returns 1, or 0 with NULL in `*sample` if none came. The caller owns the
/// sample until it releases or forwards it. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_take(
    subscriber: Option<&mut hythe_subscriber>,
    timeout_ns: u64,
    sample: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let place = empty_place(sample)?;
        let port = open_mut(subscriber)?;
        let taken = port.ready()?.take(Duration::from_nanos(timeout_ns))?;
        Ok(sample::taken(place, port.origin, taken))
    })
}

/// Takes the next sample if there is one, as hythe_subscriber_take(). Does not block, and calls the
/// kernel only to wake a publisher.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_try_take(
    subscriber: Option<&mut hythe_subscriber>,
    sample: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let place = empty_place(sample)?;
        let port = open_mut(subscriber)?;
        let taken = port.ready()?.try_take()?;
        Ok(sample::taken(place, port.origin, taken))
    })
}

/// How many publishers the channel has: those that are connected, and those that have opened and
/// will connect with their next call. One that left counts until all that it sent is taken. Does
/// not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_publishers(subscriber: Option<&mut hythe_subscriber>) -> c_int {
    cross(|| Ok(count(open_mut(subscriber)?.subscriber.publishers()?)))
}

/// How many publishers are connected: a publisher connects when it publishes or looks for
/// subscribers, not when it opens. One that left counts until all that it sent is taken. Does not
/// block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_connected_publishers(
    subscriber: Option<&mut hythe_subscriber>,
) -> c_int {
    cross(|| {
        Ok(count(
            open_mut(subscriber)?.subscriber.connected_publishers()?,
        ))
    })
}

/// Reads the counters of this port. The caller sets the size in `statistics`.
/// # Safety
/// `statistics` has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_subscriber_statistics(
    subscriber: Option<&hythe_subscriber>,
    statistics: *mut hythe_statistics,
) -> c_int {
    let counted = || Ok(open(subscriber)?.subscriber.statistics());
    // SAFETY: the caller's word.
    unsafe { tell_counted(counted, statistics) }
}
