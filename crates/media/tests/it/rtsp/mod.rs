//! RTSP serving as players meet it: each method and refusal, hostile clients, many clients, and
//! ffmpeg.

mod catalogue;
mod ffmpeg;
mod fixture;
mod hostile;
mod methods;
mod players;
mod running;
mod server;
mod states;
