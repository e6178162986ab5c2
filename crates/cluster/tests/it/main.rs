//! The tests of this package from outside, in one program: a module for each matter.

#[path = "../../../memory/tests/it/again/mod.rs"]
mod again;
mod blocking;
mod deaths;
mod ends;
mod events;
mod flow_shares;
mod flows;
mod frame_ports;
mod frames;
mod histories;
mod hostile;
mod hostile_flows;
mod hostile_requests;
mod hostile_senders;
mod hostile_tasks;
mod not_taken;
mod publish;
mod requests;
mod rights;
mod shares;
mod streams;
mod support;
mod trouble;
mod unwanted_messages;
mod vectors;
mod versions;
#[path = "support/victim.rs"]
mod victim;
