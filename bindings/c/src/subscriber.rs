//! `hythe_subscriber`: the taking end of a channel. Never holds a sample that was not taken.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use hythe::{PortPolicy, Subscriber, SubscriberOptions};

use crate::border::{Handle, Process, Refusal, count, cross, end, name, open, open_mut, place};
use crate::channel::{self, hythe_channel_type};
use crate::node::{Origin, hythe_node};
use crate::sample::{self, hythe_sample};
use crate::sized::{self, Extensible};
use crate::statistics::hythe_statistics;

/// When a subscriber's queue is full, the newest message passes it by, and is counted. The default.
pub const HYTHE_DROP_NEWEST: u32 = 0;
/// When a subscriber's queue is full, the publisher waits, for at most `block_ms`.
pub const HYTHE_BLOCK: u32 = 1;
/// When a subscriber's queue is full, the oldest message in it makes room, and is counted.
pub const HYTHE_DROP_OLDEST: u32 = 2;

/// How to subscribe. Initialise it with hythe_subscriber_options_init(); what is zero has its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_subscriber_options {
    /// sizeof(struct hythe_subscriber_options).
    pub size: usize,
    /// What the channel carries. NULL: whatever it does; raw bytes if it has to be made.
    pub carries: *const hythe_channel_type,
    /// Messages that may wait, per publisher; rounded up to a power of two. 0: 32.
    pub depth: u32,
    /// What happens when as many wait: HYTHE_DROP_NEWEST, HYTHE_BLOCK, HYTHE_DROP_OLDEST.
    pub when_full: u32,
    /// For HYTHE_BLOCK, how long a publisher may wait, in milliseconds; at least 1.
    pub block_ms: u32,
    /// Earlier messages that each publisher shall give first, as far as it keeps some and the depth allows. 0: none.
    /// It gives them at its next call that looks for subscribers.
    pub history: u32,
}

// SAFETY: as the trait says; four `u32` end it.
unsafe impl Extensible for hythe_subscriber_options {
    const NOUN: &'static str = "subscriber options";
}

/// The taking end of a channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_subscriber {
    origin: Origin,
    pub(crate) subscriber: Subscriber,
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

/// # Safety
/// As [`sized::read`], and [`channel::read`] for the type in it.
unsafe fn read(options: *const hythe_subscriber_options) -> Result<SubscriberOptions, Refusal> {
    let mut wanted = SubscriberOptions::default();
    // SAFETY: the caller's word.
    let Some(given) = unsafe { sized::read(options) }? else {
        return Ok(wanted);
    };
    // SAFETY: the caller's word.
    if let Some(carries) = unsafe { channel::read(given.carries) }? {
        wanted = wanted.carries(carries);
    }
    if given.depth > 0 {
        wanted = wanted.depth(given.depth);
    }
    wanted = wanted.history(given.history);
    Ok(wanted.policy(policy(given.when_full, given.block_ms)?))
}

fn policy(when_full: u32, timeout_ms: u32) -> Result<PortPolicy, Refusal> {
    match (when_full, timeout_ms) {
        (HYTHE_DROP_NEWEST, _) => Ok(PortPolicy::DropNewest),
        (HYTHE_DROP_OLDEST, _) => Ok(PortPolicy::DropOldest),
        (HYTHE_BLOCK, 1..) => Ok(PortPolicy::Block { timeout_ms }),
        (HYTHE_BLOCK, 0) => Err(Refusal::argument(
            "subscriber options: HYTHE_BLOCK wants block_ms of at least 1",
        )),
        (other, _) => Err(Refusal::argument(format!(
            "subscriber options: when_full has no value {other}"
        ))),
    }
}

/// Opens a subscriber on a channel, which is made if there is none. `options` may be NULL. The result is the caller's, until
/// hythe_subscriber_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL, HYTHE_ECORE. Does not block.
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
    cross(|| {
        let place = place(subscriber, "place for the subscriber")?;
        place.write(std::ptr::null_mut());
        let node = open(node)?;
        // SAFETY: the caller's word.
        let channel = unsafe { name(channel, "name of the channel") }?;
        // SAFETY: the caller's word.
        let options = unsafe { read(options) }?;
        let opened = hythe_subscriber {
            origin: node.origin,
            subscriber: node.node.subscriber(channel, &options)?,
        };
        place.write(Box::into_raw(Box::new(opened)));
        Ok(0)
    })
}

/// Closes a subscriber, or does nothing for NULL. What waits in its queues is released; samples taken from it stay. Consumes
/// `subscriber`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_close(subscriber: Option<Box<hythe_subscriber>>) {
    end(subscriber);
}

/// Takes the next sample: 1. 0: there was none, and `*sample` is NULL. The sample is the caller's, until it is given up.
/// Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_take(
    subscriber: Option<&mut hythe_subscriber>,
    timeout_ns: u64,
    sample: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let place = place(sample, "place for the sample")?;
        place.write(std::ptr::null_mut());
        let port = open_mut(subscriber)?;
        let taken = port.subscriber.take(Duration::from_nanos(timeout_ns))?;
        Ok(sample::taken(place, port.origin, taken))
    })
}

/// Takes the next sample if there is one, as hythe_subscriber_take(). Does not block, and calls the kernel only to wake a publisher.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_try_take(
    subscriber: Option<&mut hythe_subscriber>,
    sample: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let place = place(sample, "place for the sample")?;
        place.write(std::ptr::null_mut());
        let port = open_mut(subscriber)?;
        let taken = port.subscriber.try_take()?;
        Ok(sample::taken(place, port.origin, taken))
    })
}

/// How many publishers are connected at this moment. One that left counts until all it had sent is taken. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_subscriber_publishers(subscriber: Option<&mut hythe_subscriber>) -> c_int {
    cross(|| Ok(count(open_mut(subscriber)?.subscriber.publishers()?)))
}

/// What this port has counted. The result's size is set by the caller.
///
/// # Safety
/// `statistics` has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_subscriber_statistics(
    subscriber: Option<&hythe_subscriber>,
    statistics: *mut hythe_statistics,
) -> c_int {
    cross(|| {
        let counted = open(subscriber)?.subscriber.statistics().into();
        // SAFETY: the caller's word.
        unsafe { sized::write(statistics, &counted) }.map(|()| 0)
    })
}
