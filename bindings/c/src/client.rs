//! `hythe_client`: the asking end of a request/reply channel. Never waits for a reply longer than
//! it is told to.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use hythe::ChannelType;
use hythe::request::{Client, ClientOptions, PendingReply};

use crate::channel::hythe_channel_type;
use crate::ffi_guard::{
    Handle, Process, Refusal, count, cross, empty_place, end, open, open_mut, place,
};
use crate::lease::{self, hythe_lease};
use crate::node::hythe_node;
use crate::origin::Origin;
use crate::port::{self, PortOptions};
use crate::sample::{self, hythe_sample};
use crate::sized::{self, Extensible};
use crate::statistics::{hythe_statistics, tell_counted};

/// How to ask. Initialise it with hythe_client_options_init(); what is zero has its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_client_options {
    /// sizeof(struct hythe_client_options).
    pub size: usize,
    /// What the channel carries. NULL: whatever it does; raw bytes if it has to be made.
    pub carries: *const hythe_channel_type,
    /// How long one request may wait while the queues of all servers are full. 0: 5 s.
    pub send_timeout_ns: u64,
    /// Requests that may be open at a time, at most 32,768. 0: 32.
    pub outstanding: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: as the trait says; an even number of `u32` ends it.
unsafe impl Extensible for hythe_client_options {
    const NOUN: &'static str = "client options";
}

/// The asking end of a request/reply channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_client {
    origin: Origin,
    pub(crate) client: Client,
}

impl Handle for hythe_client {
    const NOUN: &'static str = "client";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Initialises options: `hythe_client_options_init(&options, sizeof options)`. Any thread.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_client_options_init(
    options: *mut hythe_client_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's word.
    cross(|| unsafe { sized::begin(options, size) }.map(|()| 0))
}

impl PortOptions for hythe_client_options {
    type Wanted = ClientOptions;

    fn carries(&self) -> *const hythe_channel_type {
        self.carries
    }

    fn carrying(wanted: ClientOptions, carries: ChannelType) -> ClientOptions {
        wanted.carries(carries)
    }

    fn choose(&self, mut wanted: ClientOptions) -> Result<ClientOptions, Refusal> {
        if self.send_timeout_ns > 0 {
            wanted = wanted.send_timeout(Duration::from_nanos(self.send_timeout_ns));
        }
        if self.outstanding > 0 {
            wanted = wanted.outstanding(self.outstanding);
        }
        Ok(wanted)
    }
}

/// Opens a client of a request/reply channel, which is made if there is none. `options` may be
/// NULL. The result is the caller's, until hythe_client_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL.
/// Does not block.
///
/// # Safety
/// `channel` is text, `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_client_open(
    node: Option<&hythe_node>,
    channel: *const c_char,
    options: *const hythe_client_options,
    client: Option<&mut MaybeUninit<*mut hythe_client>>,
) -> c_int {
    let make = |node: &hythe_node, channel: &str| {
        // SAFETY: the caller's word.
        let options = unsafe { port::read(options) }?;
        Ok(hythe_client {
            origin: node.origin,
            client: node.node.client(channel, &options)?,
        })
    };
    // SAFETY: the caller's word.
    unsafe { port::open_on(node, channel, client, make) }
}

/// Closes a client, or does nothing for NULL. Its open requests are abandoned. Consumes `client`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_close(client: Option<Box<hythe_client>>) {
    end(client);
}

/// Leases a buffer for a request. As hythe_node_lease().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_lease(
    client: Option<&hythe_client>,
    bytes: usize,
    lease: Option<&mut MaybeUninit<*mut hythe_lease>>,
) -> c_int {
    lease::lend(lease, || {
        let client = open(client)?;
        Ok((client.origin, client.client.lease(bytes)?))
    })
}

/// Asks with the first `bytes` of a leased buffer, without waiting for the reply; `*request` gets
/// the number by which this client knows the request. HYTHE_ENOSERVER, HYTHE_ESERVERSFULL,
/// HYTHE_EREQUESTS. Consumes `lease`, whatever is returned. Blocks for at most `send_timeout_ns`
/// while the queues of all servers are full.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_request(
    client: Option<&mut hythe_client>,
    lease: Option<&mut hythe_lease>,
    bytes: usize,
    request: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    cross(|| {
        let lease = lease::give_up(lease);
        let place = place(request, "place for the request's number")?;
        let port = open_mut(client)?;
        let lease = lease::take_back(lease, port.origin, bytes)?;
        place.write(port.client.request(lease, bytes)?.number());
        Ok(0)
    })
}

