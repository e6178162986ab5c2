//! Other people's programs play what `hythe media send` sends, `hythe media recv` takes what they
//! send, and an analyser reads it all.
//!
//! Run by `make test-media`, which fails where a program is missing; `cargo test` skips aloud what
//! it cannot run.

mod ffmpeg;
mod gstreamer;
mod retransmissions;
mod tools;
mod vlc;
mod wire;
