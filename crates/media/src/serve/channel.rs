//! A channel that is served: nothing of it is known before its first messages, which may be long in coming.
//!
//! A thread waits for them, so that everything else is served meanwhile. Between calls a channel is awaited, known or refused, and
//! leaves neither of the last two.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::show::Show;
use crate::MediaError;
use crate::format::StreamFormat;

/// What is known of a channel.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing was published yet.
    Awaited,
    /// It is shown.
    Known(Known),
    /// It cannot be shown: why.
    Refused(String),
}

/// A channel that is shown to all together.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) format: StreamFormat,
    pub(super) ssrc: u32,
    pub(super) show: Show,
}

/// A channel. Dropped, it is waited for no longer, and its show ends.
#[derive(Debug)]
pub(super) struct Channel {
    state: Arc<Mutex<State>>,
    is_left: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Channel {
    /// Has `open` wait for the channel in a thread of its own until it says what there is, or why nothing will be; it is given a
    /// word to ask whether it is still wanted, and looks often. `tell` hears of the outcome, unless nobody wants it any more.
    pub(super) fn open(
        open: impl FnOnce(Arc<AtomicBool>) -> Result<Known, MediaError> + Send + 'static,
        tell: impl FnOnce(Result<&StreamFormat, &MediaError>) + Send + 'static,
    ) -> Result<Self, MediaError> {
        let state = Arc::new(Mutex::new(State::Awaited));
        let is_left = Arc::new(AtomicBool::new(false));
        let (found, left) = (Arc::clone(&state), Arc::clone(&is_left));
        let named = thread::Builder::new().name("channel".into());
        let started = named.spawn(move || {
            let opened = open(Arc::clone(&left));
            if left.load(Ordering::Relaxed) {
                return;
            }
            // Who hears of it finds it so.
            match opened {
                Ok(known) => {
                    let format = known.format.clone();
                    *locked(&found) = State::Known(known);
                    tell(Ok(&format));
                }
                Err(error) => {
                    *locked(&found) = State::Refused(error.to_string());
                    tell(Err(&error));
                }
            }
        });
        let thread = started.map_err(|source| MediaError::System {
            what: "start a thread",
            source,
        })?;
        Ok(Self {
            state,
            is_left,
            thread: Some(thread),
        })
    }

    /// What is known of it now.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It panics as little as anything here, and there would be nobody to tell.
            let _ = thread.join();
        }
    }
}

/// A thread that panicked left the state whole: each change of it is one statement.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
