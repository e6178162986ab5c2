//! Shows all tokens that there are once more, where there was no room for some of them.
//!
//! Called by the directory once in a while; the answers come on threads of Zenoh's. One sweep at a
//! time; a new one ends the one before it. Never keeps an answer itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zenoh::query::Reply;
use zenoh::{Session, Wait};

use super::tokens::TOKENS_MAX;
use super::{Shared, lock, token};

/// The longest pause of whoever dials between two attempts.
const DIAL_PAUSE: Duration = Duration::from_secs(1);

/// When the next sweep is due.
#[derive(Debug)]
pub(super) struct Sweeper {
    interval: Duration,
    /// `None`: all tokens are kept.
    due_at: Option<Instant>,
}

impl Sweeper {
    /// Where hosts are dialled for `lease` at most: by the time that others take their places, all
    /// that are kept have been tried, one token's addresses in each attempt.
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            interval: (lease + DIAL_PAUSE) * TOKENS_MAX as u32,
            due_at: None,
        }
    }

    /// Sweeps, if there are tokens that are not kept, and those that are have had their time.
    pub(super) fn sweep_if_due(&mut self, zenoh: &Session, shared: &Arc<Shared>) {
        if !lock(&shared.state).known.is_incomplete() {
            self.due_at = None;
            return;
        }
        let now = Instant::now();
        let due_at = *self.due_at.get_or_insert(now + self.interval);
        if due_at <= now {
            self.due_at = Some(now + self.interval);
            sweep(zenoh, shared, self.interval);
        }
    }
}

fn sweep(zenoh: &Session, shared: &Arc<Shared>, timeout: Duration) {
    let going = Going {
        number: lock(&shared.state).known.begin_sweep(),
        shared: Arc::clone(shared),
        is_whole: AtomicBool::new(true),
    };
    let all = format!("{}/**", token::PREFIX);
    let asked = zenoh.liveliness().get(all).timeout(timeout);
    let asked = asked.callback(move |reply| going.take(&reply)).wait();
    if let Err(error) = asked {
        // What was to take the answers has ended the sweep; the next one is due in time.
        tracing::warn!(%error, "the directory cannot ask for all hosts");
    }
}

/// A sweep; it ends when Zenoh drops what takes the answers.
struct Going {
    number: u64,
    shared: Arc<Shared>,
    is_whole: AtomicBool,
}

impl Going {
    /// Called on a thread of Zenoh's.
    fn take(&self, reply: &Reply) {
        let Ok(sample) = reply.result() else {
            self.is_whole.store(false, Ordering::Relaxed);
            return;
        };
        let key = sample.key_expr().as_str();
        let mut state = lock(&self.shared.state);
        if key.starts_with(&state.own_name) {
            return;
        }
        if let Some(token) = token::parse(key) {
            state.known.add_swept(self.number, &token);
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let is_whole = self.is_whole.load(Ordering::Relaxed);
        lock(&self.shared.state)
            .known
            .end_sweep(self.number, is_whole);
        self.shared.changed.notify_all();
    }
}
