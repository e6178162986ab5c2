//! A window for pictures and a sound card for samples, through SDL2.
//!
//! The player calls it. `libSDL2-2.0.so.0` is opened at run time (`library`, `sdl`), so that a
//! program that shows nothing needs none of it. [`Screen`] is a window with a thread of its own;
//! [`Speaker`] is a sound device, which has one that SDL makes.
//!
//! A display or a sound server is a peer like any other: it may be slow, stand still or die. So no
//! call of these types waits for one without a bound. Between calls a [`Screen`] keeps the newest
//! picture that it was given and has not yet shown, and drops the one before.
//!
//! This crate may use `unsafe`: it calls C. It never prints, never keeps time, never decides what
//! an event means, and never ends the process by itself: where the display dies, its thread stops
//! for ever, and [`Screen::failure`] says so; [`exit_if_stuck`] then ends the process.
#![allow(
    unsafe_code,
    reason = "an island: calls of SDL2 and Xlib, opened at run time"
)]

mod bounded;
mod display;
mod error;
mod library;
mod screen;
mod sdl;
mod speaker;
mod stuck;
mod window;
mod xlib;

pub use display::display;
pub use error::ScreenError;
pub use screen::{Picture, Screen, Shown};
pub use sdl::version;
pub use speaker::Speaker;
pub use stuck::exit_if_stuck;
