//! The functions of SDL2 that are used, with their signatures in C (SDL 2.26, `SDL_*.h`).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::ScreenError;
use crate::library::Library;

const LIBRARY: &str = "libSDL2-2.0.so.0";
/// `SDL_INIT_AUDIO`.
pub(crate) const INIT_AUDIO: u32 = 0x10;
/// `SDL_INIT_VIDEO`.
pub(crate) const INIT_VIDEO: u32 = 0x20;

/// `SDL_Window`, `SDL_Renderer`, `SDL_Texture`: only pointers to them are known.
pub(crate) type Object = c_void;

/// `SDL_version`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Version {
    major: u8,
    minor: u8,
    patch: u8,
}

/// `SDL_Event`: 56 bytes, of which only some fields are read. Larger than any SDL2 writes.
#[repr(C, align(8))]
pub(crate) struct RawEvent(pub(crate) [u8; 128]);

/// `SDL_AudioSpec`.
#[repr(C)]
pub(crate) struct AudioSpec {
    pub(crate) samples_per_second: c_int,
    pub(crate) format: u16,
    pub(crate) channels: u8,
    pub(crate) silence: u8,
    pub(crate) samples: u16,
    pub(crate) padding: u16,
    pub(crate) bytes: u32,
    /// None: samples are queued.
    pub(crate) callback: Option<unsafe extern "C" fn(*mut c_void, *mut u8, c_int)>,
    pub(crate) userdata: *mut c_void,
}

/// A table of functions, each with its name in the library.
macro_rules! functions {
    ($($field:ident = $symbol:literal($($argument:ty),*) $(-> $result:ty)?;)*) => {
        pub(crate) struct Sdl {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Sdl {
            fn of(library: Library) -> Result<Self, ScreenError> {
                Ok(Self {
                    $($field: {
                        let found = library.function($symbol)?.as_ptr();
                        // SAFETY: a pointer to a function fits; its type is the one that SDL
                        // declares for this name and keeps through all of SDL2.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    version = c"SDL_GetVersion"(*mut Version);
    error = c"SDL_GetError"() -> *const c_char;
    set_hint = c"SDL_SetHint"(*const c_char, *const c_char) -> c_int;
    init = c"SDL_InitSubSystem"(u32) -> c_int;
    quit = c"SDL_QuitSubSystem"(u32);
    create_window = c"SDL_CreateWindow"(*const c_char, c_int, c_int, c_int, c_int, u32)
        -> *mut Object;
    set_size = c"SDL_SetWindowSize"(*mut Object, c_int, c_int);
    set_position = c"SDL_SetWindowPosition"(*mut Object, c_int, c_int);
    show_window = c"SDL_ShowWindow"(*mut Object);
    destroy_window = c"SDL_DestroyWindow"(*mut Object);
    create_renderer = c"SDL_CreateRenderer"(*mut Object, c_int, u32) -> *mut Object;
    destroy_renderer = c"SDL_DestroyRenderer"(*mut Object);
    set_logical_size = c"SDL_RenderSetLogicalSize"(*mut Object, c_int, c_int) -> c_int;
    set_conversion = c"SDL_SetYUVConversionMode"(c_int);
    create_texture = c"SDL_CreateTexture"(*mut Object, u32, c_int, c_int, c_int) -> *mut Object;
    destroy_texture = c"SDL_DestroyTexture"(*mut Object);
    update_texture = c"SDL_UpdateYUVTexture"(
        *mut Object, *const c_void, *const u8, c_int, *const u8, c_int, *const u8, c_int
    ) -> c_int;
    clear = c"SDL_RenderClear"(*mut Object) -> c_int;
    copy = c"SDL_RenderCopy"(*mut Object, *mut Object, *const c_void, *const c_void) -> c_int;
    present = c"SDL_RenderPresent"(*mut Object);
    poll_event = c"SDL_PollEvent"(*mut RawEvent) -> c_int;
    open_audio = c"SDL_OpenAudioDevice"(
        *const c_char, c_int, *const AudioSpec, *mut AudioSpec, c_int
    ) -> u32;
    close_audio = c"SDL_CloseAudioDevice"(u32);
    pause_audio = c"SDL_PauseAudioDevice"(u32, c_int);
    queue_audio = c"SDL_QueueAudio"(u32, *const c_void, u32) -> c_int;
    queued_audio = c"SDL_GetQueuedAudioSize"(u32) -> u32;
}

impl Sdl {
    /// Opens the library, the first time.
    pub(crate) fn load() -> Result<&'static Self, ScreenError> {
        static LOADED: OnceLock<Sdl> = OnceLock::new();
        if let Some(sdl) = LOADED.get() {
            return Ok(sdl);
        }
        // Two threads may both come here: the loader counts, and one of the tables stays.
        let sdl = Self::of(Library::open(LIBRARY)?)?;
        // Ctrl-C and SIGTERM are the program's own.
        sdl.hint(c"SDL_NO_SIGNAL_HANDLERS", c"1");
        sdl.hint(c"SDL_APP_NAME", c"hythe");
        Ok(LOADED.get_or_init(|| sdl))
    }

    pub(crate) fn hint(&self, name: &CStr, value: &CStr) {
        // SAFETY: two strings that end, which SDL copies. A hint that it does not know is kept.
        unsafe { (self.set_hint)(name.as_ptr(), value.as_ptr()) };
    }

    /// Begins to use a part of SDL, whose counters know no threads. `Err`: what SDL said.
    pub(crate) fn begin(&self, part: u32) -> Result<(), String> {
        let _one = one_at_a_time();
        // SAFETY: takes a number; the lock keeps others out.
        match unsafe { (self.init)(part) } {
            0 => Ok(()),
            _ => Err(self.message()),
        }
    }

    /// Ends what [`Sdl::begin`] began.
    pub(crate) fn end(&self, part: u32) {
        let _one = one_at_a_time();
        // SAFETY: takes a number; the lock keeps others out.
        unsafe { (self.quit)(part) };
    }

    /// Why the last call on this thread failed.
    pub(crate) fn message(&self) -> String {
        // SAFETY: takes nothing; the text is this thread's, and ends.
        let text = unsafe { (self.error)() };
        // SAFETY: SDL returns a string always, an empty one where nothing failed.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

fn one_at_a_time() -> MutexGuard<'static, ()> {
    static COUNTERS: Mutex<()> = Mutex::new(());
    COUNTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The version of SDL2 on this machine, as text.
///
/// # Errors
///
/// [`ScreenError::NoLibrary`], [`ScreenError::NoFunction`].
pub fn version() -> Result<String, ScreenError> {
    let sdl = Sdl::load()?;
    let mut version = Version::default();
    // SAFETY: writes three bytes to a structure of three bytes.
    unsafe { (sdl.version)(&raw mut version) };
    let Version {
        major,
        minor,
        patch,
    } = version;
    Ok(format!("{major}.{minor}.{patch}"))
}
