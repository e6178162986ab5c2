//! What a task sends and receives by, and how it ends.
//!
//! The end of a task delivers what it has sent: it waits until each receiver has taken it, or has
//! ended, which the runner says. Meanwhile this task receives nothing, so it drops what comes: two
//! tasks that end at once would else wait for each other.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use hythe_flows::Flows;
use hythe_node::{Interest, Node, WaitSet};
use hythe_sys::fork::ForkMark;
use hythe_sys::own_file::OwnFile;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::LOOK;
use super::inbox::Inbox;
use super::outbox::{Outbox, is_interrupted};
use crate::tasks::error::TaskError;

/// A program that has failed is not kept longer than this for those that do not receive.
const FAILED_LINGER: Duration = Duration::from_secs(60);

/// Those of tasks that were not dropped yet.
static OPEN: Mutex<Vec<Weak<Mail>>> = Mutex::new(Vec::new());

/// Both directions of a task.
#[derive(Debug)]
pub(super) struct Mail {
    inbox: Mutex<Inbox>,
    pub(super) outbox: Outbox,
    flows: Arc<Flows>,
    linger: Duration,
    has_lingered: AtomicBool,
    /// Not set in a forked child, which has none of its threads.
    process: ForkMark,
}

impl Mail {
    pub(super) fn new(
        inbox: Inbox,
        outbox: Outbox,
        flows: Arc<Flows>,
        linger: Duration,
    ) -> Result<Arc<Self>, TaskError> {
        let process = ForkMark::new().map_err(|source| TaskError::System {
            action: "make memory that tells a forked process",
            source,
        })?;
        let mail = Arc::new(Self {
            inbox: Mutex::new(inbox),
            outbox,
            flows,
            linger,
            has_lingered: AtomicBool::new(false),
            process,
        });
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| one.strong_count() > 0);
        open.push(Arc::downgrade(&mail));
        Ok(mail)
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May this process not end it? A forked child has none of its threads; and where the program
    /// has closed its descriptors, their numbers may be those of the program's files.
    pub(super) fn is_to_be_forgotten(&self) -> bool {
        self.process.is_copy() || self.outbox.is_missing_descriptors()
    }

    /// Waits until all that was sent is beyond this process: in the pool, or on the other host.
    /// Once: what has not left then never does.
    pub(super) fn linger(&self) {
        // Relaxed: one thread at a time ends a task.
        if self.has_lingered.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.is_to_be_forgotten() {
            return;
        }
        let start = Instant::now();
        let longest = match thread::panicking() {
            true => self.linger.min(FAILED_LINGER),
            false => self.linger,
        };
        loop {
            let left = longest.saturating_sub(start.elapsed());
            let slice = left.min(LOOK);
            if self.outbox.flush(slice) && self.flows.flush(slice) {
                return;
            }
            if left.is_zero() {
                tracing::warn!(
                    bytes = self.outbox.kept_bytes(),
                    "a task ends with messages that were not sent, or have not arrived"
                );
                return;
            }
            // Of a thread that is receiving still it takes what that needs. In a lost pool nothing
            // is kept for long.
            if let Ok(mut inbox) = self.inbox.try_lock() {
                let _ = inbox.discard_arrived();
            }
        }
    }
}

/// Waits, as dropping them does, for what the tasks of this process have sent that were not
/// dropped: for programs that exit without that. A forked child waits for nothing: its parent has
/// the tasks. Nor does a signal handler that exits in the middle of a call of its thread.
pub fn linger_at_exit() {
    if is_interrupted() {
        return;
    }
    // In a forked child it may have been locked by a thread that is not there.
    let open = match OPEN.try_lock() {
        Ok(mut open) => std::mem::take(&mut *open),
        Err(_) => return,
    };
    for mail in open.iter().filter_map(Weak::upgrade) {
        mail.linger();
        // Its threads end with the process.
        std::mem::forget(mail);
    }
}

/// The descriptor for event loops, of what has come and was not looked for yet.
#[derive(Debug)]
pub(super) struct Ready {
    set: WaitSet,
    /// Readable while there is such a message among those that are kept.
    unseen: OwnFile<OwnedFd>,
}

impl Ready {
    pub(super) fn new(node: &Node, inbox: &mut Inbox) -> Result<Self, TaskError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let unseen = OwnFile::new(eventfd(0, flags).map_err(system)?);
        let mut set = node.wait_set()?;
        inbox.attach(&mut set)?;
        set.attach_fd(&unseen, Interest::Readable)?;
        // From now on it is waited for from outside.
        let _ = set.as_fd();
        Ok(Self { set, unseen })
    }

    pub(super) fn descriptor(&mut self) -> Result<BorrowedFd<'_>, TaskError> {
        self.look_again()?;
        Ok(self.set.as_fd())
    }

    /// Readable or not, as the inbox says.
    pub(super) fn note(&self, inbox: &Inbox) -> Result<(), TaskError> {
        if !self.unseen.is_open() {
            return Err(system(Errno::BADF));
        }
        let mut count = 1_u64.to_ne_bytes();
        let noted = match inbox.has_unseen() {
            true => rustix::io::write(&self.unseen, &count),
            false => rustix::io::read(&self.unseen, &mut count),
        };
        match noted {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(system(error)),
        }
    }

    pub(super) fn look_again(&mut self) -> Result<(), TaskError> {
        self.set.wait(Duration::ZERO)?;
        Ok(())
    }
}

fn system(error: Errno) -> TaskError {
    TaskError::System {
        action: "use an eventfd",
        source: error.into(),
    }
}
