//! `hythe_wait_set`: one bounded wait for many ports and file descriptors. Never takes a message
//! itself.

use core::ffi::c_int;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use hythe::wait::{Event, Interest, Token, WaitSet, Waitable};

use crate::client::hythe_client;
use crate::event::hythe_listener;
use crate::ffi_guard::{
    Handle, Process, Refusal, count, cross, empty_place, end, missing, open, open_mut,
};
use crate::node::hythe_node;
use crate::origin::Origin;
use crate::server::hythe_server;
use crate::subscriber::hythe_subscriber;

/// A port may have a message: try to take it. A file descriptor can be read.
pub const HYTHE_READABLE: u32 = 1;
/// A file descriptor can be written.
pub const HYTHE_WRITABLE: u32 = 2;
/// The other end of a file descriptor was closed, or it has an error.
pub const HYTHE_CLOSED: u32 = 4;

/// Something is ready.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_ready {
    /// The key under which it was attached.
    pub key: u64,
    /// How it is ready: HYTHE_READABLE, HYTHE_WRITABLE, HYTHE_CLOSED, or several.
    pub how: u32,
    /// Zero.
    pub reserved: u32,
}

/// Waits for any number of ports and file descriptors at once. One thread at a time, any thread.
/// Level-triggered: each wait reports a port while it has messages. A node may have several wait
/// sets, for different ports.
#[derive(Debug)]
pub struct hythe_wait_set {
    origin: Origin,
    wait_set: WaitSet,
    keys: HashMap<Token, u64>,
    /// Where the next report begins, where not all fit into one.
    turn: usize,
}

impl Handle for hythe_wait_set {
    const NOUN: &'static str = "wait set";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Makes a wait set for ports of this node, and for file descriptors. The result is the caller's,
/// until hythe_wait_set_close(). HYTHE_EWAITSET: too many open files. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_open(
    node: Option<&hythe_node>,
    wait_set: Option<&mut MaybeUninit<*mut hythe_wait_set>>,
) -> c_int {
    cross(|| {
        let place = empty_place(wait_set)?;
        let node = open(node)?;
        let opened = hythe_wait_set {
            origin: node.origin,
            wait_set: node.node.wait_set()?,
            keys: HashMap::new(),
            turn: 0,
        };
        place.write(Box::into_raw(Box::new(opened)));
        Ok(0)
    })
}

/// Closes a wait set, or does nothing for NULL. What was attached stays open. Consumes `wait_set`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_close(wait_set: Option<Box<hythe_wait_set>>) {
    end(wait_set);
}

impl hythe_wait_set {
    fn attach(&mut self, port: &mut impl Waitable, key: u64) -> Result<c_int, Refusal> {
        let token = self.wait_set.attach(port)?;
        // What had the token before is gone.
        self.keys.insert(token, key);
        Ok(0)
    }
}

/// Attaches a subscriber, to wait for its messages; reports name it by `key`. The caller keeps the
/// subscriber, which detaches itself when it is closed. HYTHE_EATTACHED: it is attached to a wait
/// set already. HYTHE_EARGUMENT: it belongs to another node.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_attach_subscriber(
    wait_set: Option<&mut hythe_wait_set>,
    subscriber: Option<&mut hythe_subscriber>,
    key: u64,
) -> c_int {
    cross(|| open_mut(wait_set)?.attach(&mut open_mut(subscriber)?.subscriber, key))
}

/// Attaches a server, to wait for its requests. Otherwise as hythe_wait_set_attach_subscriber().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_attach_server(
    wait_set: Option<&mut hythe_wait_set>,
    server: Option<&mut hythe_server>,
    key: u64,
) -> c_int {
    cross(|| open_mut(wait_set)?.attach(&mut open_mut(server)?.server, key))
}

/// Attaches a client, to wait for its replies, and for the end of servers that owe it one.
/// Otherwise as hythe_wait_set_attach_subscriber().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_attach_client(
    wait_set: Option<&mut hythe_wait_set>,
    client: Option<&mut hythe_client>,
    key: u64,
) -> c_int {
    cross(|| open_mut(wait_set)?.attach(&mut open_mut(client)?.client, key))
}

