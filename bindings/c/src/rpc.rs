//! `hythe_rpc`: calls of methods by number, over a client and a server. Never keeps a call: what is
//! outstanding is in the client.

use core::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::time::Duration;

use hythe::request::PendingReply;
use hythe::rpc::{Call, Caller, HEADER_BYTES, is_method};
use hythe::{NodeError, TrustPeers};

use crate::bytes::{readable, writable};
use crate::client::hythe_client;
use crate::code;
use crate::ffi_guard::{Refusal, cross, empty_place, missing, open_mut, place};
use crate::lease::{self, hythe_lease};
use crate::sample::{self, hythe_sample};
use crate::server::{hythe_server, open_idle};
use crate::serving::Serving;

/// Bytes in front of an argument in its lease, of hythe_rpc_lease().
pub const HYTHE_RPC_HEADER_BYTES: usize = 32;
const _: () = assert!(HYTHE_RPC_HEADER_BYTES == HEADER_BYTES);

/// A call, as its method sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_rpc_request {
    /// Which method: 1 to 0x7FFFFFFF.
    pub method: u32,
    /// Number of the caller's task if it is on a core, 0: none.
    pub task: u32,
    /// How long the caller waits.
    pub timeout_ns: u64,
    /// The argument: a copy, or with `trust_peers` where the caller wrote it. NULL if it has no
    /// bytes.
    pub argument: *const u8,
    /// Its size.
    pub argument_bytes: usize,
}

/// The result of a call, to be written by its method.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_rpc_reply {
    /// Where to write it: in the buffer that goes to the caller.
    pub result: *mut u8,
    /// How many bytes may be written.
    pub capacity: usize,
    /// Its size, 0 at first. More than `capacity`: the caller is told that size, and gets no
    /// result.
    pub bytes: usize,
}

/// What [`hythe_rpc_method`] calls.
type ServeMethod = unsafe extern "C-unwind" fn(
    *mut c_void,
    *const hythe_rpc_request,
    *mut hythe_rpc_reply,
) -> c_int;

/// One method. It returns 0, or a number of its own from 1 on: it failed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_rpc_method {
    /// Its number: 1 to 0x7FFFFFFF.
    pub method: u32,
    /// Zero.
    pub reserved: u32,
    /// Its largest result.
    pub result_bytes: usize,
    /// What is called, with `context`, in the thread of hythe_rpc_serve().
    pub serve: Option<
        unsafe extern "C-unwind" fn(
            context: *mut c_void,
            request: *const hythe_rpc_request,
            reply: *mut hythe_rpc_reply,
        ) -> c_int,
    >,
    /// Passed to `serve`.
    pub context: *mut c_void,
}

fn checked(method: u32) -> Result<u32, Refusal> {
    if is_method(method) {
        return Ok(method);
    }
    Err(Refusal::argument(format!(
        "method {method} is none of a program's own: they are 1 to 0x7FFFFFFF"
    )))
}

/// What is said beside the code: the size of a result that is too large, the number of a failure.
fn detail(error: &NodeError) -> usize {
    match error {
        NodeError::ResultTooLarge { bytes, .. } => *bytes as usize,
        NodeError::MethodFailed { number, .. } => number.unsigned_abs() as usize,
        _ => 0,
    }
}

/// Calls a method of a server and waits for its result, which is copied to `result`. `*length` gets
/// its size. HYTHE_ENOMETHOD. HYTHE_ERESULT: it is larger than `capacity`, or than the channel to
/// or from a core carries; `*length` is its size. HYTHE_EFAILED: `*length` is the number of the
/// failure. HYTHE_ENOREPLY: `timeout_ns` has passed; a result that comes late is dropped and
/// counted. HYTHE_ESERVERLOST: whether the method has run is not known. Otherwise as
/// hythe_client_lease() and hythe_client_call(). Blocks for at most `timeout_ns` and the client's
/// send timeout.
///
/// # Safety
/// `argument` points to `argument_bytes` readable bytes, `result` to `capacity` writable ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_rpc_call(
    client: Option<&mut hythe_client>,
    method: u32,
    argument: *const c_void,
    argument_bytes: usize,
    result: *mut c_void,
    capacity: usize,
    length: Option<&mut MaybeUninit<usize>>,
    timeout_ns: u64,
) -> c_int {
    cross(|| {
        let length = place(length, "place for the result's size")?.write(0);
        let port = open_mut(client)?;
        // SAFETY: the caller's word.
        let argument = unsafe { readable(argument, argument_bytes) }?;
        // SAFETY: the caller's word.
        let result = unsafe { writable(result, capacity) }?;
        let largest = u32::try_from(capacity).unwrap_or(u32::MAX);
        let timeout = Duration::from_nanos(timeout_ns);
        let called = Caller::new(&mut port.client)
            .largest_result(largest)
            .call(checked(method)?, argument, timeout)
            .inspect_err(|error| *length = detail(error))?;
        *length = called.len();
        called.read(0, &mut result[..called.len()]);
        called.check_whole()?;
        Ok(0)
    })
}

