//! A thread that watches one object: for a file descriptor that is readable while the object is
//! ready, and for who is to be notified.
//!
//! Started with the first file descriptor or notification of a handle, and ends with it. What its
//! own process takes makes the descriptor unreadable before that call returns; what others do, as
//! soon as the thread has run. Takes no signals.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use hythe_abi::objects::header;
use hythe_memory::{Mapped, Memory};
use hythe_pool::ObjectKind;
use hythe_sys::own_file::OwnFile;
use hythe_sys::signals::SignalsBlocked;
use rustix::event::{EventfdFlags, eventfd};

use super::open::Opened;
use super::{LONGEST_NAP, SyncError};

/// What is called when a message comes.
pub(super) type Callback = Box<dyn FnOnce() + Send>;

/// The watched object. Its end ends the thread.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    opened: Opened,
    event: OwnFile<OwnedFd>,
    /// Is the descriptor readable?
    is_readable: Mutex<bool>,
    /// The registration's number, and what it is for.
    notification: Mutex<Option<(u32, Callback)>>,
    stop: AtomicBool,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    pub(super) fn start(opened: &Opened) -> Result<Self, SyncError> {
        let failed = |action| move |source| SyncError::System { action, source };
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|refused| failed("making an eventfd")(refused.into()))?;
        let shared = Arc::new(Shared {
            opened: opened.reopen(&opened.shared)?,
            event: OwnFile::new(event),
            is_readable: Mutex::new(false),
            notification: Mutex::new(None),
            stop: AtomicBool::new(false),
        });
        shared.refresh()?;
        let theirs = Arc::clone(&shared);
        // A new thread inherits the mask.
        let signals = SignalsBlocked::new();
        let thread = hythe_sys::wait::spawn("hythe-objects", move || theirs.watch());
        drop(signals);
        Ok(Self {
            shared,
            thread: Some(thread.map_err(failed("starting a thread"))?),
        })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Makes the descriptor what the object is.
    pub(super) fn refresh(&self) -> Result<(), SyncError> {
        self.shared.refresh()
    }

    /// After an own message: who is to be notified of it is.
    pub(super) fn call_if_due(&self) {
        if let Some(call) = self.shared.due() {
            call();
        }
    }

    /// Will be called when the registration has ended with a message.
    pub(super) fn notify(&self, wanted: Option<(u32, Callback)>) {
        *lock(&self.shared.notification) = wanted;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.shared.opened.shared.is_a_copy() {
            // The thread is not here.
            std::mem::forget(self.thread.take());
            return;
        }
        // Release pairs with the acquire in `watch`.
        self.shared.stop.store(true, Ordering::Release);
        if let Ok(table) = self.shared.opened.table() {
            table.memory().add(header::CHANGES, 1, Ordering::Release);
            table.memory().wake(header::CHANGES);
        }
        let here = std::thread::current().id();
        // A callback may close its own queue.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|thread| thread.thread().id() != here)
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn watch(&self) {
        let Ok(table) = self.opened.table() else {
            return;
        };
        let memory = table.memory();
        let _watcher = Watcher::new(memory);
        while !self.stop.load(Ordering::Acquire) {
            let seen = memory.load(header::CHANGES, Ordering::Acquire);
            // What is damaged or busy now is looked at again.
            let _ = self.refresh();
            if let Some(call) = self.due() {
                call();
            }
            memory.wait(header::CHANGES, seen, LONGEST_NAP);
        }
    }

    fn refresh(&self) -> Result<(), SyncError> {
        let mut is_readable = lock(&self.is_readable);
        let is_ready = is_ready(&self.opened)?;
        // The program may have closed it, and its number may be a file's.
        if is_ready != *is_readable && self.event.is_open() {
            let done = if is_ready {
                rustix::io::write(&self.event, &1_u64.to_ne_bytes())
            } else {
                rustix::io::read(&self.event, &mut [0; 8])
            };
            // Who reads the descriptor itself has made it unreadable already.
            let _ = done;
            *is_readable = is_ready;
        }
        Ok(())
    }

    fn due(&self) -> Option<Callback> {
        let mut notification = lock(&self.notification);
        let number = notification.as_ref()?.0;
        let is_due = self.opened.enter().ok()?.section.is_notified(number);
        is_due.then(|| notification.take().map(|(_, call)| call))?
    }
}

/// Somebody who waits for changes of all objects.
#[derive(Debug)]
pub(super) struct Watcher<'t>(&'t Mapped);

impl<'t> Watcher<'t> {
    pub(super) fn new(memory: &'t Mapped) -> Self {
        memory.add(header::WATCHERS, 1, Ordering::AcqRel);
        Self(memory)
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        let one_fewer = 1_u32.wrapping_neg();
        self.0.add(header::WATCHERS, one_fewer, Ordering::AcqRel);
    }
}

fn is_ready(opened: &Opened) -> Result<bool, SyncError> {
    let entered = opened.enter()?;
    Ok(match opened.info.kind {
        ObjectKind::Semaphore => entered.section.value()? > 0,
        ObjectKind::MessageQueue => {
            let mut is_over = |party| super::lock::is_over(opened.shared.pool(), party);
            entered.section.next_message(&mut is_over)?.is_some()
        }
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a handle keeps its watch, from the first use on.
#[derive(Debug, Default)]
pub(super) struct WatchPlace(std::sync::OnceLock<Watch>);

impl WatchPlace {
    pub(super) fn get(&self) -> Option<&Watch> {
        self.0.get()
    }

    pub(super) fn get_or_start(&self, opened: &Opened) -> Result<&Watch, SyncError> {
        if let Some(watch) = self.0.get() {
            return Ok(watch);
        }
        let started = opened.unless_lost(Watch::start(opened))?;
        Ok(self.0.get_or_init(|| started))
    }

    /// After an own taking.
    pub(super) fn refresh(&self) {
        if let Some(watch) = self.get() {
            // What is damaged or busy now is looked at again by the thread.
            let _ = watch.refresh();
        }
    }
}
