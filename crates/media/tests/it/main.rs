//! The tests of this package from outside, in one program: a module for each matter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod channel;
mod departures;
mod hostile;
mod hostile_input;
mod layout;
mod links;
mod loopback;
mod minimp3;
mod network;
mod onto_channel;
#[path = "receive/passing.rs"]
mod passing;
mod players;
mod prompeg;
mod queued_in_qdisc;
mod receive;
#[path = "repair/relay.rs"]
mod relay;
mod repair;
mod round_trip;
mod rtsp;
mod rtsp_client;
#[path = "send/scene.rs"]
mod scene;
mod send;
mod serving;
mod speaker;
mod support;
mod video;
#[path = "repair/way.rs"]
mod way;
mod wire;