/// Begins a call, with a copy of the argument, and does not wait. `*call` gets its number, for
/// hythe_rpc_wait() or hythe_client_abandon(). `timeout_ns` is told to the server. As
/// hythe_client_lease() and hythe_client_request().
///
/// # Safety
/// `argument` points to `argument_bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_rpc_begin(
    client: Option<&mut hythe_client>,
    method: u32,
    argument: *const c_void,
    argument_bytes: usize,
    timeout_ns: u64,
    call: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    cross(|| {
        let call = place(call, "place for the call's number")?;
        let port = open_mut(client)?;
        // SAFETY: the caller's word.
        let argument = unsafe { readable(argument, argument_bytes) }?;
        let timeout = Duration::from_nanos(timeout_ns);
        let begun = Caller::new(&mut port.client).begin(checked(method)?, argument, timeout)?;
        call.write(begun.number());
        Ok(0)
    })
}

/// Leases a buffer for an argument of `bytes` bytes, which is to be written from its byte
/// HYTHE_RPC_HEADER_BYTES on. As hythe_client_lease().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_rpc_lease(
    client: Option<&mut hythe_client>,
    bytes: usize,
    lease: Option<&mut MaybeUninit<*mut hythe_lease>>,
) -> c_int {
    lease::lend(lease, || {
        let port = open_mut(client)?;
        let leased = Caller::new(&mut port.client).lease(bytes)?;
        Ok((port.origin, leased))
    })
}

/// Begins a call whose argument of `bytes` bytes was written into its buffer, without a copy.
/// Consumes `lease`, whatever is returned. Otherwise as hythe_rpc_begin().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_rpc_begin_in(
    client: Option<&mut hythe_client>,
    method: u32,
    lease: Option<&mut hythe_lease>,
    bytes: usize,
    timeout_ns: u64,
    call: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    cross(|| {
        let lease = lease::give_up(lease);
        let call = place(call, "place for the call's number")?;
        let port = open_mut(client)?;
        let whole = bytes.saturating_add(HEADER_BYTES);
        let lease = lease::take_back(lease, port.origin, whole)?;
        let timeout = Duration::from_nanos(timeout_ns);
        let begun =
            Caller::new(&mut port.client).begin_in(lease, checked(method)?, bytes, timeout)?;
        call.write(begun.number());
        Ok(0)
    })
}

/// Waits for the result of one call. Returns 1; the caller owns `*result`, which is read where the
/// server wrote it, until it releases it. 0: none yet; the call is still outstanding. The call has
/// ended with HYTHE_ENOMETHOD; with HYTHE_ERESULT and the size of the result in `*detail`; with
/// HYTHE_EFAILED and the number of the failure there; and as hythe_client_wait() says. `detail` may
/// be NULL. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_rpc_wait(
    client: Option<&mut hythe_client>,
    call: u64,
    timeout_ns: u64,
    result: Option<&mut MaybeUninit<*mut hythe_sample>>,
    detail: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    cross(|| {
        let place = empty_place(result)?;
        let port = open_mut(client)?;
        let timeout = Duration::from_nanos(timeout_ns);
        let call = PendingReply::from_number(call);
        let waited = Caller::new(&mut port.client).wait(call, timeout);
        if let Some(said) = detail {
            said.write(waited.as_ref().err().map_or(0, self::detail));
        }
        Ok(sample::taken(place, port.origin, waited?))
    })
}

/// Serves one call that comes over a server: calls its method, in this thread, and replies. Returns
/// 1: it is answered, also with HYTHE_ENOMETHOD or HYTHE_ERESULT for its caller. 0: none came.
/// HYTHE_ECALLERLOST: its caller is gone, nobody has got the result. What is no call is given up,
/// and counted as a violation. HYTHE_EARGUMENT, too, if a method returns less than 0: its caller
/// gets HYTHE_EUNANSWERED. So it does if a method throws a C++ exception, which passes through this
/// call, or leaves by longjmp(): then with the next call on the server. A method does not use the
/// server itself. Blocks for at most `timeout_ns` until one comes.
///
/// # Safety
/// `table` points to `count` methods.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn hythe_rpc_serve(
    server: Option<&mut hythe_server>,
    table: *const hythe_rpc_method,
    count: usize,
    timeout_ns: u64,
) -> c_int {
    let server = server.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let mut called: Option<CalledMethod> = None;
    let begun = cross(|| {
        // SAFETY: NULL, or the caller's handle, which nobody else uses.
        let port = open_idle(unsafe { server.as_mut() })?;
        // SAFETY: the caller's word.
        let table = unsafe { methods(table, count) }?;
        begin(port, table, timeout_ns, &mut called)
    });
    let Some(mut called) = called else {
        return begun;
    };
    // While the method runs nothing on this stack owns anything: a longjmp() leaves nothing behind.
    let left_early = EndServing(server);
    let (request, reply) = (&raw const called.request, &raw mut called.reply);
    // SAFETY: a method of the caller's table; what both structs point to stays in the server.
    let number = unsafe { (called.serve)(called.context, request, reply) };
    std::mem::forget(left_early);
    cross(|| {
        // SAFETY: as above; the method has returned.
        let port = open_mut(unsafe { server.as_mut() })?;
        let serving = port.serving.take().ok_or_else(|| {
            Refusal::argument("a method has used the server of its own call, which it must not")
        })?;
        let answered = answer(serving, number, called.reply.bytes)?;
        unless_caller_lost(port, answered)
    })
}

