//! Other people's programs play what `hythe media send` sends, `hythe media recv` takes what they
//! send, and an analyser reads it all.
//!
//! Run by `make test-media`, which fails where a program is missing; `cargo test` skips aloud what
//! it cannot run.

#[path = "../../../media/tests/repair/relay.rs"]
#[allow(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with the tests of the library, which use more and fail by panicking"
)]
mod relay;
#[path = "../support/mod.rs"]
mod support;
#[path = "../../../media/tests/repair/way.rs"]
#[allow(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with the tests of the library, which use more and fail by panicking"
)]
mod way;

mod ffmpeg;
mod gstreamer;
mod retransmissions;
mod tools;
mod vlc;
mod wire;
