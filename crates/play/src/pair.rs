//! The two threads of a decoder: one feeds it, the other plays what it decodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use crate::error::PlayError;
use crate::method::Receiver;
use crate::stage::{LOOK, Stage};

/// What plays a track.
pub(crate) trait TrackPlayer {
    /// What came of it.
    type Played: Send;

    /// Plays to the end of the track.
    fn play(&mut self) -> Result<Self::Played, PlayError>;

    /// What is decoded.
    fn decoded(&mut self) -> &mut dyn Receiver;
}

/// Both threads.
pub(crate) struct Pair<'s, T> {
    feeding: ScopedJoinHandle<'s, ()>,
    playing: ScopedJoinHandle<'s, Option<T>>,
}

/// Nothing is sent any more, also after a panic.
struct Fed<'a>(&'a AtomicBool);

impl Drop for Fed<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<'s, T: Send> Pair<'s, T> {
    /// `is_fed` is false, and this pair's own.
    pub(crate) fn start<P>(
        scope: &'s Scope<'s, '_>,
        stage: &'s Stage,
        is_fed: &'s AtomicBool,
        feed: impl FnOnce() -> Result<(), PlayError> + Send + 's,
        mut player: P,
    ) -> Self
    where
        P: TrackPlayer<Played = T> + Send + 's,
        T: 's,
    {
        let feeding = scope.spawn(move || {
            let _fed = Fed(is_fed);
            stage.run(feed);
        });
        let playing = scope.spawn(move || {
            let played = stage.run(|| player.play());
            // A core that cannot get rid of what it decodes keeps what it was sent.
            while !is_fed.load(Ordering::Acquire) && player.decoded().take(LOOK).is_ok() {}
            played
        });
        Self { feeding, playing }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.feeding.is_finished() && self.playing.is_finished()
    }

    /// What came of playing; `None`: an error, which the stage has.
    pub(crate) fn join(self) -> Option<T> {
        match (self.feeding.join(), self.playing.join()) {
            (Ok(()), Ok(played)) => played,
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}
