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

/// Options of a client. Initialise them with hythe_client_options_init(); what is zero has its
/// default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_client_options {
    /// sizeof(struct hythe_client_options).
    pub size: usize,
    /// The type that the channel must carry. NULL: any type; a new channel carries raw bytes.
    pub carries: *const hythe_channel_type,
    /// How long one request may wait while there is no server, or all queues are full. 0: 5 s.
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

/// The client of a request/reply channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_client {
    pub(crate) origin: Origin,
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
/// Does not block, except for a core behind the channel: until it has answered, for at most 5 s. A
/// core that comes later is met within the times of the client's calls.
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

/// Sends the first `bytes` of a leased buffer as a request. Does not wait for the reply. `*request`
/// gets the number of the request. HYTHE_ENOSERVER, HYTHE_ESERVERSFULL, HYTHE_ECORELOST,
/// HYTHE_EREQUESTS. Consumes `lease`, whatever is returned. Blocks for at most `send_timeout_ns`
/// while there is no server, or the queues of all are full.
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

/// Sends a received sample, or a part of one, as a request, without copying. HYTHE_ESHARED: the
/// buffer has another holder. Consumes `sample`, whatever is returned. Otherwise as
/// hythe_client_request().
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

/// Sends a request and waits for its reply. Returns 0; the caller owns `*reply` until it releases
/// it. HYTHE_ENOREPLY: `timeout_ns` has passed, and the request is abandoned. Also the errors of
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

/// Waits for the reply to one request. Returns 1; the caller owns `*reply` until it releases it. 0:
/// no reply yet; the request stays open. HYTHE_ESERVERLOST, HYTHE_EUNANSWERED: the request has
/// ended. HYTHE_ENOTPENDING. Blocks for at most `timeout_ns`.
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

/// Waits for the reply to any request. Returns 1, the number of the request in `*request` and the
/// reply, which the caller owns, in `*reply`. 0: none came. A request that ended without a reply:
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

/// Abandons a request: its reply is dropped and counted when it comes. The server is not notified.
/// Does not block.
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

/// How many servers are connected. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_client_servers(client: Option<&mut hythe_client>) -> c_int {
    cross(|| Ok(count(open_mut(client)?.client.servers()?)))
}

/// Waits until at least `servers` are connected. Returns 1, or 0 if `timeout_ns` has passed. Blocks
/// for at most `timeout_ns`.
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

/// Reads the counters of this port. The caller sets the size in `statistics`.
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
