//! `hythe_mq_open` and its family: mq_open(3), mq_send(3) and so on, for message queues that live
//! in a pool.
//!
//! These return -1 and set errno, as the calls do whose place they take; what failed is told by
//! `hythe_last_error()`, too. A descriptor is a number of this library, not a file descriptor
//! (hythe_mq_fd() gives one), and works in a forked child: there the first call on it joins the
//! pool anew.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hythe::sync::{Deadline, MessageQueue, MessageQueueOptions, SyncError};
use hythe_sys::fork::ForkSafe;
use hythe_sys::signals::unblock_faults;

use crate::ffi_guard::Process;
use crate::process::{self, cross, system};

/// A message queue that is open: as mqd_t. (hythe_mqd_t)-1: none.
pub type hythe_mqd_t = c_int;

/// Most message queues that a process has open.
const DESCRIPTORS_MAX: usize = 128;

/// What a descriptor leads to.
#[derive(Clone, Debug)]
struct Open {
    queue: Arc<MessageQueue>,
    is_nonblocking: Arc<AtomicBool>,
    process: Process,
}

static DESCRIPTORS: ForkSafe<Vec<Option<Open>>> = ForkSafe::new(Vec::new());

fn not_open() -> SyncError {
    system("using a message queue that is not open", libc::EBADF)
}

/// The queue, as this process has it.
fn opened(mqdes: hythe_mqd_t) -> Result<Open, SyncError> {
    let mut descriptors = DESCRIPTORS.lock();
    let place = usize::try_from(mqdes).ok();
    let place = place.and_then(|index| descriptors.get_mut(index)?.as_mut());
    let open = place.ok_or_else(not_open)?;
    if !open.process.is_own() {
        let node = process::node()?;
        let again = Arc::new(open.queue.reopen(&node)?);
        // The parent's: another thread of it may have been in it.
        std::mem::forget(std::mem::replace(&mut open.queue, again));
        open.process = Process::own();
    }
    Ok(open.clone())
}

/// As mq_open(3), with `mode` and `attributes` in any case: hythe_mq_open() of this header is the
/// function with the arguments of mq_open(3). A queue has 64 messages at most, of 65536 bytes at
/// most; without attributes 10 of 8192. The pool is that of the environment's HYTHE_POOL, else
/// `default`. Any thread.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_mq_open_with(
    name: *const c_char,
    oflag: c_int,
    mode: c_uint,
    attributes: Option<&libc::mq_attr>,
) -> hythe_mqd_t {
    cross(-1, || {
        // SAFETY: the caller's word.
        let name = unsafe { process::name(name) }?;
        let access = oflag & libc::O_ACCMODE;
        let (receives, sends) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
        let mut options = MessageQueueOptions::default()
            .mode(mode & !process::mask())
            .exclusive(oflag & libc::O_EXCL != 0)
            .directions(receives, sends);
        if oflag & libc::O_CREAT != 0 {
            let (messages, bytes) = match attributes {
                None => (
                    MessageQueueOptions::MESSAGES,
                    MessageQueueOptions::MESSAGE_BYTES,
                ),
                Some(asked) => (limit(asked.mq_maxmsg), limit(asked.mq_msgsize)),
            };
            options = options.create(messages, bytes);
        }
        let node = process::node()?;
        let open = Open {
            queue: Arc::new(MessageQueue::open(&node, name, &options)?),
            is_nonblocking: Arc::new(AtomicBool::new(oflag & libc::O_NONBLOCK != 0)),
            process: Process::own(),
        };
        add(open)
    })
}

/// A number that is out of range in any case stays so.
fn limit(asked: impl TryInto<u32>) -> u32 {
    asked.try_into().unwrap_or(0)
}

fn add(open: Open) -> Result<hythe_mqd_t, SyncError> {
    let mut descriptors = DESCRIPTORS.lock();
    let free = descriptors.iter().position(Option::is_none);
    let index = free.unwrap_or(descriptors.len());
    if index == DESCRIPTORS_MAX {
        return Err(system("opening a message queue", libc::EMFILE));
    }
    if free.is_none() {
        descriptors.push(None);
    }
    descriptors[index] = Some(open);
    Ok(index as hythe_mqd_t)
}

/// As mq_close(3): who was to be notified by this descriptor is not any more. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_mq_close(mqdes: hythe_mqd_t) -> c_int {
    cross(-1, || {
        let open = opened(mqdes)?;
        // The lock goes before the queue does.
        let taken = DESCRIPTORS.lock()[mqdes as usize].take();
        drop((taken, open));
        Ok(0)
    })
}

