//! `hythe_task_message`: a message that a task has received, to read. Read in place only by
//! decision of trust. Never written.

use core::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hythe::TrustPeers;
use hythe::tasks::Message;

use crate::bytes::{inside, writable};
use crate::code;
use crate::ffi_guard::{Handle, Process, Refusal, cross, end, open, place};
use crate::origin::Origin;

/// A message of a task. Any number of threads may read it at once.
#[derive(Debug)]
pub struct hythe_task_message {
    origin: Origin,
    message: Message,
}

impl Handle for hythe_task_message {
    const NOUN: &'static str = "message of a task";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// As a handle of the caller's.
pub(crate) fn give(origin: Origin, message: Message) -> *mut hythe_task_message {
    Box::into_raw(Box::new(hythe_task_message { origin, message }))
}

/// The number of the task that sent it, as it says; 0 for NULL. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_message_source(message: Option<&hythe_task_message>) -> u32 {
    of(message, |message| message.source().number())
}

/// Its tag; 0 for NULL. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_message_tag(message: Option<&hythe_task_message>) -> u32 {
    of(message, Message::tag)
}

/// How many bytes it has; 0 for NULL. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_message_length(message: Option<&hythe_task_message>) -> usize {
    of(message, Message::len)
}

/// Copies `count` bytes out, from its byte `at` on. HYTHE_EARGUMENT: it has not so many; nothing is
/// copied. Any thread.
///
/// # Safety
/// `into` points to `count` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_message_read(
    message: Option<&hythe_task_message>,
    at: usize,
    into: *mut c_void,
    count: usize,
) -> c_int {
    cross(|| {
        let message = &open(message)?.message;
        inside(at, count, message.len(), "a message")?;
        // SAFETY: the caller's word.
        let into = unsafe { writable(into, count) }?;
        message.read(at, into);
        Ok(0)
    })
}

/// The message in place: hythe_task_message_length() bytes from `*data` on, valid until it is
/// released. HYTHE_ETRUST unless the task has `trust_peers`: a process that may write the pool
/// could change the bytes while they are read. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_message_data(
    message: Option<&hythe_task_message>,
    data: Option<&mut MaybeUninit<*const c_void>>,
) -> c_int {
    cross(|| {
        let place = place(data, "place for the pointer")?;
        place.write(std::ptr::null());
        let message = open(message)?;
        if !message.origin.trusts {
            let text = "reading in place trusts every writer of the pool: set trust_peers of the task, or copy with hythe_task_message_read()";
            return Err(Refusal::new(code::HYTHE_ETRUST, text));
        }
        // The program has decided so, where it joined.
        let decision = TrustPeers::i_trust_every_writer_of_this_pool();
        place.write(message.message.as_slice(decision).as_ptr().cast());
        Ok(0)
    })
}

/// Releases a message, or does nothing for NULL. Consumes `message`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_message_release(message: Option<Box<hythe_task_message>>) {
    end(message);
}

fn of<T: Default>(message: Option<&hythe_task_message>, what: impl FnOnce(&Message) -> T) -> T {
    let mut found = T::default();
    cross(|| {
        found = what(&open(message)?.message);
        Ok(0)
    });
    found
}
