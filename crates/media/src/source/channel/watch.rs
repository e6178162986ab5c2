//! A subscriber that a source reads from and its owner watches: what arrives is looked at at once,
//! though its turn to be sent may be seconds away.
//!
//! Messages of another format are kept for the next source; the one that reads them now is at its
//! end in front of them. Between calls at most [`WAITING_MAX`] messages wait here; what is behind
//! them stays in the subscriber's queue.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use hythe_node::{NodeError, Sample, Subscriber, TrustPeers};
use hythe_rtp::format::StreamFormat;

use super::Next;
use super::change::{Change, Inspector};
use super::message::Message;

/// Messages that were looked at and wait to be read, at most: as many as a subscriber has by
/// default.
const WAITING_MAX: usize = 256;

/// What has arrived.
struct Arrivals {
    subscriber: Subscriber,
    trust: TrustPeers,
    inspector: Inspector,
    waiting: VecDeque<Message>,
    /// How many of those come in front of another format, if one came.
    before_other: Option<usize>,
}

/// What was noticed.
#[derive(Default)]
struct Noticed {
    /// Parameter sets have changed: the format of now.
    format: Option<StreamFormat>,
    has_other: bool,
    /// Woken when something is noticed.
    owner: Option<Thread>,
}

struct Shared {
    arrivals: Mutex<Arrivals>,
    noticed: Mutex<Noticed>,
}

/// A channel that is watched; all clones are the same.
#[derive(Clone)]
pub struct Watch(Arc<Shared>);

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// A thread that panicked left it whole: each change is one statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Watches what `subscriber` gets. The `trust` is that nobody writes what it has published.
    #[must_use]
    pub fn new(subscriber: Subscriber, trust: TrustPeers) -> Self {
        Self(Arc::new(Shared {
            arrivals: Mutex::new(Arrivals {
                subscriber,
                trust,
                inspector: Inspector::default(),
                waiting: VecDeque::with_capacity(WAITING_MAX),
                before_other: None,
            }),
            noticed: Mutex::default(),
        }))
    }

    /// A source begins to read: behind what the one before left, if another format was noticed.
    /// `owner` is woken when something is noticed.
    pub fn begin(&self, owner: Thread) {
        let mut arrivals = lock(&self.0.arrivals);
        if let Some(left) = arrivals.before_other.take() {
            arrivals.waiting.drain(..left);
        }
        *lock(&self.0.noticed) = Noticed {
            owner: Some(owner),
            ..Noticed::default()
        };
        // It is looked at anew, as the beginning of a stream.
        arrivals.inspector = Inspector::default();
        let waiting = std::mem::take(&mut arrivals.waiting);
        for message in waiting {
            self.keep(&mut arrivals, message);
        }
    }

    /// Looks at what has arrived. If a source is just reading, it does that itself.
    pub fn look(&self) {
        if let Ok(mut arrivals) = self.0.arrivals.try_lock() {
            // A lost pool is told to who reads.
            while let Ok(true) = self.advance(&mut arrivals, None) {}
        }
    }

    /// The format of now, if it is another one than when the source began: with other parameter
    /// sets.
    #[must_use]
    pub fn format(&self) -> Option<StreamFormat> {
        lock(&self.0.noticed).format.clone()
    }

    /// Has something arrived that the present source cannot read?
    #[must_use]
    pub fn has_other(&self) -> bool {
        lock(&self.0.noticed).has_other
    }

    /// The next message, waited for for so long.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Result<Next, NodeError> {
        let mut arrivals = lock(&self.0.arrivals);
        if arrivals.waiting.is_empty() {
            self.advance(&mut arrivals, timeout)?;
        }
        if let Some(left) = &mut arrivals.before_other {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => return Ok(Next::Over),
            }
        }
        let message = arrivals.waiting.pop_front();
        Ok(message.map_or(Next::NotYet, Next::Here))
    }

    /// Takes one message more, if there is one and it is for the present source.
    fn advance(
        &self,
        arrivals: &mut Arrivals,
        timeout: Option<Duration>,
    ) -> Result<bool, NodeError> {
        if arrivals.before_other.is_some() || arrivals.waiting.len() >= WAITING_MAX {
            return Ok(false);
        }
        let sample: Option<Sample> = match timeout {
            Some(timeout) => arrivals.subscriber.take(timeout)?,
            None => arrivals.subscriber.try_take()?,
        };
        let Some(sample) = sample else {
            return Ok(false);
        };
        let message = Message::new(sample, arrivals.trust);
        self.keep(arrivals, message);
        Ok(true)
    }

    fn keep(&self, arrivals: &mut Arrivals, message: Message) {
        if arrivals.before_other.is_none() {
            match arrivals.inspector.take(message.bytes()) {
                Change::Nothing => {}
                Change::Sets(format) => self.notice(|noticed| noticed.format = Some(format)),
                Change::Format => {
                    arrivals.before_other = Some(arrivals.waiting.len());
                    self.notice(|noticed| noticed.has_other = true);
                }
            }
        }
        arrivals.waiting.push_back(message);
    }

    fn notice(&self, set: impl FnOnce(&mut Noticed)) {
        let mut noticed = lock(&self.0.noticed);
        set(&mut noticed);
        if let Some(owner) = &noticed.owner {
            owner.unpark();
        }
    }
}