/// As mq_unlink(3). Any thread.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_mq_unlink(name: *const c_char) -> c_int {
    cross(-1, || {
        // SAFETY: the caller's word.
        let name = unsafe { process::name(name) }?;
        let node = process::node()?;
        MessageQueue::unlink(&node, name)?;
        Ok(0)
    })
}

/// As mq_send(3): priorities are 0 to 31. Any thread.
///
/// # Safety
/// `message` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_mq_send(
    mqdes: hythe_mqd_t,
    message: *const c_char,
    bytes: usize,
    priority: c_uint,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { hythe_mq_timedsend(mqdes, message, bytes, priority, None) }
}

/// As mq_timedsend(3). A signal handler always ends the wait with EINTR, also one with SA_RESTART.
/// Any thread.
///
/// # Safety
/// `message` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_mq_timedsend(
    mqdes: hythe_mqd_t,
    message: *const c_char,
    bytes: usize,
    priority: c_uint,
    abs_timeout: Option<&libc::timespec>,
) -> c_int {
    cross(-1, || {
        let open = opened(mqdes)?;
        let message: &[u8] = if bytes == 0 {
            &[]
        } else {
            // SAFETY: the caller's word.
            unsafe { std::slice::from_raw_parts(message.cast(), bytes) }
        };
        open.wait(abs_timeout, |deadline| {
            open.queue.send_copy(message, priority, deadline)
        })?;
        Ok(0)
    })
}

/// As mq_receive(3). Any thread.
///
/// # Safety
/// `message` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_mq_receive(
    mqdes: hythe_mqd_t,
    message: *mut c_char,
    bytes: usize,
    priority: Option<&mut c_uint>,
) -> isize {
    // SAFETY: the caller's word.
    unsafe { hythe_mq_timedreceive(mqdes, message, bytes, priority, None) }
}

/// As mq_timedreceive(3). A signal handler always ends the wait with EINTR, also one with
/// SA_RESTART. Any thread.
///
/// # Safety
/// `message` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_mq_timedreceive(
    mqdes: hythe_mqd_t,
    message: *mut c_char,
    bytes: usize,
    priority: Option<&mut c_uint>,
    abs_timeout: Option<&libc::timespec>,
) -> isize {
    cross(-1, || {
        let open = opened(mqdes)?;
        let limit = open.queue.message_bytes() as usize;
        if bytes < limit {
            return Err(SyncError::MessageSize { bytes, limit });
        }
        let received = open.wait(abs_timeout, |deadline| open.queue.receive(deadline))?;
        let length = received.sample.len().min(bytes);
        // SAFETY: the caller's word.
        let into = unsafe { std::slice::from_raw_parts_mut(message.cast::<u8>(), length) };
        received.sample.read(0, into);
        if let Some(place) = priority {
            *place = received.priority;
        }
        Ok(length as isize)
    })
}

impl Open {
    /// With the time until which to wait. A wrong one is an error only if it is needed.
    fn wait<T>(
        &self,
        abs_timeout: Option<&libc::timespec>,
        act: impl Fn(Deadline) -> Result<T, SyncError>,
    ) -> Result<T, SyncError> {
        if self.is_nonblocking.load(Ordering::Relaxed) {
            return act(Deadline::Now);
        }
        match process::deadline(abs_timeout) {
            Ok(deadline) => act(deadline),
            Err(refused) => match act(Deadline::Now) {
                Err(SyncError::WouldBlock(_)) => Err(refused),
                done => done,
            },
        }
    }

    fn attributes(&self) -> Result<libc::mq_attr, SyncError> {
        // SAFETY: numbers only, for which zeroes are right.
        let mut found: libc::mq_attr = unsafe { std::mem::zeroed() };
        let is_nonblocking = self.is_nonblocking.load(Ordering::Relaxed);
        let flags = if is_nonblocking { libc::O_NONBLOCK } else { 0 };
        found.mq_flags = c_long::from(flags) as _;
        found.mq_maxmsg = self.queue.messages_limit() as _;
        found.mq_msgsize = self.queue.message_bytes() as _;
        found.mq_curmsgs = self.queue.queued()? as _;
        Ok(found)
    }
}

/// As mq_getattr(3). Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_mq_getattr(
    mqdes: hythe_mqd_t,
    attributes: Option<&mut libc::mq_attr>,
) -> c_int {
    cross(-1, || {
        let found = opened(mqdes)?.attributes()?;
        if let Some(place) = attributes {
            *place = found;
        }
        Ok(0)
    })
}

