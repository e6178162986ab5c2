//! RTSP serving as players meet it: each method and refusal, hostile clients, many clients, and
//! ffmpeg.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod desk;
mod ffmpeg;
mod hostile;
mod methods;
mod players;
mod running;
mod server;
mod shelf;
mod states;
