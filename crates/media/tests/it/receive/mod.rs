//! Receiving: streams fed by hand, over loopback, by ffmpeg, and by those who wish us ill.

mod changes;
mod from_ffmpeg;
mod hostile;
mod loopback;
mod resent;
mod streams;
