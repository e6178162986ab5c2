//! `hythe_publisher`: the publishing end of a channel. Never keeps a buffer that it was given.

use core::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use hythe::{ChannelType, Published, Publisher, PublisherOptions};

use crate::bytes::readable;
use crate::channel::hythe_channel_type;
use crate::ffi_guard::{Handle, Process, Refusal, count, cross, end, open, open_mut};
use crate::lease::{self, hythe_lease};
use crate::node::hythe_node;
use crate::origin::Origin;
use crate::port::{self, PortOptions};
use crate::sample::{self, hythe_sample};
use crate::sized::{self, Extensible};
use crate::statistics::{hythe_statistics, tell_counted};

/// Options of a publisher. Initialise them with hythe_publisher_options_init(); what is zero has
/// its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_publisher_options {
    /// sizeof(struct hythe_publisher_options).
    pub size: usize,
    /// The type that the channel must carry. NULL: any type; a new channel carries raw bytes.
    pub carries: *const hythe_channel_type,
    /// How long one message may wait for full queues, for all subscribers together, and how long
    /// hythe_publisher_lease() waits for a free buffer. 0: 100 ms.
    pub send_timeout_ns: u64,
    /// Messages to keep for later subscribers, at most 32,768; each holds its buffer. 0: none.
    /// They are sent by the publisher's next call that looks for subscribers: a program that
    /// publishes rarely calls hythe_publisher_subscribers() now and then.
    pub history: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: as the trait says; an even number of `u32` ends it.
unsafe impl Extensible for hythe_publisher_options {
    const NOUN: &'static str = "publisher options";
}

/// The outcome of publishing a message.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_published {
    /// sizeof(struct hythe_published), set by the caller.
    pub size: usize,
    /// Subscribers that have it in their queue.
    pub delivered: u32,
    /// Subscribers that did not get it, because their queue was full.
    pub dropped: u32,
    /// Older messages that it evicted, from queues of subscribers that evict the oldest.
    pub evicted: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: as the trait says; an even number of `u32` ends it.
unsafe impl Extensible for hythe_published {
    const NOUN: &'static str = "struct for what became of a message";
}

/// The publishing end of a channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_publisher {
    pub(crate) origin: Origin,
    pub(crate) publisher: Publisher,
}

impl Handle for hythe_publisher {
    const NOUN: &'static str = "publisher";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Initialises options: `hythe_publisher_options_init(&options, sizeof options)`. Any thread.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_options_init(
    options: *mut hythe_publisher_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's word.
    cross(|| unsafe { sized::begin(options, size) }.map(|()| 0))
}

impl PortOptions for hythe_publisher_options {
    type Wanted = PublisherOptions;

    fn carries(&self) -> *const hythe_channel_type {
        self.carries
    }

    fn carrying(wanted: PublisherOptions, carries: ChannelType) -> PublisherOptions {
        wanted.carries(carries)
    }

    fn choose(&self, mut wanted: PublisherOptions) -> Result<PublisherOptions, Refusal> {
        if self.send_timeout_ns > 0 {
            wanted = wanted.send_timeout(Duration::from_nanos(self.send_timeout_ns));
        }
        Ok(wanted.history(self.history))
    }
}

/// Opens a publisher on a channel, which is made if there is none. `options` may be NULL. The
/// result is the caller's, until hythe_publisher_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL,
/// HYTHE_ECORE, HYTHE_ECORELOST. Does not block, except for a core behind the channel: until it has
/// answered, for at most 5 s.
///
/// # Safety
/// `channel` is text, `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_open(
    node: Option<&hythe_node>,
    channel: *const c_char,
    options: *const hythe_publisher_options,
    publisher: Option<&mut MaybeUninit<*mut hythe_publisher>>,
) -> c_int {
    let make = |node: &hythe_node, channel: &str| {
        // SAFETY: the caller's word.
        let options = unsafe { port::read(options) }?;
        Ok(hythe_publisher {
            origin: node.origin,
            publisher: node.node.publisher(channel, &options)?,
        })
    };
    // SAFETY: the caller's word.
    unsafe { port::open_on(node, channel, publisher, make) }
}

/// Closes a publisher, or does nothing for NULL. What it has published stays with the subscribers.
/// Consumes `publisher`. Waits for a core behind the channel until it has given all buffers back,
/// for at most 2 s.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_publisher_close(publisher: Option<Box<hythe_publisher>>) {
    end(publisher);
}

/// Leases a buffer that every receiver of this channel can see. As hythe_node_lease(), but waits
/// for `send_timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_publisher_lease(
    publisher: Option<&hythe_publisher>,
    bytes: usize,
    lease: Option<&mut MaybeUninit<*mut hythe_lease>>,
) -> c_int {
    lease::lend(lease, || {
        let publisher = open(publisher)?;
        Ok((publisher.origin, publisher.publisher.lease(bytes)?))
    })
}