/// The methods that a caller passes.
///
/// # Safety
/// `table` points to `count` methods, or is NULL.
unsafe fn methods<'t>(
    table: *const hythe_rpc_method,
    count: usize,
) -> Result<&'t [hythe_rpc_method], Refusal> {
    match (table.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(missing("table")),
        // SAFETY: the caller's word.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(table, count) }),
    }
}

/// What is passed to a method: pointers into its [`Serving`]. Owns nothing.
#[derive(Clone, Copy)]
struct CalledMethod {
    serve: ServeMethod,
    context: *mut c_void,
    request: hythe_rpc_request,
    reply: hythe_rpc_reply,
}

/// Ends the call whose method was left by an exception.
struct EndServing(*mut hythe_server);

impl Drop for EndServing {
    fn drop(&mut self) {
        // SAFETY: the handle of the call that is being left, which nobody else uses.
        let server = unsafe { self.0.as_mut() };
        if let Some(server) = server {
            drop(server.serving.take());
        }
    }
}

/// Takes a call and finds its method, which is to be called, or answers it.
fn begin(
    port: &mut hythe_server,
    table: &[hythe_rpc_method],
    timeout_ns: u64,
    called: &mut Option<CalledMethod>,
) -> Result<c_int, Refusal> {
    let timeout = Duration::from_nanos(timeout_ns);
    let Some(call) = Call::take(&mut port.server, timeout)? else {
        return Ok(0);
    };
    let mut named = table.iter();
    let Some(method) = named.find(|method| method.method == call.method()) else {
        let answered = call.refuse_method()?;
        return unless_caller_lost(port, answered);
    };
    let serve = method.serve.ok_or_else(|| missing("method"))?;
    // C gets a pointer and no promise about what it reads there: no trust is needed to write.
    let decision = TrustPeers::i_trust_every_writer_of_this_pool();
    let capacity = method.result_bytes.min(call.largest_result());
    let mut lease = call.lease(capacity)?;
    let copied = match port.origin.trusts {
        true => Vec::new(),
        false => call.argument().to_vec(),
    };
    let argument: &[u8] = match port.origin.trusts {
        true => call.argument().as_slice(decision),
        false => &copied,
    };
    *called = Some(CalledMethod {
        serve,
        context: method.context,
        request: hythe_rpc_request {
            method: call.method(),
            task: call.task(),
            timeout_ns: u64::try_from(call.timeout().as_nanos()).unwrap_or(u64::MAX),
            argument: match argument.is_empty() {
                true => std::ptr::null(),
                false => argument.as_ptr(),
            },
            argument_bytes: argument.len(),
        },
        reply: hythe_rpc_reply {
            result: lease.as_mut_slice(decision)[HEADER_BYTES..].as_mut_ptr(),
            capacity,
            bytes: 0,
        },
    });
    port.serving = Some(Serving {
        call,
        lease,
        capacity,
        argument: copied,
    });
    Ok(1)
}

/// Replies as the method has returned. False: the caller is gone.
fn answer(serving: Serving, number: c_int, bytes: usize) -> Result<bool, Refusal> {
    let Serving {
        call,
        lease,
        capacity,
        ..
    } = serving;
    match u32::try_from(number).map(NonZeroU32::new) {
        Ok(None) if bytes <= capacity => Ok(call.reply_in(lease, bytes)?),
        Ok(refused) => {
            // First: the answer may need its place.
            drop(lease);
            Ok(match refused {
                Some(number) => call.fail(number)?,
                None => call.refuse_size(bytes)?,
            })
        }
        Err(_) => Err(Refusal::argument(format!(
            "method {} returned {number}: 0 is done, and failures are from 1 on",
            call.method()
        ))),
    }
}

fn unless_caller_lost(port: &hythe_server, answered: bool) -> Result<c_int, Refusal> {
    if answered {
        return Ok(1);
    }
    let text = format!(
        "the caller over channel `{}` is gone",
        port.server.channel()
    );
    Err(Refusal::new(code::HYTHE_ECALLERLOST, text))
}
