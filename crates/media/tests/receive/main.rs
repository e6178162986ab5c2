//! Receiving: streams fed by hand, over loopback, by ffmpeg, and by those who wish us ill.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod changes;
mod from_ffmpeg;
mod hostile;
mod loopback;
mod passing;
mod resent;
mod streams;
