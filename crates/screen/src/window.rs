//! A window on the thread that made it.

use std::ffi::{CString, c_int};
use std::marker::PhantomData;
use std::ptr::{NonNull, null};

use crate::display::display;
use crate::sdl::{INIT_VIDEO, Object, RawEvent, Sdl};
use crate::xlib;

/// `SDL_WINDOWPOS_CENTERED`.
const CENTERED: c_int = 0x2FFF_0000;
/// `SDL_WINDOW_RESIZABLE` and `SDL_WINDOW_HIDDEN`: it is seen with the first picture, whose size it
/// takes.
const RESIZABLE: u32 = 0x20;
const HIDDEN: u32 = 0x8;
/// Sides of a window that is not seen yet.
const UNSEEN: c_int = 64;
/// `SDL_RENDERER_PRESENTVSYNC`: no picture is torn; SDL goes without where it cannot be had.
const AT_REFRESH: u32 = 0x4;
/// `SDL_PIXELFORMAT_IYUV`: planes of Y, U and V.
const IYUV: u32 = u32::from_le_bytes(*b"IYUV");
/// `SDL_TEXTUREACCESS_STREAMING`: changes often.
const STREAMING: c_int = 1;
/// `SDL_YUV_CONVERSION_AUTOMATIC`: BT.601 for small pictures, BT.709 for large ones.
const BY_SIZE: c_int = 3;

/// `SDL_QUIT`: the last window was closed.
const QUIT: u32 = 0x100;
/// `SDL_WINDOWEVENT`.
const WINDOW: u32 = 0x200;
/// `SDL_KEYDOWN`.
const KEY_DOWN: u32 = 0x300;
/// Where a key's event says that it repeats, and which key it is.
const REPEAT_AT: usize = 13;
const KEY_AT: usize = 20;

/// What somebody did to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is to close.
    Close,
    /// The space bar: stand, or go on.
    Pause,
    /// Its content may be gone.
    Stale,
    /// Anything else.
    Other,
}

/// A window. Not `Send`: SDL wants all of its calls on one thread.
pub(crate) struct Window {
    sdl: &'static Sdl,
    window: NonNull<Object>,
    renderer: NonNull<Object>,
    texture: Option<(NonNull<Object>, (u32, u32))>,
    is_seen: bool,
    _of_one_thread: PhantomData<*mut Object>,
}

impl Window {
    /// Opens one, which is not seen before the first picture. `Err`: what SDL said.
    pub(crate) fn open(sdl: &'static Sdl, title: &str) -> Result<Self, String> {
        // A name of a file has no zero byte.
        let title = CString::new(title).unwrap_or_default();
        sdl.hint(c"SDL_RENDER_SCALE_QUALITY", c"linear");
        xlib::survive();
        connect(sdl)?;
        // SAFETY: takes a number.
        unsafe { (sdl.set_conversion)(BY_SIZE) };
        // SAFETY: a string that ends, and numbers.
        let window = unsafe {
            (sdl.create_window)(
                title.as_ptr(),
                CENTERED,
                CENTERED,
                UNSEEN,
                UNSEEN,
                RESIZABLE | HIDDEN,
            )
        };
        let Some(window) = NonNull::new(window) else {
            let message = sdl.message();
            sdl.end(INIT_VIDEO);
            return Err(message);
        };
        // SAFETY: the window is there; -1 takes the first renderer that does what is asked for.
        let renderer = unsafe { (sdl.create_renderer)(window.as_ptr(), -1, AT_REFRESH) };
        let Some(renderer) = NonNull::new(renderer) else {
            let message = sdl.message();
            // SAFETY: made above, and not used any more.
            unsafe { (sdl.destroy_window)(window.as_ptr()) };
            sdl.end(INIT_VIDEO);
            return Err(message);
        };
        Ok(Self {
            sdl,
            window,
            renderer,
            texture: None,
            is_seen: false,
            _of_one_thread: PhantomData,
        })
    }

    /// Copies a picture, planes one behind the other, to where it is drawn from.
    pub(crate) fn upload(&mut self, size: (u32, u32), bytes: &[u8]) -> Result<(), String> {
        let (width, height) = size;
        let luma = width as usize * height as usize;
        let chroma = (width / 2) as usize * (height / 2) as usize;
        let planes = (bytes.get(..luma), bytes.get(luma..luma + chroma));
        let (Some(y), Some(u), Some(v)) = (
            planes.0,
            planes.1,
            bytes.get(luma + chroma..luma + 2 * chroma),
        ) else {
            return Err(format!("it has only {} bytes", bytes.len()));
        };
        if chroma == 0 || !width.is_multiple_of(2) || !height.is_multiple_of(2) {
            return Err("its sides are no even numbers".to_owned());
        }
        self.appear(size);
        let texture = self.texture(size)?;
        let (row, half_row) = (number(width), number(width / 2));
        // SAFETY: the texture is of this size; null takes all of it. Each plane has as many rows of
        // its length as SDL reads for a texture of IYUV, whose sides are even.
        let updated = unsafe {
            (self.sdl.update_texture)(
                texture.as_ptr(),
                null(),
                y.as_ptr(),
                row,
                u.as_ptr(),
                half_row,
                v.as_ptr(),
                half_row,
            )
        };
        self.done(updated)
    }

