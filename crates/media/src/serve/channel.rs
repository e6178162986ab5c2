//! A channel that is served: nothing of it is known before its first messages, which may be long in
//! coming, and later ones may carry something else.
//!
//! A thread waits for them, so that everything else is served meanwhile. What cannot be served is
//! looked at again, with growing pauses: whoever published it may publish something else. So it is
//! when a show has ended. Where another format begins, the next show begins at once, with the
//! message that said so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use hythe_rtp::format::StreamFormat;

use super::show::Show;
use crate::MediaError;
use crate::source::channel::Watch;

/// How long a channel that cannot be served is left alone: at first, and at most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What is known of a channel.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing was published yet.
    Awaited,
    /// It is shown.
    Known(Known),
    /// Something else begins there, which is looked at.
    Replaced,
    /// What was published last cannot be shown: why.
    Refused(String),
}

/// A channel that is shown to all together.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) format: StreamFormat,
    pub(super) ssrc: u32,
    pub(super) show: Show,
    pub(super) watch: Watch,
}

impl Known {
    /// What it carries now, as far as it can be told from what has arrived; `None`: something that
    /// is not served yet.
    pub(super) fn format_now(&self) -> Option<StreamFormat> {
        self.watch.look();
        let is_same = !self.watch.has_other();
        is_same.then(|| self.watch.format().unwrap_or_else(|| self.format.clone()))
    }
}

/// What is told of a channel.
#[derive(Clone, Copy, Debug)]
pub enum ChannelNews<'n> {
    /// It is served from now on, as this.
    Served(&'n StreamFormat),
    /// What it carries has changed, as to its parameters: clients that ask are told these.
    Changed(&'n StreamFormat),
    /// It carries another format, and clients of the one before have to ask again.
    Replaced,
    /// What is published there cannot be served.
    Refused(&'n MediaError),
}

/// A channel. Dropped, it is waited for no longer, and its show ends.
#[derive(Debug)]
pub(super) struct Channel {
    state: Arc<Mutex<State>>,
    is_left: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the channel's thread when its show has ended.
#[derive(Debug)]
pub(super) struct Waker(Thread);

impl Drop for Waker {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

impl Channel {
    /// Has `open` wait for the channel in a thread of its own until it says what there is, or why
    /// it cannot be shown; it is given a word to ask whether it is still wanted, and looks often;
    /// the show drops what it is given beside it when it ends. `tell` hears of each outcome, unless
    /// nobody wants it any more.
    pub(super) fn open(
        mut open: impl FnMut(&Arc<AtomicBool>, Waker, Option<Watch>) -> Result<Known, MediaError>
        + Send
        + 'static,
        mut tell: impl FnMut(ChannelNews<'_>) + Send + 'static,
    ) -> Result<Self, MediaError> {
        let state = Arc::new(Mutex::new(State::Awaited));
        let is_left = Arc::new(AtomicBool::new(false));
        let (found, left) = (Arc::clone(&state), Arc::clone(&is_left));
        let named = thread::Builder::new().name("channel".into());
        let started = named.spawn(move || {
            let mut pause = PAUSE;
            let mut watch = None;
            loop {
                let began = Instant::now();
                let opened = open(&left, Waker(thread::current()), watch.take());
                if left.load(Ordering::Relaxed) {
                    return;
                }
                match opened {
                    Ok(known) => watch = show(known, &found, &left, &mut tell),
                    Err(error) => {
                        *locked(&found) = State::Refused(error.to_string());
                        tell(ChannelNews::Refused(&error));
                    }
                }
                if began.elapsed() >= PAUSE_MAX {
                    pause = PAUSE;
                }
                if watch.is_some() {
                    continue;
                }
                if !rest(pause, &left) {
                    return;
                }
                pause = (pause * 2).min(PAUSE_MAX);
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
            thread.thread().unpark();
            // It panics as little as anything here, and there would be nobody to tell.
            let _ = thread.join();
        }
    }
}

/// Lets a channel be found and waits until its show has ended, or the channel is left. What is
/// watched comes back if another format begins there.
fn show(
    known: Known,
    state: &Mutex<State>,
    is_left: &AtomicBool,
    tell: &mut dyn FnMut(ChannelNews<'_>),
) -> Option<Watch> {
    let (format, watch) = (known.format.clone(), known.watch.clone());
    // Who hears of it finds it so.
    *locked(state) = State::Known(known);
    tell(ChannelNews::Served(&format));
    let mut told = None;
    let is_shown = || match &*locked(state) {
        State::Known(known) => !known.show.has_ended(),
        State::Awaited | State::Replaced | State::Refused(_) => false,
    };
    while is_shown() && !is_left.load(Ordering::Relaxed) {
        let changed = watch.format().filter(|now| told.as_ref() != Some(now));
        if let Some(now) = changed {
            tell(ChannelNews::Changed(&now));
            told = Some(now);
            continue;
        }
        thread::park();
    }
    let has_other = watch.has_other();
    *locked(state) = match has_other {
        true => State::Replaced,
        false => State::Refused("it ended a moment ago".to_owned()),
    };
    if has_other && !is_left.load(Ordering::Relaxed) {
        tell(ChannelNews::Replaced);
    }
    has_other.then_some(watch)
}

/// Leaves the channel alone for a while; `false`: it is left for good.
fn rest(pause: Duration, is_left: &AtomicBool) -> bool {
    let began = Instant::now();
    while let Some(left) = pause.checked_sub(began.elapsed()) {
        if is_left.load(Ordering::Relaxed) {
            return false;
        }
        thread::park_timeout(left);
    }
    !is_left.load(Ordering::Relaxed)
}

/// A thread that panicked left the state whole: each change of it is one statement.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