/// Asks with a received sample, or a part of one, without copying. HYTHE_ESHARED: somebody else
/// holds it as well. Consumes `sample`, whatever is returned. Otherwise as hythe_client_request().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_forward(
    client: Option<&mut hythe_client>,
    sample: Option<&mut hythe_sample>,
    request: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    cross(|| {
        let sample = sample::give_up(sample);
        let place = place(request, "place for the request's number")?;
        let port = open_mut(client)?;
        let (origin, sample) = sample?;
        port.origin.check(origin)?;
        place.write(port.client.forward(sample)?.number());
        Ok(0)
    })
}

/// Asks, and waits for the reply: 0, and `*reply` is the caller's, until it is given up.
/// HYTHE_ENOREPLY: the time was over first, and the request is abandoned; and the errors of
/// hythe_client_request() and hythe_client_wait(). Consumes `lease`, whatever is returned. Blocks
/// for at most `timeout_ns` and the client's send timeout.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_call(
    client: Option<&mut hythe_client>,
    lease: Option<&mut hythe_lease>,
    bytes: usize,
    timeout_ns: u64,
    reply: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let lease = lease::give_up(lease);
        let place = empty_place(reply)?;
        let port = open_mut(client)?;
        let lease = lease::take_back(lease, port.origin, bytes)?;
        let timeout = Duration::from_nanos(timeout_ns);
        let replied = port.client.call(lease, bytes, timeout)?;
        place.write(sample::give(port.origin, replied));
        Ok(0)
    })
}

/// Waits for the reply to one request: 1, and `*reply` is the caller's, until it is given up. 0: it
/// has not come yet, and may still be waited for. HYTHE_ESERVERLOST, HYTHE_EUNANSWERED: the request
/// is over. HYTHE_ENOTPENDING. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_wait(
    client: Option<&mut hythe_client>,
    request: u64,
    timeout_ns: u64,
    reply: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let place = empty_place(reply)?;
        let port = open_mut(client)?;
        let timeout = Duration::from_nanos(timeout_ns);
        let replied = port
            .client
            .wait(PendingReply::from_number(request), timeout)?;
        Ok(sample::taken(place, port.origin, replied))
    })
}

/// Waits for the reply to any request: 1, with its number in `*request` and the reply in `*reply`,
/// which is the caller's. 0: there was none. A request that ended without a reply:
/// HYTHE_ESERVERLOST or HYTHE_EUNANSWERED, with its number in `*request`; after any other error,
/// that is 0, which no request has. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_take(
    client: Option<&mut hythe_client>,
    timeout_ns: u64,
    request: Option<&mut MaybeUninit<u64>>,
    reply: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let number = place(request, "place for the request's number")?;
        number.write(0);
        let place = empty_place(reply)?;
        let port = open_mut(client)?;
        let Some(taken) = port.client.take(Duration::from_nanos(timeout_ns))? else {
            return Ok(0);
        };
        number.write(taken.request.number());
        Ok(sample::taken(place, port.origin, Some(taken.outcome?)))
    })
}

/// Waits no longer for a reply: it is dropped when it comes, and counted. The server does not hear
/// of it. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_abandon(client: Option<&mut hythe_client>, request: u64) -> c_int {
    cross(|| {
        let request = PendingReply::from_number(request);
        open_mut(client)?.client.abandon(request);
        Ok(0)
    })
}

/// How many requests have no reply yet, or one that was not taken. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_open_requests(client: Option<&hythe_client>) -> c_int {
    cross(|| Ok(count(open(client)?.client.open_requests())))
}

/// How many servers are connected at this moment. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_servers(client: Option<&mut hythe_client>) -> c_int {
    cross(|| Ok(count(open_mut(client)?.client.servers()?)))
}

/// Waits until there are at least `servers` of them: 1. 0: the time was over first. Blocks for at
/// most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_wait_for_servers(
    client: Option<&mut hythe_client>,
    servers: usize,
    timeout_ns: u64,
) -> c_int {
    cross(|| {
        let port = &mut open_mut(client)?.client;
        let timeout = Duration::from_nanos(timeout_ns);
        Ok(c_int::from(port.wait_for_servers(servers, timeout)?))
    })
}

/// What this port has counted. The result's size is set by the caller.
///
/// # Safety
/// `statistics` has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_client_statistics(
    client: Option<&hythe_client>,
    statistics: *mut hythe_statistics,
) -> c_int {
    let counted = || Ok(open(client)?.client.statistics());
    // SAFETY: the caller's word.
    unsafe { tell_counted(counted, statistics) }
}