    /// Draws the picture, as large as it fits with its own ratio of sides, black around it.
    pub(crate) fn draw(&self) -> Result<(), String> {
        // SAFETY: the renderer is there.
        let cleared = unsafe { (self.sdl.clear)(self.renderer.as_ptr()) };
        self.done(cleared)?;
        if let Some((texture, _)) = self.texture {
            // SAFETY: renderer and texture are there; null is the whole of both.
            let copied = unsafe {
                (self.sdl.copy)(self.renderer.as_ptr(), texture.as_ptr(), null(), null())
            };
            self.done(copied)?;
        }
        // SAFETY: the renderer is there.
        unsafe { (self.sdl.present)(self.renderer.as_ptr()) };
        Ok(())
    }

    /// What happened, oldest first; `None`: no more.
    pub(crate) fn next_event(&self) -> Option<Event> {
        let mut raw = RawEvent([0; 128]);
        // SAFETY: SDL writes 56 bytes to 128; this thread made the window.
        let is_one = unsafe { (self.sdl.poll_event)(&raw mut raw) };
        (is_one != 0).then(|| meaning(&raw.0))
    }

    /// Is seen from now on, in the size of the first picture.
    fn appear(&mut self, size: (u32, u32)) {
        if self.is_seen {
            return;
        }
        self.is_seen = true;
        let window = self.window.as_ptr();
        // SAFETY: the window is there.
        unsafe { (self.sdl.set_size)(window, number(size.0), number(size.1)) };
        // SAFETY: the window is there.
        unsafe { (self.sdl.set_position)(window, CENTERED, CENTERED) };
        // SAFETY: the window is there.
        unsafe { (self.sdl.show_window)(window) };
    }

    /// The texture for pictures of this size.
    fn texture(&mut self, size: (u32, u32)) -> Result<NonNull<Object>, String> {
        if let Some((texture, of)) = self.texture {
            if of == size {
                return Ok(texture);
            }
            self.texture = None;
            // SAFETY: made by this renderer, and forgotten.
            unsafe { (self.sdl.destroy_texture)(texture.as_ptr()) };
        }
        let (renderer, width, height) = (self.renderer.as_ptr(), number(size.0), number(size.1));
        // SAFETY: the renderer is there.
        let set = unsafe { (self.sdl.set_logical_size)(renderer, width, height) };
        self.done(set)?;
        // SAFETY: the renderer is there.
        let made = unsafe { (self.sdl.create_texture)(renderer, IYUV, STREAMING, width, height) };
        let texture = NonNull::new(made).ok_or_else(|| self.sdl.message())?;
        self.texture = Some((texture, size));
        Ok(texture)
    }

    fn done(&self, result: c_int) -> Result<(), String> {
        match result {
            0 => Ok(()),
            _ => Err(self.sdl.message()),
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: made in `open`, not used any more; its textures go with it.
        unsafe { (self.sdl.destroy_renderer)(self.renderer.as_ptr()) };
        // SAFETY: made in `open`, not used any more.
        unsafe { (self.sdl.destroy_window)(self.window.as_ptr()) };
        self.sdl.end(INIT_VIDEO);
    }
}

/// Connects to the display that the environment names. SDL alone would also take one that shows
/// nothing; what `SDL_VIDEODRIVER` asks for is done.
fn connect(sdl: &'static Sdl) -> Result<(), String> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("SDL_VIDEODRIVER") {
        return sdl.begin(INIT_VIDEO);
    }
    let drivers = [
        (is_set("DISPLAY"), c"x11"),
        (is_set("WAYLAND_DISPLAY"), c"wayland"),
        // A console without either.
        (display().is_none(), c"KMSDRM"),
    ];
    let mut refusals = Vec::new();
    for (_, driver) in drivers.into_iter().filter(|(is_there, _)| *is_there) {
        sdl.hint(c"SDL_VIDEODRIVER", driver);
        match sdl.begin(INIT_VIDEO) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(refusals.join(", "))
}

fn meaning(event: &[u8; 128]) -> Event {
    let word = |at: usize| {
        let bytes = [event[at], event[at + 1], event[at + 2], event[at + 3]];
        u32::from_ne_bytes(bytes)
    };
    let is_new = event[REPEAT_AT] == 0;
    match word(0) {
        QUIT => Event::Close,
        WINDOW => Event::Stale,
        KEY_DOWN if is_new => match u8::try_from(word(KEY_AT)) {
            Ok(b'q' | b'\x1b') => Event::Close,
            Ok(b' ') => Event::Pause,
            _ => Event::Other,
        },
        _ => Event::Other,
    }
}

/// Sides of pictures are far smaller.
fn number(side: u32) -> c_int {
    c_int::try_from(side).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: u32, is_repeated: bool) -> [u8; 128] {
        let mut event = [0; 128];
        event[..4].copy_from_slice(&KEY_DOWN.to_ne_bytes());
        event[REPEAT_AT] = is_repeated.into();
        event[KEY_AT..KEY_AT + 4].copy_from_slice(&code.to_ne_bytes());
        event
    }

    #[test]
    fn held_space_bar_is_one_wish() {
        assert_eq!(meaning(&key(u32::from(b' '), false)), Event::Pause);
        assert_eq!(meaning(&key(u32::from(b' '), true)), Event::Other);
        assert_eq!(meaning(&key(27, false)), Event::Close);
        assert_eq!(meaning(&key(u32::from(b'q'), false)), Event::Close);
        // An arrow: its code is more than a byte.
        assert_eq!(meaning(&key(0x4000_0051, false)), Event::Other);
    }
}
