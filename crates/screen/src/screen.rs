//! A window with a thread of its own, to which pictures are given.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::display::display_or_none;
use crate::error::ScreenError;
use crate::sdl::Sdl;
use crate::stuck::Busy;
use crate::window::{Event, Window};
use crate::xlib;

/// How long a display may take to answer before there is a window.
const OPEN: Duration = Duration::from_secs(10);
/// How long a window may take to close.
const CLOSE: Duration = Duration::from_secs(2);
/// How long an event may wait while no picture comes.
const LOOK: Duration = Duration::from_millis(10);

/// A picture of 8-bit 4:2:0: planes of Y, U and V, one behind the other.
pub trait Picture: Send + Sync {
    /// Width and height; both even.
    fn size(&self) -> (u32, u32);

    /// All three planes.
    fn bytes(&self) -> &[u8];
}

/// What a window has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Pictures.
    pub pictures: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A window. There should be one in a process: a lost display is known to all.
pub struct Screen {
    shared: Arc<Shared>,
}

impl fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Screen").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The newest that was not shown yet.
    next: Option<Arc<dyn Picture>>,
    is_open: bool,
    /// The thread is to end, and has ended.
    is_ending: bool,
    is_over: bool,
    is_closed: bool,
    /// How often somebody asked to stand, or to go on.
    pauses: u64,
    shown: Shown,
    failure: Option<ScreenError>,
}

impl Screen {
    /// Opens a window, which is seen with the first picture, in the size of that. While the display
    /// does not answer, `gives_up` is asked now and then.
    ///
    /// # Errors
    ///
    /// [`ScreenError::NoLibrary`], [`ScreenError::NoFunction`]; [`ScreenError::NoWindow`],
    /// [`ScreenError::Silent`] after ten seconds or given up, [`ScreenError::DisplayLost`].
    pub fn open(title: &str, gives_up: &dyn Fn() -> bool) -> Result<Self, ScreenError> {
        let sdl = Sdl::load()?;
        let shared = Arc::new(Shared::default());
        let (own, title) = (Arc::clone(&shared), title.to_owned());
        let thread = Builder::new().name("window".to_owned());
        let thread = thread.spawn(move || {
            let _busy = Busy::begin();
            own.run(sdl, &title);
        });
        // It is never joined: it may stand still in a call for ever.
        thread.map_err(|error| ScreenError::NoWindow {
            display: display_or_none(),
            reason: format!("no thread for it: {error}"),
        })?;
        let screen = Self { shared };
        let begun = Instant::now();
        screen.wait(OPEN, |state| state.is_open || state.is_over || gives_up());
        match screen.failure() {
            Some(failure) => Err(failure),
            None if screen.shared.lock().is_open => Ok(screen),
            None => {
                // Nobody waits for it any more.
                screen.shared.lock().is_ending = true;
                Err(ScreenError::Silent {
                    display: display_or_none(),
                    waited: Duration::from_secs(begun.elapsed().as_secs()),
                })
            }
        }
    }

    /// Shows this one next, instead of one that still waits. Never blocks.
    pub fn show(&self, picture: Arc<dyn Picture>) {
        let before = self.shared.lock().next.replace(picture);
        self.shared.changed.notify_all();
        drop(before);
    }

    /// Did somebody close the window, or press Q or Escape?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().is_closed
    }

    /// Shall it stand? Each press of the space bar changes it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.shared.lock().pauses % 2 == 1
    }

    /// Why no more picture is shown.
    #[must_use]
    pub fn failure(&self) -> Option<ScreenError> {
        if xlib::is_lost() {
            return Some(ScreenError::DisplayLost {
                display: display_or_none(),
            });
        }
        self.shared.lock().failure.clone()
    }

    /// Shows what still waits, and closes the window, if the display answers within two seconds.
    /// After that no picture is held any more, but by a display that stands still.
    pub fn close(&self) -> Shown {
        let was_ending = std::mem::replace(&mut self.shared.lock().is_ending, true);
        self.shared.changed.notify_all();
        if !was_ending {
            self.wait(CLOSE, |state| state.is_over);
        }
        let mut state = self.shared.lock();
        state.next = None;
        state.shown
    }

    /// Until it is so, the display is lost, or the time is over.
    fn wait(&self, bound: Duration, is_so: impl Fn(&State) -> bool) {
        let end = Instant::now() + bound;
        let mut state = self.shared.lock();
        while !is_so(&state) && !xlib::is_lost() {
            if Instant::now() >= end {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread of the window.
    fn run(&self, sdl: &'static Sdl, title: &str) {
        let failure = match Window::open(sdl, title) {
            Ok(window) => {
                self.lock().is_open = true;
                self.changed.notify_all();
                self.serve(window).err()
            }
            Err(reason) => Some(ScreenError::NoWindow {
                display: display_or_none(),
                reason,
            }),
        };
        let mut state = self.lock();
        state.next = None;
        state.is_over = true;
        state.failure = failure;
        drop(state);
        self.changed.notify_all();
    }

    /// Shows pictures and looks at events until it is to end.
    fn serve(&self, mut window: Window) -> Result<(), ScreenError> {
        let mut size = (0, 0);
        let failed = |size, reason| ScreenError::NoPicture { size, reason };
        loop {
            let (picture, is_ending) = self.next();
            let mut is_stale = picture.is_some();
            while let Some(event) = window.next_event() {
                is_stale |= event == Event::Stale;
                self.note(event);
            }
            let mut bytes = 0;
            if let Some(picture) = &picture {
                (size, bytes) = (picture.size(), picture.bytes().len());
                let uploaded = window.upload(size, picture.bytes());
                uploaded.map_err(|reason| failed(size, reason))?;
            }
            let is_new = picture.is_some();
            // Its slot is free before the display is asked for anything.
            drop(picture);
            if is_stale {
                window.draw().map_err(|reason| failed(size, reason))?;
            }
            if is_new {
                let shown = &mut self.lock().shown;
                shown.pictures += 1;
                shown.bytes += bytes as u64;
            }
            if is_ending && !is_new {
                return Ok(());
            }
        }
    }

    /// The next picture, if one comes soon, and whether to end.
    fn next(&self) -> (Option<Arc<dyn Picture>>, bool) {
        let mut state = self.lock();
        if state.next.is_none() && !state.is_ending {
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (state.next.take(), state.is_ending)
    }

    fn note(&self, event: Event) {
        let mut state = self.lock();
        match event {
            Event::Close => state.is_closed = true,
            Event::Pause => state.pauses += 1,
            Event::Stale | Event::Other => {}
        }
    }
}
