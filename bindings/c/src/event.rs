//! `hythe_notifier` and `hythe_listener`: events, without payload. Never queues one: those of one
//! number coalesce.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use hythe::event::{EventId, EventSet, Listener, Notifier};

use crate::ffi_guard::{Handle, Process, Refusal, count, cross, end, open, open_mut, place};
use crate::node::hythe_node;
use crate::origin::Origin;
use crate::port;
use crate::statistics::{hythe_statistics, tell_counted};

/// Events of a channel: numbered from 0 to one less; event n is bit n of a set, HYTHE_EVENT(n).
pub const HYTHE_EVENTS_MAX: u32 = 40;
const _: () = assert!(HYTHE_EVENTS_MAX == EventId::COUNT as u32);

/// The sending end of an event channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_notifier {
    origin: Origin,
    notifier: Notifier,
}

impl Handle for hythe_notifier {
    const NOUN: &'static str = "notifier";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// The receiving end of an event channel. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_listener {
    origin: Origin,
    pub(crate) listener: Listener,
}

impl Handle for hythe_listener {
    const NOUN: &'static str = "listener";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Opens a notifier of an event channel, which is made if there is none. The result is the
/// caller's, until hythe_notifier_close(). HYTHE_EMISMATCH, HYTHE_ETABLEFULL. Does not block,
/// except for a core behind the channel: until it has answered, for at most 5 s.
///
/// # Safety
/// `channel` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_notifier_open(
    node: Option<&hythe_node>,
    channel: *const c_char,
    notifier: Option<&mut MaybeUninit<*mut hythe_notifier>>,
) -> c_int {
    let make = |node: &hythe_node, channel: &str| {
        Ok(hythe_notifier {
            origin: node.origin,
            notifier: node.node.notifier(channel)?,
        })
    };
    // SAFETY: the caller's word.
    unsafe { port::open_on(node, channel, notifier, make) }
}

/// Closes a notifier, or does nothing for NULL. Consumes `notifier`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_notifier_close(notifier: Option<Box<hythe_notifier>>) {
    end(notifier);
}

/// Raises a set of events at every listener. Returns the number of listeners. An event that is
/// raised again before a listener takes it is taken once. A listener that takes an event sees all
/// that was written before.
/// Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_notifier_notify(
    notifier: Option<&mut hythe_notifier>,
    events: u64,
) -> c_int {
    cross(|| {
        let notifier = &mut open_mut(notifier)?.notifier;
        let set = EventSet::from_bits(events);
        if set.bits() != events || set.is_empty() {
            return Err(Refusal::argument(format!(
                "{events:#x} is not a set of events: bits 0 to {} are, at least one",
                HYTHE_EVENTS_MAX - 1
            )));
        }
        Ok(count(notifier.notify(set)?))
    })
}

/// How many listeners there are. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_notifier_listeners(notifier: Option<&mut hythe_notifier>) -> c_int {
    cross(|| Ok(count(open_mut(notifier)?.notifier.listeners()?)))
}

/// Waits until there are at least `listeners`. Returns 1, or 0 if `timeout_ns` has passed. Blocks
/// for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_notifier_wait_for_listeners(
    notifier: Option<&mut hythe_notifier>,
    listeners: usize,
    timeout_ns: u64,
) -> c_int {
    cross(|| {
        let notifier = &mut open_mut(notifier)?.notifier;
        let timeout = Duration::from_nanos(timeout_ns);
        let enough = notifier.wait_for_listeners(listeners, timeout)?;
        Ok(c_int::from(enough))
    })
}

/// Reads the counters of this port. The caller sets the size in `statistics`.
///
/// # Safety
/// `statistics` has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_notifier_statistics(
    notifier: Option<&hythe_notifier>,
    statistics: *mut hythe_statistics,
) -> c_int {
    let counted = || Ok(open(notifier)?.notifier.statistics());
    // SAFETY: the caller's word.
    unsafe { tell_counted(counted, statistics) }
}

/// Opens a listener of an event channel, which is made if there is none. It gets events that are
/// raised from now on. The result is the caller's, until hythe_listener_close(). HYTHE_EMISMATCH,
/// HYTHE_ETABLEFULL. Does not block, except for a core behind the channel: until it has answered,
/// for at most 5 s.
///
/// # Safety
/// `channel` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_listener_open(
    node: Option<&hythe_node>,
    channel: *const c_char,
    listener: Option<&mut MaybeUninit<*mut hythe_listener>>,
) -> c_int {
    let make = |node: &hythe_node, channel: &str| {
        Ok(hythe_listener {
            origin: node.origin,
            listener: node.node.listener(channel)?,
        })
    };
    // SAFETY: the caller's word.
    unsafe { port::open_on(node, channel, listener, make) }
}

/// Closes a listener, or does nothing for NULL. Consumes `listener`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_listener_close(listener: Option<Box<hythe_listener>>) {
    end(listener);
}

/// Takes the events that were raised since the last take. Returns 1 and the set in `*events`. 0:
/// none were, and the set is empty. Blocks for at most `timeout_ns` for the first.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_listener_wait(
    listener: Option<&mut hythe_listener>,
    timeout_ns: u64,
    events: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    cross(|| {
        let place = place(events, "place for the events")?;
        place.write(0);
        let listener = &mut open_mut(listener)?.listener;
        let taken = listener.wait(Duration::from_nanos(timeout_ns))?;
        place.write(taken.bits());
        Ok(c_int::from(!taken.is_empty()))
    })
}

/// As hythe_listener_wait(). Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_listener_try_take(
    listener: Option<&mut hythe_listener>,
    events: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    cross(|| {
        let place = place(events, "place for the events")?;
        place.write(0);
        let taken = open_mut(listener)?.listener.try_take()?;
        place.write(taken.bits());
        Ok(c_int::from(!taken.is_empty()))
    })
}

/// Reads the counters of this port. The caller sets the size in `statistics`.
///
/// # Safety
/// `statistics` has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_listener_statistics(
    listener: Option<&hythe_listener>,
    statistics: *mut hythe_statistics,
) -> c_int {
    let counted = || Ok(open(listener)?.listener.statistics());
    // SAFETY: the caller's word.
    unsafe { tell_counted(counted, statistics) }
}
