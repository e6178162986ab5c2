//! `hythe_waiter`: one bounded wait for many ports and file descriptors. Never takes a message itself.

use core::ffi::c_int;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use hythe::wait::{Event, Interest, Token, Waitable, Waiter};

use crate::border::{
    Handle, Process, Refusal, count, cross, empty_place, end, missing, open, open_mut,
};
use crate::client::hythe_client;
use crate::event::hythe_listener;
use crate::node::hythe_node;
use crate::origin::Origin;
use crate::server::hythe_server;
use crate::subscriber::hythe_subscriber;

/// A port: something is there, try to take. A file descriptor: it can be read.
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

/// One wait for any number of ports and file descriptors. One thread at a time, any thread. Level-triggered: what is attached is
/// reported by each wait while something is there. A node may have several waiters, for different ports.
#[derive(Debug)]
pub struct hythe_waiter {
    origin: Origin,
    waiter: Waiter,
    keys: HashMap<Token, u64>,
    /// Where the next report begins, where not all fit into one.
    turn: usize,
}

impl Handle for hythe_waiter {
    const NOUN: &'static str = "waiter";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Makes a waiter for ports of this node, and for file descriptors. The result is the caller's, until hythe_waiter_close().
/// HYTHE_EWAITER: too many open files. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_open(
    node: Option<&hythe_node>,
    waiter: Option<&mut MaybeUninit<*mut hythe_waiter>>,
) -> c_int {
    cross(|| {
        let place = empty_place(waiter)?;
        let node = open(node)?;
        let opened = hythe_waiter {
            origin: node.origin,
            waiter: node.node.waiter()?,
            keys: HashMap::new(),
            turn: 0,
        };
        place.write(Box::into_raw(Box::new(opened)));
        Ok(0)
    })
}

/// Closes a waiter, or does nothing for NULL. What was attached stays open. Consumes `waiter`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_close(waiter: Option<Box<hythe_waiter>>) {
    end(waiter);
}

impl hythe_waiter {
    fn attach(&mut self, port: &mut impl Waitable, key: u64) -> Result<c_int, Refusal> {
        let token = self.waiter.attach(port)?;
        // What had the token before is gone.
        self.keys.insert(token, key);
        Ok(0)
    }
}

/// Waits for a subscriber's messages from now on, too; `key` is what the waiter calls it. The subscriber stays the caller's, and
/// detaches itself when it is closed. HYTHE_EATTACHED: a waiter has it already. HYTHE_EARGUMENT: it is another node's.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_attach_subscriber(
    waiter: Option<&mut hythe_waiter>,
    subscriber: Option<&mut hythe_subscriber>,
    key: u64,
) -> c_int {
    cross(|| open_mut(waiter)?.attach(&mut open_mut(subscriber)?.subscriber, key))
}

/// Waits for a server's requests from now on, too. Otherwise as hythe_waiter_attach_subscriber().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_attach_server(
    waiter: Option<&mut hythe_waiter>,
    server: Option<&mut hythe_server>,
    key: u64,
) -> c_int {
    cross(|| open_mut(waiter)?.attach(&mut open_mut(server)?.server, key))
}

/// Waits for a client's replies from now on, too, and for the end of servers that owe it some. Otherwise as
/// hythe_waiter_attach_subscriber().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_attach_client(
    waiter: Option<&mut hythe_waiter>,
    client: Option<&mut hythe_client>,
    key: u64,
) -> c_int {
    cross(|| open_mut(waiter)?.attach(&mut open_mut(client)?.client, key))
}

/// Waits for a listener's events from now on, too. Otherwise as hythe_waiter_attach_subscriber().
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_attach_listener(
    waiter: Option<&mut hythe_waiter>,
    listener: Option<&mut hythe_listener>,
    key: u64,
) -> c_int {
    cross(|| open_mut(waiter)?.attach(&mut open_mut(listener)?.listener, key))
}

/// Waits for a file descriptor from now on, too: that it is HYTHE_READABLE, HYTHE_WRITABLE, or both. The waiter keeps a duplicate,
/// until hythe_waiter_detach(). HYTHE_EWAITER: a kind of file that is always ready, or not open.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_attach_fd(
    waiter: Option<&mut hythe_waiter>,
    file: c_int,
    interest: u32,
    key: u64,
) -> c_int {
    const BOTH: u32 = HYTHE_READABLE | HYTHE_WRITABLE;
    cross(|| {
        let waiter = open_mut(waiter)?;
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
        // SAFETY: it is not -1; that it is open for the length of the call is the caller's word, and the kernel looks.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let token = waiter.waiter.attach_fd(file, interest)?;
        waiter.keys.insert(token, key);
        Ok(0)
    })
}

/// Waits no longer for what has this key. Returns how many things had it and were still there. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_detach(waiter: Option<&mut hythe_waiter>, key: u64) -> c_int {
    cross(|| {
        let waiter = open_mut(waiter)?;
        let found = waiter.keys.iter().filter(|(_, found)| **found == key);
        let tokens: Vec<Token> = found.map(|(token, _)| *token).collect();
        let mut detached = 0;
        for token in tokens {
            waiter.keys.remove(&token);
            detached += usize::from(waiter.waiter.detach(token));
        }
        Ok(count(detached))
    })
}

/// Waits until something is ready. Returns how many of `ready` tell what, at most `places`; what does not fit is told by the next
/// wait. 0: the time was over first. A port may turn out to have nothing after all: try to take, do not wait there. Blocks for at
/// most `timeout_ns`.
///
/// # Safety
/// `ready` points to `places` structs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_waiter_wait(
    waiter: Option<&mut hythe_waiter>,
    timeout_ns: u64,
    ready: *mut hythe_ready,
    places: usize,
) -> c_int {
    cross(|| {
        let hythe_waiter {
            waiter, keys, turn, ..
        } = open_mut(waiter)?;
        if ready.is_null() || places == 0 {
            return Err(missing("place for what is ready"));
        }
        let events = waiter.wait(Duration::from_nanos(timeout_ns))?;
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

/// The waiter as a file descriptor, for poll(), epoll and event loops: readable while something may be ready. Only a
/// hythe_waiter_wait() that returns 0 makes it unreadable: call that with a time-out of 0 until then. It belongs to the waiter: never
/// close it.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_waiter_fd(waiter: Option<&hythe_waiter>) -> c_int {
    cross(|| Ok(open(waiter)?.waiter.as_raw_fd()))
}
