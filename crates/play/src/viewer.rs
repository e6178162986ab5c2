//! Who watches: a window with pictures, a sound card with samples, and what is done to the window.

use std::sync::atomic::{AtomicBool, Ordering};

use hythe_screen::{Picture, Screen, ScreenError, Shown, Speaker};

use crate::error::PlayError;
use crate::method::Decoded;
use crate::stage::Stage;

/// How long before its time a block of sound goes to the sound card, which hides what its thread
/// and the kernel take. Less than what is decoded ahead.
pub(crate) const AHEAD_NS: i64 = 100_000_000;
/// A sound card that has more than this to play stands still.
const STANDS_NS: u64 = 1_000_000_000;

/// What a movie is seen in and heard from; both may be missing.
#[derive(Debug, Default)]
pub(crate) struct Viewer {
    pub(crate) screen: Option<Screen>,
    pub(crate) speaker: Option<Speaker>,
    is_paused: AtomicBool,
}

impl Viewer {
    /// Opens a window with this title, and a sound card for this rate and these channels. Without
    /// a sound card it plays on silently. While a display is silent, `gives_up` is asked.
    pub(crate) fn open(
        title: Option<&str>,
        sound: Option<(u32, u8)>,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Self, PlayError> {
        let screen = title
            .map(|title| Screen::open(title, gives_up))
            .transpose()?;
        let speaker = match sound.map(|(hz, channels)| Speaker::open(hz, channels)) {
            Some(Ok(speaker)) => Some(speaker),
            Some(Err(error @ ScreenError::NoSound { .. })) => {
                tracing::warn!("{error}: the movie plays without sound");
                None
            }
            Some(Err(error)) => return Err(error.into()),
            None => None,
        };
        Ok(Self {
            screen,
            speaker,
            is_paused: AtomicBool::new(false),
        })
    }

    /// Does what was asked for in the window: ends the movie, lets it stand or go on.
    pub(crate) fn look(&self, stage: &Stage) -> Result<(), PlayError> {
        let Some(screen) = &self.screen else {
            return Ok(());
        };
        if let Some(failure) = screen.failure() {
            return Err(failure.into());
        }
        if screen.is_closed() {
            stage.close();
        }
        let is_paused = screen.is_paused();
        if is_paused {
            // Nothing is taken from a decoder meanwhile: it is not silent.
            stage.has_answered();
        }
        if self.is_paused.swap(is_paused, Ordering::Relaxed) != is_paused {
            stage.with_clock(|clock, now_ns| clock.pause(now_ns, is_paused));
            if let Some(speaker) = &self.speaker {
                speaker.pause(is_paused);
            }
        }
        Ok(())
    }

    /// Closes the window; says what it has shown.
    pub(crate) fn close(&self) -> Option<Shown> {
        self.screen.as_ref().map(Screen::close)
    }
}

/// A picture as it was decoded.
pub(crate) struct Taken {
    size: (u32, u32),
    decoded: Decoded,
}

impl Taken {
    pub(crate) const fn new(size: (u32, u32), decoded: Decoded) -> Self {
        Self { size, decoded }
    }
}

impl Picture for Taken {
    fn size(&self) -> (u32, u32) {
        self.size
    }

    fn bytes(&self) -> &[u8] {
        self.decoded.bytes()
    }
}

/// Queues a block that ends at `end_ns`, and sets the clock by what is heard now. False: the sound
/// card plays no more.
pub(crate) fn queue(speaker: &Speaker, stage: &Stage, heard: &[u8], end_ns: i64) -> bool {
    let queued = speaker.queue(heard);
    let left_ns = speaker.left_ns();
    let queued = match left_ns > STANDS_NS {
        true => Err(ScreenError::SoundStopped {
            reason: format!("{} ms of sound wait", left_ns / 1_000_000),
        }),
        false => queued,
    };
    if let Err(error) = queued {
        tracing::warn!("{error}: the movie plays on without sound");
        return false;
    }
    let heard_ns = end_ns.saturating_sub(i64::try_from(left_ns).unwrap_or(i64::MAX));
    stage.with_clock(|clock, now_ns| clock.follow(now_ns, heard_ns));
    true
}
