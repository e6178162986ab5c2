//! `hythe_server` and `hythe_request`: the answering end of a request/reply channel, and what it
//! has to answer.
//!
//! Never lets a request go silently: one that is released unanswered tells its client so.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use hythe::ChannelType;
use hythe::request::{Request, Responder, Server, ServerOptions};

use crate::channel::hythe_channel_type;
use crate::ffi_guard::{
    Handle, Process, Refusal, count, cross, empty_place, end, missing, open, open_mut,
};
use crate::lease::{self, hythe_lease};
use crate::node::hythe_node;
use crate::origin::Origin;
use crate::port::{self, PortOptions};
use crate::sample::{self, Inner, hythe_sample};
use crate::serving::Serving;
use crate::sized::{self, Extensible};
use crate::statistics::{hythe_statistics, tell_counted};

/// Options of a server. Initialise them with hythe_server_options_init(); what is zero has its
/// default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_server_options {
    /// sizeof(struct hythe_server_options).
    pub size: usize,
    /// The type that the channel must carry. NULL: any type; a new channel carries raw bytes.
    pub carries: *const hythe_channel_type,
    /// Requests that may wait to be taken, per client; rounded up to a power of two. 0: 32. A core
    /// that asks has at most so many unanswered, each in a buffer that it was given in advance.
    pub depth: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: as the trait says; an even number of `u32` ends it.
unsafe impl Extensible for hythe_server_options {
    const NOUN: &'static str = "server options";
}

/// The server of a request/reply channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_server {
    // Ends first: its answer goes over the port.
    pub(crate) serving: Option<Serving>,
    pub(crate) origin: Origin,
    pub(crate) server: Server,
}

/// A server that is to take a request. If a method of hythe_rpc_serve() was left and did not
/// return, its call ends here.
pub(crate) fn open_idle(server: Option<&mut hythe_server>) -> Result<&mut hythe_server, Refusal> {
    let server = open_mut(server)?;
    drop(server.serving.take());
    Ok(server)
}

impl Handle for hythe_server {
    const NOUN: &'static str = "server";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// A request, to be read and answered. One thread at a time, any thread, also after the server was
/// closed.
#[derive(Debug)]
pub struct hythe_request {
    origin: Origin,
    question: Inner,
    responder: Responder,
}

impl Handle for hythe_request {
    const NOUN: &'static str = "request";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Initialises options: `hythe_server_options_init(&options, sizeof options)`. Any thread.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_server_options_init(
    options: *mut hythe_server_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's word.
    cross(|| unsafe { sized::begin(options, size) }.map(|()| 0))
}

impl PortOptions for hythe_server_options {
    type Wanted = ServerOptions;

    fn carries(&self) -> *const hythe_channel_type {
        self.carries
    }

    fn carrying(wanted: ServerOptions, carries: ChannelType) -> ServerOptions {
        wanted.carries(carries)
    }

    fn choose(&self, mut wanted: ServerOptions) -> Result<ServerOptions, Refusal> {
        if self.depth > 0 {
            wanted = wanted.depth(self.depth);
        }
        Ok(wanted)
    }
}

/// Opens a server of a request/reply channel, which is made if there is none. Where there are
/// several, requests go to them in turn. `options` may be NULL. The result is the caller's, until
/// hythe_server_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL, HYTHE_ECORE, HYTHE_ECORELOST. Does not
/// block, except for a core that asks over the channel: until it has answered, for at most 5 s.
///
/// # Safety
/// `channel` is text, `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_server_open(
    node: Option<&hythe_node>,
    channel: *const c_char,
    options: *const hythe_server_options,
    server: Option<&mut MaybeUninit<*mut hythe_server>>,
) -> c_int {
    let make = |node: &hythe_node, channel: &str| {
        // SAFETY: the caller's word.
        let options = unsafe { port::read(options) }?;
        Ok(hythe_server {
            serving: None,
            origin: node.origin,
            server: node.node.server(channel, &options)?,
        })
    };
    // SAFETY: the caller's word.
    unsafe { port::open_on(node, channel, server, make) }
}

/// Closes a server, or does nothing for NULL. Its unanswered requests fail at the clients.
/// Consumes `server`. Waits for a core that asks until it has read the replies, for at most 2 s,
/// and until it has let go of its empty buffers, for at most 0.5 s.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_server_close(server: Option<Box<hythe_server>>) {
    end(server);
}

/// Leases a buffer for a reply, where all clients see it: for a core in its region. As
/// hythe_node_lease().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_server_lease(
    server: Option<&hythe_server>,
    bytes: usize,
    lease: Option<&mut MaybeUninit<*mut hythe_lease>>,
) -> c_int {
    lease::lend(lease, || {
        let server = open(server)?;
        Ok((server.origin, server.server.lease(bytes)?))
    })
}