/// As mq_setattr(3): O_NONBLOCK is all that changes. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_mq_setattr(
    mqdes: hythe_mqd_t,
    attributes: Option<&libc::mq_attr>,
    before: Option<&mut libc::mq_attr>,
) -> c_int {
    cross(-1, || {
        let open = opened(mqdes)?;
        let found = open.attributes()?;
        let asked = attributes.ok_or_else(|| system("setting no attributes", libc::EINVAL))?;
        let is_nonblocking = asked.mq_flags as c_int & libc::O_NONBLOCK != 0;
        open.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
        if let Some(place) = before {
            *place = found;
        }
        Ok(0)
    })
}

/// As mq_notify(3): SIGEV_SIGNAL, SIGEV_THREAD and SIGEV_NONE. Notified is within 100 ms. Any
/// thread.
///
/// # Safety
/// A function in `notification` is called with its value, on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_mq_notify(
    mqdes: hythe_mqd_t,
    notification: *const libc::sigevent,
) -> c_int {
    cross(-1, || {
        let open = opened(mqdes)?;
        if notification.is_null() {
            open.queue.forget_notification()?;
            return Ok(0);
        }
        // SAFETY: the caller's word.
        let asked = unsafe { notification.cast::<Notification>().read() };
        match asked.notify {
            libc::SIGEV_NONE => open.queue.notify(Box::new(|| {}))?,
            libc::SIGEV_SIGNAL => open.queue.notify(Box::new(move || signal(&asked)))?,
            libc::SIGEV_THREAD => open.queue.notify(Box::new(move || start_thread(asked)))?,
            _ => return Err(system("an unknown notification", libc::EINVAL)),
        }
        Ok(0)
    })
}

/// The start of a `struct sigevent`, with the function that the crate libc does not show.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Notification {
    value: usize,
    signo: c_int,
    notify: c_int,
    function: Option<unsafe extern "C-unwind" fn(usize)>,
    attributes: usize,
}

// SAFETY: numbers and a function; what they point to is the caller's word.
unsafe impl Send for Notification {}

/// Calls the function on a thread of its own, as POSIX says: one of the C library's alone, where
/// pthread_exit() works, and an exception that nobody catches ends the program with its own words.
fn start_thread(asked: Notification) {
    type Started = extern "C" fn(*mut c_void) -> *mut c_void;
    type Unwinding = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
    // SAFETY: the same in all but what Rust code that calls it may assume, and none does: the C
    // library lets a thread's function unwind.
    let notify = unsafe { std::mem::transmute::<Unwinding, Started>(notify) };
    let asked = Box::into_raw(Box::new(asked));
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the function takes what is passed; attributes may be NULL.
    let refused =
        unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), notify, asked.cast()) };
    if refused != 0 {
        // SAFETY: made above, and no thread has it.
        drop(unsafe { Box::from_raw(asked) });
        return;
    }
    // SAFETY: the call succeeded, so it has written the thread.
    let thread = unsafe { thread.assume_init() };
    // SAFETY: a thread that nobody joins.
    unsafe { libc::pthread_detach(thread) };
}

extern "C-unwind" fn notify(asked: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` passes such a box, once.
    let asked = *unsafe { Box::from_raw(asked.cast::<Notification>()) };
    unblock_faults();
    if let Some(function) = asked.function {
        // SAFETY: the caller's word; a union of one word is passed as that word is.
        unsafe { function(asked.value) };
    }
    ptr::null_mut()
}

/// The start of a `siginfo_t` of a signal that is queued.
#[repr(C)]
struct Queued {
    signo: c_int,
    errno: c_int,
    code: c_int,
    #[cfg(target_pointer_width = "64")]
    padding: c_int,
    pid: c_int,
    uid: c_uint,
    value: usize,
    rest: [usize; 16],
}

/// Of `<bits/siginfo-consts.h>`.
const SI_MESGQ: c_int = -3;

fn signal(asked: &Notification) {
    // SAFETY: it takes nothing.
    let (pid, uid) = (unsafe { libc::getpid() }, unsafe { libc::getuid() });
    let queued = Queued {
        signo: asked.signo,
        errno: 0,
        code: SI_MESGQ,
        #[cfg(target_pointer_width = "64")]
        padding: 0,
        pid,
        uid,
        value: asked.value,
        rest: [0; 16],
    };
    // SAFETY: the record is as large as the kernel reads, and is only read.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigqueueinfo,
            pid,
            asked.signo,
            ptr::from_ref(&queued).cast::<c_void>(),
        )
    };
}

/// A file descriptor that is readable while a message waits, for poll(), epoll and
/// hythe_wait_set_attach_fd(). It belongs to the queue: never close or read it. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_mq_fd(mqdes: hythe_mqd_t) -> c_int {
    cross(-1, || {
        let open = opened(mqdes)?;
        Ok(open.queue.descriptor()?.as_raw_fd())
    })
}