/// Publishes the first `bytes` of a leased buffer. Returns how many subscribers have it;
/// `published` may be NULL; else it gets more counters. Consumes `lease`, whatever is returned:
/// what is not published is released. Blocks while the queue of a subscriber with HYTHE_BLOCK is
/// full, for as long as it and `send_timeout_ns` allow: HYTHE_EBLOCKED, HYTHE_EGONE; the others
/// have the message then. A core that is the only receiver is waited for whatever the send timeout:
/// for at most 5 s until it answers (HYTHE_ECORELOST), and 10 s while it is full (HYTHE_ECOREFULL).
///
/// # Safety
/// `published` is NULL, or has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_publish(
    publisher: Option<&mut hythe_publisher>,
    lease: Option<&mut hythe_lease>,
    bytes: usize,
    published: *mut hythe_published,
) -> c_int {
    cross(|| {
        let lease = lease::give_up(lease);
        let port = open_mut(publisher)?;
        let lease = lease::take_back(lease, port.origin, bytes)?;
        let done = port.publisher.publish(lease, bytes)?;
        // SAFETY: the caller's word.
        unsafe { tell(done, published) }
    })
}

/// Publishes a copy of `count` bytes: lease, write and publish in one call, for short messages.
///
/// # Safety
/// `bytes` points to `count` readable bytes; `published` is NULL, or has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_publish_copy(
    publisher: Option<&mut hythe_publisher>,
    bytes: *const c_void,
    count: usize,
    published: *mut hythe_published,
) -> c_int {
    cross(|| {
        let port = &mut open_mut(publisher)?.publisher;
        // SAFETY: the caller's word.
        let bytes = unsafe { readable(bytes, count) }?;
        let mut lease = port.lease(count)?;
        lease.write(0, bytes);
        let done = port.publish(lease, count)?;
        // SAFETY: the caller's word.
        unsafe { tell(done, published) }
    })
}

/// Publishes a received sample, or a part of one, without copying. Consumes `sample`, whatever is
/// returned. Otherwise as hythe_publisher_publish().
///
/// # Safety
/// `published` is NULL, or has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_forward(
    publisher: Option<&mut hythe_publisher>,
    sample: Option<&mut hythe_sample>,
    published: *mut hythe_published,
) -> c_int {
    cross(|| {
        let sample = sample::give_up(sample);
        let port = open_mut(publisher)?;
        let (origin, sample) = sample?;
        port.origin.check(origin)?;
        let done = port.publisher.forward(sample)?;
        // SAFETY: the caller's word.
        unsafe { tell(done, published) }
    })
}

/// Publishes a copy of a received sample, or of a part of one, with its headroom, in a buffer that
/// every receiver of this channel can see: from one core to another for instance. It always copies,
/// and `copies` in struct hythe_statistics counts that. `sample` stays the caller's; it may be of
/// another node. Otherwise as hythe_publisher_publish().
///
/// # Safety
/// `published` is NULL, or has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_forward_copy(
    publisher: Option<&mut hythe_publisher>,
    sample: Option<&hythe_sample>,
    published: *mut hythe_published,
) -> c_int {
    cross(|| {
        let (_, sample) = sample::there(sample)?;
        let done = open_mut(publisher)?.publisher.forward_copy(sample)?;
        // SAFETY: the caller's word.
        unsafe { tell(done, published) }
    })
}

/// # Safety
/// `into` is NULL, or as [`sized::write`].
pub(crate) unsafe fn tell(
    published: Published,
    into: *mut hythe_published,
) -> Result<c_int, Refusal> {
    if !into.is_null() {
        let told = hythe_published {
            size: 0,
            delivered: published.delivered,
            dropped: published.dropped,
            evicted: published.evicted,
            reserved: 0,
        };
        // SAFETY: the caller's word.
        unsafe { sized::write(into, &told) }?;
    }
    Ok(count(published.delivered as usize))
}

/// Connects to new subscribers, sends them the kept messages, and returns how many are connected; a
/// core counts as one. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_publisher_subscribers(publisher: Option<&mut hythe_publisher>) -> c_int {
    cross(|| Ok(count(open_mut(publisher)?.publisher.subscribers()?)))
}

/// Connects to new subscribers. Returns 0 if there is a queue to each, else why there is none to
/// one of them: HYTHE_ETABLEFULL, HYTHE_EGEOMETRY. That one gets no messages; they count as
/// dropped. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_publisher_reaches_all(publisher: Option<&mut hythe_publisher>) -> c_int {
    cross(|| {
        open_mut(publisher)?.publisher.reaches_all()?;
        Ok(0)
    })
}

/// Waits until at least `subscribers` are connected. Returns 1, or 0 if `timeout_ns` has passed.
/// Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_publisher_wait_for_subscribers(
    publisher: Option<&mut hythe_publisher>,
    subscribers: usize,
    timeout_ns: u64,
) -> c_int {
    cross(|| {
        let port = &mut open_mut(publisher)?.publisher;
        let timeout = Duration::from_nanos(timeout_ns);
        Ok(c_int::from(
            port.wait_for_subscribers(subscribers, timeout)?,
        ))
    })
}

/// Waits until a core has returned all buffers that were sent to it; returns at once for other
/// receivers. HYTHE_ECORELOST: it has not returned them in time. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_publisher_flush(
    publisher: Option<&mut hythe_publisher>,
    timeout_ns: u64,
) -> c_int {
    cross(|| {
        let port = &mut open_mut(publisher)?.publisher;
        port.flush(Duration::from_nanos(timeout_ns))?;
        Ok(0)
    })
}

/// Reads the counters of this port. The caller sets the size in `statistics`.
///
/// # Safety
/// `statistics` has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_statistics(
    publisher: Option<&hythe_publisher>,
    statistics: *mut hythe_statistics,
) -> c_int {
    let counted = || Ok(open(publisher)?.publisher.statistics());
    // SAFETY: the caller's word.
    unsafe { tell_counted(counted, statistics) }
}