/// Takes the next request. Returns 1, or 0 with NULL in `*request` if none came. The caller owns
/// the request until it answers or releases it. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_server_take(
    server: Option<&mut hythe_server>,
    timeout_ns: u64,
    request: Option<&mut MaybeUninit<*mut hythe_request>>,
) -> c_int {
    cross(|| {
        let place = empty_place(request)?;
        let port = open_idle(server)?;
        let taken = port.server.take(Duration::from_nanos(timeout_ns))?;
        Ok(give(place, port.origin, taken))
    })
}

/// Takes the next request if there is one, as hythe_server_take(). Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_server_try_take(
    server: Option<&mut hythe_server>,
    request: Option<&mut MaybeUninit<*mut hythe_request>>,
) -> c_int {
    cross(|| {
        let place = empty_place(request)?;
        let port = open_idle(server)?;
        let taken = port.server.try_take()?;
        Ok(give(place, port.origin, taken))
    })
}

fn give(
    place: &mut MaybeUninit<*mut hythe_request>,
    origin: Origin,
    request: Option<Request>,
) -> c_int {
    let Some(request) = request else { return 0 };
    let (question, responder) = request.into_parts();
    let request = hythe_request {
        origin,
        question: Inner::new(origin, question),
        responder,
    };
    place.write(Box::into_raw(Box::new(request)));
    1
}

/// How many clients are connected. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_server_clients(server: Option<&mut hythe_server>) -> c_int {
    cross(|| Ok(count(open_mut(server)?.server.clients()?)))
}

/// Reads the counters of this port. The caller sets the size in `statistics`.
/// # Safety
/// `statistics` has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_server_statistics(
    server: Option<&hythe_server>,
    statistics: *mut hythe_statistics,
) -> c_int {
    let counted = || Ok(open(server)?.server.statistics());
    // SAFETY: the caller's word.
    unsafe { tell_counted(counted, statistics) }
}

/// The payload of the request: a sample that belongs to the request and is released with it. Never
/// release it by itself. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_request_sample(request: Option<&hythe_request>) -> *const hythe_sample {
    let mut question = std::ptr::null();
    cross(|| {
        question = open(request)?.question.handle();
        Ok(0)
    });
    question
}

/// The number of the participant that sent the request.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_request_client(request: Option<&hythe_request>) -> c_int {
    cross(|| Ok(c_int::from(open(request)?.responder.client().0)))
}

/// Leases a buffer for the reply, where its client sees it, also when the server is closed. As
/// hythe_node_lease().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_request_lease(
    request: Option<&hythe_request>,
    bytes: usize,
    lease: Option<&mut MaybeUninit<*mut hythe_lease>>,
) -> c_int {
    lease::lend(lease, || {
        let request = open(request)?;
        Ok((request.origin, request.responder.lease(bytes)?))
    })
}

/// Gives up a request: taken apart before anything else is looked at.
fn give_up(request: Option<Box<hythe_request>>) -> Result<hythe_request, Refusal> {
    let request = request.ok_or_else(|| missing("request"))?;
    match open(Some(&*request)) {
        Ok(_) => Ok(*request),
        Err(refusal) => {
            std::mem::forget(request);
            Err(refusal)
        }
    }
}

/// Replies with the first `bytes` of a leased buffer. Returns 1, or 0 if the client is gone or its
/// queue is full. HYTHE_ECORE: the client is a core, and does not see the buffer, or it is too long
/// for its endpoint; the core is told that there is no reply. Always consumes `request` and
/// `lease`. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_request_reply(
    request: Option<Box<hythe_request>>,
    lease: Option<&mut hythe_lease>,
    bytes: usize,
) -> c_int {
    cross(|| {
        let lease = lease::give_up(lease);
        let request = give_up(request)?;
        let lease = lease::take_back(lease, request.origin, bytes)?;
        Ok(c_int::from(request.responder.reply(lease, bytes)?))
    })
}

/// Replies with the buffer of the request, without copying. Returns as hythe_request_reply().
/// HYTHE_ESHARED: the client kept a reference to the buffer. Always consumes `request`. Does not
/// block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_request_reply_in_kind(request: Option<Box<hythe_request>>) -> c_int {
    cross(|| {
        let request = give_up(request)?;
        let question = request.question.into_sample()?;
        Ok(c_int::from(request.responder.forward(question)?))
    })
}

/// Replies with a received sample, or a part of one, without copying. Returns as
/// hythe_request_reply(). HYTHE_ESHARED: the buffer has another holder. Always consumes `request`
/// and `sample`. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_request_forward(
    request: Option<Box<hythe_request>>,
    sample: Option<&mut hythe_sample>,
) -> c_int {
    cross(|| {
        let sample = sample::give_up(sample);
        let request = give_up(request)?;
        let (origin, sample) = sample?;
        request.origin.check(origin)?;
        let hythe_request {
            question,
            responder,
            ..
        } = request;
        // Let go first: the sample may be a part of it.
        drop(question);
        Ok(c_int::from(responder.forward(sample)?))
    })
}

/// Releases a request without a reply, or does nothing for NULL. Its client gets
/// HYTHE_EUNANSWERED. Consumes `request`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_request_release(request: Option<Box<hythe_request>>) {
    end(request);
}
