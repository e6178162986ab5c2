//! The tests of this package from outside, in one program: a module for each matter.

mod channels;
#[allow(dead_code, reason = "bytes are the fuzzer's")]
#[path = "../../../pool/tests/it/hostile_peer/choices.rs"]
mod choices;
mod core_shell;
mod core_shell_calls;
mod core_tasks;
mod cores;
mod definitions;
mod demo;
mod departures;
mod groups;
mod guides;
mod habits;
mod hops;
mod hostile;
mod hosts;
mod hz;
mod irregular;
mod jobs;
mod kinds;
mod latency;
mod latency_board;
mod latency_peers;
mod latency_xen;
#[path = "../../../media/tests/it/links/mod.rs"]
mod links;
mod media;
mod media_calls;
mod media_lateness;
mod media_players;
mod media_refusals;
mod media_repair;
mod media_rtsp;
mod media_serve;
mod media_streams;
mod multicast;
mod names;
mod p1;
mod packs;
#[path = "recorded/place.rs"]
mod place;
mod play;
mod policies;
mod pools;
mod preload_images;
mod preload_record;
mod reading_ahead;
mod recordings;
#[allow(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with the tests of the library, which use more and fail by panicking"
)]
#[path = "../../../media/tests/it/repair/relay.rs"]
mod relay;
mod report_browser;
mod results;
mod signals;
mod socket_rights;
mod static_program;
mod support;
mod tasks;
mod top;
#[allow(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with the tests of the library, which use more and fail by panicking"
)]
#[path = "../../../media/tests/it/repair/way.rs"]
mod way;