/// Attaches a listener, to wait for its events. Otherwise as hythe_wait_set_attach_subscriber().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_attach_listener(
    wait_set: Option<&mut hythe_wait_set>,
    listener: Option<&mut hythe_listener>,
    key: u64,
) -> c_int {
    cross(|| open_mut(wait_set)?.attach(&mut open_mut(listener)?.listener, key))
}

/// Attaches a file descriptor, to wait until it is HYTHE_READABLE, HYTHE_WRITABLE, or either. The
/// wait set keeps a duplicate until hythe_wait_set_detach(). HYTHE_EWAITSET: a kind of file that
/// is always ready, or not open.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_attach_fd(
    wait_set: Option<&mut hythe_wait_set>,
    file: c_int,
    interest: u32,
    key: u64,
) -> c_int {
    const BOTH: u32 = HYTHE_READABLE | HYTHE_WRITABLE;
    cross(|| {
        let wait_set = open_mut(wait_set)?;
        let interest = match interest {
            HYTHE_READABLE => Interest::Readable,
            HYTHE_WRITABLE => Interest::Writable,
            BOTH => Interest::Both,
            other => {
                return Err(Refusal::argument(format!(
                    "a file descriptor is watched for HYTHE_READABLE, HYTHE_WRITABLE or both, not {other}"
                )));
            }
        };
        if file < 0 {
            return Err(Refusal::argument(format!(
                "{file} is not a file descriptor"
            )));
        }
        // SAFETY: it is not -1; that it is open for the length of the call is the caller's word,
        // and the kernel looks.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let token = wait_set.wait_set.attach_fd(file, interest)?;
        wait_set.keys.insert(token, key);
        Ok(0)
    })
}

/// Detaches all ports and file descriptors with this key. Returns their number. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_detach(wait_set: Option<&mut hythe_wait_set>, key: u64) -> c_int {
    cross(|| {
        let wait_set = open_mut(wait_set)?;
        let found = wait_set.keys.iter().filter(|(_, found)| **found == key);
        let tokens: Vec<Token> = found.map(|(token, _)| *token).collect();
        let mut detached = 0;
        for token in tokens {
            wait_set.keys.remove(&token);
            detached += usize::from(wait_set.wait_set.detach(token));
        }
        Ok(count(detached))
    })
}

/// Waits until something is ready. Returns the number of reports in `ready`, at most `places`; the
/// next wait returns those that do not fit. 0: `timeout_ns` has passed. A reported port may have
/// no message: try to take, do not wait for one. Blocks for at most `timeout_ns`.
/// # Safety
/// `ready` points to `places` structs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_wait_set_wait(
    wait_set: Option<&mut hythe_wait_set>,
    timeout_ns: u64,
    ready: *mut hythe_ready,
    places: usize,
) -> c_int {
    cross(|| {
        let hythe_wait_set {
            wait_set,
            keys,
            turn,
            ..
        } = open_mut(wait_set)?;
        if ready.is_null() || places == 0 {
            return Err(missing("place for what is ready"));
        }
        let events = wait_set.wait(Duration::from_nanos(timeout_ns))?;
        let told = events.len().min(places);
        let start = *turn;
        *turn = if told < events.len() { start + told } else { 0 };
        for at in 0..told {
            let event = &events[(start + at) % events.len()];
            // SAFETY: `at` is less than `places`, of which the caller says that they are there.
            let place = unsafe { ready.add(at) };
            // SAFETY: as above.
            unsafe { place.write(tell(event, keys)) };
        }
        Ok(count(told))
    })
}

fn tell(event: &Event, keys: &HashMap<Token, u64>) -> hythe_ready {
    let bit = |is: bool, bit: u32| if is { bit } else { 0 };
    hythe_ready {
        key: keys.get(&event.token()).copied().unwrap_or_default(),
        how: bit(event.is_readable(), HYTHE_READABLE)
            | bit(event.is_writable(), HYTHE_WRITABLE)
            | bit(event.is_closed(), HYTHE_CLOSED),
        reserved: 0,
    }
}

/// The wait set as a file descriptor, for poll(), epoll and event loops: readable while something
/// may be ready. Only a hythe_wait_set_wait() that returns 0 makes it unreadable: call that with a
/// time-out of 0 until then. It belongs to the wait set: never close it.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_wait_set_fd(wait_set: Option<&hythe_wait_set>) -> c_int {
    cross(|| Ok(open(wait_set)?.wait_set.as_raw_fd()))
}
